"""Passes of one dump thread through a whole binlog set: the events that a slave would be sent, for programs that print
binlogs or write them anew.

A :class:`Selection` chooses transactions by position, time and GTID, with the options of ``mysqlbinlog`` such as
``--start-position``. A Selection takes whole transactions only. ``mysqlbinlog`` can cut a transaction in two, and then
prints a part that cannot be replayed. The clever filter (WL#40) follows tables through the binlog, so it must see every
statement in the binlog's order.
"""

from __future__ import annotations

import functools
import glob
import shutil
from collections.abc import Callable, Iterator
from contextlib import closing, contextmanager, suppress
from dataclasses import dataclass, replace
from pathlib import Path
from typing import NamedTuple, TypedDict, Unpack

import numpy as np
import numpy.typing as npt

from dumpfilter.base.errors import BinlogError, OutputError, PositionError
from dumpfilter.base.files import DirectoryLock, remove, rename
from dumpfilter.binlog import roles as R
from dumpfilter.binlog.events import EventType
from dumpfilter.binlog.format import FormatDescription
from dumpfilter.binlog.gtid import GtidSet
from dumpfilter.binlog.gtid_events import Xid
from dumpfilter.binlog.gtid_sources import SourceNumbers
from dumpfilter.binlog.query import decode_statement_event
from dumpfilter.binlog.writer import file_head, rebase_array, rotate_event
from dumpfilter.dump.chunk import WHOLE_SEGMENT, ChunkPlan, Counts, ReadAt, render, render_into
from dumpfilter.dump.payload import open_payload
from dumpfilter.dump.thread import DumpThread, contained
from dumpfilter.dump.with_tables_info import Converted, QueryConverter
from dumpfilter.filter.base import AllFilters, KindFilter, ReplicationFilter, Verdict
from dumpfilter.filter.clever import CleverFilter
from dumpfilter.filter.flags import (
    FILTER_BINLOG_SEND_F,
    FILTER_UNDECIDED_F,
    TableFlags,
)
from dumpfilter.index.fileset import BinlogFile, BinlogSet, SegmentReader
from dumpfilter.index.index_file import GrowingFile, write_index
from dumpfilter.index.segment import Segment
from dumpfilter.index.subjects import Subjects, TableSubject, statement_of

Flags = npt.NDArray[np.bool_]


@dataclass(frozen=True)
class Range:
    """The positions, times and GTIDs of the transactions to take. None stands for no bound.

    Positions are file offsets, bytes. Times are Unix seconds, and the first event of a transaction gives its time.
    """

    start_position: int | None = None
    """The offset in the first file of the first transaction that is taken."""
    stop_position: int | None = None
    """The offset in the last file of the first transaction that is not taken."""
    start_time: int | None = None
    """The selection begins with the first transaction at or after this time."""
    stop_time: int | None = None
    """The selection ends before the first transaction at or after this time."""
    include: GtidSet | None = None
    """Only transactions with these GTIDs are taken. Transactions without a GTID are not taken if this set is given."""
    exclude: GtidSet | None = None
    """Transactions with these GTIDs are not taken."""


def on_boundaries(
    wanted: Range, binlogs: BinlogSet, *, warn: Callable[[str], None] = lambda text: None
) -> Range:
    """Return a copy of ``wanted`` whose positions in the binlog set ``binlogs`` lie between two transactions. The start
    position is an offset in the set's first file, and the stop position in its last one.

    A stop position inside a transaction moves to the transaction's beginning. An operator often stops before a harmful
    event, for example a DROP TABLE, so the event's whole transaction with its GTID must stay out. ``warn`` receives a
    text about such a stop position, and about a stop position beyond the end of the file. Raises PositionError, with
    the nearest boundaries, for a start position inside a transaction or beyond the end.
    """
    names = binlogs.names
    start, stop = wanted.start_position, wanted.stop_position
    if start is not None:
        before, after = _boundaries(binlogs, names[0], start)
        if before != start and after is None:
            raise PositionError(f"the file ends at {before}", file=names[0], position=start)
        if before != start:
            raise PositionError(
                f"no transaction begins here; the nearest places are {before} and {after}",
                file=names[0],
                position=start,
            )
    if stop is not None:
        before, after = _boundaries(binlogs, names[-1], stop)
        if after is None and before != stop:
            warn(f"{names[-1]}: the file ends at {before}, before the stop position {stop}")
        elif before != stop:
            warn(
                f"{names[-1]}: the stop position {stop} lies inside the transaction from {before} to {after}, "
                "which is left out"
            )
            wanted = replace(wanted, stop_position=before)
    return wanted


