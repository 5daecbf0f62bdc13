"""The division of a binlog set into ranges, and the reading of a range, some MiB (a block) at a time.

A range is a sequence of complete transactions in one file, which one task reads. A range also records the XA
transactions that end in the range but were prepared in an earlier one. A task therefore needs no other range, and tasks
can run in any order on any machine.

A job guesses the beginnings of its ranges, so that it reads each file once (:func:`read_set`). A range begins with
bytes that look like a Gtid event. The first range of a file begins with the file, and each task checks that its range
ends with a transaction. If no task fails, each guess is therefore a transaction boundary.

After a wrong guess or any other error, the index pass divides the files. It is a fast scan that reads event headers and
table names, and parses no statements. Checksums are verified only if damaged files are to be skipped. Each file can be
indexed by a separate task. A Spark query needs the index pass, because its tasks cannot run again.

A set with XA transactions may need a second pass (:func:`look_for_xa`). An XA COMMIT or XA ROLLBACK concerns the tables
of its prepared transaction, which may be in an earlier range.
"""

from __future__ import annotations

import hashlib
import threading
import uuid
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass, field, replace
from functools import partial
from itertools import chain, groupby, pairwise
from pathlib import Path
from typing import TypeVar, Unpack

import numpy as np

from dumpfilter.analyse.traffic.facts import Ints
from dumpfilter.base.errors import (
    BinlogCorrupt,
    BinlogError,
    BinlogMissing,
    BinlogUnreadable,
    BinlogUnsupported,
)
from dumpfilter.base.options.values import FIRST_EVENT
from dumpfilter.binlog import roles as R
from dumpfilter.binlog.events import GTIDS, HEADER_LENGTH, EventType, numbers_at
from dumpfilter.binlog.format import DEFAULT_NAMES, FormatDescription, NameRules
from dumpfilter.binlog.gtid_events import Xid
from dumpfilter.binlog.gtid_sources import SourceNumbers
from dumpfilter.index.addresses import file_name, local_bytes
from dumpfilter.index.fileset import (
    BinlogFile,
    BinlogSet,
    ScanOptions,
    ScanPoint,
    SegmentReader,
    open_file,
)
from dumpfilter.index.opened import OpenedEvents
from dumpfilter.index.scanner import SEGMENT_SIZE
from dumpfilter.index.segment import ALWAYS, Segment
from dumpfilter.index.subjects import Subject, Subjects
from dumpfilter.index.time_spans import TimeSpans, joined, spans_of
from dumpfilter.spark_jobs.engines import Amount, Runner, ThreadRunner, step
from dumpfilter.spark_jobs.options import BLOCK_SIZE, ReadOptions

Held = tuple[Subject, ...] | None
"""The tables and statements of a prepared XA transaction.

With them a filter decides whether a slave needs the XA COMMIT or XA ROLLBACK. None means that some event of the
transaction is sent to every slave, so every slave needs the end, too.
"""


@dataclass(frozen=True)
class Range:
    """A sequence of complete transactions in one binlog file, which one task reads.

    The range has the bytes from offset ``start`` to ``end`` of the file ``path`` (a path or URI). ``file`` is the index
    of the file in the binlog set, and ``number`` the index of the range among all ranges of the set. A Spark query does
    not use the two numbers.
    """

    path: str
    start: int
    end: int
    number: int = 0
    file: int = 0
    prepared: tuple[tuple[Xid, Held], ...] = ()
    """The XA transactions that end in this range (part of a binlog file) but were prepared in an earlier one, with
    their tables and statements. Empty until :func:`follow_xa` has found them.
    """
    last: bool | None = None
    """None if the range must end exactly at ``end``. Otherwise the range reaches to the end of its file, which had
    ``end`` bytes when the range was made. True: the file may be open for writing, so an incomplete last transaction is
    no error.
    """
    names: NameRules = DEFAULT_NAMES
    """The rules for comparing names of schemas and tables, which filters need: those of the server that wrote the
    newest file of the set. The data source ``binlog`` sets them if a query has filters. Otherwise they are the default.
    """


def amount_of(ranges: Sequence[Range]) -> Amount:
    """Return the total size of ``ranges`` (parts of binlog files, which tasks read), for a progress bar."""
    return Amount("parts", sum(one.end - one.start for one in ranges))


MOST_GROUPS = 512
"""The maximum number of groups of ranges (parts of files). One task reads a group, and the driver must receive and hold
one result per group.
"""

_LARGEST_GROUP = 8
"""The maximum size of a group of ranges (parts of files) for one task, as a multiple of the target size of a range,
unless :data:`MOST_GROUPS` requires larger groups. A task of this size takes less than a second.
"""

_TASKS_AHEAD = 2
"""The minimum number of tasks per core for which data remain when a group of ranges (parts of files) for one task is
made. If fewer would remain, the group is made smaller.

With 2, all cores finish at about the same time even if one core is half as fast as the others.
"""


