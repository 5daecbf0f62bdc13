"""One pass through a binlog set before the dump thread: the selection of transactions, and the clever filter.

The clever filter must see every statement in the binlog's order.
"""

from __future__ import annotations

from dataclasses import replace

import numpy as np

from dumpfilter.binlog import roles as R
from dumpfilter.binlog.context_events import decode_xa_prepare
from dumpfilter.binlog.events import EventType
from dumpfilter.binlog.format import FormatDescription
from dumpfilter.binlog.gtid_sources import SourceNumbers
from dumpfilter.dump.chunk import ReadAt
from dumpfilter.dump.payload import open_payload
from dumpfilter.dump.selection import Range, Selection
from dumpfilter.dump.xa import SentParts
from dumpfilter.errors import BinlogError
from dumpfilter.filter.base import ReplicationFilter
from dumpfilter.filter.clever import CleverFilter
from dumpfilter.filter.decision import Verdict
from dumpfilter.filter.flags import (
    FILTER_BINLOG_SEND_F,
    FILTER_UNDECIDED_F,
    TableFlags,
)
from dumpfilter.filter.kinds import AllFilters, KindFilter
from dumpfilter.index.fileset import BinlogSet
from dumpfilter.index.segment import Segment
from dumpfilter.index.statements import decode_statement_event, statement_of
from dumpfilter.index.subjects import Subjects, TableSubject
from dumpfilter.index.xa import ended_xid

EVERYTHING = Range()
"""The range without bounds."""


class SegmentPass:
    """One pass through a binlog set. It takes the segments in order, and gives the dump thread what the pass takes of
    them.

    The dump thread needs :attr:`flags` as its table flags.

    Parameters:
        rules: the filter.
        clever: a filter that follows tables through the binlog. The pass asks it instead of ``rules``.
        also: a second filter (kinds of statement, the write side). An event must pass both filters.
        wanted: the transactions to take. Its positions are boundaries
            (:func:`~dumpfilter.dump.selection.on_boundaries`).
        whole_files: as in :class:`~dumpfilter.dump.selection.Selection`.
    """

    def __init__(
        self,
        binlogs: BinlogSet,
        rules: ReplicationFilter,
        subjects: Subjects,
        sources: SourceNumbers,
        *,
        clever: CleverFilter | None = None,
        also: ReplicationFilter | None = None,
        wanted: Range = EVERYTHING,
        whole_files: bool = False,
    ) -> None:
        names = binlogs.names
        self._selection = (
            None
            if wanted == EVERYTHING
            else Selection(wanted, sources, first=names[0], last=names[-1], whole_files=whole_files)
        )
        also = KindFilter() if also is None else also
        self._clever = None if clever is None else _CleverPass(clever, also, subjects)
        self.flags = (
            TableFlags(AllFilters([rules, also]), subjects) if self._clever is None else _VerdictFlags(rules)
        )

    @property
    def done(self) -> bool:
        """Whether the pass takes nothing of later segments."""
        return self._selection is not None and self._selection.done

    def apply(self, segment: Segment, read: ReadAt) -> Segment:
        """Return the segment for the dump thread. ``read`` reads the segment's file."""
        if self._clever is not None:
            segment = self._clever.apply(segment, read)
        return segment if self._selection is None else self._selection.apply(segment)


_NUMBERS = {Verdict.EXECUTE: 0, Verdict.IGNORE: 1, Verdict.UNDECIDED: 2}
"""The subjects that stand for verdicts after the clever filter has decided."""


class _VerdictFlags(TableFlags):
    """The table flags of the subjects that stand for verdicts."""

    def __init__(self, rules: ReplicationFilter) -> None:
        super().__init__(rules, Subjects())
        self._flags[:3] = (FILTER_BINLOG_SEND_F, 0, FILTER_BINLOG_SEND_F | FILTER_UNDECIDED_F)

    @property
    def is_on(self) -> bool:
        return True


class _CleverPass:
    """Decides every event in the binlog's order.

    The segment's subjects become verdicts, because a clever filter may answer differently about the same table later.
    """

    def __init__(self, clever: CleverFilter, also: ReplicationFilter, subjects: Subjects) -> None:
        self._clever = clever
        self._also = also
        self._subjects = subjects
        self._kept = False
        """Whether an event of the open transaction is sent."""
        self._sent_parts = SentParts()

    def apply(self, segment: Segment, read: ReadAt, *, inside: bool = False) -> Segment:
        subject = segment.subject.copy()
        payloads = dict(segment.payloads)
        for i, (kind, marked) in enumerate(zip(segment.type.tolist(), segment.role.tolist(), strict=True)):
            role = marked & ~R.ENDS
            verdict: Verdict | None = None
            offset = int(segment.offset[i])
            if role in (R.TABLE_MAP, R.ROWS, R.ROWS_END) and subject[i] >= 0:
                verdict = self._table(int(subject[i]))
            elif role in (R.STATEMENT, R.PAYLOAD) or kind == EventType.XA_PREPARE:
                event = read(offset, int(segment.size[i]))
                if not inside:
                    self._clever.where = f"{segment.file}: at {offset}"
                try:
                    if role == R.STATEMENT:
                        verdict = self._statement(event, segment.format_description)
                    elif role == R.PAYLOAD:
                        payloads[i] = self.apply(
                            payloads[i],
                            _reader(open_payload(event, segment.format_description)),
                            inside=True,
                        )
                    else:
                        self._prepare(event, segment.format_description)
                except BinlogError as error:
                    raise error.located(segment.file, offset) from error
            if verdict is not None:
                subject[i] = _NUMBERS[verdict]
                self._kept |= verdict.passes and role != R.TABLE_MAP
            elif role in (R.KEEP, R.XA) or (role in (R.ROWS, R.ROWS_END)):
                self._kept = True
            if marked & R.ENDS:
                self._kept = False
        decided = (segment.txn_subject >= 0) | (segment.txn_subject == R.MIXED)
        return replace(
            segment,
            subject=subject,
            txn_subject=np.where(decided, np.int32(R.MIXED), segment.txn_subject),
            txn_set=np.zeros_like(segment.txn_set),
            set_subject=segment.set_subject[:0],
            payloads=payloads,
            prepared={
                xid: _NUMBERS[Verdict.IGNORE if self._sent_parts.is_sent(xid) is False else Verdict.EXECUTE]
                for xid in segment.prepared
            },
        )

    def _table(self, number: int) -> Verdict:
        table = self._subjects[number]
        assert isinstance(table, TableSubject)
        verdict = self._clever.rows(table.database, table.table)
        return verdict if self._also.rows_ok(table.database, table.table) else Verdict.IGNORE

    def _statement(self, event: bytes, fd: FormatDescription) -> Verdict:
        query = decode_statement_event(EventType(event[4]), fd.body(event), fd)
        xid = ended_xid(query.raw)
        if xid is not None:
            kept = self._sent_parts.end(xid)
            return Verdict.UNDECIDED if kept is None else Verdict.EXECUTE if kept else Verdict.IGNORE
        # the clever filter must see every statement, even one that `also` drops
        verdict = self._clever.statement(query, fd)
        also = self._also.statement(statement_of(query, fd))
        return also if verdict is Verdict.EXECUTE or also is Verdict.IGNORE else verdict

    def _prepare(self, event: bytes, fd: FormatDescription) -> None:
        prepare = decode_xa_prepare(fd.body(event))
        if not prepare.one_phase:
            self._sent_parts.prepare(prepare.xid, is_sent=self._kept)


def _reader(data: bytes) -> ReadAt:
    return lambda offset, length: data[offset : offset + length]
