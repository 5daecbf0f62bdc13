"""Ranges, the parts of a binlog set that Spark tasks work on, and the reading of a range in blocks.

A range is consecutive transactions of one file. A range also has a list of the XA transactions that end in the range
and are prepared in an earlier range. Therefore a task needs no other range, and the tasks can run in any order on any
machine.
"""

from __future__ import annotations

import os
from collections.abc import Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
import numpy.typing as npt

from dumpfilter.base.errors import BinlogCorrupt
from dumpfilter.binlog.events import HEADER_LENGTH, EventHeader
from dumpfilter.binlog.format import DEFAULT_NAMES, NameRules
from dumpfilter.binlog.gtid_events import Xid
from dumpfilter.binlog.gtid_sources import SourceNumbers
from dumpfilter.index.fileset import BinlogFile
from dumpfilter.index.scanner import FileScanner
from dumpfilter.index.segment import Segment
from dumpfilter.index.subjects import Subject, Subjects
from dumpfilter.index.xa import ALWAYS, Prepared
from dumpfilter.spark_jobs.engines.runner import Amount, step

BLOCK_SIZE = 16 << 20
"""The number of bytes that a Spark task reads and scans at a time, 16 MiB.

A block is larger than the 4 MiB that the dump thread scans at a time. A split has a fixed cost for each output (binlog
that it writes) in each block, so fewer blocks cost less. From 32 MiB on, malloc would ask the kernel for new memory
each time, instead of using freed memory again.
"""

Held = tuple[Subject, ...] | None
"""The tables and statements of a prepared XA transaction.

A filter needs them to decide whether the slave needs the XA COMMIT or XA ROLLBACK. None means that the master sends
some event of the transaction to every slave, so every slave also needs the end of the transaction.
"""

HeldByXid = Mapping[Xid, Held]
"""The tables and statements of each prepared XA transaction, by the transaction's XID."""

NONE_HELD: HeldByXid = MappingProxyType({})
"""An empty mapping that cannot be changed, for a range without prepared XA transactions."""


@dataclass(frozen=True)
class Range:
    """Consecutive transactions of one binlog file, which one Spark task works on.

    The range is the bytes from offset ``start`` to offset ``end`` of a file, given by its path or URI. ``file`` is the
    number of the file in the binlog set, and ``number`` is the number of the range in the set, both from 0.
    """

    path: str
    start: int
    end: int
    number: int = 0
    file: int = 0
    prepared: tuple[tuple[Xid, Held], ...] = ()
    """The XA transactions that end in the range and are prepared in an earlier range, with their tables and
    statements."""
    names: NameRules = DEFAULT_NAMES
    """How the server that wrote the newest file compares schema and table names, if a filter needs it."""


