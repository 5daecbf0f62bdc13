"""The comparison of the two replicas at the end of the demonstration."""

from __future__ import annotations

import pytest
from rich.console import Console

from dumpfilter.base.errors import DumpfilterError
from dumpfilter.testbed.demo.real_servers import ReplicaResult, check, print_replicas

AT_SOURCE = ReplicaResult("source", 1000, "0-1-7", {"shop.orders": "5"})
AT_DUMPFILTER = AT_SOURCE._replace(reads_from="dumpfilter", received=100)
EXPECTED = {"shop.orders": "5"}


def test_equal_replicas_hold_the_law(capsys: pytest.CaptureFixture[str]) -> None:
    found = [AT_SOURCE, AT_DUMPFILTER]
    check(found, EXPECTED)
    print_replicas(Console(width=80), found)
    assert "90.0 %" in capsys.readouterr().out


@pytest.mark.parametrize(
    "other",
    [
        AT_DUMPFILTER._replace(checksums={"shop.orders": "6"}),
        AT_DUMPFILTER._replace(checksums={}),
        AT_DUMPFILTER._replace(checksums={"shop.orders": "5", "hr.emp": "1"}),
        AT_DUMPFILTER._replace(gtids="0-1-6"),
    ],
    ids=["rows", "a missing table", "a table too many", "position"],
)
def test_a_difference_breaks_the_law(other: ReplicaResult) -> None:
    with pytest.raises(DumpfilterError, match="the replica of dumpfilter has"):
        check([AT_SOURCE, other], EXPECTED)


def test_replicas_that_are_wrong_together_break_the_law() -> None:
    with pytest.raises(DumpfilterError, match="the replica of source has"):
        check([AT_SOURCE, AT_DUMPFILTER], {"shop.orders": "6"})
