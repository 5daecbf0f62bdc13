"""The jobs of Spark: ``split``, ``split_cluster``, ``bandwidth``, ``engines`` and ``simulation``.

Each function of one of these names is a benchmark. The jobs run in :mod:`bench._spark_job`.
"""

from __future__ import annotations

import os
import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from statistics import median

import psutil

from bench._common import (
    OUT,
    Child,
    Options,
    Report,
    binlogs,
    child,
    has_mysql,
    interleaved,
    timed,
    warm,
)
from bench._process import peak_rss, processor_times
from bench._servers import binlog_program
from dumpfilter.binlog.workload.generate import GeneratedSet
from tests.spark_jobs.spark.cluster import Cluster

_RUNS = 3
"""The most timed runs of a case, since a run takes long."""
_LARGE = 2 << 30
"""The least size of the binlog of some benchmarks, bytes. Over a smaller one, the start of a job counts too much."""
_RATES = [500_000 * 2**k for k in range(10)]


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


class _Jobs:
    """A process with Spark that runs jobs."""

    def __init__(self, process: Child) -> None:
        self._process = process
        self.processor: dict[str, list[float]] = {}
        """The processor times of each case's jobs, seconds. Processes that ended meanwhile are not in it."""
        process.answer()

    def case(self, name: str, **job: object) -> Callable[[], float]:
        """Return a function that runs a job, and returns the job's seconds without Spark's start."""

        def run() -> float:
            before = processor_times(self._process.pid)
            seconds = float(self._process.ask(job))
            after = processor_times(self._process.pid)
            used = sum(spent - before.get(one, 0.0) for one, spent in after.items())
            self.processor.setdefault(name, []).append(used)
            return seconds

        return run

    def cases(self, jobs: dict[str, dict[str, object]]) -> dict[str, Callable[[], float]]:
        """Return a function for each job of a table."""
        return {name: self.case(name, **job) for name, job in jobs.items()}


@contextmanager
def _spark(master: str, *, driver_memory: str = "1g") -> Iterator[_Jobs]:
    """Start a process with Spark, which runs small jobs to warm up."""
    with child(["-m", "bench._spark_job", master, driver_memory]) as process:
        yield _Jobs(process)


def bandwidth(options: Options) -> bool:
    """Measure the bandwidth job for 100 slaves, compared with one slave."""
    with _in_memory() as memory, _spark("local[2]") as jobs:
        made = binlogs(options.size, files=4, under=memory)
        found = interleaved(
            jobs.cases(
                {
                    f"{number} slave{'s' * (number > 1)}": {"bandwidth": str(made.index), "slaves": number}
                    for number in (1, 12, 100)
                }
            ),
            min(options.runs, _RUNS),
        )
    report = Report("bandwidth", "one pass for any number of slaves, after Spark's start", made.bytes)
    report.times(found)
    report.ratio("100 slaves / 1 slave", "100 slaves", "1 slave", 2, at_most=True)
    report.note(
        "each slave has a filter of its own of three rules; without each of which it is worked out, too"
    )
    return report.print()


def engines(options: Options) -> bool:
    """Measure the bandwidth job and the split on threads and on Spark, compared with a copy of the same files."""
    size = max(options.size, _LARGE)
    report = Report("engines", "both engines after their start, on two cores, beside cp", size)
    with _in_memory() as memory, _spark("local[2]") as jobs:
        made = binlogs(size, files=4, under=memory)
        kinds: dict[str, dict[str, object]] = {
            "bandwidth": {"bandwidth": str(made.index), "slaves": 2},
            "split": {"split": str(made.index), "output": str(memory / "engines-out")},
        }
        cases = jobs.cases(
            {
                f"{kind}, {engine}": {**job, "engine": engine}
                for kind, job in kinds.items()
                for engine in ("local", "spark")
            }
        )
        report.times(
            interleaved(
                {"cp": lambda: _copy(made, memory / "copy"), **cases},
                min(options.runs, _RUNS),
            )
        )
        report.note(f"{_place(memory)}; cp is one thread with sendfile")
    for name, used in jobs.processor.items():
        report.row(f"{name}: processor", used[-1], f"{used[-1]:9.2f} s in all processes, last run")
    report.ratio("local bandwidth / cp", "bandwidth, local", "cp", 3.0, at_most=True)
    report.ratio("local split / cp", "split, local", "cp", 4.0, at_most=True)
    for kind in kinds:
        report.ratio(f"Spark / local, {kind}", f"{kind}, spark", f"{kind}, local", 1.2, at_most=True)
    return report.print()


