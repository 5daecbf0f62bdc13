"""A running topology: real processes, shaped links, and what one asks of them."""

from dumpfilter.testbed.bed import Testbed, up
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
from dumpfilter.testbed.links import TestbedLink
from dumpfilter.testbed.node import TestbedNode
from dumpfilter.testbed.values import ChannelState, Lag, LinkStatus, NodeStatus, Place, TestbedStatus

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
