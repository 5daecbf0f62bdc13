"""A process with a Spark context that runs and times jobs.

The process is started by ``python -m bench._spark_job MASTER DRIVER_MEMORY EXECUTOR_MEMORY``. Each line of its
standard input is a job in JSON: ``{"split": source, "output": directory}`` or ``{"bandwidth": source, "slaves": n,
"schemas": m}``. It answers each job with a line of JSON that has the seconds and the peak memory in MiB.
"""

from __future__ import annotations

import json
import resource
import shutil
import sys
import tempfile
import time
from pathlib import Path
from typing import Any

from dumpfilter.filter import FilterSemantics
from dumpfilter.spark_jobs.bandwidth.job import BandwidthOptions, bandwidth
from dumpfilter.spark_jobs.spark.context import SparkSettings, spark_context
from dumpfilter.spark_jobs.spark.jobs import SparkRunner
from dumpfilter.spark_jobs.split.job import SplitOptions, split
from dumpfilter.topology.slaves_file import SlaveDefinition
from dumpfilter.workload.generate import generate, schema_names


def main() -> None:
    master, driver_memory, executor_memory = sys.argv[1:]
    with spark_context(SparkSettings(master, driver_memory, executor_memory)) as context:
        run = SparkRunner(lambda: context)
        with tempfile.TemporaryDirectory() as folder:
            made = generate(Path(folder) / "set", 64 << 20)
            split(made.index, Path(folder) / "out", run, SplitOptions(range_size=1 << 20))
            bandwidth(made.index, _slaves(2, 20), run, BandwidthOptions(range_size=1 << 20))
        print("{}", flush=True)
        for line in sys.stdin:
            print(json.dumps(_job(json.loads(line), run)), flush=True)


def _job(job: dict[str, Any], run: SparkRunner) -> dict[str, float]:
    begin = time.perf_counter()
    if "split" in job:
        split(job["split"], Path(job["output"]), run)
    else:
        bandwidth(job["bandwidth"], _slaves(job["slaves"], job["schemas"]), run)
    seconds = time.perf_counter() - begin
    if "split" in job:
        shutil.rmtree(job["output"])
    return {"seconds": seconds, "rss": resource.getrusage(resource.RUSAGE_SELF).ru_maxrss / 1024}


def _slaves(number: int, schemas: int) -> list[SlaveDefinition]:
    """Return slaves that have different filters."""
    names = schema_names(schemas)
    return [
        SlaveDefinition(
            f"slave-{k}",
            (
                f"--replicate-do-db={names[k % schemas]}",
                f"--replicate-do-db={names[(7 * k + 3) % schemas]}",
                f"--replicate-wild-ignore-table={names[k % schemas]}.table\\_0{k % 10}%",
            ),
            FilterSemantics.CLASSIC,
            0,
            1000 + k,
        )
        for k in range(number)
    ]


if __name__ == "__main__":
    main()
