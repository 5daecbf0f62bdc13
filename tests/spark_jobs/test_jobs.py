"""Running tasks: results in order, the first error of a kind we know, and Spark's own in one line."""

from __future__ import annotations

from typing import Any

import pytest

from dumpfilter.errors import BinlogCorrupt, BinlogError
from dumpfilter.spark_jobs.spark.jobs import Runner, SparkFailed, SparkRunner, run_here, slices_for


@pytest.fixture(params=["here", "on Spark"])
def run(request: pytest.FixtureRequest) -> Runner:
    if request.param == "here":
        return run_here
    session = request.getfixturevalue("spark")
    return SparkRunner(lambda: session.sparkContext)


def _square(number: int) -> int:
    return number * number


def _corrupt(number: int) -> int:
    if number > 2:
        raise BinlogCorrupt("an event's length is 7", file="bin.000001", position=number)
    return number


def _unreadable(number: int) -> int:
    raise PermissionError(13, "Permission denied", "/data/bin.000001")


@pytest.mark.parametrize("slices", [None, 1, 3, 100])
def test_results_come_in_the_tasks_order(run: Runner, slices: int | None) -> None:
    assert run(_square, range(10), "squaring", slices=slices) == [number * number for number in range(10)]


def test_the_first_error_in_order_travels_as_itself(run: Runner) -> None:
    with pytest.raises(BinlogCorrupt, match="an event's length is 7") as caught:
        run(_corrupt, [1, 2, 3, 4, 5], "checking")
    assert (caught.value.file, caught.value.position) == ("bin.000001", 3)


def test_an_error_of_the_system_names_the_file(run: Runner) -> None:
    with pytest.raises(BinlogError, match=r"/data/bin\.000001: cannot be read: Permission denied"):
        run(_unreadable, [1], "reading")


def test_no_spark_for_no_tasks() -> None:
    def never() -> Any:
        raise AssertionError

    assert SparkRunner(never)(_square, [], "nothing") == []


def test_waves(spark: Any, monkeypatch: pytest.MonkeyPatch) -> None:
    """Later tasks are not begun when an earlier wave has failed."""
    monkeypatch.setattr("dumpfilter.spark_jobs.spark.jobs._WAVE", 4)
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


@pytest.mark.parametrize(
    ("nbytes", "each", "tasks", "expected"),
    [(0, 10, 5, 1), (100, 10, 5, 5), (100, 10, 50, 10), (101, 10, 50, 11)],
)
def test_slices(nbytes: int, each: int, tasks: int, expected: int) -> None:
    assert slices_for(nbytes, each, tasks) == expected
