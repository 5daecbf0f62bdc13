"""Evaluation of a run: lags and bytes, from the logs that the nodes wrote and the times at which the logs grew."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from dumpfilter.simulation.evaluate import PACKET_BYTES, content
from dumpfilter.simulation.flow import Arrived, Flow, Group, curves_of, outcomes_of, run_of, window_of
from dumpfilter.simulation.plan import Plan, PlannedNode
from dumpfilter.simulation.results import Method, Run, Setting
from dumpfilter.simulation.route import Form, Route, Router
from dumpfilter.simulation.traffic import Ints, SetTraffic
from dumpfilter.testbed.experiment.logs import Key, Log
from dumpfilter.topology.links.records import Span
from dumpfilter.topology.links.shape import Outage


@dataclass(frozen=True, eq=False)
class Committed:
    """The transactions of one origin (the server that wrote the binlog), with measured commit times."""

    traffic: SetTraffic
    keys: Mapping[Key, int]
    """The index of each transaction, by its identity."""
    is_whole: bool = True
    """Whether these are all transactions of the binlog set. Otherwise those before the run are left out."""


@dataclass(frozen=True)
class Crossing:
    """The bytes that passed a link (a connection between two nodes) in a run, and its outages."""

    bytes: int
    """The bytes that reached the target, with the protocols' overhead."""
    outages: tuple[Outage, ...] = ()
    """The outages. The times are seconds since the first commit."""
    spans: tuple[Span, ...] = ()
    """The bytes that passed the link over time. The times are seconds since the first commit."""


@dataclass(frozen=True)
class Measured:
    """All data of one measured run, from which its results are computed."""

    plan: Plan
    setting: Setting
    committed: Mapping[str, Committed]
    """The transactions of each origin, by its name."""
    received: Mapping[tuple[str, str], Log]
    """The received log of each channel, by the names of the node and of the source that it reads."""
    crossings: Mapping[str, Crossing]
    """The counters of each link, by its name."""


def figures(measured: Measured, *, limit: int) -> Run:
    """Return the results of a measured run: the lags of the nodes, and the bytes of the links.

    ``limit`` is the lag (microseconds) above which time is counted.
    """
    router = Router(measured.plan)
    groups = [
        Group(measured.setting, router.routes(node, measured.setting), (node,))
        for node in measured.plan.nodes
    ]
    flows = [[_flow(measured, group.nodes[0], *each) for each in enumerate(group.routes)] for group in groups]
    outcomes = [outcomes_of([group], each, limit=limit)[0] for group, each in zip(groups, flows, strict=True)]
    window = window_of(outcomes)
    return run_of(
        outcomes,
        [curves_of(*each, window) for each in zip(groups, flows, strict=True)],
        window,
        method=Method.MEASURED,
        setting=measured.setting,
    )


def _flow(measured: Measured, node: PlannedNode, number: int, route: Route) -> Flow:
    """Return the transactions that the channel ``number`` of a node received, and their bytes. Times are microseconds
    since the first commit.

    The first of several channels that share a link has the bytes that belong to none of them, too.
    """
    channel, last = node.channels[number], route.passages[-1]
    leg = channel.legs[-1]
    sharing = [one for one in node.channels if one.legs[-1].link == leg.link]
    is_first = channel is sharing[0]
    origin, log = measured.committed[channel.origin], measured.received[node.name, channel.name]
    traffic, crossing = origin.traffic, measured.crossings[leg.link]
    crossed = content(traffic, last.form, last.filter)
    sizes = np.zeros(len(traffic), np.int64)
    sizes[crossed.transaction] = crossed.bytes

    received = np.array(
        [
            (origin.keys[one.key], time, one.bytes, one.events)
            for one, time in zip(log.transactions, log.time.tolist(), strict=True)
            if one.key in origin.keys
        ],
        np.int64,
    ).reshape(-1, 4)
    times = np.full(len(traffic), -1, np.int64)
    times[received[:, 0]] = received[:, 1]
    expected = crossed.transaction if crossed.counts is None else crossed.transaction[crossed.counts]
    came = expected[times[expected] >= 0]
    committed = traffic.time[came] - traffic.time[:1]

    nbytes, events = received[:, 2:].sum(axis=0).tolist()
    if is_first and all(measured.committed[one.origin].is_whole for one in sharing):
        nbytes, events = nbytes + log.bytes_before, events + log.events_before
    # A real replica in place of a slave reads MySQL's protocol, too.
    nbytes += PACKET_BYTES * events if last.form in (Form.PACKETS, Form.STAND_INS) else 0
    return Flow(
        Arrived(
            came,
            committed,
            np.maximum.accumulate(times[came]) - traffic.time[:1],
            len(expected) - len(came),
        ),
        nbytes,
        None,
        (crossing.bytes if is_first else 0) - nbytes,
        [
            (_microseconds(one.start), None if one.end is None else _microseconds(one.end))
            for one in crossing.outages
        ],
        lambda: (committed, sizes[came]),
        lambda: _carried(crossing.spans if is_first else (), leg.shape.delay),
    )


def _carried(found: Sequence[Span], delay: float) -> tuple[Ints, Ints, Ints]:
    """Return the bytes that left the source over a link, protocol overhead included, as three int64 arrays.

    The arrays have the end of each interval, its bytes and its length, in microseconds since the first commit.
    Intervals that begin before the first commit are left out. ``delay`` (seconds) is the link's delay.
    """
    ends = np.array([_microseconds(one.start + one.seconds - delay) for one in found], np.int64)
    sizes = np.array([one.down for one in found], np.int64)
    lengths = np.array([_microseconds(one.seconds) for one in found], np.int64)
    inside = ends > lengths
    return ends[inside], sizes[inside], lengths[inside]


def _microseconds(seconds: float) -> int:
    return round(seconds * 1e6)
