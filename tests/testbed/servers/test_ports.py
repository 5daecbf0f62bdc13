"""The ports that nodes and servers get."""

from __future__ import annotations

import pytest

from dumpfilter.testbed.servers import server as module
from dumpfilter.testbed.servers.server import free_ports


def test_the_ports_of_one_node_differ(monkeypatch: pytest.MonkeyPatch) -> None:
    first, other = 5001, 5002
    drawn = iter([first, first, first, other])
    monkeypatch.setattr(module, "free_port", lambda: next(drawn))

    assert set(free_ports(2)) == {first, other}
