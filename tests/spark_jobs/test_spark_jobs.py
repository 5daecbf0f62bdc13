"""The runner of tasks on Spark, as far as it works without Spark."""

from __future__ import annotations

from typing import Any

from dumpfilter.spark_jobs.spark import SparkRunner


def test_no_spark_for_no_tasks() -> None:
    def never() -> Any:
        raise AssertionError

    assert SparkRunner(never)(abs, [], "nothing") == []
