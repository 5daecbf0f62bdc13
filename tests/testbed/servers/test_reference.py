"""The comparison of a replica with its reference, while the source still writes."""

from __future__ import annotations

from pathlib import Path
from types import SimpleNamespace
from typing import Any, cast

import pytest

from dumpfilter.testbed.servers import reference
from dumpfilter.testbed.servers.reference import References
from dumpfilter.testbed.servers.server import Server


def test_what_a_replica_applies_during_the_comparison_is_no_difference(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    applied = {"replica": "0-1-1", "reference": "0-1-1"}

    def read_while_a_transaction_comes(_: Any) -> dict[str, str]:
        data = {"view v": applied["replica"]}
        if applied["reference"] == "0-1-1":
            applied["replica"] = "0-1-2"
        return data

    def reach(gtids: str, _: float) -> None:
        applied["reference"] = gtids

    replica = SimpleNamespace(name="r", applied_gtids=lambda: applied["replica"])
    other = SimpleNamespace(server=None, reach=reach, gtids=lambda: applied["reference"])
    monkeypatch.setattr(reference, "read_data", read_while_a_transaction_comes)
    monkeypatch.setattr(References, "_reference", lambda *_: other)
    assert References(tmp_path).check(cast("Server", replica), {}, 60.0) == []
    assert applied == {"replica": "0-1-2", "reference": "0-1-2"}
