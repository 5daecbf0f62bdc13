"""Ranges: the parts of a binlog set that tasks work on, and how a task reads one.

A range is whole transactions of one file. What a scan has to know at its beginning besides (the XA transactions that
are prepared there) comes with it, so that ranges can be read in any order, by anybody.
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
"""Bytes scanned at a time. Larger than the dump thread's segments, since here each output in a block costs a fixed
amount; small enough that the C library gives the same memory again (from 32 MiB on it asks the kernel each time)."""

Held = tuple[Subject, ...] | None
"""What a prepared XA transaction holds: its subjects; None when some of it is sent whatever a filter says."""

HeldByXid = Mapping[Xid, Held]

NONE_HELD: HeldByXid = MappingProxyType({})


@dataclass(frozen=True)
class Range:
    """Bytes ``start`` to ``end`` of the file ``file`` (its number in the set). ``number`` counts through the set."""

    number: int
    file: int
    start: int
    end: int
    prepared: tuple[tuple[Xid, Held], ...] = ()
    """The XA transactions that are prepared where it begins and end in it."""


@dataclass(frozen=True)
class Block:
    """A segment with its bytes: uint8, from ``segment.start`` on, valid until the next block is asked for."""

    segment: Segment
    data: npt.NDArray[np.uint8]


def prepared_of(held: HeldByXid, subjects: Subjects) -> Prepared:
    """As a scan with these subjects has it."""
    return {
        xid: ALWAYS if what is None else subjects.any_of(subjects.number_of(one) for one in what)
        for xid, what in held.items()
    }


def held_of(prepared: Prepared, subjects: Subjects) -> HeldByXid:
    """The reverse of :func:`prepared_of`."""

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
    """The blocks of a range. Raises BinlogError with file and position.

    Without ``statements`` subjects of statements stay PENDING and compressed transactions closed; without ``payloads``
    only the latter, and XA transactions are not followed.
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
            # an event larger than the buffer
            needed = EventHeader.unpack(data.tobytes()).size if length >= HEADER_LENGTH else HEADER_LENGTH
            if position + needed > wanted.end or needed <= length:
                raise BinlogCorrupt(f"an event's length is {needed}", file=file.name, position=position)
            buffer = np.empty(needed, np.uint8)
            continue
        yield Block(segment, data)
        position = segment.end


_free: list[npt.NDArray[np.uint8]] = []
"""Memory that nobody uses. Fresh memory is handed out by the kernel a page at a time, which costs as much as the work
that is done in it."""

_MOST_FREE = 4
"""Pieces of memory that are kept."""


@contextmanager
def memory(size: int) -> Iterator[npt.NDArray[np.uint8]]:
    """Some memory, uint8, of at least ``size`` bytes, whatever is in it."""
    buffer: npt.NDArray[np.uint8] = _free.pop() if _free else np.empty(size, np.uint8)
    if buffer.size < size:
        buffer = np.empty(size, np.uint8)
    try:
        yield buffer
    finally:
        if len(_free) < _MOST_FREE:
            _free.append(buffer)
