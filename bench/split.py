"""The split: cost by the number of schemas, cores and memory, compared with mysqlbinlog --database for each schema."""

from __future__ import annotations

import os
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

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
from bench._process import processor_times
from bench._servers import binlog_program
from dumpfilter.binlog.workload.generate import GeneratedSet

_RUNS = 3
"""The most timed runs of a case, since a run takes long."""


@contextmanager
def in_memory() -> Iterator[Path]:
    """Yield a directory on a file system in memory, if there is one. Disks are slower than the measured code."""
    shared = Path("/dev/shm")
    if not (shared.is_dir() and os.access(shared, os.W_OK)):
        yield OUT
        return
    with tempfile.TemporaryDirectory(prefix="dumpfilter-bench-", dir=shared) as memory:
        yield Path(memory)


class SparkJobs:
    """A process with Spark that runs jobs."""

    def __init__(self, process: Child) -> None:
        self._process = process
        self.processor_seconds = 0.0
        """The processor time of the last job, in all processes but those that ended meanwhile."""
        process.answer()

    def run(self, **job: object) -> float:
        """Run a job and return its seconds, without Spark's start."""
        before = processor_times(self._process.pid)
        seconds = float(self._process.ask(job)["seconds"])
        after = processor_times(self._process.pid)
        self.processor_seconds = sum(used - before.get(one, 0.0) for one, used in after.items())
        return seconds


@contextmanager
def spark_jobs(master: str, *, driver_memory: str = "1g", executor_memory: str = "1g") -> Iterator[SparkJobs]:
    """Start a process with Spark, and run small jobs to warm it up."""
    with child(["-m", "bench._spark_job", master, driver_memory, executor_memory]) as process:
        yield SparkJobs(process)


def run(options: Options) -> bool:
    runs = min(options.runs, _RUNS)
    with in_memory() as memory:
        return _run(options.size, runs, memory)


def _run(size: int, runs: int, memory: Path) -> bool:
    report = Report("split", "the split, in the part after Spark's start", size)
    sets = {schemas: binlogs(size, schemas=schemas, files=4, under=memory) for schemas in (1, 20, 200)}
    single = binlogs(size, files=1, under=memory)
    output = str(memory / "split-out")
    with (
        spark_jobs("local[2]", driver_memory="2g") as two,
        spark_jobs("local[1]", driver_memory="2g") as one,
    ):
        cases = {
            f"{schemas} schema{'s' * (schemas > 1)}": (
                lambda made=made: two.run(split=str(made.index), output=output)
            )
            for schemas, made in sets.items()
        }
        m = report.times(interleaved(cases, runs))
        cores = interleaved(
            {
                "one file, local[1]": lambda: one.run(split=str(single.index), output=output),
                "one file, local[2]": lambda: two.run(split=str(single.index), output=output),
            },
            runs,
            warm_up=False,
        )
        c = report.times(cores)
        disk = binlogs(size, files=4)
        warm(disk)
        on_disk = interleaved(
            {
                "20 schemas, on a disk, synchronized": lambda: two.run(
                    split=str(disk.index), output=str(OUT / "o")
                )
            },
            1,
            warm_up=False,
        )
        d = report.times(on_disk)
    peer, seconds = _peer(size, memory)
    p = report.times({f"{peer} --database, 20 times": [seconds]})
    report.target("200 schemas / 1 schema", m["200 schemas"] / m["1 schema"], 1.5, at_most=True)
    report.target("local[1] / local[2], one file", c["one file, local[1]"] / c["one file, local[2]"], 1.7)
    (peer_seconds,) = p.values()
    report.target(f"{peer} / ours, 20 schemas", peer_seconds / m["20 schemas"], 5)
    (disk_seconds,) = d.values()
    report.row(
        "peer / ours on a disk", peer_seconds / disk_seconds, f"{peer_seconds / disk_seconds:.1f} times"
    )
    report.note(
        f"files in {'memory (tmpfs)' if memory != OUT else 'bench/out'}; the peer writes its text to /dev/null. "
        "Memory: the driver had 2 GB; see bench/split_cluster.py for executors of 1 GB"
    )
    return report.print()


def _peer(size: int, memory: Path) -> tuple[str, float]:
    """Run a server's program once for each schema, and return its name and seconds."""
    made = binlogs(size, style="mysql" if has_mysql() else "mariadb", files=4, under=memory)
    name, program = binlog_program()
    return name, timed(lambda: _each(program, [str(path) for path in made.files], made))


def _each(program: list[str], files: list[str], made: GeneratedSet) -> None:
    for schema in made.schemas:
        subprocess.run(
            [*program, f"--database={schema}", *files],
            check=True,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,  # mysqlbinlog warns of what --database does not do
        )
