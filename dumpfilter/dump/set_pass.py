"""One pass of one dump thread through a whole binlog set, which plans the events that a slave would be sent.

Transactions are chosen by position, time and GTID. The clever filter (WL#40) follows tables through the binlog, so it
must see every statement in the binlog's order.
"""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator
from dataclasses import replace
from typing import NamedTuple, TypedDict

import numpy as np
import numpy.typing as npt

from dumpfilter.base.errors import BinlogError
from dumpfilter.binlog import roles as R
from dumpfilter.binlog.events import EventType
from dumpfilter.binlog.format import FormatDescription
from dumpfilter.binlog.gtid_sources import SourceNumbers
from dumpfilter.binlog.query import decode_statement_event
from dumpfilter.dump.chunk import WHOLE_SEGMENT, ChunkPlan, ReadAt
from dumpfilter.dump.payload import open_payload
from dumpfilter.dump.selection import Range, Selection
from dumpfilter.dump.thread import DumpThread
from dumpfilter.dump.xa import SentParts
from dumpfilter.filter.base import ReplicationFilter
from dumpfilter.filter.clever import CleverFilter
from dumpfilter.filter.decision import Verdict
from dumpfilter.filter.flags import (
    FILTER_BINLOG_SEND_F,
    FILTER_UNDECIDED_F,
    TableFlags,
)
from dumpfilter.filter.kinds import AllFilters, KindFilter
from dumpfilter.index.fileset import BinlogFile, BinlogSet, SegmentReader
from dumpfilter.index.segment import Segment
from dumpfilter.index.statements import statement_of
from dumpfilter.index.subjects import Subjects, TableSubject

EVERYTHING = Range()
"""The selection without bounds, which takes every transaction of a binlog set."""


class PassOptions(TypedDict, total=False):
    """The options of a pass through a binlog set, which reads the set once from its first file to its last.

    - ``clever``: a filter that follows renamed tables through the binlog. It decides in place of the slave's filter.
    - ``also``: a second filter, for example ``--binlog-do-db`` or kinds of statement. An event must pass both filters.
    - ``wanted``: the positions, times and GTIDs of the transactions to take. The positions must lie between two
      transactions (:func:`~dumpfilter.dump.selection.on_boundaries`).
    - ``verify``: whether to verify checksums. The default is True.
    - ``progress``: called after each segment (a part of a file, up to 4 MiB) with the segment's number of bytes.
    """

    clever: CleverFilter | None
    also: ReplicationFilter | None
    wanted: Range
    verify: bool
    progress: Callable[[int], None]


class PlannedSegment(NamedTuple):
    """A segment of a binlog file (at most 4 MiB of events), with the plans of its chunks (messages to a slave). The
    plans list the byte ranges of the segment that pass the filter of the pass.
    """

    segment: Segment
    """The segment, with unwanted transactions marked and with the clever filter's decisions."""
    plans: list[ChunkPlan]
    reader: SegmentReader
    """The reader that holds the segment's bytes."""


class SetPass:
    """One pass of one dump thread through a binlog set. A dump thread decides with one filter which events a slave is
    sent.

    Parameters:
        binlogs: the binlog set.
        rules: the slave's filter.
        options: the selection of transactions, and further filters.
        whole_files: whether to keep events that belong to no transaction even outside of the wanted transactions. A
            valid binlog file needs these events, for example the GTID list and the Rotate at the file's end.
        sends_gaps: whether the Gap events of a relay log (notes about dropped transactions) are sent.
    """

    def __init__(
        self,
        binlogs: BinlogSet,
        rules: ReplicationFilter,
        options: PassOptions,
        *,
        whole_files: bool = False,
        sends_gaps: bool = False,
    ) -> None:
        self._binlogs = binlogs
        names = binlogs.names
        self._sends_gaps = sends_gaps
        self._verify = options.get("verify", True)
        self._progress = options.get("progress")
        self._subjects, self._sources = Subjects(), SourceNumbers()
        wanted, clever = options.get("wanted", EVERYTHING), options.get("clever")
        self._selection = (
            None
            if wanted == EVERYTHING
            else Selection(wanted, self._sources, first=names[0], last=names[-1], whole_files=whole_files)
        )
        also = options.get("also") or KindFilter()
        self._clever = None if clever is None else _CleverPass(clever, also, self._subjects)
        self.flags = (
            TableFlags(AllFilters([rules, also]), self._subjects) if clever is None else _VerdictFlags(rules)
        )
        """The decisions of the filter about the tables and statements of the planned segments."""
        self._thread = DumpThread(self.flags, self._sources, chunk_size=WHOLE_SEGMENT)

    @property
    def done(self) -> bool:
        """Whether all wanted transactions have been read, so that later files need not be opened."""
        return self._selection is not None and self._selection.done

    def files(self) -> Iterator[tuple[BinlogFile, Iterator[PlannedSegment]]]:
        """Yield each binlog file with its segments (parts of at most 4 MiB), up to the last file with wanted
        transactions. Each segment has the plans of what a slave is sent.

        The caller must take all segments of a file before the next file. Raises BinlogError where the set is damaged.
        """
        for reader in self._binlogs.readers(self._subjects, self._sources, verify=self._verify):
            self._thread.start_file(reader.file.first_event, reader.file.read)
            yield reader.file, self._segments(reader)
            if self.done:
                return

    def _segments(self, reader: SegmentReader) -> Iterator[PlannedSegment]:
        while not self.done and (segment := reader.next()) is not None:
            if self._sends_gaps:
                segment = segment.with_gaps_sent()
            if self._clever is not None:
                segment = self._clever.apply(segment, reader.file.read)
            if self._selection is not None:
                segment = self._selection.apply(segment)
            yield PlannedSegment(segment, self._thread.plan(segment), reader)
            if self._progress is not None:
                self._progress(segment.end - segment.start)


