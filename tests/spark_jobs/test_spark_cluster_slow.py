"""A job on a real cluster whose executor has only Spark, Python and the packaged environment."""

from __future__ import annotations

import subprocess
from pathlib import Path

import pytest

import dumpfilter
from tests.spark_jobs.cluster import Cluster, spark_home
from tests.spark_jobs.here import split_here
from tests.spark_jobs.walking import ORACLE

pytestmark = pytest.mark.xdist_group("environment")

SCRIPT = Path(dumpfilter.__file__).with_name("__main__.py")

JOBS = [
    "dumpfilter.spark_jobs.split.job",
    "dumpfilter.spark_jobs.bandwidth.job",
    "dumpfilter.spark_jobs.binlog_source",
]


def test_the_split_by_spark_submit(
    environment: Path, tmp_path: Path, tmp_path_factory: pytest.TempPathFactory
) -> None:
    cluster = Cluster(tmp_path_factory.mktemp("cluster"))
    source = ORACLE / "mysql-row" / "bin.index"
    ran = cluster.submit(
        SCRIPT, "split", str(source), "--output", str(tmp_path / "out"), environment=environment
    )
    assert ran.returncode == 0, ran.stderr

    # The executor has run tasks from its unpacked environment, since Python left its compiled modules there.
    (executor,) = cluster.executors()
    packages = next(executor.glob("environment/lib/python*/site-packages"))
    for module in ("spark_jobs/__pycache__/ranges", "binlog/__pycache__/reader"):
        assert list(packages.glob(f"dumpfilter/{module}.*.pyc")), f"{executor} has not imported {module}"
    # The executor has compiled no kernel, so the packed kernels fit.
    kernels = [path for path in packages.rglob("dumpfilter/**/*.so") if path.parent.name == "__pycache__"]
    assert kernels
    newest = max(path.stat().st_mtime for path in kernels)
    assert newest < environment.stat().st_mtime
    # The environment has all packages that the jobs and the data source import.
    subprocess.run(
        [executor / "environment" / "bin" / "python", "-c", f"import {', '.join(JOBS)}"],
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
