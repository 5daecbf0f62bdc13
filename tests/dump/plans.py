"""Plans of chunks as plain values, which tests compare, and scanned binlogs, which several dump threads share."""

from __future__ import annotations

from dataclasses import astuple, dataclass, field
from functools import lru_cache

from dumpfilter.binlog.gtid import GtidSet
from dumpfilter.binlog.gtid_sources import SourceNumbers
from dumpfilter.dump import ChunkPlan, DumpThread
from dumpfilter.filter.flags import TableFlags
from dumpfilter.filter.origin import OriginFilter
from dumpfilter.index.fileset import SegmentReader
from dumpfilter.index.segment import Segment
from dumpfilter.index.subjects import Subjects
from tests.support import MemoryFile


@dataclass(eq=False)
class ScannedFile:
    """One binlog file and its segments."""

    file: MemoryFile
    subjects: Subjects
    sources: SourceNumbers
    segments: list[Segment] = field(repr=False)

    def thread(
        self,
        flags: TableFlags,
        *,
        position: int | None = None,
        chunk_size: int = 1 << 18,
        exclude: GtidSet | None = None,
        origin: OriginFilter | None = None,
        other_filters_before: bool = False,
    ) -> DumpThread:
        """Return a dump thread that begins at ``position``, by default at the first event."""
        thread = DumpThread(
            flags,
            self.sources,
            chunk_size=chunk_size,
            exclude=exclude,
            origin=origin,
            other_filters_before=other_filters_before,
        )
        thread.start_file(self.file.first_event if position is None else position, self.file.read)
        return thread


@lru_cache(maxsize=16)
def scanned(data: bytes, segment_size: int) -> ScannedFile:
    """Scan a binlog file in parts of ``segment_size`` bytes."""
    file, subjects, sources = MemoryFile(data), Subjects(), SourceNumbers()
    reader = SegmentReader(file, subjects, sources, segment_size=segment_size)
    found = ScannedFile(file, subjects, sources, [])
    while (segment := reader.next()) is not None:
        found.segments.append(segment)
    return found


def values(plans: list[ChunkPlan]) -> list[dict[str, object]]:
    """Return all fields of chunk plans in a form that can be compared."""
    return [
        {
            "file": plan.file,
            "ranges": plan.ranges.tolist(),
            "end": plan.end,
            "resume": plan.resume,
            "resume_bytes": plan.resume_bytes,
            "completed": plan.completed.tolist(),
            "gaps": [
                getattr(plan.gaps, name).tolist()
                for name in ("offset", "end", "runs_until", "runs", "hits_until", "hits")
            ],
            "counts": astuple(plan.counts),
            "replaced": dict(plan.replaced),
        }
        for plan in plans
    ]