_NUMBERS = {Verdict.EXECUTE: 0, Verdict.IGNORE: 1, Verdict.UNDECIDED: 2}
"""The numbers that replace the numbers of tables and statements in a segment after the clever filter has decided. Each
stands for one verdict: send, drop or undecided.
"""


class _VerdictFlags(TableFlags):
    """The flags for a segment in which the clever filter (WL#40, follows renamed tables) has decided every table and
    statement.

    The clever filter has replaced the number of each event's table or statement by a number for the verdict: 0 send, 1
    drop, 2 undecided. This object holds the flags of these three numbers. With it the dump thread treats the segment
    like any other.
    """

    def __init__(self, rules: ReplicationFilter) -> None:
        super().__init__(rules, Subjects())
        self._flags[:3] = (FILTER_BINLOG_SEND_F, 0, FILTER_BINLOG_SEND_F | FILTER_UNDECIDED_F)

    @functools.cached_property
    def is_on(self) -> bool:
        return True


class _CleverPass:
    """A pass in which the clever filter (WL#40) decides every table map and statement in order. The clever filter
    follows renamed tables through the binlog.

    A clever filter may answer differently about the same table later. Therefore the pass stores a verdict for each
    event: 0 (send), 1 (drop) or 2 (undecided) in place of the number of the event's table or statement.
    """

    def __init__(self, clever: CleverFilter, also: ReplicationFilter, subjects: Subjects) -> None:
        self._clever = clever
        self._also = also
        self._subjects = subjects
        self._sent_parts = SentParts()

    def apply(self, segment: Segment, read: ReadAt) -> Segment:
        decided = self._decided(segment, read)
        self._sent_parts, ends = self._sent_parts.following(segment, _sends(decided))
        for event, was_sent in ends.items():
            if segment.role[event] & R.ROLE_MASK == R.STATEMENT:
                verdict = Verdict.UNDECIDED if was_sent is None else _IF_SENT[was_sent]
                decided.subject[event] = _NUMBERS[verdict]
        prepared = {
            xid: _NUMBERS[_IF_SENT[self._sent_parts.is_sent.get(xid, True)]] for xid in segment.prepared
        }
        return replace(decided, prepared=prepared)

    def _decided(self, segment: Segment, read: ReadAt, *, inside: bool = False) -> Segment:
        """Return a copy of a segment in which a number for the clever filter's verdict replaces the number of each
        event's table or statement. XA COMMIT and XA ROLLBACK keep their numbers.

        ``read`` reads bytes of the segment's file. ``inside`` says that the segment is the content of a compressed
        transaction, whose bytes ``read`` then reads.
        """
        subject = segment.subject.copy()
        payloads = dict(segment.payloads)
        for i, role in enumerate((segment.role & R.ROLE_MASK).tolist()):
            offset = int(segment.offset[i])
            if role in (R.TABLE_MAP, R.ROWS, R.ROWS_END) and subject[i] >= 0:
                subject[i] = _NUMBERS[self._table(int(subject[i]))]
            elif role == R.PAYLOAD or (role == R.STATEMENT and i not in segment.xa_ends):
                event = read(offset, int(segment.size[i]))
                if not inside:
                    self._clever.where = f"{segment.file}: at {offset}"
                try:
                    if role == R.STATEMENT:
                        subject[i] = _NUMBERS[self._statement(event, segment.format_description)]
                    else:
                        opened = _reader(open_payload(event, segment.format_description))
                        payloads[i] = self._decided(payloads[i], opened, inside=True)
                except BinlogError as error:
                    raise error.located(segment.file, offset) from error
        decided = (segment.txn_subject >= 0) | (segment.txn_subject == R.MIXED)
        return replace(
            segment,
            subject=subject,
            txn_subject=np.where(decided, np.int32(R.MIXED), segment.txn_subject),
            txn_set=np.zeros_like(segment.txn_set),
            set_subject=segment.set_subject[:0],
            payloads=payloads,
        )

    def _table(self, number: int) -> Verdict:
        table = self._subjects[number]
        assert isinstance(table, TableSubject)
        verdict = self._clever.rows(table.database, table.table)
        return verdict if self._also.rows_ok(table.database, table.table) else Verdict.IGNORE

    def _statement(self, event: bytes, fd: FormatDescription) -> Verdict:
        query = decode_statement_event(EventType(event[4]), fd.body(event), fd)
        # The clever filter must see every statement, even a statement that the second filter drops.
        verdict = self._clever.statement(query, fd)
        also = self._also.verdict(statement_of(query, fd))
        return also if verdict is Verdict.EXECUTE or also is Verdict.IGNORE else verdict


_IF_SENT = {True: Verdict.EXECUTE, False: Verdict.IGNORE}


def _sends(segment: Segment) -> npt.NDArray[np.bool_]:
    """Return for each event of a decided segment whether the filter sends it for its own sake, bool. An event that is
    only sent together with other events, such as BEGIN, has False.
    """
    role = segment.role & R.ROLE_MASK
    passes = segment.subject != _NUMBERS[Verdict.IGNORE]
    sent: npt.NDArray[np.bool_] = role == R.KEEP
    sent |= np.isin(role, (R.ROWS, R.ROWS_END, R.STATEMENT)) & passes
    for event, inner in segment.payloads.items():
        sent[event] = _sends(inner).any()
    return sent


def _reader(data: bytes) -> ReadAt:
    return lambda offset, length: data[offset : offset + length]
