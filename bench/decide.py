"""The cost of deciding for many slaves, beside the cost of the one scan that the slaves share."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import partial
from statistics import median

from bench._common import Cases, Options, Report, binlogs, do_db, interleaved, schema_sizes
from bench.scan import scan
from dumpfilter.binlog.gtid_sources import SourceNumbers
from dumpfilter.dump.thread import DumpThread, plan_many
from dumpfilter.filter.filter import Filter
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

Plan = Callable[[list[DumpThread], Segment], None]
Scan = Callable[[Subjects, SourceNumbers], Iterable[Segment]]


def _together(threads: list[DumpThread], segment: Segment) -> None:
    """Plan for all threads, and read the plans' fields, as a master does that sends the chunks."""
    for plans in plan_many(threads, segment):
        assert isinstance(plans, list)
        for plan in plans:
            assert plan.size >= 0
            assert len(plan.ranges) + len(plan.completed) + len(plan.gaps) >= 0


def _alone(threads: list[DumpThread], segment: Segment) -> None:
    for thread in threads:
        thread.plan(segment)


def _no_payloads(offset: int, length: int) -> bytes:
    raise AssertionError("the generated binlogs have no compressed transactions")


class _Slaves:
    """Scanned segments, and slaves with different filters."""

    def __init__(self, segments: Scan, filters: Sequence[Filter]) -> None:
        subjects, self._sources = Subjects(), SourceNumbers()
        self._segments = list(segments(subjects, self._sources))
        self._flags = [TableFlags(each, subjects) for each in filters]
        for flags in self._flags:
            flags.array()

    def decide(self, plan: Plan, slaves: slice, *, afresh: bool = False) -> None:
        """Plan all segments for some slaves, which begin each file, or each segment ``afresh``."""
        threads = [DumpThread(each, self._sources) for each in self._flags[slaves]]
        file = ""
        for segment in self._segments:
            if afresh or segment.file != file:
                for thread in threads:
                    thread.start_file(segment.start, _no_payloads)
                file = segment.file
            plan(threads, segment)

    def one_by_one(self, slaves: int) -> None:
        """Plan all segments for one slave after the other."""
        for number in range(slaves):
            self.decide(_alone, slice(number, number + 1))


def _small_segments(binlogs: BinlogSet, subjects: Subjects, sources: SourceNumbers) -> Iterable[Segment]:
    """Yield many small segments of whole transactions."""
    left = COMMITS
    with binlogs.file(binlogs.names[0]) as file:
        reader = SegmentReader(file, subjects, sources, segment_size=1 << 12)
        while left and (segment := reader.next()) is not None:
            if not (segment.continues or segment.open):
                left -= 1
                yield segment


def run(report: Report, options: Options) -> None:
    made = binlogs(options.size)
    report.nbytes = made.bytes
    binlog_set = BinlogSet.open(made.index)
    names = sorted(schema_sizes(made))
    # every slave with another filter: one to four schemas
    filters = [
        do_db([names[(k * 7 + j * 3) % len(names)] for j in range(1 + k % 4)]) for k in range(max(SLAVES))
    ]
    slaves = _Slaves(lambda *numbers: (segment for _, segment in binlog_set.segments(*numbers)), filters)
    collect_seldom()  # as the process of a master does
    cases: Cases = {
        "scan with checksums": partial(scan, made, verify=True),
        "scan": partial(scan, made, verify=False),
        **{f"{n} together": partial(slaves.decide, _together, slice(n)) for n in SLAVES},
        **{f"{n} one by one": partial(slaves.one_by_one, n) for n in SLAVES},
    }
    m = report.measure(cases)
    for case in list(m)[2:]:
        report.row(f"{case} / scan", m[case] / m["scan"], "{:.3f}")
    waiting = _Slaves(partial(_small_segments, binlog_set), filters[:PLACES])
    cases = {
        f"a small segment for {PLACES} {how}": partial(waiting.decide, plan, slice(None), afresh=True)
        for how, plan in (("together", _together), ("one by one", _alone))
    }
    for case, seconds in interleaved(cases, options.runs).items():
        each = median(seconds) / COMMITS / PLACES
        report.row(case, each, f"{each * 1e6:.1f} us for each slave")
    most = SLAVES[-1]
    together, checked = m[f"{most} together"], m["scan with checksums"]
    report.limit(f"{most} together / scan", together / m["scan"], 8)
    report.limit("one slave / scan with checksums", m["1 together"] / checked, 0.12)
    report.limit(f"one of {most} / the same", together / most / checked, 0.1)
    report.note(
        "three quarters of the transactions have several tables, one in seven has tables of several schemas; the first "
        "slave's filter keeps the largest schema, more than a quarter. Planning is all there is: ranges, GTIDs, "
        "counts"
    )
