"""The facts of a slave over all its channels."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest

from dumpfilter.binlog.gtid import MariadbGtidSet, MysqlGtidSet
from dumpfilter.slave.facts import executed

ONE, OTHER = "5a8b8d0a-e543-11f1-9c8d-02fc00000001", "5a8b8d0a-e543-11f1-9c8d-02fc00000002"


@pytest.mark.parametrize(
    ("of_channels", "told"),
    [
        ([], ""),
        ([None, None], ""),
        ([MysqlGtidSet.parse(f"{ONE}:1-3")], f"{ONE}:1-3"),
        (
            [
                None,
                MysqlGtidSet.parse(f"{ONE}:1-3"),
                MariadbGtidSet.parse("0-1-7"),
                MysqlGtidSet.parse(f"{OTHER}:5"),
            ],
            f"{ONE}:1-3,{OTHER}:5",
        ),
        (
            [MariadbGtidSet.parse("0-1-7"), MysqlGtidSet.parse(f"{ONE}:1"), MariadbGtidSet.parse("1-2-9")],
            "0-1-7,1-2-9",
        ),
    ],
)
def test_the_executed_gtids_are_those_of_one_family(of_channels: list[Any], told: str) -> None:
    found = executed([SimpleNamespace(executed=one) for one in of_channels])  # type: ignore[misc]
    assert str(found or "").replace("\n", "").replace(" ", "") == told
