"""The comparison of a replica with its reference, while the source still writes."""

from __future__ import annotations

import time
from types import SimpleNamespace
from typing import Any, cast

import pytest

from dumpfilter.testbed import law
from dumpfilter.testbed.law import References
from dumpfilter.testbed.node import Ground
from dumpfilter.testbed.nodes import StartedServer


def test_what_a_replica_applies_during_the_comparison_is_no_difference(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    applied = {"replica": "0-1-1", "reference": "0-1-1"}

    def read_while_a_transaction_comes(_: Any) -> dict[str, str]:
        data = {"view v": applied["replica"]}
        if applied["reference"] == "0-1-1":
            applied["replica"] = "0-1-2"
        return data

    def catch_up(_: float) -> None:
        applied["reference"] = applied["replica"]

    server = SimpleNamespace(name="r", applied_gtids=lambda: applied["replica"])
    hidden = SimpleNamespace(server=None, catch_up=catch_up)
    monkeypatch.setattr(law, "read_data", read_while_a_transaction_comes)
    monkeypatch.setattr(law, "gtids_of", lambda _: applied["reference"])
    monkeypatch.setattr(References, "_reference", lambda *_: (hidden, [hidden]))
    node = cast("StartedServer", SimpleNamespace(name="r", server=server))
    assert References(cast("Ground", None)).check(node, time.monotonic() + 60) == []
    assert applied == {"replica": "0-1-2", "reference": "0-1-2"}


def test_a_mariadb_replica_with_two_sources_must_have_the_highest_gtid_of_each_domain() -> None:
    def server(gtids: str) -> StartedServer:
        its = SimpleNamespace(family="mariadb", applied_gtids=lambda: gtids)
        return cast("StartedServer", SimpleNamespace(server=its))

    firsts = [server("0-101-113,1-104-7"), server("0-101-114"), server("")]
    assert law.gtids_of(firsts) == "0-101-114,1-104-7"
