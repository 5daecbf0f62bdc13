"""A running Spark context: the daemon that forks workers, and a task that dies."""

from __future__ import annotations

import os
import sys
from pathlib import Path
from typing import Any

import pytest

from dumpfilter.spark_jobs.options import SparkSettings
from dumpfilter.spark_jobs.spark import TASK_ATTEMPTS, SparkMissing, spark_context, under_spark_submit


def test_a_second_context_would_end_the_first(spark: Any) -> None:
    with (
        pytest.raises(SparkMissing, match="has a Spark context already"),
        spark_context(SparkSettings(master="local[1]")),
    ):
        pass
    assert spark.sparkContext.parallelize([1, 2], 1).sum() == 3


def _surroundings(_: int) -> tuple[str, int, bool, bool]:
    """Return a worker's surroundings: its parent's command and number of threads, the product, and spark-submit."""
    parent = Path(f"/proc/{os.getppid()}")
    threads = next(
        line for line in (parent / "status").read_text().splitlines() if line.startswith("Threads:")
    )
    imported = "dumpfilter.analyse.traffic.tally" in sys.modules
    return (parent / "cmdline").read_text(), int(threads.split()[1]), imported, under_spark_submit()


def test_workers_are_forked_with_the_product_from_a_process_with_one_thread(spark: Any) -> None:
    ((command, threads, imported, under_spark_submit),) = (
        spark.sparkContext.parallelize([0], 1).map(_surroundings).collect()
    )
    assert command.split("\0")[:3] == [sys.executable, "-m", "dumpfilter.spark_jobs.spark_daemon"]
    assert threads == 1
    assert imported
    assert not under_spark_submit


def test_a_task_that_dies_is_tried_again(spark: Any, tmp_path: Path) -> None:
    attempts = tmp_path / "attempts"

    def dies_at_first(number: int) -> int:
        with attempts.open("a") as log:
            log.write("x")
        if attempts.stat().st_size < TASK_ATTEMPTS:
            os._exit(1)
        return number * 2

    assert spark.sparkContext.parallelize([21], 1).map(dies_at_first).collect() == [42]
    assert attempts.stat().st_size == TASK_ATTEMPTS


def test_a_temporary_directory_with_a_space_in_its_name(spark: Any) -> None:
    scratch = spark.sparkContext.getConf().get("spark.local.dir")
    assert " " in scratch
    assert spark._jvm.java.lang.System.getProperty("java.io.tmpdir") == scratch