def amount_of(ranges: Sequence[Range], slice_size: int | None = None) -> Amount:
    """Return the amount of work of a pass over these ranges, for a progress bar.

    A Spark task reads about ``slice_size`` bytes, because the start of a Spark task has a fixed cost. None: each range
    or group of ranges has a Spark task of its own.
    """
    nbytes = sum(one.end - one.start for one in ranges)
    slices = None if slice_size is None else max(1, min(len(ranges), -(-nbytes // slice_size)))
    return Amount("parts", nbytes, slices)


MOST_GROUPS = 512
"""The limit of the groups of ranges. The driver must receive and hold the result of each group's task."""

_LARGEST_GROUP = 8
"""The size of a large group, as a number of ranges of full size. A task of this size takes less than a second."""

_TASKS_AHEAD = 2
"""The minimum number of tasks for each core into which the rest of the ranges could be divided when a group is made.

With 2, all cores end at about the same time, even if one core is half as fast as the others.
"""


def grouped(ranges: Sequence[Range], range_size: int, cores: int | None = None) -> list[tuple[Range, ...]]:
    """Join consecutive ranges into groups, one for each task. Short files give short ranges, and many small tasks cost
    too much.

    A group has about ``range_size`` bytes, or more if there would be too many groups. With ``cores``, the number of
    tasks that run at the same time, the first groups are larger. The groups become smaller towards the end, so that no
    core waits long for the last task.
    """
    left = sum(one.end - one.start for one in ranges)
    least = max(range_size, -(-left // MOST_GROUPS))
    size = filled = least
    found: list[list[Range]] = []
    for one in ranges:
        if filled >= size:
            found.append([])
            filled = 0
            if cores is not None:
                size = max(least, min(left // (_TASKS_AHEAD * cores), _LARGEST_GROUP * range_size))
        found[-1].append(one)
        filled += one.end - one.start
        left -= one.end - one.start
    return [tuple(group) for group in found]


@dataclass(frozen=True)
class Block:
    """The part of a range that a task reads at a time: the scanned events, and their bytes in the file.

    ``data`` has the bytes of the file from offset ``segment.start`` on, uint8. It is valid until the next block is
    read, which uses the same memory.
    """

    segment: Segment
    data: npt.NDArray[np.uint8]


def prepared_of(held: HeldByXid, subjects: Subjects) -> Prepared:
    """Return prepared XA transactions in the form that the scan of events needs.

    In this form numbers stand for the tables and statements of a transaction. ``subjects`` gives each table and
    statement its number.
    """
    return {
        xid: ALWAYS if what is None else subjects.any_of(subjects.number_of(one) for one in what)
        for xid, what in held.items()
    }


def held_of(prepared: Prepared, subjects: Subjects) -> HeldByXid:
    """Return prepared XA transactions in a form that another process understands.

    In this form the tables and statements of a transaction are written out. ``subjects`` tells which table or
    statement each number of this process stands for.
    """

    def held(number: int) -> Held:
        members = subjects.members(number)
        return tuple(subjects[k] for k in ((number,) if members is None else members))

    return {xid: None if number == ALWAYS else held(number) for xid, number in prepared.items()}


def blocks_of(
    file: BinlogFile,
    wanted: Range,
    subjects: Subjects,
    sources: SourceNumbers,
    *,
    verify: bool = True,
    block_size: int = BLOCK_SIZE,
    statements: bool = True,
    payloads: bool = True,
) -> Iterator[Block]:
    """Read a range block by block, and yield each block with its scanned events.

    Parameters:
        file: the open binlog file.
        wanted: the range to read. It may begin before the first event after the format description event.
        subjects: the numbers of tables and statements; the scan adds new ones.
        sources: the numbers of GTID sources (server UUIDs or domains); the scan adds new ones.
        verify: whether the events' checksums are checked.
        block_size: the number of bytes to read at a time. A block with a larger event is larger.
        statements: whether statements are parsed. If not, a statement's subject is the constant PENDING, and
            compressed transactions are not decompressed.
        payloads: whether compressed transactions are decompressed. If not, XA COMMIT is not matched with the prepared
            transactions of earlier ranges.

    Raises BinlogError with file and position.
    """
    scanner = FileScanner(
        file.name,
        file.format_description,
        subjects,
        sources,
        verify=verify,
        statements=statements,
        prepared=prepared_of(dict(wanted.prepared), subjects) if statements and payloads else None,
    )
    with memory(max(HEADER_LENGTH, min(block_size, wanted.end - wanted.start))) as buffer:
        yield from _blocks(file, wanted, scanner, buffer)


def _blocks(
    file: BinlogFile, wanted: Range, scanner: FileScanner, buffer: npt.NDArray[np.uint8]
) -> Iterator[Block]:
    position = max(wanted.start, file.first_event)
    while position < wanted.end:
        length = min(buffer.size, wanted.end - position)
        data = buffer[:length]
        file.read_whole(data, position)
        segment = scanner.scan(data, position)
        if segment is None:
            # The scan found no complete event, so the next event is larger than the buffer, which must grow.
            needed = EventHeader.unpack(data.tobytes()).size if length >= HEADER_LENGTH else HEADER_LENGTH
            if position + needed > wanted.end or needed <= length:
                raise BinlogCorrupt(f"an event's length is {needed}", file=file.name, position=position)
            buffer = np.empty(needed, np.uint8)
            continue
        yield Block(segment, data)
        step(segment.end - position)
        position = segment.end


_free: list[npt.NDArray[np.uint8]] = []
"""Memory buffers that are not in use and wait for the next block. Fresh memory from the kernel would cost a page fault
for each page, which takes as long as the scan of the block."""

_MOST_FREE = 2 * max(2, len(os.sched_getaffinity(0)))
"""The limit of the unused memory buffers that the process keeps for later blocks. A task uses at most two, and the
local engine runs a task on each processor.
"""


@contextmanager
def memory(size: int) -> Iterator[npt.NDArray[np.uint8]]:
    """Lend a uint8 buffer of ``size`` bytes for the duration of a ``with`` block, and keep its memory for later calls.

    The buffer has arbitrary content at the beginning.
    """
    try:
        buffer: npt.NDArray[np.uint8] = _free.pop()
    except IndexError:  # Another thread may take the last buffer at any moment.
        buffer = np.empty(size, np.uint8)
    if buffer.size < size:
        buffer = np.empty(size, np.uint8)
    try:
        # A caller reads blocks of the buffer's size, which must not depend on the buffers that earlier calls left.
        yield buffer[:size]
    finally:
        if len(_free) < _MOST_FREE:
            _free.append(buffer)
