"""The split of 2 GB in 4 files on a standalone cluster of two workers, with the memory that its processes take.

The driver has 2 GB, each executor 1 GB.
"""

from __future__ import annotations

import shutil
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from pathlib import Path

from bench._common import Options, Report, binlogs, peak_rss
from bench.split import in_memory
from tests.spark_jobs.spark.cluster import Cluster

_SIZE = 2 << 30


def run(options: Options) -> bool:
    with in_memory() as memory, tempfile.TemporaryDirectory(prefix="dumpfilter-cluster-") as folder:
        cluster = Cluster(Path(folder))
        try:
            made = binlogs(_SIZE, schemas=200, files=4, under=memory)
            cluster.add_worker()
            cluster.add_worker()
            cluster.wait_for_workers()
            begin = time.perf_counter()
            peaks = _watched(
                [
                    *(sys.executable, "-m", "dumpfilter", "split", str(made.index)),
                    *("--output", str(memory / "cluster-out"), "--spark-master", cluster.master),
                    *("--driver-memory", "2g", "--executor-memory", "1g"),
                ]
            )
            seconds = time.perf_counter() - begin
        finally:
            cluster.close()
            shutil.rmtree(memory / "cluster-out", ignore_errors=True)
    report = Report(
        "split_cluster", "2 GB in 4 files, 200 schemas, in a driver of 2 GB and executors of 1 GB", _SIZE
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
        for pid, kind in _processes(process.pid):
            try:
                peaks[kind] = max(peaks[kind], peak_rss(pid))
            except (OSError, StopIteration):
                continue  # it has ended
        time.sleep(0.2)
    if process.returncode:
        raise SystemExit(f"{' '.join(command)}: exit code {process.returncode}")
    return peaks


def _processes(driver: int) -> Iterator[tuple[int, str]]:
    """Yield the processes of the job with their kinds."""
    yield driver, "driver, Python"
    for entry in Path("/proc").iterdir():
        if not entry.name.isdigit():
            continue
        try:
            words = (entry / "cmdline").read_bytes().split(b"\0")
            parent = int((entry / "stat").read_text().rpartition(")")[2].split()[1])
        except (OSError, IndexError):
            continue
        if any(word.endswith(b"CoarseGrainedExecutorBackend") for word in words):
            yield int(entry.name), "executor, Java"
        elif b"dumpfilter.spark_jobs.spark.daemon" in words:
            yield int(entry.name), "executor, Python"
        elif parent == driver and words[0].endswith(b"java"):
            yield int(entry.name), "driver, Java"
