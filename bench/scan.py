"""The speed of the scan into columns, beside memcpy and plain header walks."""

from __future__ import annotations

from functools import partial

import numpy as np
import numpy.typing as npt

from bench._common import Cases, Options, Report, binlogs
from dumpfilter.binlog.gtid_sources import SourceNumbers
from dumpfilter.binlog.whole_events import UNLIMITED, whole_events
from dumpfilter.binlog.workload import GeneratedSet
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


def run(report: Report, options: Options) -> None:
    made = binlogs(options.size)
    pieces = [np.fromfile(path, np.uint8) for path in made.files]
    source = np.concatenate(pieces)
    target = np.zeros_like(source)
    python = [piece.tobytes() for piece in pieces]
    events = scan(made, verify=True)
    report.nbytes = made.bytes
    report.row("events", events, f"{{:,}} of {made.bytes / events:.0f} bytes on average")
    cases: Cases = {
        "memcpy, target in memory": partial(np.copyto, target, source),
        "read from the page cache": partial(read, made),
        "header walk, compiled": partial(walk, pieces),
        "header walk, Python": lambda: [walk_python(p) for p in python],
        "scan": partial(scan, made, verify=False),
        "scan with checksums": partial(scan, made, verify=True),
    }
    m = report.measure(cases)
    copy, scanned = m["memcpy, target in memory"], m["scan"]
    report.target("scan / memcpy", copy / scanned, 0.8)
    report.target("scan with checksums / memcpy", copy / m["scan with checksums"], 0.5)
    read_only = m["read from the page cache"]
    report.row("scan / read", scanned / read_only, "{:.2f} times as long as only reading")
