"""Evaluation of a run: lags and bytes, from the logs that the nodes wrote and the times at which the logs grew."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from dumpfilter.simulation.evaluate import PACKET_BYTES, Content, content
from dumpfilter.simulation.flow import (
    Arrived,
    Flow,
    Group,
    curves_of,
    outcomes_of,
    run_of,
    window_of,
)
from dumpfilter.simulation.plan import Channel, Plan, PlannedNode
from dumpfilter.simulation.results import Method, Run, Setting
from dumpfilter.simulation.route import Form, Route, Router
from dumpfilter.simulation.traffic import Ints, SetTraffic
from dumpfilter.testbed.experiment.logged import Key, Log
from dumpfilter.topology.links.records import Counters, Span
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
    """The byte counters of a link (a connection between two nodes) after a run, and its outages."""

    counters: Counters
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
    limit: int
    repetition: int = 1


def figures(measured: Measured) -> Run:
    """Return the results of a measured run: the lags of the nodes, and the bytes of the links."""
    router = Router(measured.plan)
    groups = [
        Group(measured.setting, router.routes(node, measured.setting), (node,))
        for node in measured.plan.nodes
    ]
    flows = [[_flow(measured, group.nodes[0], *each) for each in enumerate(group.routes)] for group in groups]
    outcomes = [
        outcomes_of([group], each, limit=measured.limit)[0] for group, each in zip(groups, flows, strict=True)
    ]
    window = window_of(outcomes)
    return run_of(
        outcomes,
        [curves_of(*each, window) for each in zip(groups, flows, strict=True)],
        window,
        method=Method.MEASURED,
        setting=measured.setting,
        repetition=measured.repetition,
    )


def _flow(measured: Measured, node: PlannedNode, number: int, route: Route) -> Flow:
    """Return the transactions that the channel ``number`` of a node received, and their bytes.

    The first of several channels that share a link has the bytes that belong to none of them, too.
    """
    channel, last = node.channels[number], route.passages[-1]
    leg = channel.legs[-1]
    sharing = [one for one in node.channels if one.legs[-1].link == leg.link]
    origin, log = measured.committed[channel.origin], measured.received[node.name, channel.name]
    crossed = content(origin.traffic, last.form, last.filter)
    arrived = _arrived(measured, node, channel, crossed)
    sizes = np.zeros(len(origin.traffic), np.int64)
    sizes[crossed.transaction] = crossed.bytes
    counted = [one for one in log.transactions if one.key in origin.keys]
    nbytes, events = sum(one.bytes for one in counted), sum(one.events for one in counted)
    is_first = channel is sharing[0]
    if is_first and all(measured.committed[one.origin].is_whole for one in sharing):
        nbytes, events = nbytes + log.bytes_before, events + log.events_before
    # A real replica in place of a slave reads MySQL's protocol, too.
    nbytes += PACKET_BYTES * events if last.form in (Form.PACKETS, Form.STAND_INS) else 0
    crossing = measured.crossings[leg.link]
    return Flow(
        arrived,
        nbytes,
        None,
        (crossing.counters.down if is_first else 0) - nbytes,
        [
            (_microseconds(one.start), None if one.end is None else _microseconds(one.end))
            for one in crossing.outages
        ],
        lambda: (arrived.committed, sizes[arrived.transaction]),
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


def _arrived(measured: Measured, node: PlannedNode, channel: Channel, crossing: Content) -> Arrived:
    """Return the transactions of one origin that a channel received, with their commit and arrival times.

    The origin is the server that wrote the binlog. ``crossing`` has the transactions that must have crossed the link.
    The result also has the number of those that did not arrive. Times are microseconds since the first commit.
    """
    origin = measured.committed[channel.origin]
    received = measured.received[node.name, channel.name]
    expected = crossing.transaction if crossing.counts is None else crossing.transaction[crossing.counts]
    times = np.full(len(origin.traffic), -1, np.int64)
    for key, number in received.keys().items():
        if key in origin.keys:
            times[origin.keys[key]] = received.time[number]
    start = int(origin.traffic.time[0]) if len(origin.traffic) else 0
    came = expected[times[expected] >= 0]
    return Arrived(
        came,
        origin.traffic.time[came] - start,
        np.maximum.accumulate(times[came]) - start,
        len(expected) - len(came),
    )


def _microseconds(seconds: float) -> int:
    return round(seconds * 1e6)
