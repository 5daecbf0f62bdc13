"""Running tasks: results in order, and the first error of the product as itself."""

from __future__ import annotations

from functools import partial
from itertools import chain

import pytest

from dumpfilter.base.errors import BinlogCorrupt, BinlogError
from dumpfilter.spark_jobs.engines import Runner, ThreadRunner, for_each


@pytest.fixture(params=[1, 3])
def run(request: pytest.FixtureRequest) -> Runner:
    return ThreadRunner(request.param)


def _square(number: int) -> int:
    return number * number


def _corrupt(number: int) -> int:
    if number > 2:
        raise BinlogCorrupt("an event's length is 7", file="bin.000001", position=number)
    return number


def _unreadable(number: int) -> int:
    raise PermissionError(13, "Permission denied", "/data/bin.000001")


def test_results_come_in_the_tasks_order(run: Runner) -> None:
    squares = [number * number for number in range(10)]
    assert run(_square, range(10), "squaring") == squares
    groups = [range(4), range(4, 5), range(5, 10)]
    assert list(chain(*run(partial(for_each, _square), groups, "squaring"))) == squares


def test_the_first_error_in_order_travels_as_itself(run: Runner) -> None:
    with pytest.raises(BinlogCorrupt, match="an event's length is 7") as caught:
        run(_corrupt, [1, 2, 3, 4, 5], "checking")
    assert (caught.value.file, caught.value.position) == ("bin.000001", 3)


def test_an_error_of_the_system_names_the_file(run: Runner) -> None:
    with pytest.raises(BinlogError, match=r"/data/bin\.000001: cannot be read: Permission denied"):
        run(_unreadable, [1], "reading")


def test_no_tasks_have_no_results(run: Runner) -> None:
    assert run(_square, [], "nothing") == []
