"""The cost of deciding for many slaves, beside the cost of the one scan that the slaves share."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence

from bench._common import Options, Report, binlogs, do_db, interleaved, timed, warm
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
    warm(made)
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
            for plans in plan_many(of_slaves, segment):
                assert isinstance(plans, list)
                for plan in plans:
                    _read(plan)

    def alone(slaves: int) -> None:
        for thread in threads(slaves):
            for segment in _entered([thread], segments):
                thread.plan(segment)

    report = Report("decide", "deciding is cheap beside the scan", made.bytes)
    cases = {
        "scan with checksums": lambda: timed(lambda: scan(made, verify=True)),
        "scan": lambda: timed(lambda: scan(made, verify=False)),
    }
    for n in SLAVES:
        cases[f"{n} together"] = lambda n=n: timed(lambda: together(n))  # type: ignore[misc]
    for n in SLAVES:
        cases[f"{n} one by one"] = lambda n=n: timed(lambda: alone(n))  # type: ignore[misc]
    m = report.times(interleaved(cases, options.runs))
    for case in list(cases)[2:]:
        report.row(f"{case} / scan", m[case] / m["scan"], f"{m[case] / m['scan']:.3f}")
    _commits(report, made, filters, options.runs)
    default, most = m["scan with checksums"], SLAVES[-1]
    report.target(f"{most} together / scan", m[f"{most} together"] / m["scan"], 8, at_most=True)
    report.target("one slave / scan with checksums", m["1 together"] / default, 0.12, at_most=True)
    report.target("one of 256 / the same", m[f"{most} together"] / most / default, 0.1, at_most=True)
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

    def read(threads: list[DumpThread], segment: Segment) -> None:
        for plans in plan_many(threads, segment):
            assert isinstance(plans, list)
            for plan in plans:
                _read(plan)

    def alone(threads: list[DumpThread], segment: Segment) -> None:
        for thread in threads:
            thread.plan(segment)

    found = interleaved(
        {
            f"a small segment for {PLACES} together": lambda: timed(lambda: wait(read)),
            f"a small segment for {PLACES} one by one": lambda: timed(lambda: wait(alone)),
        },
        runs,
    )
    for name, seconds in found.items():
        each = sorted(seconds)[len(seconds) // 2] / COMMITS / PLACES
        report.row(name, each, f"{each * 1e6:.1f} us for each slave")


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