def _boundaries(binlogs: BinlogSet, name: str, position: int) -> tuple[int, int | None]:
    """Return the last transaction boundary at or before the byte offset ``position`` in the file ``name``, and the
    first boundary after ``position``. The second is None if the file ends before a further boundary.

    A ``position`` in the file's header counts as a boundary. Then the second result is the offset of the first event.
    """
    with binlogs.file(name) as file:
        before = file.first_event
        if position <= before:
            return position, before
        # This pass only looks for transaction boundaries. The later pass over the events verifies checksums and reports
        # damage.
        reader = SegmentReader(file, Subjects(), SourceNumbers(), verify=False, statements=False)
        while (segment := reader.next()) is not None:
            places = segment.boundaries
            at = int(np.searchsorted(places, position, "right"))
            before = int(places[at - 1]) if at else before
            if at < len(places):
                return before, int(places[at])
        return before, None


_NEVER = 1 << 32
"""A time after that of all events, Unix seconds."""


class Selection:
    """A selection of transactions by position, time and GTID. It takes a binlog's segments (parts of its files) one
    after another, and marks the transactions that are not selected, so that the dump thread does not send them.

    Parameters:
        wanted: the positions, times and GTIDs of the transactions to take. The positions must lie between two
            transactions (:func:`on_boundaries`).
        sources: the register of the binlog set's GTID sources (server UUIDs, or MariaDB's domain and server ids). In
            the segments' arrays, the index that the register gives a source stands for the source.
        first, last: the names of the set's first and last file.
        whole_files: whether to keep events that belong to no transaction even outside of ``wanted``. A valid binlog
            file needs these events, for example the GTID list and the Rotate at the file's end.
    """

    def __init__(
        self, wanted: Range, sources: SourceNumbers, *, first: str, last: str, whole_files: bool = False
    ) -> None:
        self._wanted = wanted
        self._sources = sources
        self._first, self._last = first, last
        self._whole_files = whole_files
        self._include, self._exclude = wanted.include, wanted.exclude
        self._started = wanted.start_time is None
        self._open_taken = True
        self._past_position = self._past_time = False

    @property
    def done(self) -> bool:
        """Whether the stop position or stop time of the selection has been passed, so that no later transaction is
        selected.
        """
        return self._past_position or self._past_time

    def apply(self, segment: Segment) -> Segment:
        """Return a copy of a segment (a part of a binlog file) in which each transaction outside of the wanted
        positions, times and GTIDs is marked as dropped. If all its transactions are wanted, return the segment itself.

        The mark is :data:`~dumpfilter.binlog.roles.SKIP` in ``txn_subject``. A marked transaction also loses its GTID,
        so that a dump thread does not report the GTID as executed. Segments must be given in the order of the binlog,
        because times and the stop position depend on earlier segments.
        """
        taken = self._taken(segment)
        if taken.all():
            return segment
        subject, source = segment.txn_subject.copy(), segment.txn_source.copy()
        subject[~taken] = R.SKIP
        source[~taken & (source >= 0)] = -1
        return replace(segment, txn_subject=subject, txn_source=source)

    def _taken(self, segment: Segment) -> Flags:
        wanted = self._wanted
        first_event = segment.txn_event[:-1]
        begins = segment.offset[first_event]
        of_file = segment.txn_source == R.KEPT
        taken = np.ones(len(begins), np.bool_)
        if segment.file == self._first and wanted.start_position is not None:
            taken &= begins >= wanted.start_position
        if segment.file == self._last and wanted.stop_position is not None:
            taken &= begins < wanted.stop_position
            self._past_position |= segment.end >= wanted.stop_position
        if self._whole_files:
            taken |= of_file
        transactions = taken & ~of_file
        transactions[: int(segment.continues)] = False
        if wanted.start_time is not None or wanted.stop_time is not None:
            taken &= of_file | self._in_time(segment.time[first_event].astype(np.int64), transactions)
        taken &= of_file | self._in_gtids(segment)
        if segment.continues:
            taken[0] = self._open_taken
        if segment.open:
            self._open_taken = bool(taken[-1])
        return taken

    def _in_time(self, times: npt.NDArray[np.int64], transactions: Flags) -> Flags:
        start, stop = self._wanted.start_time or 0, self._wanted.stop_time
        started = np.logical_or.accumulate(transactions & (times >= start)) | self._started
        stops = transactions & started & (times >= (_NEVER if stop is None else stop))
        stopped = np.logical_or.accumulate(stops) | self._past_time
        self._started, self._past_time = bool(started[-1]), bool(stopped[-1])
        found: Flags = started & ~stopped
        return found

    def _in_gtids(self, segment: Segment) -> Flags:
        taken = np.full(len(segment.txn_source), self._include is None)
        for gtids, answer in ((self._include, True), (self._exclude, False)):
            if gtids is not None:
                taken[contained(segment, self._sources, gtids)] = answer
        return taken


