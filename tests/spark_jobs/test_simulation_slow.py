"""The engines give equal results, to the byte and microsecond."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from dumpfilter.binlog.workload import generate, schema_names
from dumpfilter.filter.rules import FilterSemantics
from dumpfilter.simulation.flow import Hop
from dumpfilter.simulation.plan import Plan, plan_slaves
from dumpfilter.simulation.results import Results, Setting, Variant
from dumpfilter.simulation.simulate import Options, Search, simulate
from dumpfilter.spark_jobs.engines import Runner, ThreadRunner
from dumpfilter.spark_jobs.options import ReadOptions
from dumpfilter.spark_jobs.simulation import read_traffic
from dumpfilter.spark_jobs.spark import SparkRunner
from dumpfilter.topology.links.shape import LinkShape, Outage
from dumpfilter.topology.slaves_file import SlaveDefinition
from tests.spark_jobs.here import run_here
from tests.support import RECORDED_SETS, binlogs_in, recording_id

NAMES = schema_names(6)
RECORDINGS = RECORDED_SETS[::12]
SMALL = ReadOptions(range_size=96 << 10)


def plan() -> Plan:
    links = [
        LinkShape(rate=400_000),
        LinkShape(rate=2_000_000, delay=0.05),
        LinkShape(rate=2_000_000, delay=0.2),
        LinkShape(rate=700_001, delay=0.01, jitter=0.005),
        LinkShape(rate=900_000, outages=(Outage(1.0, 3.0),)),
    ]
    rules = [(), (f"--replicate-do-db={NAMES[0]}",), (f"--replicate-ignore-db={NAMES[1]}",)]
    slaves = [
        SlaveDefinition(f"s{k}-{n}", rule, FilterSemantics.CLASSIC, 0, link=link)
        for k, rule in enumerate(rules)
        for n, link in enumerate(links)
    ]
    return plan_slaves(slaves, "slaves")


SETTINGS = (
    *(Setting(variant=variant) for variant in Variant),
    *(Setting(variant=Variant.MASTER, rate=rate, load=load) for rate in (300_000, 10**7) for load in (1, 4)),
)
OPTIONS = Options(
    settings=SETTINGS,
    applier=Hop(50_000_000, fixed=100_000),
    searches=(Search("rate", Setting(variant=Variant.MASTER)),),
)


def simulated(source: Path | list[Path], run: Runner, options: ReadOptions) -> Results:
    slaves = plan()
    traffic = read_traffic(source, slaves.filters, run, options)
    return simulate(slaves, {slaves.origins[0]: traffic}, OPTIONS)


@pytest.fixture(scope="module")
def made(tmp_path_factory: pytest.TempPathFactory) -> Path:
    made = generate(tmp_path_factory.mktemp("set"), 1 << 20, schemas=6, tables=4, file_size=300 << 10)
    return made.index


def test_threads_and_spark_give_equal_results(made: Path, spark: Any) -> None:
    here = simulated(made, run_here, SMALL)
    assert simulated(made, ThreadRunner(3), SMALL) == here
    assert simulated(made, SparkRunner(lambda: spark.sparkContext), SMALL) == here
    lags = {one.lag.worst for run in here.runs for one in run.nodes}
    assert len(lags) > 30


@pytest.mark.parametrize("recording", RECORDINGS, ids=recording_id)
def test_threads_give_equal_results_over_recordings(recording: Path) -> None:
    options = SMALL.model_copy(update={"range_size": 4 << 10})
    files = binlogs_in(recording)
    assert simulated(files, ThreadRunner(3), options) == simulated(files, run_here, options)


def test_spark_gives_equal_results_over_a_recording(spark: Any) -> None:
    files = binlogs_in(RECORDINGS[-1])
    here = simulated(files, run_here, SMALL)
    assert simulated(files, SparkRunner(lambda: spark.sparkContext), SMALL) == here
