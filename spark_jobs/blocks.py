"""Reading a range of a binlog as scanned blocks; compressed transactions come out as plain events.

This is the only module that opens source files (:func:`open_source`): another file system comes in there.
"""

from __future__ import annotations

import bisect
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from dumpfilter.binlog.compression import decode_transaction_payload, events_inside
from dumpfilter.binlog.events import HEADER_LENGTH, EventHeader, EventType
from dumpfilter.binlog.fileset import BinlogFile
from dumpfilter.binlog.format import FormatDescription
from dumpfilter.binlog.index import FileScanner, Segment
from dumpfilter.binlog.sources import SourceNumbers
from dumpfilter.binlog.subjects import Subjects
from dumpfilter.errors import BinlogCorrupt, BinlogTruncated

BLOCK_SIZE = 8 << 20
"""Bytes scanned at a time. Larger than the dump thread's segments, since here each schema in a segment costs a
fixed amount; small beside an executor's memory."""


def open_source(path: str) -> BinlogFile:
    """Open a file of the set, by the path the driver gave it."""
    return BinlogFile(Path(path))


@dataclass(frozen=True)
class Block:
    """A segment with its bytes.

    Offsets in the segment are the file's or, where compressed transactions were opened, of the file as it
    would be without compression; ``origin`` gives the file's own (None inside what was compressed).
    """

    segment: Segment
    data: memoryview
    """From ``segment.start`` on."""
    read: Callable[[int, int], bytes]
    """``read(offset, length)`` of what stood in an earlier block of the same transaction."""
    origin: Callable[[int], int | None]


@dataclass(frozen=True)
class BlockOptions:
    """How to read: ``verify`` checksums, look up ``statements``, ``size`` of a block in bytes."""

    verify: bool = True
    statements: bool = True
    size: int = BLOCK_SIZE


def plain_blocks(
    file: BinlogFile, start: int, end: int, subjects: Subjects, sources: SourceNumbers, options: BlockOptions
) -> Iterator[Block]:
    """The blocks of a range, which begins and ends at transaction boundaries.

    ``data`` is valid until the next block. Raises BinlogError with file and position.
    """
    scanner = FileScanner(
        file.name,
        file.format_description,
        subjects,
        sources,
        verify=options.verify,
        statements=options.statements,
    )
    buffer: npt.NDArray[np.uint8] = np.empty(max(HEADER_LENGTH, min(options.size, end - start)), np.uint8)
    position = start
    while position < end:
        length = min(buffer.size, end - position)
        got = file.read_into(buffer[:length], position)
        if got < length:
            raise BinlogTruncated("the file got shorter while it was read", file=file.name, position=position)
        data = buffer[:length]
        segment = scanner.scan(data, position)
        if segment is None:
            # an event larger than the buffer
            size = EventHeader.unpack(data.tobytes()).size if length >= HEADER_LENGTH else HEADER_LENGTH
            if position + size > end or size <= length:
                raise BinlogCorrupt(f"an event's length is {size}", file=file.name, position=position)
            buffer = np.empty(size, np.uint8)
            continue
        yield Block(segment, data.data, file.read, _same)
        position = segment.end


def opened_blocks(
    file: BinlogFile, start: int, end: int, subjects: Subjects, sources: SourceNumbers, options: BlockOptions
) -> Iterator[Block]:
    """Like :func:`plain_blocks`, with each Transaction_payload event replaced by the events in it.

    They get room for a checksum where the file has checksums, but not its value: who writes them elsewhere has
    to make it anyway.
    """
    outer = BlockOptions(options.verify, False, options.size)
    opened = _Opened(file, start, subjects, sources, options)
    for block in plain_blocks(file, start, end, subjects, sources, outer):
        segment = block.segment
        at = segment.start
        for i in np.flatnonzero(segment.type == EventType.TRANSACTION_PAYLOAD).tolist():
            offset, size = int(segment.offset[i]), int(segment.size[i])
            opened.add_plain(block.data[at - segment.start : offset - segment.start], at)
            event = block.data[offset - segment.start : offset - segment.start + size]
            opened.add_inner(open_payload(event, file.format_description, file.name, offset))
            at = offset + size
            if opened.waiting >= options.size:
                yield from opened.blocks(offset)
        opened.add_plain(block.data[at - segment.start : segment.end - segment.start], at)
        yield from opened.blocks(segment.start)


