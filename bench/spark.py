"""The jobs of Spark: ``engines`` and ``simulation``.

Each function of these names is a benchmark.
"""

from __future__ import annotations

import os
import random
import shutil
import tempfile
import time
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from functools import partial
from pathlib import Path
from statistics import median
from typing import TYPE_CHECKING

from bench._common import OUT, Options, Report, binlogs
from bench._processes import processor_times
from dumpfilter.binlog.workload import GeneratedSet, generate, schema_names
from dumpfilter.filter.rules import FilterSemantics
from dumpfilter.simulation.plan import plan_slaves
from dumpfilter.simulation.results import Setting, Variant
from dumpfilter.simulation.simulate import Options as SimulationOptions
from dumpfilter.simulation.simulate import simulate
from dumpfilter.spark_jobs.bandwidth.job import measure_and_evaluate
from dumpfilter.spark_jobs.engines import Runner, ThreadRunner
from dumpfilter.spark_jobs.options import BandwidthOptions, SparkSettings
from dumpfilter.spark_jobs.simulation import read_traffic
from dumpfilter.spark_jobs.spark import SparkRunner, spark_context
from dumpfilter.spark_jobs.split.job import split as run_split
from dumpfilter.topology.links.shape import LinkShape
from dumpfilter.topology.slaves_file import SlaveDefinition

if TYPE_CHECKING:
    from pyspark import SparkContext

_RUNS = 3
"""The most timed runs of a case, since a run takes long."""
_LARGE = 2 << 30
"""The least size of the binlog of some benchmarks, bytes. Over a smaller one, the start of a job counts too much."""
_SCHEMAS = 20
_MEMORY = Path("/dev/shm")
_RATES = tuple(500_000 * 2**k for k in range(10))

Job = Callable[[Path, Runner], object]
"""A job on the set with an index."""


def _split(output: Path, index: Path, run: Runner) -> None:
    run_split(index, output, run)


def _bandwidth(slaves: int, index: Path, run: Runner) -> None:
    measure_and_evaluate(index, linked_slaves(slaves, _SCHEMAS), run)


def _simulate(number: int, filters: int, rates: Sequence[int | None], index: Path, run: Runner) -> None:
    """Simulate slaves for each of the given rates of their links. None: each slave's link has a rate of its own."""
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


