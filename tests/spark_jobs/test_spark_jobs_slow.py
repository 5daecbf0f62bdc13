"""Running tasks on Spark: the tests of all engines, waves of tasks, and Spark's own errors."""

from __future__ import annotations

from typing import Any

import pytest

from dumpfilter.base.errors import BinlogCorrupt
from dumpfilter.spark_jobs.engines import Runner
from dumpfilter.spark_jobs.spark import SparkFailed, SparkRunner
from tests.spark_jobs.test_engines import (
    test_an_error_of_the_system_names_the_file,
    test_results_come_in_the_tasks_order,
    test_the_first_error_in_order_travels_as_itself,
)

__all__ = [
    "test_an_error_of_the_system_names_the_file",
    "test_results_come_in_the_tasks_order",
    "test_the_first_error_in_order_travels_as_itself",
]

pytestmark = pytest.mark.xdist_group("spark")


@pytest.fixture
def run(spark: Any) -> Runner:
    return SparkRunner(lambda: spark.sparkContext)


def test_waves(spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Later tasks do not start after a task of an earlier wave has failed."""
    monkeypatch.setattr("dumpfilter.spark_jobs.spark._WAVE", 4)
    done = spark.sparkContext.accumulator(0)

    def task(number: int) -> None:
        done.add(1)
        if number == 3:
            raise BinlogCorrupt("no")

    tasks = list(range(20))
    with pytest.raises(BinlogCorrupt):
        SparkRunner(lambda: spark.sparkContext)(task, tasks, "checking")
    assert done.value == 4 * spark.sparkContext.defaultParallelism


def _bug(number: int) -> None:
    raise ZeroDivisionError("a bug")


def test_other_errors_are_sparks(spark: Any) -> None:
    with pytest.raises(SparkFailed, match=r"^the Spark job failed: ZeroDivisionError: a bug$"):
        SparkRunner(lambda: spark.sparkContext)(_bug, [1], "checking")
