"""The cheap index pass over a file: ranges that end at transaction boundaries, and what the file begins with.

It reads headers and table names, looks no statement up and leaves checksums to those who read the ranges. Files are
independent of one another: each can be a task. Only where a set has XA transactions a second, closer look is needed
(:func:`look_for_xa`), since XA COMMIT and XA ROLLBACK go where the prepared transaction went.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, field, replace
from itertools import pairwise

import numpy as np

from dumpfilter.binlog import roles as R
from dumpfilter.binlog.events import EventType
from dumpfilter.binlog.format import FormatDescription
from dumpfilter.binlog.gtid_events import Xid
from dumpfilter.binlog.gtid_sources import SourceNumbers
from dumpfilter.errors import BinlogError, BinlogUnsupported
from dumpfilter.index.fileset import BinlogFile, SegmentReader
from dumpfilter.index.segment import Segment
from dumpfilter.index.subjects import Subject, Subjects
from dumpfilter.spark_jobs.ranges.files import open_file
from dumpfilter.spark_jobs.ranges.ranges import (
    BLOCK_SIZE,
    NONE_HELD,
    Held,
    HeldByXid,
    Range,
    blocks_of,
    held_of,
)

RANGE_SIZE = 32 << 20
"""Bytes of a range (one is larger when a transaction is)."""


INDEX_BLOCK_SIZE = 8 << 20
"""Bytes that the pass reads at a time: it writes nothing, so that less would fit better into a processor's cache, but a
read from an object store should be worth its time."""


@dataclass(frozen=True)
class Damage:
    """Where a file was given up, and why. ``position`` None: it could not even be opened."""

    file: str
    position: int | None
    reason: str


@dataclass(frozen=True)
class FileIndex:
    """What the pass finds in one file. Positions and sizes in bytes."""

    number: int
    path: str
    name: str
    size: int
    modified: int
    """When it was last written to, nanoseconds since 1970."""
    format_description: bytes
    """The event, whole; empty when the file could not be opened."""
    bounds: tuple[int, ...] = ()
    """Where ranges begin and end; empty when the file holds no transaction."""
    end: int = 0
    """Where what is whole ends: the rest is still being written, or was given up."""
    transactions: int = 0
    prolog: bytes = b""
    """Its Previous_gtids or Gtid_list event, whole; empty without one."""
    rotated: int | None = None
    """When its Rotate event was written, Unix seconds; None when it does not end in one."""
    first_time: int | None = None
    last_time: int | None = None
    """When its first and its last transaction began to be written, Unix seconds."""
    has_xa: bool = False
    """Whether it ends an XA transaction in plain sight."""
    damage: Damage | None = None


def index_file(
    number: int,
    path: str,
    *,
    last: bool,
    range_size: int = RANGE_SIZE,
    block_size: int = BLOCK_SIZE,
    verify: bool = False,
    skip: bool = False,
) -> FileIndex:
    """Index one file. ``last``: it may still be written to; what is incomplete at its end is left out.

    With ``skip`` a damaged file is taken as far as it is whole, which :attr:`FileIndex.damage` tells; ``verify`` then
    finds wrong checksums, too. Without it: raises BinlogError with file and position.
    """
    try:
        file = open_file(path)
    except BinlogError as error:
        if not skip:
            raise
        name = path.rpartition("/")[2]
        return FileIndex(number, path, name, 0, 0, b"", damage=Damage(name, None, error.what))
    with file:
        found = _Pass(file, range_size)
        damage = None
        try:
            found.run(verify=verify, block_size=block_size, last=last)
        except BinlogError as error:
            if not skip:
                raise
            damage = Damage(file.name, max(found.boundary, error.position or 0), error.what)
        return FileIndex(
            number,
            path,
            file.name,
            file.size,
            file.modified,
            file.format_description.raw,
            found.all_bounds(),
            found.boundary,
            found.transactions,
            found.prolog,
            found.rotated,
            found.first_time,
            found.last_time,
            found.has_xa,
            damage,
        )


class _Pass:
    """What is known of a file so far."""

    def __init__(self, file: BinlogFile, range_size: int) -> None:
        self._file = file
        self._range_size = range_size
        self.boundary = file.first_event
        self._bounds = [file.first_event]
        self.transactions = 0
        self.prolog = b""
        self._begun = False
        self.rotated: int | None = None
        self.first_time: int | None = None
        self.last_time: int | None = None
        self.has_xa = False

    def run(self, *, verify: bool, block_size: int, last: bool) -> None:
        file, fd = self._file, self._file.format_description
        reader = SegmentReader(
            file,
            Subjects(),
            SourceNumbers(),
            verify=verify,
            statements=False,
            segment_size=min(block_size, INDEX_BLOCK_SIZE),
        )
        while (segment := reader.next()) is not None:
            if segment.type[0] == EventType.FORMAT_DESCRIPTION:
                _same_format(reader.scanner.format_description, fd, file.name, segment.start)
            self._take(segment)
        reader.check_end(last=last)

    def _take(self, segment: Segment) -> None:
        if not self._begun:
            self._find_prolog(segment)
        self.has_xa |= bool(((segment.role & 0x7F) == R.XA).any())
        ends = segment.offset[segment.txn_event[1:-1]]
        if not segment.open:
            ends = np.append(ends, segment.end)
        start = self._bounds[-1]
        while (k := int(np.searchsorted(ends, start + self._range_size))) < len(ends):
            start = int(ends[k])
            self._bounds.append(start)
        if len(ends):
            self.boundary = int(ends[-1])
        times = segment.time[segment.txn_event[:-1]][segment.txn_source != R.KEPT]
        times = times[times > 0]
        if len(times):
            self.first_time = int(times[0]) if self.first_time is None else self.first_time
            self.last_time = int(times[-1])
        completed = segment.txn_source[: len(segment.txn_source) - int(segment.open)]
        self.transactions += int(np.count_nonzero(completed != R.KEPT))
        self.rotated = int(segment.time[-1]) if segment.type[-1] == EventType.ROTATE else None

    def _find_prolog(self, segment: Segment) -> None:
        """It stands before the first transaction."""
        for i, role in enumerate((segment.role & 0x7F).tolist()):
            if role != R.FILE:
                self._begun = True
                return
            if segment.type[i] in (EventType.PREVIOUS_GTIDS, EventType.GTID_LIST):
                self.prolog = self._file.read(int(segment.offset[i]), int(segment.size[i]))

    def all_bounds(self) -> tuple[int, ...]:
        """With the end of the last range."""
        bounds = self._bounds + ([self.boundary] if self.boundary > self._bounds[-1] else [])
        return tuple(bounds) if len(bounds) > 1 else ()


def _same_format(found: FormatDescription, first: FormatDescription, file: str, position: int) -> None:
    if (found.checksum, found.post_header_lengths) != (first.checksum, first.post_header_lengths):
        raise BinlogUnsupported(
            "the format of events changes inside the file, as in a relay log; use the binlogs it came from",
            file=file,
            position=position,
        )


@dataclass(frozen=True)
class XaLook:
    """The XA transactions of one range, read by itself."""

    prepared: HeldByXid = field(default_factory=dict)
    """Those prepared in it that have no end in it."""
    ended: frozenset[Xid] = frozenset()
    """Those that end in it and were not prepared in it."""
    subjects: frozenset[Subject] = frozenset()
    """All that it holds."""


def look_for_xa(path: str, wanted: Range, *, block_size: int = BLOCK_SIZE) -> XaLook:
    """Read a range for its XA transactions. Raises BinlogError with file and position."""
    subjects = Subjects()
    ended: set[Xid] = set()
    prepared: HeldByXid = NONE_HELD
    with open_file(path) as file:
        for block in blocks_of(file, wanted, subjects, SourceNumbers(), verify=False, block_size=block_size):
            ended.update(block.segment.unknown_ends.values())
            prepared = held_of(block.segment.prepared, subjects)
    return XaLook(prepared, frozenset(ended), frozenset(subjects.since(0)))


def ranges_of(indexes: Iterable[FileIndex]) -> list[Range]:
    """All ranges of a set, in its order."""
    found: list[Range] = []
    for index in indexes:
        for start, end in pairwise(index.bounds):
            found.append(Range(len(found), index.number, start, end))
    return found


def follow_xa(ranges: Sequence[Range], looks: Iterable[XaLook]) -> tuple[list[Range], frozenset[Xid]]:
    """The ranges with the XA transactions that are prepared before each, and those that end in the set without having
    begun in it. ``looks``: one of each range."""
    prepared: dict[Xid, Held] = {}
    unknown: set[Xid] = set()
    followed = []
    for wanted, look in zip(ranges, looks, strict=True):
        ends = {xid: prepared.pop(xid) for xid in look.ended if xid in prepared}
        unknown |= look.ended - ends.keys()
        followed.append(replace(wanted, prepared=tuple(ends.items())))
        prepared.update(look.prepared)
    return followed, frozenset(unknown)
