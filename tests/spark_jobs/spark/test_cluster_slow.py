"""Jobs on a real cluster whose executors have only Spark, Python and the packaged environment."""

from __future__ import annotations

import subprocess
import sys
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path

import pytest

import dumpfilter
from tests.spark_jobs.here import split_here
from tests.spark_jobs.spark.cluster import Cluster, spark_home
from tests.spark_jobs.walking import ORACLE

pytestmark = pytest.mark.xdist_group("environment")

SCRIPT = Path(dumpfilter.__file__).with_name("__main__.py")

JOBS = [
    "dumpfilter.spark_jobs.split.job",
    "dumpfilter.spark_jobs.bandwidth.job",
    "dumpfilter.spark_jobs.binlog_source",
]

FIRST_JOB = """
import os
from dumpfilter.spark_jobs.spark import context as session
session.NO_WORKER_AFTER = 0.1
settings = session.SparkSettings({master!r}, executor_memory="512m", conf=("spark.executorEnv.TOLD=by --conf",))
with session.spark_context(settings) as context:
    told = context.parallelize([1, 2], 2).map(lambda number: (number, os.environ.get("TOLD"))).collect()
    print(context.master, told)
"""


@dataclass
class Waited:
    """A cluster, and the output of a job that started before any worker."""

    cluster: Cluster
    notice: str
    result: str


@pytest.fixture(scope="module")
def waited(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Waited]:
    cluster = Cluster(tmp_path_factory.mktemp("cluster"))
    try:
        with subprocess.Popen(
            [sys.executable, "-c", FIRST_JOB.format(master=cluster.master)],
            stdout=subprocess.PIPE,
            stderr=subprocess.PIPE,
            text=True,
        ) as job:
            assert job.stderr is not None
            notice = job.stderr.readline()
            cluster.add_worker()
            result, _ = job.communicate()
        yield Waited(cluster, notice, result)
    finally:
        cluster.close()


def test_a_job_without_a_worker_says_so_and_continues_with_one(waited: Waited) -> None:
    assert waited.notice.startswith(f"dumpfilter: no executor of {waited.cluster.master} is ready yet")
    assert "512m of memory free (--executor-memory)" in waited.notice
    # A variable of --conf has reached the executors, whose worker had started without it.
    assert waited.result == f"{waited.cluster.master} [(1, 'by --conf'), (2, 'by --conf')]\n"


def test_the_split_by_spark_submit(waited: Waited, environment: Path, tmp_path: Path) -> None:
    source = ORACLE / "mysql-row" / "bin.index"
    both = {"spark.executor.cores": "1", "spark.scheduler.minRegisteredResourcesRatio": "1"}
    before = set(waited.cluster.executors())
    ran = waited.cluster.submit(
        SCRIPT,
        "split",
        str(source),
        "--output",
        str(tmp_path / "out"),
        environment=environment,
        settings=both,
    )
    assert ran.returncode == 0, ran.stderr

    # Each executor has run tasks from its unpacked environment, since Python left its compiled modules there.
    executors = set(waited.cluster.executors()) - before
    assert len(executors) == 2
    for executor in executors:
        packages = next(executor.glob("environment/lib/python*/site-packages"))
        for module in ("spark_jobs/ranges/__pycache__/range_index", "binlog/__pycache__/reader"):
            assert list(packages.glob(f"dumpfilter/{module}.*.pyc")), f"{executor} has not imported {module}"
        # No executor has compiled a kernel, so the packed kernels fit.
        kernels = [path for path in packages.rglob("dumpfilter/**/*.so") if path.parent.name == "__pycache__"]
        assert kernels
        newest = max(path.stat().st_mtime for path in kernels)
        assert newest < environment.stat().st_mtime
    # The environment has all packages that the jobs and the data source import.
    subprocess.run(
        [executors.pop() / "environment" / "bin" / "python", "-c", f"import {', '.join(JOBS)}"],
        env={"PYTHONPATH": ":".join(map(str, spark_home().glob("python/lib/*.zip")))},
        cwd=tmp_path,
        check=True,
    )

    here = split_here(source, tmp_path / "here")
    names = sorted(path.name for path in here.directory.glob("*-bin.*"))
    assert names
    assert sorted(path.name for path in (tmp_path / "out").glob("*-bin.*")) == names
    for name in names:
        assert (tmp_path / "out" / name).read_bytes() == (here.directory / name).read_bytes(), name
