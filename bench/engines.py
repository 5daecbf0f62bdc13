"""The engines: the bandwidth job and the split on threads and on Spark, compared with a copy of the same files."""

from __future__ import annotations

import shutil
import time
from pathlib import Path

from bench._common import OUT, Options, Report, binlogs, interleaved
from bench.split import in_memory, spark_jobs
from dumpfilter.binlog.workload.generate import GeneratedSet

_RUNS = 3
"""The most timed runs of a case, since a run takes long."""
_LEAST = 2 << 30
"""The least size of the binlog, bytes. Over a small one, what a job costs once would count too much."""


def run(options: Options) -> bool:
    with in_memory() as memory:
        return _run(max(options.size, _LEAST), min(options.runs, _RUNS), memory)


def _run(size: int, runs: int, memory: Path) -> bool:
    report = Report("engines", "both engines after their start, on two cores, beside cp", size)
    made = binlogs(size, files=4, under=memory)
    used: dict[str, float] = {}
    with spark_jobs("local[2]") as jobs:

        def job(engine: str, kind: str) -> float:
            what = {"split": str(made.index), "output": str(memory / "engines-out")}
            if kind == "bandwidth":
                what = {"bandwidth": str(made.index)}
            seconds = jobs.run(**what, slaves=2, schemas=20, engine=engine)
            used[f"{kind}, {engine}"] = jobs.processor_seconds
            return seconds

        names = [(engine, kind) for kind in ("bandwidth", "split") for engine in ("local", "spark")]
        cases = {f"{kind}, {engine}": (lambda e=engine, k=kind: job(e, k)) for engine, kind in names}
        m = report.times(interleaved({"cp": lambda: _copy(made, memory / "copy"), **cases}, runs))
    for name, seconds in used.items():
        report.row(f"{name}: processor", seconds, f"{seconds:9.2f} s in all processes, last run")
    report.target("local bandwidth / cp", m["bandwidth, local"] / m["cp"], 3.0, at_most=True)
    report.target("local split / cp", m["split, local"] / m["cp"], 4.0, at_most=True)
    for kind in ("bandwidth", "split"):
        ratio = m[f"{kind}, spark"] / m[f"{kind}, local"]
        report.target(f"Spark / local, {kind}", ratio, 1.2, at_most=True)
    report.note(
        f"files in {'memory (tmpfs)' if memory != OUT else 'bench/out'}; cp is one thread with sendfile"
    )
    return report.print()


def _copy(made: GeneratedSet, folder: Path) -> float:
    """Copy the files as cp does, and return the seconds."""
    folder.mkdir()
    begin = time.perf_counter()
    for path in made.files:
        shutil.copyfile(path, folder / path.name)
    seconds = time.perf_counter() - begin
    shutil.rmtree(folder)
    return seconds
