"""The comparison of the two replicas at the end of the demonstration."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any

import pytest
from rich.console import Console

from dumpfilter.demo.real_servers import _print_replicas


def replica(**more: object) -> Any:
    values: dict[str, object] = {
        "reads_from": "source",
        "received": 1000,
        "position": "0-1-7",
        "checksums": {"shop.orders": "5"},
    }
    values |= more
    return SimpleNamespace(**values | {"checksums": lambda: values["checksums"]})


SOURCE: Any = SimpleNamespace(sql=lambda _: [("shop.orders", 5)])


@pytest.mark.parametrize(
    "other",
    [
        {"checksums": {"shop.orders": "6"}},
        {"checksums": {}},
        {"checksums": {"shop.orders": "5", "hr.emp": "1"}},
        {"position": "0-1-6"},
    ],
    ids=["rows", "a missing table", "a table too many", "position"],
)
def test_a_difference_breaks_the_law(other: dict[str, object], capsys: pytest.CaptureFixture[str]) -> None:
    replicas = [replica(), replica(reads_from="dumpfilter", received=100)]
    assert _print_replicas(Console(width=80), replicas, SOURCE)
    said = capsys.readouterr().out
    assert "are equal" in said
    assert "90.0 %" in said
    assert not _print_replicas(Console(width=80), [replica(), replica(**other)], SOURCE)
    assert "NOT equal" in capsys.readouterr().out


def test_replicas_that_are_wrong_together_break_the_law(capsys: pytest.CaptureFixture[str]) -> None:
    wrong = replica(checksums={"shop.orders": "6"})
    assert not _print_replicas(Console(width=80), [wrong, wrong], SOURCE)
