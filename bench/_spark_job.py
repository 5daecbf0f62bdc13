"""A process with a Spark context that runs and times jobs.

The process is started by ``python -m bench._spark_job MASTER DRIVER_MEMORY``. Each line of its standard input is a
job in JSON. It answers each job with a line that has the seconds. The jobs are:

- ``{"split": source, "output": directory}``
- ``{"bandwidth": source, "slaves": n}``
- ``{"simulate": source, "slaves": n, "filters": f, "rates": [...]}``

With ``"engine": "local"`` a job runs in threads of the process.
"""

from __future__ import annotations

import json
import random
import shutil
import sys
import tempfile
import time
from functools import partial
from pathlib import Path
from typing import Any

from dumpfilter.binlog.workload.generate import generate, schema_names
from dumpfilter.filter import FilterSemantics
from dumpfilter.simulation.plan import plan_slaves
from dumpfilter.simulation.results import Setting, Variant
from dumpfilter.simulation.simulate import Options, simulate
from dumpfilter.spark_jobs.bandwidth.job import bandwidth
from dumpfilter.spark_jobs.bandwidth.measured_set import BandwidthOptions
from dumpfilter.spark_jobs.engines.runner import Runner
from dumpfilter.spark_jobs.engines.threads import ThreadRunner
from dumpfilter.spark_jobs.simulation.traffic import read_traffic
from dumpfilter.spark_jobs.spark.context import SparkSettings, spark_context
from dumpfilter.spark_jobs.spark.jobs import SparkRunner
from dumpfilter.spark_jobs.split.job import SplitOptions, split
from dumpfilter.topology.links.shape import LinkShape
from dumpfilter.topology.slaves_file import SlaveDefinition

_SCHEMAS = 20


def main() -> None:
    master, driver_memory = sys.argv[1:]
    with spark_context(SparkSettings(master, driver_memory, "1g")) as context:
        run = SparkRunner(lambda: context)
        with tempfile.TemporaryDirectory() as folder:
            made = generate(Path(folder) / "set", 64 << 20)
            split(made.index, Path(folder) / "out", run, SplitOptions(range_size=1 << 20))
            bandwidth(made.index, linked_slaves(2, _SCHEMAS), run, BandwidthOptions(range_size=1 << 20))
            for engine in (run, ThreadRunner()):
                _simulate({"simulate": made.index, "slaves": 20, "filters": 2}, engine)
        print("null", flush=True)
        for line in sys.stdin:
            print(json.dumps(_job(json.loads(line), run)), flush=True)


def _job(job: dict[str, Any], spark: SparkRunner) -> float:
    run: Runner = ThreadRunner() if job.get("engine") == "local" else spark
    begin = time.perf_counter()
    if "split" in job:
        split(job["split"], Path(job["output"]), run)
    elif "simulate" in job:
        _simulate(job, run)
    else:
        bandwidth(job["bandwidth"], linked_slaves(job["slaves"], _SCHEMAS), run)
    seconds = time.perf_counter() - begin
    if "split" in job:
        shutil.rmtree(job["output"])
    return seconds


def _simulate(job: dict[str, Any], run: Runner) -> None:
    """Simulate slaves with links of their own, once with these links, or once for each of the given rates."""
    slaves = plan_slaves(linked_slaves(job["slaves"], job["filters"]), "bench")
    rates = job.get("rates") or [None]
    settings = tuple(Setting(variant=Variant.MASTER, rate=rate) for rate in rates)
    traffic = read_traffic(job["simulate"], slaves.filters, run)
    results = simulate(
        slaves,
        {slaves.origins[0]: traffic},
        Options(settings=settings),
        partial(ThreadRunner(), label="simulating"),
    )
    assert sum(one.count for one in results.runs[0].nodes) == job["slaves"]


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


if __name__ == "__main__":
    main()
