"""Ranges (the parts of a binlog set that tasks read), and the reading of a range in blocks.

A range is a sequence of complete transactions in one file. It also records the XA transactions that end in it but
were prepared in an earlier range. A task therefore needs no other range, and tasks can run in any order on any
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
"""The number of bytes that a task reads and scans at a time: 16 MiB.

This is more than the 4 MiB that a dump thread scans at a time. A split has a fixed cost per block for each output
(binlog set that it writes), so larger blocks cost less. From 32 MiB on, malloc would request new memory from the
kernel each time.
"""

Held = tuple[Subject, ...] | None
"""The tables and statements of a prepared XA transaction.

With them a filter decides whether a slave needs the XA COMMIT or XA ROLLBACK. None means that some event of the
transaction is sent to every slave, so every slave needs the end, too.
"""

HeldByXid = Mapping[Xid, Held]
"""The tables and statements of prepared XA transactions, by XID."""

NONE_HELD: HeldByXid = MappingProxyType({})
"""A read-only empty mapping, for a range without prepared XA transactions."""


@dataclass(frozen=True)
class Range:
    """A sequence of complete transactions in one binlog file, which one task reads.

    It is the bytes from ``start`` to ``end`` of the file ``path`` (a path or URI). ``file`` is the index of the file
    in the binlog set, and ``number`` the index of the range in the set.
    """

    path: str
    start: int
    end: int
    number: int = 0
    file: int = 0
    prepared: tuple[tuple[Xid, Held], ...] = ()
    """The XA transactions that end in the range but were prepared in an earlier one, with their tables and
    statements.
    """
    names: NameRules = DEFAULT_NAMES
    """The settings with which the server that wrote the newest file compares names of schemas and tables, for
    filters.
    """


def amount_of(ranges: Sequence[Range], slice_size: int | None = None) -> Amount:
    """Return the total size of ``ranges`` (parts of binlog files), for a progress bar and for the division into Spark
    tasks.

    ``slice_size`` is the approximate number of bytes for one Spark task, because starting a task takes time. None: each
    of the job's tasks becomes one Spark task.
    """
    nbytes = sum(one.end - one.start for one in ranges)
    slices = None if slice_size is None else max(1, min(len(ranges), -(-nbytes // slice_size)))
    return Amount("parts", nbytes, slices)


MOST_GROUPS = 512
"""The maximum number of groups of ranges. The driver must receive and hold one result per group."""

_LARGEST_GROUP = 8
"""The size of the largest group, in ranges of full size. A task of this size takes less than a second."""

_TASKS_AHEAD = 2
"""The minimum number of tasks per core into which the remaining ranges could still be divided when a group is made.

With 2, all cores finish at about the same time even if one core is half as fast as the others.
"""


def grouped(ranges: Sequence[Range], range_size: int, cores: int | None = None) -> list[tuple[Range, ...]]:
    """Join consecutive ranges (parts of binlog files) into groups, one for each task. Short files have short ranges,
    and many small tasks cost too much.

    A group has about ``range_size`` bytes, or more to keep the number of groups at most :data:`MOST_GROUPS`. ``cores``
    is the number of tasks that run in parallel. If it is given, groups begin large and become smaller, so that no core
    waits long for the last task.
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
    """The bytes of a range (part of a binlog file) that a task reads at a time, and the events that were scanned from
    them.

    ``data`` is a uint8 array of the file's bytes from offset ``segment.start`` on. It is valid only until the next
    block is read, which reuses the memory.
    """

    segment: Segment
    data: npt.NDArray[np.uint8]


def prepared_of(held: HeldByXid, subjects: Subjects) -> Prepared:
    """Return for each prepared XA transaction, by its XID, the number by which the scan of events refers to its tables
    and statements.

    ``held`` has the tables and statements of each transaction by XID. ``subjects`` assigns the numbers, which are valid
    in this process only.
    """
    return {
        xid: ALWAYS if what is None else subjects.any_of(subjects.number_of(one) for one in what)
        for xid, what in held.items()
    }


def held_of(prepared: Prepared, subjects: Subjects) -> HeldByXid:
    """Return prepared XA transactions in a form for other processes: the tables and statements of each transaction, by
    XID.

    ``prepared`` has numbers for tables and statements instead, which are valid in this process only. ``subjects``
    translates them.
    """
    return {
        xid: None if number == ALWAYS else tuple(subjects[k] for k in subjects.single(number))
        for xid, number in prepared.items()
    }


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
    """Read a range (part of a binlog file) block by block, and yield each block of bytes with the events scanned from
    it.

    Parameters:
        file: the open binlog file.
        wanted: the range to read. It may begin before the first event after the format description event.
        subjects: the register that numbers tables and statements. The scan adds new ones.
        sources: the register that numbers server UUIDs and domains of GTIDs. The scan adds new ones.
        verify: whether the events' checksums are verified.
        block_size: the number of bytes to read at a time. A block with a larger event is larger.
        statements: whether statements are parsed. If not, a statement's number is the constant PENDING, and compressed
            transactions are not decompressed.
        payloads: whether compressed transactions are decompressed. If not, XA COMMIT is not matched with transactions
            that were prepared in earlier ranges.

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
    position = max(wanted.start, file.first_event)
    with memory(max(HEADER_LENGTH, min(block_size, wanted.end - wanted.start))) as buffer:
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
"""Free buffers, which are reused for later blocks. New memory from the kernel would cost a page fault per page,
which takes as long as the scan.
"""

_MOST_FREE = 2 * max(2, len(os.sched_getaffinity(0)))
"""The maximum number of free buffers that the process keeps. A task uses at most two buffers, and the local engine
runs one task per processor.
"""


@contextmanager
def memory(size: int) -> Iterator[npt.NDArray[np.uint8]]:
    """Provide a uint8 buffer of ``size`` bytes for the body of a ``with`` statement. The memory is kept for later
    calls, because new memory from the kernel is slow.

    The buffer's initial content is arbitrary.
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
