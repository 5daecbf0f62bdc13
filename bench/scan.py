"""The speed of the scan into columns, beside memcpy and plain header walks; the speed of two CRC32 libraries.

The scan checks a segment with ISA-L (``dumpfilter/binlog/crc32.py``), which is faster than zlib.
"""

from __future__ import annotations

import zlib
from collections.abc import Callable
from functools import partial

import numpy as np
import numpy.typing as npt
from isal import isal_zlib

from bench._common import Options, Report, binlogs
from dumpfilter.binlog.gtid_sources import SourceNumbers
from dumpfilter.binlog.whole_events import UNLIMITED, whole_events
from dumpfilter.binlog.workload.generate import GeneratedSet
from dumpfilter.index.fileset import BinlogFile, BinlogSet
from dumpfilter.index.scanner import SEGMENT_SIZE
from dumpfilter.index.subjects import Subjects


def scan(made: GeneratedSet, *, verify: bool) -> int:
    """Scan the whole set, from the page cache into segments; return the number of events."""
    events = 0
    for _, segment in BinlogSet.open(made.index).segments(Subjects(), SourceNumbers(), verify=verify):
        events += len(segment.offset)
    return events


def read(made: GeneratedSet) -> None:
    """Read the whole set into one buffer of a segment's size."""
    buffer = np.empty(SEGMENT_SIZE, np.uint8)
    for path in made.files:
        with BinlogFile(path) as file:
            at = 0
            while got := file.read_into(buffer, at):
                at += got


def walk(pieces: list[npt.NDArray[np.uint8]]) -> int:
    """Walk from header to header in compiled code, with the bytes in memory; return the number of bytes."""
    return sum(int(whole_events(piece, 4, 19, UNLIMITED)) for piece in pieces)


def walk_python(piece: bytes) -> int:
    """Walk from header to header in plain Python; return the number of events."""
    at, events, size = 4, 0, len(piece)
    from_bytes = int.from_bytes
    while at + 19 <= size:
        at += from_bytes(piece[at + 9 : at + 13], "little")
        events += 1
    return events


def checksum(blocks: int, block: memoryview, crc: Callable[[memoryview], int]) -> None:
    """Checksum a block of a segment's size again and again: the scan, too, finds the bytes in the CPU's cache."""
    for _ in range(blocks):
        crc(block)


def run(options: Options) -> bool:
    made = binlogs(options.size)
    pieces = [np.fromfile(path, np.uint8) for path in made.files]
    source = np.concatenate(pieces)
    target = np.zeros_like(source)
    python = [piece.tobytes() for piece in pieces]
    events = scan(made, verify=True)
    report = Report("scan", "the scan keeps up with memory", made.bytes)
    report.row("events", events, f"{{:,}} of {made.bytes / events:.0f} bytes on average")
    block = memoryview(source[:SEGMENT_SIZE])
    blocks = source.size // len(block)
    m = report.measure(
        {
            "CRC32 of blocks, zlib": partial(checksum, blocks, block, zlib.crc32),
            "CRC32 of blocks, isal": partial(checksum, blocks, block, isal_zlib.crc32),
            "memcpy, target in memory": partial(np.copyto, target, source),
            "memcpy, target fresh": source.copy,
            "read from the page cache": partial(read, made),
            "header walk, compiled": partial(walk, pieces),
            "header walk, Python": lambda: [walk_python(p) for p in python],
            "scan": partial(scan, made, verify=False),
            "scan with checksums": partial(scan, made, verify=True),
        },
        options.runs,
    )
    report.ratio("scan / memcpy", "memcpy, target in memory", "scan", 0.8)
    report.ratio("scan with checksums / memcpy", "memcpy, target in memory", "scan with checksums", 0.5)
    times = m["scan"] / m["read from the page cache"]
    report.row("scan / read", times, "{:.2f} times as long as only reading")
    report.note(
        "a fresh target's pages have to be made first, which is slow on some machines; the targets compare with a "
        "target in memory"
    )
    return report.print()
