"""Running replication topologies for tests: real processes, network links with rate and delay, and their status.

Enters: a topology. Leaves: running processes, positions, lags, the results of checks against the law (filtering must be
invisible to a node's data), and the artifacts of a run. The package imports everything but harness and commands.

The modules that run a topology are imported when one of their names is first used, so that commands that only query a
running topology answer at once.
"""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING

from dumpfilter.testbed.errors import (
    LawBroken,
    NodeIsDown,
    NotCaughtUp,
    NotRunnable,
    NotUp,
    SqlFailed,
    StartFailed,
    TestbedError,
    TopologyBusy,
    Unknown,
)
from dumpfilter.testbed.values import ChannelState, Lag, LinkStatus, NodeStatus, Place, TestbedStatus

if TYPE_CHECKING:
    from dumpfilter.testbed.bed import Testbed
    from dumpfilter.testbed.links import TestbedLink
    from dumpfilter.testbed.node import TestbedNode
    from dumpfilter.testbed.starting import up

_MODULES = {
    "Testbed": "dumpfilter.testbed.bed",
    "TestbedLink": "dumpfilter.testbed.links",
    "TestbedNode": "dumpfilter.testbed.node",
    "up": "dumpfilter.testbed.starting",
}

__all__ = [
    "ChannelState",
    "Lag",
    "LawBroken",
    "LinkStatus",
    "NodeIsDown",
    "NodeStatus",
    "NotCaughtUp",
    "NotRunnable",
    "NotUp",
    "Place",
    "SqlFailed",
    "StartFailed",
    "Testbed",
    "TestbedError",
    "TestbedLink",
    "TestbedNode",
    "TestbedStatus",
    "TopologyBusy",
    "Unknown",
    "up",
]


def __getattr__(name: str) -> object:
    """Import a name's module at the first use of the name (PEP 562)."""
    if name not in _MODULES:
        raise AttributeError(f"module {__name__!r} has no attribute {name!r}")
    return getattr(importlib.import_module(_MODULES[name]), name)
