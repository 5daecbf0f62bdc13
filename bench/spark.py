"""The jobs of Spark: ``engines`` and ``simulation``.

Each function of these names is a benchmark. The jobs run in a child process with a Spark context.
"""

from __future__ import annotations

import os
import random
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from functools import partial
from multiprocessing.connection import Connection
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

from bench._child import Child, serve
from bench._common import OUT, Options, Report, binlogs
from bench._process import processor_times
from dumpfilter.binlog.workload.generate import GeneratedSet, generate, schema_names
from dumpfilter.filter import FilterSemantics
from dumpfilter.simulation.plan import plan_slaves
from dumpfilter.simulation.results import Setting, Variant
from dumpfilter.simulation.simulate import Options as SimulationOptions
from dumpfilter.simulation.simulate import simulate
from dumpfilter.spark_jobs.bandwidth.job import bandwidth as run_bandwidth
from dumpfilter.spark_jobs.bandwidth.measured_set import BandwidthOptions
from dumpfilter.spark_jobs.engines import Runner, ThreadRunner
from dumpfilter.spark_jobs.simulation.traffic import read_traffic
from dumpfilter.spark_jobs.spark.context import SparkSettings, spark_context
from dumpfilter.spark_jobs.spark.jobs import SparkRunner
from dumpfilter.spark_jobs.split.job import SplitOptions
from dumpfilter.spark_jobs.split.job import split as run_split
from dumpfilter.topology.links.shape import LinkShape
from dumpfilter.topology.slaves_file import SlaveDefinition

_RUNS = 3
"""The most timed runs of a case, since a run takes long."""
_LARGE = 2 << 30
"""The least size of the binlog of some benchmarks, bytes. Over a smaller one, the start of a job counts too much."""
_SCHEMAS = 20


@contextmanager
def _in_memory() -> Iterator[Path]:
    """Yield a directory on a file system in memory, if there is one. Disks are slower than the measured code."""
    shared = Path("/dev/shm")
    if not (shared.is_dir() and os.access(shared, os.W_OK)):
        yield OUT
        return
    with tempfile.TemporaryDirectory(prefix="dumpfilter-bench-", dir=shared) as memory:
        yield Path(memory)


def _place(memory: Path) -> str:
    return f"files in {'memory (tmpfs)' if memory != OUT else 'bench/out'}"


def _jobs(pipe: Connection, master: str, driver_memory: str) -> None:
    """Run small jobs to warm up, and then a job for each request, on Spark or in threads of this process."""
    with spark_context(SparkSettings(master, driver_memory, "1g")) as context:
        runners: dict[str, Runner] = {"spark": SparkRunner(lambda: context), "local": ThreadRunner()}
        with tempfile.TemporaryDirectory() as folder:
            made = generate(Path(folder) / "set", 64 << 20)
            spark = runners["spark"]
            run_split(made.index, Path(folder) / "out", spark, SplitOptions(range_size=1 << 20))
            options = BandwidthOptions(range_size=1 << 20)
            run_bandwidth(made.index, linked_slaves(2, _SCHEMAS), spark, options)
            for runner in runners.values():
                _simulate(runner, made.index, 20, 2)
        pipe.send("ready")

        def run(job: Callable[..., None], engine: str, *arguments: Any) -> float:
            start = time.perf_counter()
            job(runners[engine], *arguments)
            return time.perf_counter() - start

        serve(pipe, run)


def _split_set(run: Runner, index: Path, output: Path) -> None:
    shutil.rmtree(output, ignore_errors=True)
    run_split(index, output, run)


def _bandwidth(run: Runner, index: Path, slaves: int) -> None:
    run_bandwidth(index, linked_slaves(slaves, _SCHEMAS), run)


def _simulate(
    run: Runner, index: Path, number: int, filters: int = 200, rates: Sequence[int | None] = (None,)
) -> None:
    """Simulate slaves with links of their own, once with these links, or once for each of the given rates."""
    slaves = plan_slaves(linked_slaves(number, filters), "bench")
    settings = tuple(Setting(variant=Variant.MASTER, rate=rate) for rate in rates)
    results = simulate(
        slaves,
        {slaves.origins[0]: read_traffic(index, slaves.filters, run)},
        SimulationOptions(settings=settings),
        partial(ThreadRunner(), label="simulating"),
    )
    assert sum(one.count for one in results.runs[0].nodes) == number


def linked_slaves(number: int, filters: int) -> list[SlaveDefinition]:
    """Return slaves that share ``filters`` different filters. Each has a rate and a delay of its own."""
    names = schema_names(_SCHEMAS)
    chance = random.Random(1)
    return [
        SlaveDefinition(
            f"slave-{k}",
            (
                f"--replicate-do-db={names[k % filters % _SCHEMAS]}",
                f"--replicate-do-db={names[(7 * (k % filters) + 3) % _SCHEMAS]}",
                f"--replicate-wild-ignore-table={names[k % _SCHEMAS]}.table\\_{k % filters:02}%",
            ),
            FilterSemantics.CLASSIC,
            0,
            link=LinkShape(chance.randrange(500_000, 50_000_000), chance.randrange(1, 300) / 1000),
        )
        for k in range(number)
    ]