def _copy(made: GeneratedSet, folder: Path) -> float:
    """Copy the files as cp does, and return the seconds."""
    folder.mkdir()
    seconds = timed(lambda: [shutil.copyfile(path, folder / path.name) for path in made.files])
    shutil.rmtree(folder)
    return seconds


def simulation(options: Options) -> bool:
    """Measure the simulation of 10,000 slaves with 200 filters, beside bandwidth for 100, and a sweep of ten rates."""
    with _in_memory() as memory, _spark("local[2]", driver_memory="2g") as jobs:
        made = binlogs(options.size, files=4, under=memory)
        many: dict[str, object] = {"simulate": str(made.index), "filters": 200, "slaves": 10_000}
        few = {**many, "slaves": 12}
        found = interleaved(
            jobs.cases(
                {
                    "bandwidth, 100 slaves, Spark": {"bandwidth": str(made.index), "slaves": 100},
                    "10,000 slaves, Spark": many,
                    "10,000 slaves, threads": {**many, "engine": "local"},
                    "10,000 slaves at ten rates, threads": {**many, "engine": "local", "rates": _RATES},
                    "12 slaves at one rate, Spark": {**few, "rates": _RATES[:1]},
                    "12 slaves at ten rates, Spark": {**few, "rates": _RATES},
                }
            ),
            min(options.runs, 2),
            warm_up=False,
        )
    report = Report("simulation", "the lag of many slaves from one pass, after Spark's start", made.bytes)
    report.times(found)
    for name, used in jobs.processor.items():
        report.row(f"{name}, processor", median(used), f"{median(used):9.1f} s of processor time")
    for text, one, other, wanted in (
        (
            "10,000 slaves / bandwidth for 100 (Spark)",
            "10,000 slaves, Spark",
            "bandwidth, 100 slaves, Spark",
            3,
        ),
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
        report.ratio(text, one, other, wanted, at_most=True)
        one, other = f"{one}, processor", f"{other}, processor"
        report.ratio(f"{text}, processor time", one, other, wanted, at_most=True)
    report.note(
        "10,000 slaves have 200 filters, and each has a rate and a delay of its own, or a delay of its own"
    )
    return report.print()


def split(options: Options) -> bool:
    """Measure the split by the number of schemas and cores, compared with mysqlbinlog once for each schema."""
    report = Report("split", "the split, in the part after Spark's start", options.size)
    with _in_memory() as memory:
        _split(report, options.size, min(options.runs, _RUNS), memory)
        report.note(
            f"{_place(memory)}; the peer writes its text to /dev/null. "
            "Memory: the driver had 2 GB; see split_cluster for executors of 1 GB"
        )
    return report.print()


def _split(report: Report, size: int, runs: int, memory: Path) -> None:
    sets = {schemas: binlogs(size, schemas=schemas, files=4, under=memory) for schemas in (1, 20, 200)}
    single = str(binlogs(size, files=1, under=memory).index)
    output = str(memory / "split-out")
    with _spark("local[2]", driver_memory="2g") as two, _spark("local[1]", driver_memory="2g") as one:
        schemas = two.cases(
            {
                f"{number} schema{'s' * (number > 1)}": {"split": str(made.index), "output": output}
                for number, made in sets.items()
            }
        )
        report.times(interleaved(schemas, runs))
        cores = {
            name: jobs.case(name, split=single, output=output)
            for name, jobs in (("one file, local[1]", one), ("one file, local[2]", two))
        }
        report.times(interleaved(cores, runs, warm_up=False))
        disk = binlogs(size, files=4)
        warm(disk)
        on_disk = "20 schemas, on a disk, synchronized"
        report.times({on_disk: [two.case(on_disk, split=str(disk.index), output=str(OUT / "o"))()]})
    made = binlogs(size, style="mysql" if has_mysql() else "mariadb", files=4, under=memory)
    peer, program = binlog_program()
    twenty = f"{peer} --database, 20 times"
    report.times({twenty: [timed(lambda: _split_by(program, made))]})
    report.ratio("200 schemas / 1 schema", "200 schemas", "1 schema", 1.5, at_most=True)
    report.ratio("local[1] / local[2], one file", "one file, local[1]", "one file, local[2]", 1.7)
    report.ratio(f"{peer} / ours, 20 schemas", twenty, "20 schemas", 5)
    times = report.values[twenty] / report.values[on_disk]
    report.row("peer / ours on a disk", times, f"{times:.1f} times")


def _split_by(program: list[str], made: GeneratedSet) -> None:
    """Run a server's program once for each schema."""
    for schema in made.schemas:
        subprocess.run(
            [*program, f"--database={schema}", *map(str, made.files)],
            check=True,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,  # mysqlbinlog warns of what --database does not do
        )


def split_cluster(options: Options) -> bool:
    """Measure the memory of a split of 2 GB on a standalone cluster of two workers.

    The driver has 2 GB, each executor 1 GB.
    """
    with _in_memory() as memory, tempfile.TemporaryDirectory(prefix="dumpfilter-cluster-") as folder:
        cluster, output = Cluster(Path(folder)), memory / "cluster-out"
        try:
            made = binlogs(_LARGE, schemas=200, files=4, under=memory)
            cluster.add_worker()
            cluster.add_worker()
            begin = time.perf_counter()
            peaks = _watched(
                [
                    *(sys.executable, "-m", "dumpfilter", "split", str(made.index)),
                    *("--output", str(output), "--spark-master", cluster.master),
                    *("--driver-memory", "2g", "--executor-memory", "1g"),
                ]
            )
            seconds = time.perf_counter() - begin
        finally:
            cluster.close()
            shutil.rmtree(output, ignore_errors=True)
    report = Report(
        "split_cluster", "2 GB in 4 files, 200 schemas, in a driver of 2 GB and executors of 1 GB", _LARGE
    )
    report.times({"the whole command, with Spark's start": [seconds]})
    for name, rss in peaks.items():
        report.row(name, rss / 2**20, f"{rss / 2**20:8.0f} MiB")
    report.target("driver's Java process, GiB", peaks["driver, Java"] / 2**30, 2, at_most=True)
    report.target("an executor's Java process, GiB", peaks["executor, Java"] / 2**30, 1, at_most=True)
    report.note(
        "peaks (VmHWM) of the largest process of each kind; Java's are of the whole process, not only its heap"
    )
    return report.print()


def _watched(command: list[str]) -> dict[str, int]:
    """Run a command, and return the peak memory of the largest process of each kind, bytes."""
    process = subprocess.Popen(command, stdout=subprocess.DEVNULL)
    peaks = dict.fromkeys(("driver, Python", "driver, Java", "executor, Java", "executor, Python"), 0)
    while process.poll() is None:
        for one in psutil.process_iter(["pid", "ppid", "cmdline"]):
            kind = _kind(process.pid, **one.info)
            if kind is not None:
                try:
                    peaks[kind] = max(peaks[kind], peak_rss(one.pid))
                except OSError:
                    continue  # The process has ended.
        time.sleep(0.2)
    if process.returncode:
        raise SystemExit(f"{' '.join(command)}: exit code {process.returncode}")
    return peaks


def _kind(driver: int, pid: int, ppid: int, cmdline: list[str] | None) -> str | None:
    """Return the kind of a process of the job, or None for another process."""
    words = cmdline or [""]
    if pid == driver:
        return "driver, Python"
    if any(word.endswith("CoarseGrainedExecutorBackend") for word in words):
        return "executor, Java"
    if "dumpfilter.spark_jobs.spark.daemon" in words:
        return "executor, Python"
    return "driver, Java" if ppid == driver and words[0].endswith("java") else None
