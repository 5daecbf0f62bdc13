"""The cost of deciding for many slaves, beside the cost of the one scan that the slaves share."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from functools import partial
from statistics import median

from bench._common import Options, Report, binlogs, do_db, interleaved
from bench.scan import scan
from dumpfilter.binlog.gtid_sources import SourceNumbers
from dumpfilter.binlog.workload.generate import GeneratedSet
from dumpfilter.dump.chunk import ChunkPlan
from dumpfilter.dump.thread import DumpThread, plan_many
from dumpfilter.filter import Filter
from dumpfilter.filter.flags import TableFlags
from dumpfilter.index.fileset import BinlogSet, SegmentReader
from dumpfilter.index.segment import Segment
from dumpfilter.index.subjects import Subjects
from dumpfilter.master.process import collect_seldom

SLAVES = (1, 16, 64, 256)
COMMITS = 200
"""The number of small segments, each of which stands for a commit that the slaves wait for."""
PLACES = 50
"""The slaves with different filters that wait for each commit."""


def run(options: Options) -> bool:
    made = binlogs(options.size)
    subjects, sources = Subjects(), SourceNumbers()
    segments = [s for _, s in BinlogSet.open(made.index).segments(subjects, sources)]
    names = sorted(made.schemas)
    # every slave with another filter: one to four schemas
    filters = [
        do_db([names[(k * 7 + j * 3) % len(names)] for j in range(1 + k % 4)]) for k in range(max(SLAVES))
    ]
    flags = [TableFlags(f, subjects) for f in filters]
    for each in flags:
        each.array()
    collect_seldom()  # as the process of a master does

    def threads(slaves: int) -> list[DumpThread]:
        return [DumpThread(flags[k], sources) for k in range(slaves)]

    def together(slaves: int) -> None:
        of_slaves = threads(slaves)
        for segment in _entered(of_slaves, segments):
            _plan_together(of_slaves, segment)

    def alone(slaves: int) -> None:
        for thread in threads(slaves):
            for segment in _entered([thread], segments):
                thread.plan(segment)

    report = Report("decide", "deciding is cheap beside the scan", made.bytes)
    m = report.measure(
        {
            "scan with checksums": partial(scan, made, verify=True),
            "scan": partial(scan, made, verify=False),
            **{f"{n} together": partial(together, n) for n in SLAVES},
            **{f"{n} one by one": partial(alone, n) for n in SLAVES},
        },
        options.runs,
    )
    for case in list(m)[2:]:
        report.row(f"{case} / scan", m[case] / m["scan"], "{:.3f}")
    _commits(report, made, filters, options.runs)
    most = SLAVES[-1]
    report.ratio(f"{most} together / scan", f"{most} together", "scan", 8, at_most=True)
    report.ratio("one slave / scan with checksums", "1 together", "scan with checksums", 0.12, at_most=True)
    one = m[f"{most} together"] / most
    report.limit(f"one of {most} / the same", one / m["scan with checksums"], 0.1)
    report.note(
        "three quarters of the transactions have several tables, one in seven has tables of several schemas; the first "
        "slave's filter keeps the largest schema, more than a quarter. Planning is all there is: ranges, GTIDs, "
        "counts"
    )
    return report.print()


def _commits(report: Report, made: GeneratedSet, filters: Sequence[Filter], runs: int) -> None:
    """Add rows about slaves that wait for each commit, in small segments."""
    subjects, sources = Subjects(), SourceNumbers()
    small: list[Segment] = []
    binlogs_of_set = BinlogSet.open(made.index)
    with binlogs_of_set.file(binlogs_of_set.names[0]) as file:
        reader = SegmentReader(file, subjects, sources, segment_size=1 << 12)
        while len(small) < COMMITS and (segment := reader.next()) is not None:
            if not (segment.continues or segment.open):
                small.append(segment)
    flags = [TableFlags(f, subjects) for f in filters[:PLACES]]

    def wait(plan: Callable[[list[DumpThread], Segment], object]) -> None:
        threads = [DumpThread(each, sources) for each in flags]
        for segment in small:
            for thread in threads:
                thread.start_file(segment.start, _no_payloads)
            plan(threads, segment)

    def alone(threads: list[DumpThread], segment: Segment) -> None:
        for thread in threads:
            thread.plan(segment)

    name = f"a small segment for {PLACES}"
    cases = {
        f"{name} together": partial(wait, _plan_together),
        f"{name} one by one": partial(wait, alone),
    }
    for case, seconds in interleaved(cases, runs).items():
        each = median(seconds) / COMMITS / PLACES
        report.row(case, each, f"{each * 1e6:.1f} us for each slave")


def _plan_together(threads: list[DumpThread], segment: Segment) -> None:
    for plans in plan_many(threads, segment):
        assert isinstance(plans, list)
        for plan in plans:
            _read(plan)


def _read(plan: ChunkPlan) -> None:
    """Read the fields of a plan, as a master does that sends the chunk."""
    assert plan.size >= 0
    assert len(plan.ranges) + len(plan.completed) + len(plan.gaps) >= 0


def _no_payloads(offset: int, length: int) -> bytes:
    raise AssertionError("the generated binlogs have no compressed transactions")


def _entered(threads: Sequence[DumpThread], segments: Sequence[Segment]) -> Iterator[Segment]:
    """Yield the segments. Let the threads begin each file."""
    file = ""
    for segment in segments:
        if segment.file != file:
            for thread in threads:
                thread.start_file(segment.start, _no_payloads)
            file = segment.file
        yield segment
