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
    LinkOutcome,
    Outcome,
    curves_of,
    link_figures,
    node_figures,
    outages_of,
    outcomes_of,
    series_of,
    window_of,
)
from dumpfilter.simulation.plan import Channel, Plan, PlannedNode
from dumpfilter.simulation.results import Method, NodeFigures, Run, Setting
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
    found: list[tuple[Group, list[Flow], Outcome]] = []
    for node in measured.plan.nodes:
        group = Group(router.routes(node, measured.setting), (node,))
        flows = [
            _flow(measured, node, channel, route)
            for channel, route in zip(node.channels, group.routes, strict=True)
        ]
        (outcome,) = outcomes_of(group.routes, flows, limit=measured.limit)
        found.append((group, flows, outcome))
    duration = max(outcome.duration for *_, outcome in found)
    window = window_of(duration)
    curves = [curves_of(group, flows, window) for group, flows, _ in found]
    # The channels of a node that read several origins of one source share a link.
    links = {link.name: link for group, _, outcome in found for link in link_figures(group, outcome)}
    nodes: list[NodeFigures] = []
    for group, _, outcome in found:
        names = {channel.legs[-1].link for channel in group.nodes[0].channels}
        nodes += node_figures(group, outcome, sum(links[name].bytes for name in names))
    return Run(
        method=Method.MEASURED,
        setting=measured.setting,
        repetition=measured.repetition,
        duration=duration,
        links=tuple(links.values()),
        nodes=tuple(nodes),
        series=series_of(window, curves),
    )


def _flow(measured: Measured, node: PlannedNode, channel: Channel, route: Route) -> Flow:
    leg, last = channel.legs[-1], route.passages[-1]
    traffic = measured.committed[channel.origin].traffic
    crossing = measured.crossings[leg.link]
    crossed = content(traffic, last.form, last.filter)
    arrived = _arrived(measured, node, channel, crossed)
    sizes = np.zeros(len(traffic), np.int64)
    sizes[crossed.transaction] = crossed.bytes
    nbytes, events = _crossed(measured, node, channel)
    # A real replica in place of a slave reads MySQL's protocol, too.
    nbytes += PACKET_BYTES * events if last.form in (Form.PACKETS, Form.STAND_INS) else 0
    outages = [
        (_microseconds(one.start), None if one.end is None else _microseconds(one.end))
        for one in crossing.outages
    ]
    link = LinkOutcome(
        nbytes,
        len(arrived.transaction),
        overhead=crossing.counters.down - nbytes,
        outages=outages_of(arrived, outages),
    )
    return Flow(
        arrived,
        link,
        (arrived.committed, sizes[arrived.transaction]),
        _carried(crossing.spans, leg.shape.delay),
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


def _crossed(measured: Measured, node: PlannedNode, channel: Channel) -> tuple[int, int]:
    """Return the bytes and the number of the source's events that a channel received over its link in a run."""
    origins = [
        measured.committed[one.origin] for one in node.channels if one.legs[-1].link == channel.legs[-1].link
    ]
    log = measured.received[node.name, channel.name]
    is_whole = all(one.is_whole for one in origins)
    counted = [one for one in log.transactions if any(one.key in origin.keys for origin in origins)]
    return (
        sum(one.bytes for one in counted) + (log.bytes_before if is_whole else 0),
        sum(one.events for one in counted) + (log.events_before if is_whole else 0),
    )


def _microseconds(seconds: float) -> int:
    return round(seconds * 1e6)
