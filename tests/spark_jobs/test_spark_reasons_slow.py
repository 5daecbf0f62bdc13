"""The one-line reason of a job that Spark itself reports as failed."""

from __future__ import annotations

from typing import Any

import pytest

from dumpfilter.spark_jobs.spark import reason


def test_as_this_spark_says_it(spark: Any) -> None:
    def divides(number: int) -> float:
        return 1 / (number - number)

    with pytest.raises(Exception, match="ZeroDivisionError") as caught:
        spark.sparkContext.parallelize([1], 1).map(divides).collect()
    assert reason(caught.value) == "ZeroDivisionError: division by zero"
