"""The bandwidth job for 100 slaves, compared with one slave."""

from __future__ import annotations

from collections.abc import Callable

from bench._common import Options, Report, binlogs, interleaved
from bench.split import in_memory, spark_jobs

_RUNS = 3
"""The most timed runs of a case, since a run takes long."""


def run(options: Options) -> bool:
    with in_memory() as memory, spark_jobs("local[2]") as jobs:
        made = binlogs(options.size, files=4, under=memory)

        def case(number: int) -> Callable[[], float]:
            return lambda: jobs.run(bandwidth=str(made.index), slaves=number, schemas=20)

        cases = {f"{number} slave{'s' * (number > 1)}": case(number) for number in (1, 12, 100)}
        found = interleaved(cases, min(options.runs, _RUNS))
    report = Report("bandwidth", "one pass for any number of slaves, after Spark's start", made.bytes)
    m = report.times(found)
    report.target("100 slaves / 1 slave", m["100 slaves"] / m["1 slave"], 2, at_most=True)
    report.note(
        "each slave has a filter of its own of three rules; without each of which it is worked out, too"
    )
    return report.print()
