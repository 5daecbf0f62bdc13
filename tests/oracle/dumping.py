"""The dump thread run over recordings, in process."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field
from functools import lru_cache
from io import BytesIO
from pathlib import Path
from typing import NamedTuple

from dumpfilter.binlog.events import MAGIC
from dumpfilter.binlog.format import FormatDescription
from dumpfilter.binlog.gtid import GtidSet, empty_set
from dumpfilter.binlog.gtid_sources import SourceNumbers
from dumpfilter.binlog.reader import Event, iter_events
from dumpfilter.dump.chunk import Counts, render
from dumpfilter.dump.thread import DumpThread
from dumpfilter.filter.filter import Filter
from dumpfilter.filter.flags import TableFlags
from dumpfilter.index.fileset import BinlogSet, SegmentReader
from dumpfilter.index.segment import NONE_PREPARED, Segment
from dumpfilter.index.subjects import Subjects


@dataclass
class Stream:
    """The filtered stream of a whole binlog set, as a slave would get it."""

    files: dict[str, bytes] = field(default_factory=dict)
    """A readable binlog with the events sent, by the name of its source file."""
    completed: GtidSet | None = None
    empty: GtidSet | None = None
    counts: Counts = field(default_factory=Counts)
    position: tuple[str, int] = ("", 0)

    def write(self, directory: Path) -> list[Path]:
        """Write each binlog into the directory and return the paths."""
        directory.mkdir(parents=True, exist_ok=True)
        paths = []
        for name, data in self.files.items():
            (directory / name).write_bytes(data)
            paths.append(directory / name)
        return paths

    def events(self) -> Iterator[tuple[str, Iterator[Event]]]:
        """Yield each binlog's name and events."""
        for name, data in self.files.items():
            yield name, iter_events(BytesIO(data), file=name)


class _ScannedFile(NamedTuple):
    name: str
    data: bytes
    format_description: FormatDescription
    first_event: int
    segments: list[Segment]

    def read(self, offset: int, length: int) -> bytes:
        return self.data[offset : offset + length]


class _Scan(NamedTuple):
    """A scanned binlog set. Its dumps share the segments, as the dumps of a master do."""

    subjects: Subjects
    sources: SourceNumbers
    files: list[_ScannedFile]


def dump(files: list[Path], rule_filter: Filter, *, chunk_size: int = 1 << 18) -> Stream:
    """Return the filtered stream of a binlog set."""
    states = [(path, path.stat()) for path in files]
    scan = _scan(tuple((path, state.st_size, state.st_mtime_ns) for path, state in states))
    thread = DumpThread(TableFlags(rule_filter, scan.subjects), scan.sources, chunk_size=chunk_size)
    family = scan.files[0].format_description.family
    out = Stream(completed=empty_set(family), empty=empty_set(family))
    assert out.completed is not None
    assert out.empty is not None
    for file in scan.files:
        pieces = [MAGIC, file.format_description.raw]
        thread.start_file(file.first_event, file.read)
        for segment in file.segments:
            for plan in thread.plan(segment):
                pieces.append(render(plan, file.data, 0, file.read, file.format_description))
                out.counts.add(plan.counts)
                out.position = (file.name, plan.resume)
                for runs, gtids in ((plan.completed, out.completed), (plan.gaps.runs, out.empty)):
                    for source, first, last in runs:
                        gtids.add_range(scan.sources.key(source), first, last)
        out.files[file.name] = b"".join(pieces)
    return out


@lru_cache(maxsize=4)
def _scan(files: tuple[tuple[Path, int, int], ...]) -> _Scan:
    """Scan a binlog set. The key holds each file's size and time, since some tests let a file grow."""
    scan = _Scan(Subjects(), SourceNumbers(), [])
    prepared = NONE_PREPARED
    binlogs = BinlogSet.open([path for path, _, _ in files])
    for name in binlogs.names:
        with binlogs.file(name) as file:
            data = file.read(0, file.size)
            reader = SegmentReader(file, scan.subjects, scan.sources, prepared=prepared)
            segments = []
            while (segment := reader.next()) is not None:
                segments.append(segment)
            prepared = reader.prepared
            reader.check_end(last=name == binlogs.names[-1])
            scan.files.append(_ScannedFile(name, data, file.format_description, file.first_event, segments))
    return scan
