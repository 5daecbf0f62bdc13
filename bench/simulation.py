"""The simulation of 10,000 slaves with 200 filters, compared with the bandwidth job for 100. A sweep of ten rates."""

from __future__ import annotations

from collections.abc import Callable
from statistics import median

from bench._common import Options, Report, binlogs, interleaved
from bench.split import in_memory, spark_jobs

_RUNS = 2
"""The most timed runs of a case, since a run takes long."""
BANDWIDTH = "bandwidth, 100 slaves, Spark"
_RATES = [500_000 * 2**k for k in range(10)]
_SLAVES = 10_000
_FILTERS = 200


def run(options: Options) -> bool:
    with in_memory() as memory, spark_jobs("local[2]", driver_memory="2g") as jobs:
        made = binlogs(options.size, files=4, under=memory)
        source = str(made.index)
        processor: dict[str, list[float]] = {}

        def timed(name: str, run: Callable[[], float]) -> Callable[[], float]:
            def timed_run() -> float:
                seconds = run()
                processor.setdefault(name, []).append(jobs.processor_seconds)
                return seconds

            return timed_run

        def simulate(engine: str, slaves: int = _SLAVES, rates: list[int] | None = None) -> float:
            return jobs.run(simulate=source, slaves=slaves, filters=_FILTERS, engine=engine, rates=rates)

        cases = {
            BANDWIDTH: lambda: jobs.run(bandwidth=source, slaves=100, schemas=20),
            "10,000 slaves, Spark": lambda: simulate("spark"),
            "10,000 slaves, threads": lambda: simulate("local"),
            "10,000 slaves at ten rates, threads": lambda: simulate("local", rates=_RATES),
            "12 slaves at one rate, Spark": lambda: simulate("spark", 12, _RATES[:1]),
            "12 slaves at ten rates, Spark": lambda: simulate("spark", 12, _RATES),
        }
        found = interleaved(
            {name: timed(name, case) for name, case in cases.items()},
            min(options.runs, _RUNS),
            warm_up=False,
        )
    report = Report("simulation", "the lag of many slaves from one pass, after Spark's start", made.bytes)
    m = report.times(found)
    cpu = {name: median(seconds) for name, seconds in processor.items()}
    for name, seconds in cpu.items():
        report.row(f"{name}, processor", seconds, f"{seconds:9.1f} s of processor time")
    for text, one, other, wanted in (
        ("10,000 slaves / bandwidth for 100 (Spark)", "10,000 slaves, Spark", BANDWIDTH, 3),
        (
            "10,000 slaves at ten rates / on links of their own (threads)",
            "10,000 slaves at ten rates, threads",
            "10,000 slaves, threads",
            1.5,
        ),
        (
            "12 slaves at ten rates / at one (Spark)",
            "12 slaves at ten rates, Spark",
            "12 slaves at one rate, Spark",
            1.5,
        ),
    ):
        report.target(text, m[one] / m[other], wanted, at_most=True)
        report.target(f"{text}, processor time", cpu[one] / cpu[other], wanted, at_most=True)
    report.note(
        "10,000 slaves have 200 filters, and each has a rate and a delay of its own, or a delay of its own"
    )
    return report.print()