def open_payload(event: memoryview, fd: FormatDescription, file: str, position: int) -> bytearray:
    """The events in a Transaction_payload event, as they would stand in the file themselves (their checksums'
    bytes 0). Raises BinlogCorrupt."""
    room = bytes(fd.checksum_length)
    out = bytearray()
    try:
        for header, inner in events_inside(decode_transaction_payload(fd.body(event)).open()):
            begin = len(out)
            out += inner + room
            out[begin + 9 : begin + 13] = (header.size + len(room)).to_bytes(4, "little")
    except BinlogCorrupt as error:
        raise error.located(file, position) from None
    return out


class _Opened:
    """Collects events without compression and scans them."""

    def __init__(
        self, file: BinlogFile, start: int, subjects: Subjects, sources: SourceNumbers, options: BlockOptions
    ) -> None:
        self._file = file
        # what was read from the file has been verified, what was compressed has no checksums
        self._scanner = FileScanner(
            file.name,
            file.format_description,
            subjects,
            sources,
            verify=False,
            statements=options.statements,
        )
        self._next = start
        self._buffer = bytearray()
        self._data = memoryview(b"")
        self._data_offset = start
        self._runs: list[tuple[int, int, int]] = []
        """What stands in the file as it is: offset here, offset in the file, length."""

    @property
    def waiting(self) -> int:
        return len(self._buffer)

    def add_plain(self, data: memoryview, offset: int) -> None:
        if len(data):
            self._runs.append((self._next + len(self._buffer), offset, len(data)))
            self._buffer += data

    def add_inner(self, data: bytearray) -> None:
        self._buffer += data

    def blocks(self, position: int) -> Iterator[Block]:
        """Blocks of all that was added; ``position`` is what an error names."""
        data = np.frombuffer(bytes(self._buffer), np.uint8)
        self._buffer = bytearray()
        at = 0
        while at < data.size:
            rest = np.ascontiguousarray(data[at:])
            try:
                segment = self._scanner.scan(rest, self._next)
            except BinlogCorrupt as error:
                raise BinlogCorrupt(error.what, file=self._file.name, position=position) from None
            if segment is None:
                raise BinlogCorrupt(
                    "compressed transaction: it ends inside an event", file=self._file.name, position=position
                )
            self._data, self._data_offset = rest.data, segment.start
            yield Block(segment, rest.data, self._read, self._origin)
            at += segment.end - segment.start
            self._next = segment.end
        if not self._scanner.in_transaction:
            self._runs.clear()

    def _origin(self, offset: int) -> int | None:
        k = bisect.bisect_right(self._runs, offset, key=lambda run: run[0]) - 1
        if k < 0 or offset >= self._runs[k][0] + self._runs[k][2]:
            return None
        return self._runs[k][1] + offset - self._runs[k][0]

    def _read(self, offset: int, length: int) -> bytes:
        # A transaction's first events and rows put aside are asked for, and with them what follows on. A
        # compressed transaction ends in the block it begins in, but for its GTID: what came before this block
        # stands in the file.
        before = max(0, min(length, self._data_offset - offset))
        out = b""
        while len(out) < before:
            k = bisect.bisect_right(self._runs, offset + len(out), key=lambda run: run[0]) - 1
            start, origin, size = self._runs[k]
            skip = offset + len(out) - start
            out += self._file.read(origin + skip, min(size - skip, before - len(out)))
        at = offset + before - self._data_offset
        return out + bytes(self._data[at : at + length - before])


def _same(offset: int) -> int:
    return offset
