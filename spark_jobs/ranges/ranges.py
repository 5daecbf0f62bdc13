"""Ranges, the parts of a binlog set that tasks work on, and the reading of a range.

A range is whole transactions of one file. It carries the XA transactions that are prepared before it and end in it.
Therefore tasks can read the ranges in any order, in any process.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from types import MappingProxyType

import numpy as np
import numpy.typing as npt

from dumpfilter.binlog.events import HEADER_LENGTH, EventHeader
from dumpfilter.binlog.gtid_events import Xid
from dumpfilter.binlog.gtid_sources import SourceNumbers
from dumpfilter.errors import BinlogCorrupt, BinlogTruncated
from dumpfilter.index.fileset import BinlogFile
from dumpfilter.index.scanner import FileScanner
from dumpfilter.index.segment import Segment
from dumpfilter.index.subjects import Subject, Subjects
from dumpfilter.index.xa import ALWAYS, Prepared

BLOCK_SIZE = 16 << 20
"""Bytes that a task scans at a time.

A block is larger than the dump thread's segments, since each output in a block has a fixed cost. From 32 MiB on,
malloc would ask the kernel for new memory each time, instead of using freed memory again.
"""

Held = tuple[Subject, ...] | None
"""The subjects of a prepared XA transaction. None: the master sends some of its events under every filter."""

HeldByXid = Mapping[Xid, Held]

NONE_HELD: HeldByXid = MappingProxyType({})


@dataclass(frozen=True)
class Range:
    """The bytes ``start`` to ``end`` of a file. ``file`` is the file's number in the set; ``number`` counts the set's
    ranges."""

    number: int
    file: int
    start: int
    end: int
    prepared: tuple[tuple[Xid, Held], ...] = ()
    """The XA transactions that are prepared before the range and end in it."""


@dataclass(frozen=True)
class Block:
    """A segment with its bytes (uint8, from ``segment.start`` on). The bytes are valid until the next block is read."""

    segment: Segment
    data: npt.NDArray[np.uint8]


def prepared_of(held: HeldByXid, subjects: Subjects) -> Prepared:
    """Return prepared XA transactions in the form that a scan uses, with numbers of subjects instead of subjects."""
    return {
        xid: ALWAYS if what is None else subjects.any_of(subjects.number_of(one) for one in what)
        for xid, what in held.items()
    }


def held_of(prepared: Prepared, subjects: Subjects) -> HeldByXid:
    """Return the subjects of prepared transactions, the reverse of :func:`prepared_of`."""

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
    """Yield the blocks of a range. Raises BinlogError with file and position.

    Without ``statements`` the scan parses no statement, so the subjects of statements stay PENDING, and compressed
    transactions stay closed. Without ``payloads`` compressed transactions stay closed, and XA transactions are not
    followed.
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
    position = wanted.start
    while position < wanted.end:
        length = min(buffer.size, wanted.end - position)
        data = buffer[:length]
        if file.read_into(data, position) < length:
            raise BinlogTruncated("the file got shorter while it was read", file=file.name, position=position)
        segment = scanner.scan(data, position)
        if segment is None:
            # The scan found no whole event, so the first event is larger than the buffer.
            needed = EventHeader.unpack(data.tobytes()).size if length >= HEADER_LENGTH else HEADER_LENGTH
            if position + needed > wanted.end or needed <= length:
                raise BinlogCorrupt(f"an event's length is {needed}", file=file.name, position=position)
            buffer = np.empty(needed, np.uint8)
            continue
        yield Block(segment, data)
        position = segment.end


_free: list[npt.NDArray[np.uint8]] = []
"""Buffers for the next blocks. The kernel hands out fresh memory a page at a time, which costs as much as the work in
it."""

_MOST_FREE = 4
"""The largest number of buffers that are kept."""


@contextmanager
def memory(size: int) -> Iterator[npt.NDArray[np.uint8]]:
    """Yield an uninitialized uint8 buffer of at least ``size`` bytes, and keep it for later calls."""
    buffer: npt.NDArray[np.uint8] = _free.pop() if _free else np.empty(size, np.uint8)
    if buffer.size < size:
        buffer = np.empty(size, np.uint8)
    try:
        yield buffer
    finally:
        if len(_free) < _MOST_FREE:
            _free.append(buffer)