class _Engines:
    """Spark and the threads of this process, which run jobs on one set."""

    def __init__(self, folder: Path, size: int, context: SparkContext) -> None:
        self.folder, self.output = folder, folder / "out"
        self.made = binlogs(size, file_size=-(-size // 4), under=folder)
        """A generated set of four files."""
        self.runners: dict[str, Runner] = {"spark": SparkRunner(lambda: context), "local": ThreadRunner()}
        self.processor: dict[str, list[float]] = {}
        """The processor times of each case's jobs, seconds. Processes that ended meanwhile are not in it."""

    def run(self, name: str, engine: str, job: Job) -> float:
        """Run a job, and return its seconds without Spark's start, and without the removal of an earlier output."""
        shutil.rmtree(self.output, ignore_errors=True)
        before, start = processor_times(), time.perf_counter()
        job(self.made.index, self.runners[engine])
        seconds, after = time.perf_counter() - start, processor_times()
        used = sum(spent - before.get(one, 0.0) for one, spent in after.items())
        self.processor.setdefault(name, []).append(used)
        return seconds


@contextmanager
def _started(size: int, driver_memory: int) -> Iterator[_Engines]:
    """Start the engines, and warm them up with small jobs.

    Their folder is on a file system in memory, if there is one. Disks are slower than the measured code.
    """
    place = _MEMORY if os.access(_MEMORY, os.W_OK) else OUT
    with (
        tempfile.TemporaryDirectory(prefix="dumpfilter-bench-", dir=place) as folder,
        spark_context(SparkSettings(master="local[2]", driver_memory=driver_memory)) as context,
    ):
        found = _Engines(Path(folder), size, context)
        index = generate(Path(folder, "small"), 64 << 20).index
        # A task for each MiB uses both workers.
        ranges = BandwidthOptions(range_size=1 << 20)
        measure_and_evaluate(index, linked_slaves(2, _SCHEMAS), found.runners["spark"], ranges)
        for runner in found.runners.values():
            _simulate(20, 2, (None,), index, runner)
        yield found


def engines(report: Report, options: Options) -> None:
    """Measure the bandwidth job and the split on threads and on Spark, compared with a copy of the same files."""
    report.nbytes = size = max(options.size, _LARGE)
    with _started(size, 1 << 30) as started:
        jobs = {"bandwidth": partial(_bandwidth, 2), "split": partial(_split, started.output)}
        cases: dict[str, Callable[[], float]] = {"cp": partial(_copy, started.made, started.folder / "copy")}
        for name, job in jobs.items():
            for engine in ("local", "spark"):
                case = f"{name}, {engine}"
                cases[case] = partial(started.run, case, engine, job)
        report.runs = min(report.runs, _RUNS)
        m = report.measure(cases)
    place = "memory (tmpfs)" if started.folder.is_relative_to(_MEMORY) else "bench/out"
    report.note(f"files in {place}; cp is one thread with sendfile, a second copy")
    for name, used in started.processor.items():
        report.row(f"{name}: processor", used[-1], "{:9.2f} s in all processes, last run")
    report.limit("local bandwidth / cp", m["bandwidth, local"] / m["cp"], 1.3)
    report.limit("local split / cp", m["split, local"] / m["cp"], 2.4)
    for name in jobs:
        report.limit(f"Spark / local, {name}", m[f"{name}, spark"] / m[f"{name}, local"], 1.1)


def _copy(made: GeneratedSet, folder: Path) -> float:
    """Copy the files twice as cp does, and return the seconds of the second copy.

    The first copy pays for memory that the host of a virtual machine has taken back since other files were removed.
    """
    for _ in range(2):
        folder.mkdir()
        start = time.perf_counter()
        for path in made.files:
            shutil.copyfile(path, folder / path.name)
        seconds = time.perf_counter() - start
        shutil.rmtree(folder)
    return seconds


_SIMULATION: dict[str, tuple[str, Job]] = {
    "bandwidth, 100 slaves, Spark": ("spark", partial(_bandwidth, 100)),
    "10,000 slaves, Spark": ("spark", partial(_simulate, 10_000, 200, (None,))),
    "10,000 slaves, threads": ("local", partial(_simulate, 10_000, 200, (None,))),
    "10,000 slaves at ten rates, threads": ("local", partial(_simulate, 10_000, 200, _RATES)),
    "12 slaves at one rate, Spark": ("spark", partial(_simulate, 12, 200, _RATES[:1])),
    "12 slaves at ten rates, Spark": ("spark", partial(_simulate, 12, 200, _RATES)),
}
"""The cases of ``simulation``, each with its engine and its job."""


def simulation(report: Report, options: Options) -> None:
    """Measure the simulation of 10,000 slaves with 200 filters, beside bandwidth for 100, and a sweep of ten rates."""
    report.nbytes = size = max(options.size, _LARGE // 2)
    with _started(size, 2 << 30) as started:
        cases = {name: partial(started.run, name, *case) for name, case in _SIMULATION.items()}
        report.runs = min(report.runs, 2)
        times = report.measure(cases, warm_up=False)
    processor = {name: median(used) for name, used in started.processor.items()}
    for name, seconds in processor.items():
        report.row(f"{name}, processor", seconds, "{:9.1f} s of processor time")
    hundred, many, local, swept, few, few_swept = cases
    for text, one, other, wanted in (
        ("10,000 slaves / bandwidth for 100 (Spark)", many, hundred, 2),
        ("10,000 slaves at ten rates / on links of their own (threads)", swept, local, 1.5),
        ("12 slaves at ten rates / at one (Spark)", few_swept, few, 1.5),
    ):
        report.limit(text, times[one] / times[other], wanted)
        report.limit(f"{text}, processor time", processor[one] / processor[other], wanted)
    report.note(
        "10,000 slaves have 200 filters, and each has a rate and a delay of its own, or a delay of its own"
    )