EVERYTHING = Range()
"""The selection without bounds, which takes every transaction of a binlog set."""


class PassOptions(TypedDict, total=False):
    """The options of a pass through a binlog set, which reads the set once from its first file to its last.

    - ``clever``: a filter that follows renamed tables through the binlog, and decides in place of the slave's filter.
    - ``also``: a second filter, for example ``--binlog-do-db`` or kinds of statement. An event must pass both filters.
    - ``wanted``: the positions, times and GTIDs of the transactions to take. The positions must lie between two
      transactions (:func:`~dumpfilter.dump.set_pass.on_boundaries`).
    - ``verify``: whether to verify checksums. The default is True.
    - ``progress``: called after each segment (a part of a file) with the segment's number of bytes.
    """

    clever: CleverFilter | None
    also: ReplicationFilter | None
    wanted: Range
    verify: bool
    progress: Callable[[int], None]


class PlannedSegment(NamedTuple):
    """A segment of a binlog file (consecutive events of at most 8 MiB, or one larger event), with the plan of what a
    slave is sent of it.

    The plan describes one chunk (message to a slave), because the pass makes one chunk of each segment. The plan has
    the byte ranges that pass the filter, the counts of events and bytes, the GTIDs of the transactions, and the gaps
    (runs of dropped transactions).
    """

    segment: Segment
    """A part of a binlog file as scanned events, with unwanted transactions marked and with the decisions of the clever
    filter (which follows renamed tables).
    """
    plan: ChunkPlan
    reader: SegmentReader
    """The reader that holds the bytes of the events in ``segment``, a part of a binlog file."""


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
        """The decisions of the filter about the tables and statements in the segments (parts of binlog files) that
        :meth:`files` yields.
        """
        self._thread = DumpThread(self.flags, self._sources, chunk_size=WHOLE_SEGMENT)

    @property
    def done(self) -> bool:
        """Whether the pass has reached the stop position or stop time of its selection, so that later files need not be
        opened.
        """
        return self._selection is not None and self._selection.done

    def files(self) -> Iterator[tuple[BinlogFile, Iterator[PlannedSegment]]]:
        """Yield each binlog file with its segments (parts of the file), up to the last file with wanted transactions.
        Each segment comes with its plan, the description of what a slave is sent.

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
            (plan,) = self._thread.plan(segment)
            yield PlannedSegment(segment, plan, reader)
            if self._progress is not None:
                self._progress(segment.end - segment.start)


_NUMBERS = {Verdict.EXECUTE: 0, Verdict.IGNORE: 1, Verdict.UNDECIDED: 2}
"""The numbers that replace the numbers of tables and statements in a segment (part of a binlog file) after the clever
filter, which follows renamed tables, has decided. Each stands for one verdict: send, drop or undecided.
"""


class _VerdictFlags(TableFlags):
    """The flags for a segment (a part of a binlog file) in which the clever filter has decided every table and
    statement. The clever filter follows renamed tables through the binlog (MySQL's worklog WL#40).

    The clever filter has replaced the number of each event's table or statement by a number for the verdict: 0 send, 1
    drop, 2 undecided. This object holds the flags of these three numbers. With it the dump thread treats the segment
    like any other.
    """

    def __init__(self, rules: ReplicationFilter) -> None:
        super().__init__(rules, Subjects())
        self._flags[:3] = (FILTER_BINLOG_SEND_F, 0, FILTER_BINLOG_SEND_F | FILTER_UNDECIDED_F)
        self._known = 3

    @functools.cached_property
    def is_on(self) -> bool:
        return True


class _CleverPass:
    """A pass through a binlog set in which the clever filter decides every table map and statement in order. The clever
    filter follows renamed tables through the binlog (MySQL's worklog WL#40).

    A clever filter may answer differently about the same table later. Therefore the pass stores a verdict for each
    event: 0 (send), 1 (drop) or 2 (undecided) in place of the number of the event's table or statement.
    """

    def __init__(self, clever: CleverFilter, also: ReplicationFilter, subjects: Subjects) -> None:
        self._clever = clever
        self._also = also
        self._subjects = subjects
        self._prepared: dict[Xid, int] = {}
        """The verdict about each prepared XA transaction: 0 if the clever filter (which follows renamed tables) sends a
        part of the transaction, else 1.
        """
        self._is_open_sent = False
        """Whether the clever filter, which follows renamed tables, sends a part of the transaction that continues in
        the next segment (the next part of the file).
        """

    def apply(self, segment: Segment, read: ReadAt) -> Segment:
        decided = self._decided(segment, read)
        sent, is_open_sent = _sends(decided), self._is_open_sent and segment.continues
        for event, xid in sorted({**segment.xa_prepares, **segment.xa_ends}.items()):
            txn = segment.transaction_of(event)
            if event in segment.xa_prepares:
                is_sent = sent[segment.txn_event[txn] : event + 1].any() or (is_open_sent and txn == 0)
                self._prepared[xid] = _NUMBERS[Verdict.EXECUTE if is_sent else Verdict.IGNORE]
                continue
            verdict = self._prepared.pop(xid, _NUMBERS[Verdict.UNDECIDED])
            if segment.role[event] & R.ROLE_MASK == R.STATEMENT:
                decided.subject[event] = verdict
        is_open_sent = is_open_sent and len(segment.txn_subject) == 1
        self._is_open_sent = segment.open and (is_open_sent or bool(sent[segment.txn_event[-2] :].any()))
        return replace(decided, prepared={xid: self._prepared.get(xid, 0) for xid in segment.prepared})

    def _decided(self, segment: Segment, read: ReadAt, *, inside: bool = False) -> Segment:
        """Return a copy of a segment (a part of a binlog file) with the verdicts of the clever filter, which follows
        renamed tables. The number of a verdict (0 send, 1 drop, 2 undecided) replaces the number of each event's table
        or statement. XA COMMIT and XA ROLLBACK keep their numbers.

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


def _sends(segment: Segment) -> npt.NDArray[np.bool_]:
    """Return for each event of a segment (a part of a binlog file) whether it is sent by its own verdict, bool. An
    event that is sent only because of other events, such as BEGIN or a Table_map event, has False.

    The column ``segment.subject`` already has the verdict about each event: 0 send, 1 drop, 2 undecided. The verdicts
    are those of the clever filter, which follows renamed tables (MySQL's worklog WL#40).
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


def filter_set(
    binlogs: BinlogSet,
    rule_filter: ReplicationFilter,
    output_dir: Path,
    base: str,
    *,
    overwrite: bool = False,
    tables_info: Converted | None = None,
    **options: Unpack[PassOptions],
) -> Counts:
    """Write the events of the binlog set ``binlogs`` that a slave with this filter would be sent as a new binlog set.

    The new files are ``<base>.000001`` … and ``<base>.index`` in ``output_dir``, one for each file that was read. Each
    event gets a new end_log_pos and checksum, so that a server reads the set as its own. Rotate events name the new
    files. Files after the last selected transaction are not written. Return the counts of events and bytes read, sent
    and dropped.

    Raises BinlogError if the set is damaged, and OutputError if the new set cannot be written. After an error no file
    of the new set is left.

    Parameters:
        rule_filter: the slave's filter.
        overwrite: whether existing files may be replaced.
        tables_info: None, or the counter of Query events that are converted so that they name their statements' tables
            (MySQL's worklog WL#40). Files that have tables info already keep it. A relay log cannot be converted.
        options: the selection of transactions, and further filters (:class:`~dumpfilter.dump.set_pass.PassOptions`).
    """
    one = SetPass(binlogs, rule_filter, options, whole_files=True)
    total = Counts()
    room: npt.NDArray[np.uint8] = np.empty(1 << 20, np.uint8)
    with _new_set(output_dir, base, overwrite) as (made, names):
        for file, segments in one.files():
            fd = file.format_description
            converter = None if tables_info is None else QueryConverter(fd, tables_info)
            names.append(f"{base}.{len(names) + 1:06}")
            head = file_head(fd if converter is None else converter.new)
            with closing(GrowingFile.create(made / names[-1], head, mode=0o666)) as out:
                rotated_at: int | None = None
                for segment, plan, reader in segments:
                    total.add(plan.counts)
                    if plan.size > room.size:
                        room = np.empty(2 * plan.size, np.uint8)
                    events = room[: plan.size]
                    render_into(events, plan, reader.data, reader.data_offset, file.read, fd)
                    kept = None if converter is None else _events(plan, events.tobytes(), fd)
                    if segment.type[-1] == EventType.ROTATE:
                        # The old Rotate event names a file of the old set.
                        events = events[: -int(segment.size[-1])]
                        kept = kept and kept.part(0, len(kept.start) - 1)
                        rotated_at = int(segment.time[-1])
                    if converter is None or kept is None:
                        _append(out, events, fd)
                    else:
                        ends = np.isin(kept.offset, segment.offset[segment.role & R.ENDS != 0])
                        _append(
                            out, converter.events(kept.file, zip(kept.each(), ends.tolist(), strict=True)), fd
                        )
                if converter is not None:
                    _append(out, converter.release(), fd)
                if rotated_at is not None and not one.done:
                    following = f"{base}.{len(names) + 1:06}"
                    out.append(bytes(rotate_event(following, fd, out.end, rotated_at)))
                out.sync()
    return total


def _append(out: GrowingFile, events: bytes | npt.NDArray[np.uint8], fd: FormatDescription) -> None:
    """Append whole events to the file ``out``, with the end_log_pos and checksums that fit their new positions. If
    ``events`` is an array, it is changed in place. An end_log_pos of 0 stays 0, because MariaDB writes 0 for the events
    inside a transaction.
    """
    moved = events if isinstance(events, np.ndarray) else np.frombuffer(bytearray(events), np.uint8)
    rebase_array(moved, out.end, checksum=fd.checksum)
    out.append(moved.data)


@contextmanager
def _new_set(directory: Path, base: str, overwrite: bool) -> Iterator[tuple[Path, list[str]]]:
    """Yield a new directory for the files of a binlog set, and the list to which the caller adds their names in order.

    At the end of the context the files are moved to ``directory``, and the index ``<base>.index`` appears last. Until
    then an existing set of this name stays. After an error the new files are removed, and so is a new ``directory``.
    Raises DirectoryBusy if another process writes a set of this name to ``directory``.
    """
    index, made, names = directory / f"{base}.index", directory / f".{base}.new", list[str]()
    is_new = not directory.exists()
    busy = f"{index}: process {{process}} writes this set; wait for its end, or name another output directory"
    lock = DirectoryLock(made / "lock", busy)
    try:
        # Files that a program such as mysqlbinlog wrote have no index.
        files = sorted(directory.glob(glob.escape(base) + "." + 6 * "[0-9]"))
        there = next((path for path in (index, *files) if path.exists()), None)
        if there is not None and not overwrite:
            raise OutputError(
                f"{there}: it is there already; name another output directory, or use --overwrite"
            )
        yield made, names
        # An old index must not name new files.
        remove(index)
        try:
            for name in names:
                rename(made / name, directory / name)
            write_index(index, names, mode=0o666)
        except BaseException:
            for name in (index.name, *names):
                (directory / name).unlink(missing_ok=True)
            raise
    finally:
        shutil.rmtree(made, ignore_errors=True)
        lock.release()
        if is_new:
            with suppress(OSError):
                directory.rmdir()  # A directory with files stays.


SIZE_AT = 9
"""The offset of an event's size in its header."""


class KeptEvents(NamedTuple):
    """Consecutive events of one binlog file that pass the filter, with the bytes that a slave would be sent."""

    file: str
    fd: FormatDescription
    """The content of the format description event by which the events must be read. For a format description event it
    is the event's own content.
    """
    data: npt.NDArray[np.uint8]
    """The bytes of the events. Event k has ``size[k]`` bytes from ``start[k]`` on."""
    start: npt.NDArray[np.int64]
    size: npt.NDArray[np.int64]
    offset: npt.NDArray[np.int64]
    """The byte offsets in ``file`` at which the original events begin."""
    undecided: bool = False
    """Whether the events are a single statement that the filter cannot decide."""

    def each(self) -> Iterator[tuple[int, bytes]]:
        """Yield for each of these events its byte offset in the binlog file ``file``, and the bytes that a slave would
        be sent.
        """
        data = self.data.tobytes()
        for at, size, offset in zip(
            self.start.tolist(), self.size.tolist(), self.offset.tolist(), strict=True
        ):
            yield offset, data[at : at + size]

    def part(self, first: int, last: int) -> KeptEvents:
        """Return a copy that has only some of these events, which all pass the filter: those with the indexes ``first``
        up to, but without, ``last``.
        """
        if last - first == self.start.size:
            return self
        begin = self.start[first]
        return self._replace(
            data=self.data[begin : self.start[last - 1] + self.size[last - 1]],
            start=self.start[first:last] - begin,
            size=self.size[first:last],
            offset=self.offset[first:last],
        )


class PassedStatement(NamedTuple):
    """A statement (such as a Query event) that a pass through a binlog set leaves out, because the filter or the
    selection of transactions drops it. ``fd`` is the file's format description event, and ``event`` has the bytes of
    the event at ``offset``.
    """

    file: str
    fd: FormatDescription
    offset: int
    event: bytes
    passes: bool
    """Whether the filter passes the statement. Then only the selection of transactions by position, time or GTID
    leaves the statement out.
    """


def kept_pieces(
    binlogs: BinlogSet,
    rules: ReplicationFilter,
    *,
    counts: Counts | None = None,
    left_out: Callable[[PassedStatement], None] | None = None,
    **options: Unpack[PassOptions],
) -> Iterator[KeptEvents]:
    """Yield the events of a binlog set that a slave with this filter would be sent, in runs of consecutive events of
    one file. Each file begins with its format description event, which is yielded alone.

    The Gap events of a relay log (notes about dropped transactions) are yielded, too, for people who read the log.

    Raises BinlogError where a file is damaged.

    Parameters:
        rules: the slave's filter.
        counts: receives the numbers of events and bytes that were read, sent and dropped.
        left_out: called for each statement that is not yielded, between the events that precede and follow the
            statement in the binlog. With this function, each yielded statement is a run by itself.
        options: which events of the set are read, and further filters (:class:`~dumpfilter.dump.set_pass.PassOptions`).
    """
    one = SetPass(binlogs, rules, options, sends_gaps=True)
    for file, segments in one.files():
        yield one_event(file.name, file.format_description, 4, file.format_description.raw)
        for segment, plan, reader in segments:
            fd = segment.format_description
            if counts is not None:
                counts.add(plan.counts)
            kept = _events(plan, render(plan, reader.data, reader.data_offset, file.read, fd), fd)
            if left_out is None:
                if kept.start.size:
                    yield kept
                continue
            statements = np.flatnonzero((segment.role & R.ROLE_MASK == R.STATEMENT) & (segment.subject >= 0))
            flags = one.flags.array()[segment.subject[statements]]
            offsets = segment.offset[statements]
            begins, ends = (np.searchsorted(kept.offset, offsets, side) for side in ("left", "right"))
            columns = offsets, segment.size[statements], flags, begins, ends
            done = 0
            for at, size, bits, begin, end in zip(*(column.tolist() for column in columns), strict=True):
                if done < begin:
                    yield kept.part(done, begin)
                if begin < end:
                    yield kept.part(begin, end)._replace(undecided=bool(bits & FILTER_UNDECIDED_F))
                else:
                    event = file.read(at, size)
                    left_out(PassedStatement(segment.file, fd, at, event, bool(bits & FILTER_BINLOG_SEND_F)))
                done = end
            if done < kept.start.size:
                yield kept.part(done, kept.start.size)


def one_event(file: str, fd: FormatDescription, offset: int, event: bytes) -> KeptEvents:
    """Return the bytes ``event`` of a single event as a :class:`KeptEvents` (events that a slave would be sent). ``fd``
    is the format description event of the binlog file ``file``. The event begins at the byte offset ``offset`` of this
    file.
    """
    start, size, place = (np.array([one], np.int64) for one in (0, len(event), offset))
    return KeptEvents(file, fd, np.frombuffer(event, np.uint8), start, size, place)


def _events(plan: ChunkPlan, data: bytes, fd: FormatDescription) -> KeptEvents:
    start, size, offset = [], [], []
    at = 0
    for place, length, _ in plan.ranges.tolist():
        end = at + length
        while at < end:
            one = int.from_bytes(data[at + SIZE_AT : at + SIZE_AT + 4], "little")
            start.append(at)
            size.append(one)
            offset.append(place)
            at += one
            place += one
    starts, sizes, offsets = (np.array(column, np.int64) for column in (start, size, offset))
    return KeptEvents(plan.file, fd, np.frombuffer(data, np.uint8), starts, sizes, offsets)