def grouped(ranges: Sequence[Range], range_size: int, run: Runner) -> list[tuple[Range, ...]]:
    """Join consecutive ranges (parts of binlog files) into groups, one for each task, and return the groups in order.
    Short files have short ranges, and many small tasks cost too much.

    A group gets ranges until it has at least ``range_size`` bytes. Groups are larger if there would otherwise be more
    than :data:`MOST_GROUPS` of them. The first groups are also larger (up to 8 times ``range_size``), and later ones
    become smaller. So no core of ``run``, which runs the tasks, waits long for the last task.
    """
    cores = getattr(run, "cores", 1)
    left = sum(one.end - one.start for one in ranges)
    least = max(range_size, -(-left // MOST_GROUPS))
    size = filled = least
    found: list[list[Range]] = []
    for one in ranges:
        if filled >= size:
            found.append([])
            filled = 0
            size = max(least, min(left // (_TASKS_AHEAD * cores), _LARGEST_GROUP * range_size))
        found[-1].append(one)
        filled += one.end - one.start
        left -= one.end - one.start
    return [tuple(group) for group in found]


def blocks_of(
    file: BinlogFile,
    wanted: Range,
    subjects: Subjects,
    sources: SourceNumbers,
    *,
    block_size: int = BLOCK_SIZE,
    with_head: bool = False,
    **options: Unpack[ScanOptions],
) -> Iterator[OpenedEvents]:
    """Read a range (part of a binlog file) about ``block_size`` bytes at a time. Yield each of these blocks, with the
    events that a scan found in it.

    Parameters:
        file: the open binlog file.
        wanted: the range to read.
        subjects: the register that numbers tables and statements. The scan adds new ones.
        sources: the register that numbers GTID sources (server UUIDs, or MariaDB's domain and server ids). The scan
            adds new ones.
        block_size: the number of bytes to read at a time. A block with a larger event is larger.
        with_head: whether the format description event is read, too, if the range begins with it, and a relay log's
            events that the slave added.
        options: those of the scan, such as whether statements are read.

    After each block, the function reports the progress of the task by :func:`step`, which raises Stopped if the job was
    cancelled. Raises BinlogError with file and position for a damaged or truncated file, and if the range does not end
    with a complete transaction.
    """
    prepared = {
        xid: ALWAYS if held is None else subjects.any_of(map(subjects.number_of, held))
        for xid, held in wanted.prepared
    }
    # The byte more shows the scan that the file ends.
    segment_size = min(block_size, wanted.end - wanted.start + 1)
    reader = SegmentReader(file, subjects, sources, segment_size=segment_size, **options)
    reader.limit = wanted.end if wanted.last is None else None
    reader.rewind(wanted.start if with_head else max(wanted.start, file.begin.end), ScanPoint(prepared))
    begin = reader.position
    while (segment := reader.next()) is not None:
        yield OpenedEvents(segment, reader.data)
        step(segment.end - begin)
        begin = segment.end
    if wanted.last is not None:
        reader.check_end(last=wanted.last)
    elif begin < wanted.end:
        file.read(begin, wanted.end - begin)
    if (wanted.last is None and begin < wanted.end) or reader.in_transaction:
        raise BinlogCorrupt(
            "the events from here on are not those that the file had when it was indexed; run the command again",
            file=file.name,
            position=begin,
        )


_PROLOGS = (EventType.PREVIOUS_GTIDS, EventType.GTID_LIST)


@dataclass(frozen=True)
class Damage:
    """Damage in a binlog file: the byte offset from which on a job skips the file, and the reason in words."""

    file: str
    position: int | None
    """The byte offset from which on the file is skipped. None: the file could not be opened and is skipped
    completely.

    If a transaction is damaged, this is the transaction's beginning.
    """
    reason: str
    damaged_at: int | None = None
    """The byte offset of the damage, which may lie after the offset from which on the file is skipped. None: the file
    could not be opened.
    """

    @property
    def told(self) -> str:
        """The text of a warning about the damage, without the file's name. The text tells the skipped part of the file,
        and the reason.
        """
        if self.position is None:
            part = "all of it"
        else:
            part = f"from {self.position} on"
            if self.damaged_at not in (None, self.position):
                part += f", since the transaction that begins there is damaged at {self.damaged_at}"
        return f"{part}: {self.reason}"

    def __str__(self) -> str:
        return f"{self.file}: skipped {self.told}"


@dataclass
class FileIndex:
    """The result of the index pass over one binlog file or a part of it. The index pass is a fast scan that divides the
    file into ranges.

    A range is a sequence of complete transactions, which one task reads. The object also has other data about the file,
    so that later steps need not open the file. Positions and sizes are in bytes.
    """

    number: int
    """The index of the file in the binlog set."""
    path: str
    name: str
    start: int = FIRST_EVENT
    """The offset at which the indexed part begins."""
    size: int = 0
    modified: int = 0
    """The time of the last modification of the file, nanoseconds since 1970."""
    format_description: bytes = b""
    """The complete format description event. Empty if the file could not be opened."""
    bounds: tuple[int, ...] = ()
    """The ascending byte offsets between ranges (the parts of the file that tasks read). Each two consecutive offsets
    delimit a range.

    Empty if the indexed part has no transaction.
    """
    end: int = 0
    """The offset at which the last complete transaction of the indexed part ends. Later bytes are outside the part,
    damaged, or still being written by the server.
    """
    transactions: int = 0
    prolog: bytes = b""
    """The complete Previous_gtids or Gtid_list event. Empty if the indexed part has none before its first transaction.
    """
    times: TimeSpans = ()
    """The time intervals that contain the events of the file's transactions. The events' timestamps need not ascend."""
    has_xa: bool = False
    """Whether the indexed part of the file may have the XA COMMIT or XA ROLLBACK of a transaction that was prepared
    before this part. Events inside compressed transactions do not count.
    """
    damage: Damage | None = None
    """The damage at which the indexed part of the file ends. None if the index pass found no damage."""

    @property
    def beginning(self) -> str:
        """The SHA-256 digest, in hexadecimal, of the file's format description event and its Previous_gtids or
        Gtid_list event. Another file that later gets the same name has another digest.
        """
        return hashlib.sha256(self.format_description + self.prolog).hexdigest()

    def add(self, events: Segment, file: BinlogFile) -> Ints:
        """Add the data of the next events of ``file``, such as their times, to this object. The offsets ``bounds``
        (between ranges) and ``end`` (of the last complete transaction) are not changed. Return the ascending byte
        offsets at which transactions end.

        Raises BinlogUnsupported if the format of events changes inside the file.
        """
        if events.type[0] == EventType.FORMAT_DESCRIPTION:
            found, before = events.format_description, file.format_description
            if (found.checksum, found.post_header_lengths) != (before.checksum, before.post_header_lengths):
                raise BinlogUnsupported(
                    "the format of events changes inside the file, as in a relay log; use the binlogs it came from",
                    file=file.name,
                    position=events.start,
                )
        # A server's own events between transactions (Format_description, Rotate) have the time at which the file was
        # written, which for restored data is another one.
        times, is_transaction = events.time, events.txn_source != R.KEPT
        if not is_transaction.all():
            times = times[events.role & R.ROLE_MASK != R.FILE]
            if not self.transactions:
                # The head of a relay log has an event that names the master.
                before_first = events.type[: events.txn_event[np.argmax(np.append(is_transaction, True))]]
                for event in np.flatnonzero(np.isin(before_first, _PROLOGS)).tolist():
                    self.prolog = file.read(int(events.offset[event]), int(events.size[event]))
        self.times = joined([self.times, spans_of(times)])
        self.has_xa |= bool(events.unknown_ends) or bool((events.subject == R.PENDING_XA).any())
        # An event between two transactions counts as a transaction.
        self.transactions += int(np.count_nonzero(is_transaction)) - events.open
        last_events = events.txn_event[1 : len(events.txn_event) - events.open] - 1
        ends: Ints = events.offset[last_events] + events.size[last_events]
        return ends


PROBE = 16 << 10
"""The number of bytes at each end of a file that go into its digest. The beginning contains the file's creation
time, and the end its last transactions.
"""


@dataclass(frozen=True)
class FileVersion:
    """The data by which a later run recognizes an unchanged file: its path, size, modification time and digest. Files
    with equal versions are taken to have equal content.
    """

    path: str
    size: int
    modified: int
    """The time of the last modification, nanoseconds since 1970; 0 if the file system does not record it."""
    digest: str
    """A digest of the file's first and last bytes."""

    @property
    def marks(self) -> set[object]:
        """Two values by which the file is recognized: its path, and the triple of name, size and digest. A copy of the
        file in another directory has an equal triple.
        """
        return {self.path, (file_name(self.path), self.size, self.digest)}


def version_of(path: str) -> FileVersion | None:
    """Return the version of the file ``path`` (a path or URI), by which a later run recognizes an unchanged file.
    Return None for a file that cannot be opened or read.
    """
    digest = hashlib.blake2b(digest_size=16)
    try:
        with open_file(path) as file:
            modified, size = file.modified, file.size
            digest.update(file.read_up_to(0, min(PROBE, size)))
            digest.update(file.read_up_to(max(0, size - PROBE), min(PROBE, size)))
    except BinlogError:
        # The job opens the file again, and tells the user what is wrong.
        return None
    return FileVersion(path, size, modified, digest.hexdigest())


NO_LIMIT = 1 << 62
"""A number of bytes that no file has: the value of a limit or end offset that means "no limit"."""


@dataclass(frozen=True)
class FilePart:
    """A part of a binlog file, by default the whole file, that a job divides into ranges. A range is a sequence of
    complete transactions, which one task reads.

    The index pass, a scan before the tasks, divides the part at exact transaction boundaries. A job may guess the
    boundaries instead. A streaming query needs parts, because a micro-batch may begin or end inside a file.
    """

    number: int
    """The index of the file in the binlog set."""
    path: str
    """The file's path or URI."""
    last: bool
    """Whether an incomplete transaction at the file's end is no error while a server has the file open for writing (its
    header flag LOG_EVENT_BINLOG_IN_USE_F). True for the last file of a set.
    """
    start: int = FIRST_EVENT
    """The byte offset at which the part begins: a transaction boundary, or an offset before the first event."""
    end: int = NO_LIMIT
    """The byte offset of a transaction boundary, at which the part ends at the latest."""
    limit: int = NO_LIMIT
    """The maximum size of the part, bytes. A part has at least one transaction, even if this transaction is larger."""


def index_file(part: FilePart, options: ReadOptions | None = None) -> FileIndex:
    """Divide a binlog file, or a part of it, into ranges (sequences of complete transactions, one for each task).
    Return the ranges with other data about the file, such as its size, the times of its transactions, and its format
    description event.

    ``options`` is by default ``ReadOptions()``. With ``options.on_corrupt="stop"``, raises BinlogError with file and
    position for a missing or damaged file. Checksums are then left to the tasks that read the ranges.

    With ``on_corrupt="skip"``, a damaged file is indexed up to the damage, and a missing file has no ranges. The field
    ``damage`` of the result tells the damage. A wrong checksum counts as damage unless ``options.verify`` is False.

    In any case, raises BinlogUnreadable for a file that the operating system cannot read, and ConnectionLost if the
    read of a remote file fails.
    """
    options = options or ReadOptions()
    skip = options.on_corrupt == "skip"
    try:
        file = open_file(part.path)
    except BinlogError as error:
        if not skip or isinstance(error, BinlogUnreadable):
            raise
        name = part.path.rpartition("/")[2]
        return FileIndex(part.number, part.path, name, part.start, damage=Damage(name, None, error.what))
    with file:
        description = file.format_description.raw
        index = FileIndex(part.number, part.path, file.name, part.start, format_description=description)
        index.end = max(part.start, file.first_event)
        try:
            if index.end < part.end:
                _read(index, file, part, options)
        except BinlogError as error:
            if not skip or isinstance(error, BinlogUnreadable):
                raise
            index.damage = Damage(file.name, index.end, error.what, max(index.end, error.position or 0))
        index.size, index.modified = file.size, file.modified
        # Without transactions there are no ranges. Otherwise the last range ends with the last transaction.
        bounds = (*index.bounds, index.end) if index.bounds and index.end > index.bounds[-1] else index.bounds
        index.bounds = bounds if len(bounds) > 1 else ()
        return index


def _read(index: FileIndex, file: BinlogFile, part: FilePart, options: ReadOptions) -> None:
    """Scan a file from the offset ``index.end`` to the end of ``part``, and write the data found (such as the ends of
    ranges) into ``index``. A range is a sequence of complete transactions, which one task reads.

    The end of the last range is not added to ``index.bounds``. If ``options`` say that damage is to be skipped, the
    scan detects every damage that a later pass would detect. Raises BinlogError with file and position for damage, and
    if the format of events changes inside the file.
    """
    most = part.start + part.limit
    first, bounds = index.end, [index.end]
    skip = options.on_corrupt == "skip"
    reader = SegmentReader(
        file,
        Subjects(),
        SourceNumbers(),
        # Ranges must end before the first event with a wrong checksum. Without skipping, the tasks that read the ranges
        # check checksums.
        verify=options.verify and skip,
        statements=False,
        segment_size=min(options.block_size, SEGMENT_SIZE),
    )
    reader.rewind(first)
    while (events := reader.next()) is not None:
        ends = index.add(events, file)
        ends = ends[: np.searchsorted(ends, part.end, "right")]
        is_full = len(ends) > 0 and ends[-1] >= most
        ends = ends[: max(int(np.searchsorted(ends, most, "right")), int(index.end == first))]
        while (k := int(np.searchsorted(ends, bounds[-1] + options.range_size))) < len(ends):
            bounds.append(int(ends[k]))
        if len(ends):
            index.end = int(ends[-1])
        index.bounds = tuple(bounds)
        step(events.end - events.start)
        if is_full or events.end >= part.end:
            return
    reader.check_end(last=part.last)


@dataclass(frozen=True)
class XaLook:
    """The XA transactions of which a range (part of a binlog file) has only the XA PREPARE, or only the XA COMMIT or XA
    ROLLBACK.

    A task makes this object from one range. The driver then matches the objects of all ranges, because a transaction
    may be prepared in one range and end in another.
    """

    prepared: Mapping[Xid, Held] = field(default_factory=dict)
    """The XA transactions that are prepared but not ended in the range, with their tables and statements."""
    ended: frozenset[Xid] = frozenset()
    """The XA transactions that the range commits or rolls back, and that were prepared before the range."""
    subjects: frozenset[Subject] = frozenset()
    """All tables and statements of the range. If an XA transaction was prepared before the first file, the driver
    assumes that it changes every table of the set.
    """


def look_for_xa(wanted: Range, *, block_size: int = BLOCK_SIZE) -> XaLook:
    """Read a range (part of a binlog file). Return the XA transactions of which the range has only the XA PREPARE, or
    only the XA COMMIT or XA ROLLBACK. The result also has all tables and statements of the range.

    ``block_size`` is the number of bytes to read at a time. Raises BinlogError with file and position for a damaged
    file.
    """
    subjects = Subjects()
    ended: set[Xid] = set()
    prepared: Mapping[Xid, Held] = {}
    with open_file(wanted.path) as file:
        for block in blocks_of(file, wanted, subjects, SourceNumbers(), verify=False, block_size=block_size):
            ended.update(block.segment.unknown_ends.values())
            # The numbers of tables and statements are valid in this process only, and the result is for others.
            prepared = {
                xid: None if number == ALWAYS else tuple(subjects[k] for k in subjects.single(number))
                for xid, number in block.segment.prepared.items()
            }
    return XaLook(prepared, frozenset(ended), frozenset(subjects.since(0)))


def ranges_of(index: FileIndex) -> list[Range]:
    """Return the ranges of a file, the parts that one task each reads. ``index`` has the byte offsets between them.

    The result is empty for a file that could not be opened, and if the part of the file that ``index`` describes has no
    complete transaction. The first range of a file begins at the format description event, so that this event becomes a
    row of the Spark data source.
    """
    if index.end <= index.start:
        return []
    bounds = index.start, *(index.bounds[1:] or (index.end,))
    return [Range(index.path, *both, file=index.number) for both in pairwise(bounds)]


def follow_xa(ranges: Sequence[Range], looks: Iterable[XaLook]) -> tuple[list[Range], frozenset[Xid]]:
    """Find for each XA COMMIT and XA ROLLBACK the range (part of a binlog file) in which its transaction was prepared.
    A filter needs the tables of the prepared transaction to decide about the transaction's end.

    ``looks`` has an object for each of ``ranges``, in the same order. The object names the XA transactions of which the
    range has only the XA PREPARE, or only the XA COMMIT or XA ROLLBACK.

    Return two values. The first is the list of ranges, in each of which :attr:`Range.prepared` has the XA transactions
    that end in the range and were prepared in an earlier one. The second has the XA transactions that end in ``ranges``
    and were prepared before all of them.
    """
    prepared: dict[Xid, Held] = {}
    unknown: set[Xid] = set()
    followed = []
    for wanted, look in zip(ranges, looks, strict=True):
        ends = {xid: prepared.pop(xid) for xid in look.ended if xid in prepared}
        unknown |= look.ended - ends.keys()
        followed.append(replace(wanted, prepared=tuple(ends.items())))
        prepared.update(look.prepared)
    return followed, frozenset(unknown)


@dataclass(frozen=True)
class IndexedSet:
    """The files of a binlog set, and the ranges into which they are divided, in binlog order.

    A range is a sequence of complete transactions in one file, which one task reads.
    """

    files: tuple[FileIndex, ...]
    ranges: tuple[Range, ...]
    unknown_xa: int = 0
    """The number of XA transactions that end in the set but were prepared before it, so that their tables are
    unknown.
    """
    subjects: frozenset[Subject] = frozenset()
    """All tables and statements of the set if ``unknown_xa`` is not 0; otherwise empty.

    The end of an XA transaction with unknown tables goes to every output (binlog set of a split) that receives any of
    these tables and statements.
    """
    is_guessed: bool = False
    """Whether the beginnings of ranges (parts of files) were guessed, and not found by a scan of the files."""

    @property
    def has_xa(self) -> bool:
        """Whether any file of the set may have the end (XA COMMIT or XA ROLLBACK) of an XA transaction that was
        prepared in another range. A range is the part of a file that one task reads. Events inside compressed
        transactions do not count.
        """
        return any(one.has_xa for one in self.files)

    @property
    def newest(self) -> FormatDescription:
        """The format description event of the newest file of the set that could be opened."""
        found = next(one for one in reversed(self.files) if one.format_description)
        return FormatDescription.parse(found.format_description, file=found.name)

    @property
    def times(self) -> TimeSpans:
        """The time intervals in which the set's transactions were written, ascending."""
        return joined(one.times for one in self.files)

    @property
    def nbytes(self) -> int:
        """The total bytes of all ranges (the parts of files that tasks read)."""
        return sum(one.end - one.start for one in self.ranges)

    def warnings(self, where: str) -> list[str]:
        """Return a list of warnings. There is one for each damaged file, which names the skipped part and the reason.
        The warning about XA transactions (:meth:`told_of_xa`) follows, if there is one.

        ``where`` tells in that warning what the job does with the end of an XA transaction that was prepared before the
        set, for example "in every binlog".
        """
        damages = [str(one.damage) for one in self.files if one.damage is not None]
        return damages + self.told_of_xa(where)

    def told_of_xa(self, where: str) -> list[str]:
        """Return a list with one warning if XA transactions end in the set but were prepared before it. Otherwise the
        list is empty.

        ``where`` tells what the job does with the ends of these transactions. This text completes the sentence "the XA
        COMMIT or XA ROLLBACK is …", for example by "in every binlog".
        """
        if not self.unknown_xa:
            return []
        end = "transactions end" if self.unknown_xa > 1 else "transaction ends"
        return [
            f"{self.unknown_xa} XA {end} here without having begun here: the XA COMMIT or XA ROLLBACK is {where}"
        ]


def parts_of(source: str | Path | Sequence[str | Path]) -> list[FilePart]:
    """Return the files of a binlog set in binlog order, each as a :class:`FilePart` that covers the whole file.

    ``source`` is the set's index file, a directory with an index file, or a list of binlog files. Raises BinlogError if
    the set cannot be opened, and OptionError for an address with a syntax error.
    """
    paths = BinlogSet.open(source).addresses
    return [FilePart(number, path, last=number == len(paths) - 1) for number, path in enumerate(paths)]


def index_parts(
    parts: Sequence[FilePart], run: Runner, options: ReadOptions, *, follows_xa: bool = True
) -> IndexedSet:
    """Divide parts of the files of a binlog set, in binlog order, into ranges (sequences of complete transactions),
    with one task for each file. ``run`` executes the tasks, in threads or on Spark.

    If the set has XA transactions and ``follows_xa`` is True, a second step matches those whose XA PREPARE and end are
    in different ranges.

    Raises BinlogError with file and position for a missing or damaged file. With ``options.on_corrupt="skip"``, damaged
    parts are skipped instead, and the error is raised only if no file can be opened or the operating system cannot read
    one.
    """
    amount = Amount("files", local_bytes([one.path for one in parts]))
    files = tuple(run(partial(index_file, options=options), parts, "indexing", amount=amount))
    if files and not any(one.format_description for one in files):
        damage = files[0].damage
        assert damage is not None
        raise BinlogMissing(f"no file of the set can be read; the first: {damage.reason}", file=damage.file)
    ranges = _numbered(map(ranges_of, files))
    indexed = IndexedSet(files, tuple(ranges))
    if not (follows_xa and indexed.has_xa):
        return indexed
    look = partial(look_for_xa, block_size=options.block_size)
    looks = run(look, ranges, "following XA transactions", amount=amount_of(ranges))
    ranges, unknown = follow_xa(ranges, looks)
    everything: frozenset[Subject] = frozenset()
    if unknown:
        everything = everything.union(*(found.subjects for found in looks))
    return IndexedSet(files, tuple(ranges), len(unknown), everything)


def _numbered(ranges: Iterable[Sequence[Range]]) -> list[Range]:
    return [replace(one, number=number) for number, one in enumerate(chain(*ranges))]


_WINDOW = 16 << 10
"""The number of bytes that are read at a time to find the beginning of a transaction."""

_SEARCHED = 1 << 20
"""The number of bytes after an offset in which the beginning of a transaction is searched."""

_OPENED = 16
"""The number of files that are divided into ranges (parts for tasks) in parallel, because a read of a remote file waits
for a reply.
"""

_MOST_GUESSED = 4
"""The factor by which a guessed range (a part of a file that one task reads) may be larger than ranges should be. If a
range would be larger, the index pass divides the set. The index pass can divide a file without GTIDs, too, so that
several tasks read it.
"""


def _begin_of_transaction(file: BinlogFile, offset: int) -> tuple[int, int] | None:
    """Find the first bytes at or after the byte offset ``offset`` that look like the Gtid event of a transaction.
    Return their offset and the event's timestamp, or None if there are no such bytes within 1 MiB.

    Bytes look like the event only if they have its end position, as in a server's own binlog. The bytes can also be
    part of another event, for example of a column's value.
    """
    for begin in range(offset, min(offset + _SEARCHED, file.size), _WINDOW):
        data = np.frombuffer(file.read_up_to(begin, _WINDOW + HEADER_LENGTH), np.uint8)
        at = np.flatnonzero(np.isin(data[4 : 5 - HEADER_LENGTH], [*GTIDS]))
        end = begin + at + numbers_at(data, at + 9, 4)
        at = at[numbers_at(data, at + 13, 4) == end & 0xFFFFFFFF]
        if len(at):
            return begin + int(at[0]), int(numbers_at(data, at[:1], 4)[0])
    return None


def _guess_ranges(part: FilePart, range_size: int) -> tuple[FileIndex, list[Range]]:
    """Divide a binlog file into ranges (sequences of complete transactions, one for each task) of about ``range_size``
    bytes, without reading all of it. Return the ranges, and the file's index, the data about the file. The index has
    time intervals only from the first transaction of each range, and from one transaction near the file's end.

    A range begins where bytes look like the beginning of a transaction. If no transaction begins there, the task that
    reads the preceding range fails. Raises BinlogError if the file cannot be opened, or if a range is larger than
    four times ``range_size`` and than 4 MiB.
    """
    with open_file(part.path) as file:
        index = FileIndex(part.number, part.path, file.name, format_description=file.format_description.raw)
        index.end = file.size
        offset = file.first_event
        bounds, times = [offset], []
        while offset < index.end:
            if (found := _begin_of_transaction(file, offset)) is not None:
                offset, time = found
                times.append(time)
                bounds += [offset] if len(times) > 1 else []
            offset += range_size
        # With the time of its first transaction alone, a file of one range would seem to last no time.
        if (found := _begin_of_transaction(file, max(bounds[-1], index.end - _SEARCHED))) is not None:
            times.append(found[1])
    bounds.append(index.end)
    if max(np.diff(bounds)) > _MOST_GUESSED * max(range_size, _SEARCHED):
        raise BinlogUnsupported(
            "few transactions begin with a Gtid event that tells its position", file=file.name
        )
    index.bounds, index.times = tuple(bounds), spans_of(np.array(times, np.uint32))
    ranges = ranges_of(index)
    return index, [*ranges[:-1], replace(ranges[-1], last=part.last)]


S = TypeVar("S")


def read_set(
    parts: Sequence[FilePart],
    run: Runner,
    options: ReadOptions,
    task_of: Callable[[IndexedSet], Callable[[Sequence[Range]], S]],
    label: str,
) -> tuple[IndexedSet, list[S]]:
    """Read the files of a binlog set in tasks of :class:`ReadRanges`. Return the set's index (the data about its files
    and ranges), and the tasks' results in binlog order. A range is a sequence of complete transactions in one file, and
    one task reads one or more ranges.

    At first the boundaries of ranges are guessed, so that each file is read only once. Each task checks that its ranges
    end with complete transactions. The guess is discarded if a task fails, or if an XA transaction may end in another
    range than it was prepared in. Then the index pass, a separate scan of the files, finds exact transaction
    boundaries, and the tasks read all files again.

    Parameters:
        parts: the files of the set, in binlog order (:func:`parts_of`).
        run: executes the tasks, in threads or on Spark.
        options: the treatment of damage, the check of checksums, and the sizes of ranges and blocks.
        task_of: makes the tasks' function, given the set's index. While the ranges are guessed, this index lacks each
            file's prolog (Previous_gtids or Gtid_list event) and number of transactions. The files' times are then
            incomplete.
        label: the name of the work for the progress bar.

    Raises BinlogError for a missing or damaged file, as :func:`index_parts` does, and the errors of the tasks.
    """
    # The results of a wrong guess are freed before the files are read again.
    with suppress(BinlogError):
        if (found := _read_guessed(parts, run, options, task_of, label)) is not None:
            return found
    indexed = index_parts(parts, run, options)
    return indexed, read_ranges(indexed, run, options, task_of(indexed), label)[0]


def read_ranges(
    indexed: IndexedSet, run: Runner, options: ReadOptions, task: Callable[[Sequence[Range]], S], label: str
) -> tuple[list[S], list[FileIndex]]:
    """Read the ranges (parts of files) of a binlog set in tasks of :class:`ReadRanges`. Return the tasks' results, and
    an index of each range, both in binlog order. Such an index has the data that the task found in the range, such as
    the times of its transactions and the offset at which the last one ends.

    ``run`` executes the tasks, in threads or on Spark. ``label`` names the work for the progress bar. Raises the errors
    of the tasks.
    """
    groups = grouped(indexed.ranges, options.range_size, run)
    task_with_indexes = partial(_with_indexes, task)
    found = run(task_with_indexes, groups, label, amount=amount_of(indexed.ranges)) or [task_with_indexes(())]
    return [result for result, _ in found], list(chain(*(indexes for _, indexes in found)))


def _read_guessed(
    parts: Sequence[FilePart],
    run: Runner,
    options: ReadOptions,
    task_of: Callable[[IndexedSet], Callable[[Sequence[Range]], S]],
    label: str,
) -> tuple[IndexedSet, list[S]] | None:
    """Read the files of a binlog set in ranges (sequences of complete transactions) whose beginnings are guessed.
    Return the set's index and the tasks' results, as :func:`read_set` does. Each range in the index has a fixed end.
    Return None if an XA transaction may end in another range than it was prepared in.

    ``task_of`` makes the tasks' function from the set's index. ``label`` names the work for the progress bar. Raises
    the errors of the tasks, such as BinlogCorrupt for a wrong guess. Raises BinlogUnsupported if a range would be too
    large.
    """
    guess = partial(_guess_ranges, range_size=options.range_size)
    guessed = ThreadRunner(_OPENED)(guess, parts, "dividing")
    ranges = tuple(_numbered(ranges for _, ranges in guessed))
    indexed = IndexedSet(tuple(index for index, _ in guessed), ranges, is_guessed=True)
    results, indexes = read_ranges(indexed, run, options, task_of(indexed), label)
    files = tuple(_joined(list(of_file)) for _, of_file in groupby(indexes, lambda one: one.number))
    # A server may write more to the newest file, which a later pass over the ranges must not read.
    ranges = tuple(
        one if one.last is None else replace(one, end=files[one.file].end, last=None) for one in ranges
    )
    indexed = IndexedSet(files, ranges, is_guessed=True)
    return None if indexed.has_xa else (indexed, results)


def _joined(parts: Sequence[FileIndex]) -> FileIndex:
    """Return the index of a whole file, such as the number and the times of its transactions. ``parts`` has the indexes
    of all ranges (sequences of transactions) of the file, in order.
    """
    return replace(
        parts[-1],
        start=parts[0].start,
        transactions=sum(one.transactions for one in parts),
        prolog=parts[0].prolog,
        times=joined(one.times for one in parts),
        has_xa=any(one.has_xa for one in parts),
    )


def _with_indexes(task: Callable[[Sequence[Range]], S], ranges: Sequence[Range]) -> tuple[S, list[FileIndex]]:
    """Call ``task``, a task of :class:`ReadRanges`, with ``ranges`` (parts of binlog files). Return the task's result,
    and the indexes of these ranges. An index has the data found in a range, such as the times of its transactions and
    the offset at which the last one ends.
    """
    _of_thread.indexes = []
    return task(ranges), indexes_of_task()


@dataclass(frozen=True, kw_only=True)
class ReadRanges:
    """The base class of the tasks that read ranges (parts of binlog files with complete transactions). Spark pickles
    the objects to send them to its workers.
    """

    options: ReadOptions
    job: str = field(default_factory=lambda: uuid.uuid4().hex)
    """The id of the job, by which the tasks of one thread find the state that they share."""

    def blocks(
        self, file: BinlogFile, wanted: Range, subjects: Subjects, sources: SourceNumbers, times: int = 1
    ) -> Iterator[OpenedEvents]:
        """Yield the scanned events of the range ``wanted`` (a part of the open ``file``), in blocks of about ``times``
        times ``options.block_size`` bytes.

        ``subjects`` numbers tables and statements. ``sources`` numbers GTID sources (server UUIDs, or MariaDB's domain
        and server ids). The scan adds new ones to both. Raises BinlogError with file and position for a damaged file.
        """
        index = FileIndex(wanted.file, wanted.path, file.name, wanted.start)
        index.format_description = file.format_description.raw
        index.end = max(wanted.start, file.first_event)
        verify, block_size = self.options.verify, times * self.options.block_size
        for block in blocks_of(file, wanted, subjects, sources, verify=verify, block_size=block_size):
            index.add(block.segment, file)
            index.end = block.segment.end
            yield block
        index.size, index.modified = file.size, file.modified
        indexes_of_task().append(index)


_of_thread = threading.local()


def indexes_of_task() -> list[FileIndex]:
    """Return the list of the indexes of the ranges that the task of this thread has read so far. An index has the data
    found in a range (part of a binlog file), such as the times of its transactions and the offset at which the last one
    ends.
    """
    found: list[FileIndex] = vars(_of_thread).setdefault("indexes", [])
    return found


def state_of_thread(job: object, make: Callable[[], S]) -> S:
    """Return the object in which the tasks of one job keep their state between tasks of the same thread, such as cached
    filter results.

    ``job`` identifies the job. ``make`` creates the object when the thread begins another job. A thread runs one task
    at a time, so the object needs no lock.
    """
    if getattr(_of_thread, "job", None) != job:
        _of_thread.job, _of_thread.state = job, make()
    state: S = _of_thread.state
    return state
