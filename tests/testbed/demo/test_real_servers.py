"""The comparison of the two replicas at the end of the demonstration."""

from __future__ import annotations

import pytest

from dumpfilter.base.errors import DumpfilterError
from dumpfilter.testbed.demo.run import check

GOOD = {"database shop": "present", "table shop.orders": "5"}
MORE = {**GOOD, "table hr.emp": "1"}


def test_equal_replicas_hold_the_law() -> None:
    check([GOOD, GOOD], ["0-1-7", "0-1-7"], "5")


@pytest.mark.parametrize(
    ("data", "gtids", "kept"),
    [
        ([GOOD, {**GOOD, "table shop.orders": "6"}], ["0-1-7", "0-1-7"], "5"),
        ([GOOD, {"database shop": "present"}], ["0-1-7", "0-1-7"], "5"),
        ([GOOD, MORE], ["0-1-7", "0-1-7"], "5"),
        ([MORE, MORE], ["0-1-7", "0-1-7"], "5"),
        ([GOOD, GOOD], ["0-1-7", "0-1-6"], "5"),
        ([GOOD, GOOD], ["0-1-7", "0-1-7"], "6"),
    ],
    ids=["rows", "a missing table", "a table too many", "too many at both", "position", "wrong together"],
)
def test_a_difference_breaks_the_law(data: list[dict[str, str]], gtids: list[str], kept: str) -> None:
    with pytest.raises(DumpfilterError, match="the replica of dumpfilter has"):
        check(data, gtids, kept)
