"""The cost of deciding for many slaves, beside the cost of the one scan that the slaves share."""

from __future__ import annotations

from bench._common import Options, Report, binlogs, do_db, interleaved, timed, warm
from bench.scan import scan
from dumpfilter.binlog.gtid_sources import SourceNumbers
from dumpfilter.dump import DumpThread
from dumpfilter.filter.flags import TableFlags
from dumpfilter.index.fileset import BinlogSet
from dumpfilter.index.segment import Segment
from dumpfilter.index.subjects import Subjects

SLAVES = (1, 16, 64, 256)


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

    def decide(slaves: int) -> None:
        for k in range(slaves):
            thread = DumpThread(flags[k], sources)
            file = ""
            for segment in segments:
                file = _enter(thread, segment, file)
                thread.plan(segment)

    report = Report("decide", "deciding is cheap beside the scan", made.bytes)
    cases = {
        "scan with checksums": lambda: timed(lambda: scan(made, verify=True)),
        "scan": lambda: timed(lambda: scan(made, verify=False)),
    }
    for n in SLAVES:
        cases[f"decide for {n}"] = lambda n=n: timed(lambda: decide(n))  # type: ignore[misc]
    m = report.times(interleaved(cases, options.runs))
    for n in SLAVES:
        report.row(f"{n} / scan", m[f"decide for {n}"] / m["scan"], f"{m[f'decide for {n}'] / m['scan']:.3f}")
    default = m["scan with checksums"]
    report.target(
        "deciding for one slave / scan with checksums", m["decide for 1"] / default, 0.1, at_most=True
    )
    report.target(
        "deciding for one of 256 / the same", m["decide for 256"] / 256 / default, 0.1, at_most=True
    )
    report.note(
        "three quarters of the transactions have several tables, one in seven has tables of several schemas; the first "
        "slave's filter keeps the largest schema, more than a quarter. Planning is all there is: ranges, GTIDs, counts"
    )
    return report.print()


def _no_payloads(offset: int, length: int) -> bytes:
    raise AssertionError("the generated binlogs have no compressed transactions")


def _enter(thread: DumpThread, segment: Segment, file: str) -> str:
    if segment.file != file:
        thread.start_file(segment.start, _no_payloads)
    return segment.file
