"""The bandwidth job for 100 slaves, compared with one slave."""

from __future__ import annotations

import shutil

from bench._common import OUT, Options, Report, binlogs, interleaved
from bench.split import in_memory, spark_jobs

_RUNS = 3
"""The most timed runs of a case, since a run takes long."""


def run(options: Options) -> bool:
    memory = in_memory()
    memory.mkdir(exist_ok=True)
    try:
        made = binlogs(options.size, files=4, under=memory)
        with spark_jobs("local[2]") as jobs:

            def slaves(number: int) -> float:
                return jobs.run(bandwidth=str(made.index), slaves=number, schemas=20)

            found = interleaved(
                {
                    "1 slave": lambda: slaves(1),
                    "12 slaves": lambda: slaves(12),
                    "100 slaves": lambda: slaves(100),
                },
                min(options.runs, _RUNS),
            )
    finally:
        if memory != OUT:
            shutil.rmtree(memory)
    report = Report("bandwidth", "one pass for any number of slaves, after Spark's start", made.bytes)
    m = report.times(found)
    report.target("100 slaves / 1 slave", m["100 slaves"] / m["1 slave"], 2, at_most=True)
    report.note(
        "each slave has a filter of its own of three rules; without each of which it is worked out, too"
    )
    return report.print()
