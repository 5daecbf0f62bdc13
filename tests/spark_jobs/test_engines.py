"""Running tasks: results in order, and the first error of the product as itself."""

from __future__ import annotations

import pytest

from dumpfilter.base.errors import BinlogCorrupt, BinlogError
from dumpfilter.spark_jobs.engines import Amount, Runner, ThreadRunner, run_here
from dumpfilter.spark_jobs.ranges import Range, amount_of


@pytest.fixture(params=["here", "threads"])
def run(request: pytest.FixtureRequest) -> Runner:
    return run_here if request.param == "here" else ThreadRunner(3)


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
    found = run(_square, range(10), "squaring", amount=Amount(slices=slices))
    assert found == [number * number for number in range(10)]


def test_the_first_error_in_order_travels_as_itself(run: Runner) -> None:
    with pytest.raises(BinlogCorrupt, match="an event's length is 7") as caught:
        run(_corrupt, [1, 2, 3, 4, 5], "checking")
    assert (caught.value.file, caught.value.position) == ("bin.000001", 3)


def test_an_error_of_the_system_names_the_file(run: Runner) -> None:
    with pytest.raises(BinlogError, match=r"/data/bin\.000001: cannot be read: Permission denied"):
        run(_unreadable, [1], "reading")


def test_no_tasks_have_no_results(run: Runner) -> None:
    assert run(_square, [], "nothing") == []


@pytest.mark.parametrize(
    ("nbytes", "each", "tasks", "cores", "expected"),
    [
        (0, 10, 5, 1, 1),
        (100, 10, 5, 2, 5),
        (100, 10, 50, 2, 10),
        (101, 10, 50, 2, 11),
        # A core has eight tasks, each of at most eight times the size.
        (320, 10, 50, 2, 16),
        (320, 10, 50, 4, 32),
        (8000, 10, 900, 1, 100),
    ],
)
def test_slices(nbytes: int, each: int, tasks: int, cores: int, expected: int) -> None:
    ranges = [Range("bin.000001", 0, nbytes), *[Range("bin.000001", nbytes, nbytes)] * (tasks - 1)]
    assert amount_of(ranges, each, cores) == Amount("parts", nbytes, expected)
    assert amount_of(ranges) == Amount("parts", nbytes)