class _Case(NamedTuple):
    """A job on a generated set."""

    job: Callable[..., None]
    made: GeneratedSet
    arguments: tuple[object, ...]
    engine: str = "spark"


class _Spark(Child):
    """The process that runs jobs, after its warm-up."""

    def __init__(self, master: str, driver_memory: str = "1g") -> None:
        super().__init__(_jobs, master, driver_memory)
        self.processor: dict[str, list[float]] = {}
        """The processor times of each case's jobs, seconds. Processes that ended meanwhile are not in it."""
        self.answer()

    def run(self, name: str, case: _Case) -> float:
        """Run a job, and return the job's seconds without Spark's start."""
        before = processor_times(self.pid)
        seconds = float(self.ask(case.job, case.engine, case.made.index, *case.arguments))
        after = processor_times(self.pid)
        used = sum(spent - before.get(one, 0.0) for one, spent in after.items())
        self.processor.setdefault(name, []).append(used)
        return seconds

    def timed(self, cases: Mapping[str, _Case]) -> dict[str, Callable[[], float]]:
        """Return the functions that run the cases."""
        return {name: partial(self.run, name, case) for name, case in cases.items()}


def engines(report: Report, options: Options) -> None:
    """Measure the bandwidth job and the split on threads and on Spark, compared with a copy of the same files."""
    report.nbytes = size = max(options.size, _LARGE)
    with _in_memory() as memory, _Spark("local[2]") as spark:
        made = binlogs(size, files=4, under=memory)
        cases = {
            f"{name}, {engine}": _Case(job, made, (argument,), engine)
            for name, job, argument in (
                ("bandwidth", _bandwidth, 2),
                ("split", _split_set, memory / "engines-out"),
            )
            for engine in ("local", "spark")
        }
        copy = {"cp": partial(_copy, made, memory / "copy")}
        report.measure({**copy, **spark.timed(cases)}, min(options.runs, _RUNS))
        report.note(f"{_place(memory)}; cp is one thread with sendfile")
    for name, used in spark.processor.items():
        report.row(f"{name}: processor", used[-1], "{:9.2f} s in all processes, last run")
    report.ratio("local bandwidth / cp", "bandwidth, local", "cp", 1.3, at_most=True)
    report.ratio("local split / cp", "split, local", "cp", 2.4, at_most=True)
    for job in ("bandwidth", "split"):
        report.ratio(f"Spark / local, {job}", f"{job}, spark", f"{job}, local", 1.1, at_most=True)


def _copy(made: GeneratedSet, folder: Path) -> float:
    """Copy the files as cp does, and return the seconds."""
    folder.mkdir()
    start = time.perf_counter()
    for path in made.files:
        shutil.copyfile(path, folder / path.name)
    seconds = time.perf_counter() - start
    shutil.rmtree(folder)
    return seconds


def simulation(report: Report, options: Options) -> None:
    """Measure the simulation of 10,000 slaves with 200 filters, beside bandwidth for 100, and a sweep of ten rates."""
    report.nbytes = size = max(options.size, _LARGE // 2)
    ten = [500_000 * 2**k for k in range(10)]
    with _in_memory() as memory, _Spark("local[2]", "2g") as spark:
        made = binlogs(size, files=4, under=memory)
        cases = {
            "bandwidth, 100 slaves, Spark": _Case(_bandwidth, made, (100,)),
            "10,000 slaves, Spark": _Case(_simulate, made, (10_000,)),
            "10,000 slaves, threads": _Case(_simulate, made, (10_000,), "local"),
            "10,000 slaves at ten rates, threads": _Case(_simulate, made, (10_000, 200, ten), "local"),
            "12 slaves at one rate, Spark": _Case(_simulate, made, (12, 200, ten[:1])),
            "12 slaves at ten rates, Spark": _Case(_simulate, made, (12, 200, ten)),
        }
        report.measure(spark.timed(cases), min(options.runs, 2), warm_up=False)
    for name, used in spark.processor.items():
        report.row(f"{name}, processor", median(used), "{:9.1f} s of processor time")
    hundred, many, local, swept, few, few_swept = cases
    for text, one, other, wanted in (
        ("10,000 slaves / bandwidth for 100 (Spark)", many, hundred, 2),
        ("10,000 slaves at ten rates / on links of their own (threads)", swept, local, 1.5),
        ("12 slaves at ten rates / at one (Spark)", few_swept, few, 1.5),
    ):
        report.ratio(text, one, other, wanted, at_most=True)
        one, other = f"{one}, processor", f"{other}, processor"
        report.ratio(f"{text}, processor time", one, other, wanted, at_most=True)
    report.note(
        "10,000 slaves have 200 filters, and each has a rate and a delay of its own, or a delay of its own"
    )
