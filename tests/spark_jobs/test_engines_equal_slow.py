"""Spark and the local engine give the same bytes."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from dumpfilter.spark_jobs.engines import ThreadRunner
from dumpfilter.spark_jobs.spark import SparkRunner
from dumpfilter.spark_jobs.split.job import SplitOptions, split
from tests.spark_jobs.split.dying import contents, different
from tests.spark_jobs.test_engines_equal import measured, source

__all__ = ["source"]

pytestmark = pytest.mark.xdist_group("spark")


def test_spark_gives_the_same_bytes(source: Path, spark: Any, tmp_path: Path) -> None:
    run = SparkRunner(lambda: spark.sparkContext)
    options = SplitOptions(range_size=60_000, max_binlog_size=50_000)
    split(source, tmp_path / "spark", run, options)
    split(source, tmp_path / "threads", ThreadRunner(3), options)
    assert different(contents(tmp_path / "threads"), contents(tmp_path / "spark")) == []
    assert measured(source, ThreadRunner(3), 60_000) == measured(source, run, 60_000)
