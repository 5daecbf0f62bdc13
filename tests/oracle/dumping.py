"""The dump thread run over recordings, in process."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from dumpfilter.binlog.events import MAGIC
from dumpfilter.binlog.gtid import GtidSet
from dumpfilter.binlog.gtid_sources import SourceNumbers, add_run, empty_set
from dumpfilter.dump import Counts, DumpThread, render
from dumpfilter.filter import Filter
from dumpfilter.filter.flags import TableFlags
from dumpfilter.index.fileset import BinlogSet, SegmentReader
from dumpfilter.index.subjects import Subjects
from dumpfilter.index.xa import NONE_PREPARED


@dataclass
class Stream:
    """What a slave would get of a whole set."""

    files: dict[str, bytes] = field(default_factory=dict)
    """By source file: a readable binlog with the events sent."""
    completed: GtidSet | None = None
    empty: GtidSet | None = None
    counts: Counts = field(default_factory=Counts)
    position: tuple[str, int] = ("", 0)

    def write(self, directory: Path) -> list[Path]:
        """The files as files."""
        directory.mkdir(parents=True, exist_ok=True)
        paths = []
        for name, data in self.files.items():
            (directory / name).write_bytes(data)
            paths.append(directory / name)
        return paths


def dump(files: list[Path], rule_filter: Filter, *, chunk_size: int = 1 << 18) -> Stream:
    """The filtered stream of a set of binlogs."""
    subjects, sources = Subjects(), SourceNumbers()
    prepared = NONE_PREPARED
    thread = DumpThread(TableFlags(rule_filter, subjects), sources, chunk_size=chunk_size)
    out = Stream()
    binlogs = BinlogSet.open(files)
    for name in binlogs.names:
        with binlogs.file(name) as file:
            fd = file.format_description
            if out.completed is None:
                out.completed, out.empty = empty_set(fd.family), empty_set(fd.family)
            pieces = [MAGIC, fd.raw]
            thread.start_file(file.first_event, file.read)
            reader = SegmentReader(file, subjects, sources, prepared=prepared)
            while (segment := reader.next()) is not None:
                for plan in thread.plan(segment):
                    pieces.append(render(plan, memoryview(reader.data), reader.data_offset, file.read, fd))
                    out.counts.add(plan.counts)
                    out.position = (name, plan.resume)
                    for runs, gtids in ((plan.completed, out.completed), (plan.empty, out.empty)):
                        for source, first, last in runs:
                            add_run(gtids, sources.key(source, fd.family), first, last)
            prepared = reader.prepared
            reader.check_end(last=name == binlogs.names[-1])
            out.files[name] = b"".join(pieces)
    return out
