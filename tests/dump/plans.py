"""Plans of chunks as plain values, which tests compare, and scanned binlogs, which several dump threads share."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field, replace
from functools import lru_cache

from dumpfilter.base.errors import DumpfilterError
from dumpfilter.binlog.gtid import GtidSet
from dumpfilter.binlog.gtid_sources import SourceNumbers
from dumpfilter.dump.chunk import ChunkPlan
from dumpfilter.dump.thread import DumpThread, plan_many
from dumpfilter.dump.xa import Earlier
from dumpfilter.filter.base import OriginFilter
from dumpfilter.filter.flags import TableFlags
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
        earlier: Earlier | None = None,
    ) -> DumpThread:
        """Return a dump thread that begins at ``position``, by default at the first event."""
        thread = DumpThread(
            flags,
            self.sources,
            chunk_size=chunk_size,
            exclude=exclude,
            origin=origin,
            earlier=earlier,
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
            "gaps": [array.tolist() for array in (plan.gaps.row, plan.gaps.runs, plan.gaps.hits)],
            "counts": replace(plan.counts),
            "replaced": dict(plan.replaced),
        }
        for plan in plans
    ]


def _outcome(thread: DumpThread, segment: Segment) -> object:
    try:
        return values(thread.plan(segment))
    except DumpfilterError as error:
        return str(error)


def check_many(threads: Sequence[DumpThread], segments: Sequence[Segment]) -> None:
    """Compare the plans of one pass with those of forks that plan alone, segment by segment.

    A thread begins when the segments reach its position, and goes on until it raises an error.
    """
    going = list(threads)
    for segment in segments:
        present = [one for one in going if one.position is None or one.position < segment.end]
        alone = [one.fork() for one in present]
        expected = [_outcome(one, segment) for one in alone]
        found = plan_many(present, segment)
        assert [values(one) if isinstance(one, list) else str(one) for one in found] == expected
        assert [(one.key, one.position, one.resume) for one in present] == [
            (one.key, one.position, one.resume) for one in alone
        ]
        assert [one.in_transaction for one in present] == [one.in_transaction for one in alone]
        failed = {id(one) for one, plans in zip(present, found, strict=True) if not isinstance(plans, list)}
        going = [one for one in going if id(one) not in failed]
