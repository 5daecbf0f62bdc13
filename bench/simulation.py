"""The simulation of 10,000 slaves with 200 filters, compared with the bandwidth job for 100, and a sweep of 10 rates."""

from __future__ import annotations

import shutil

from bench._common import OUT, Options, Report, binlogs, interleaved
from bench.split import in_memory, spark_jobs

_RUNS = 2
"""The most timed runs of a case, since a run takes long."""
_RATES = [500_000 * 2**k for k in range(10)]
_SLAVES = 10_000
_FILTERS = 200


def run(options: Options) -> bool:
    memory = in_memory()
    memory.mkdir(exist_ok=True)
    try:
        made = binlogs(options.size, files=4, under=memory)
        source = str(made.index)
        with spark_jobs("local[2]", driver_memory="2g") as jobs:

            def simulate(engine: str, slaves: int = _SLAVES, rates: list[int] | None = None) -> float:
                return jobs.run(simulate=source, slaves=slaves, filters=_FILTERS, engine=engine, rates=rates)

            found = interleaved(
                {
                    "bandwidth, 100 slaves, Spark": lambda: jobs.run(bandwidth=source, slaves=100, schemas=20),
                    "10,000 slaves, Spark": lambda: simulate("spark"),
                    "10,000 slaves, threads": lambda: simulate("local"),
                    "10,000 slaves at one rate, threads": lambda: simulate("local", rates=_RATES[:1]),
                    "10,000 slaves at ten rates, threads": lambda: simulate("local", rates=_RATES),
                    "200 slaves at one rate, Spark": lambda: simulate("spark", _FILTERS, _RATES[:1]),
                    "200 slaves at ten rates, Spark": lambda: simulate("spark", _FILTERS, _RATES),
                },
                min(options.runs, _RUNS),
                warm_up=False,
            )
    finally:
        if memory != OUT:
            shutil.rmtree(memory)
    report = Report("simulation", "the lag of many slaves from one pass, after Spark's start", made.bytes)
    m = report.times(found)
    bandwidth = m["bandwidth, 100 slaves, Spark"]
    report.target("10,000 slaves / bandwidth for 100", m["10,000 slaves, Spark"] / bandwidth, 3, at_most=True)
    for where in ("10,000 slaves", "200 slaves"):
        engine = "threads" if where.startswith("10,000") else "Spark"
        ten, one = (m[f"{where} at {number} rate{s}, {engine}"] for number, s in (("ten", "s"), ("one", "")))
        report.target(f"{where} at 10 rates / at one ({engine})", ten / one, 1.5, at_most=True)
    report.note("the slaves have 200 filters; each slave has a rate and a delay of its own, or a delay and the rate")
    return report.print()
