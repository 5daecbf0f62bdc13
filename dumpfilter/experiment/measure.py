"""The figures of a run, from the logs that the nodes wrote and the times at which the logs grew."""

from __future__ import annotations

from collections.abc import Iterable, Mapping, Sequence
from dataclasses import dataclass

import numpy as np

from dumpfilter.experiment.logged import Key, Log
from dumpfilter.links.records import Counters, Span
from dumpfilter.simulation import lag
from dumpfilter.simulation.arrivals import Arrived, by_origin, together
from dumpfilter.simulation.evaluate import PACKET_BYTES, content
from dumpfilter.simulation.lag import Lag
from dumpfilter.simulation.plan import Channel, Plan, PlannedNode
from dumpfilter.simulation.results import (
    LagFigures,
    LinkFigures,
    Method,
    NodeFigures,
    OutageFigures,
    Run,
    Series,
    Setting,
)
from dumpfilter.simulation.route import Route, Router
from dumpfilter.simulation.simulate import window_of
from dumpfilter.simulation.traffic import Ints, SetTraffic


@dataclass(frozen=True, eq=False)
class Committed:
    """The transactions of one origin, with measured times of commits."""

    traffic: SetTraffic
    keys: Mapping[Key, int]
    """The number of each transaction."""
    is_whole: bool = True
    """Whether the transactions are all of the binlog set. Those before the run are left out."""


@dataclass(frozen=True, eq=False)
class Received:
    """The log of one channel of a node."""

    log: Log
    time: Ints
    """The time at which each transaction of the log was complete, on the clock of the commits. -1: never."""


@dataclass(frozen=True)
class Crossing:
    """The counters of a link after a run, and its outages."""

    counters: Counters
    outages: tuple[tuple[float, float | None], ...] = ()
    """The start and end of each outage, seconds since the first commit."""
    spans: tuple[Span, ...] = ()
    """The bytes that passed the link over time. The times are seconds since the first commit."""


@dataclass(frozen=True)
class Measured:
    """Everything that one run left to be evaluated."""

    plan: Plan
    setting: Setting
    committed: Mapping[str, Committed]
    """By the name of the origin."""
    received: Mapping[tuple[str, str], Received]
    """By the names of the node and of the source that it reads."""
    crossings: Mapping[str, Crossing]
    """By the name of the link."""
    limit: int
    repetition: int = 1


def figures(measured: Measured) -> Run:
    """Return the figures of a run."""
    router = Router({key: number for number, key in enumerate(measured.plan.filters)})
    nodes: list[NodeFigures] = []
    links: dict[str, LinkFigures] = {}
    lags: dict[str, Ints] = {}
    ends: list[tuple[PlannedNode, list[Arrived]]] = []
    for node in measured.plan.nodes:
        routes = router.routes(node, measured.setting)
        arrived = [
            _arrived(measured, node, channel, route)
            for channel, route in zip(node.channels, routes, strict=True)
        ]
        ends.append((node, arrived))
        for channel, route, one in zip(node.channels, routes, arrived, strict=True):
            links.setdefault(channel.legs[-1].link, _link(measured, node, channel, route, one))
        nodes += _nodes(node, arrived, links, measured.limit)
    duration = max(
        (int(one.received.max()) for _, each in ends for one in each if len(one.received)), default=0
    )
    window = window_of(duration)
    spans = {"start": 0, "width": window.width, "count": window.count}
    carried: dict[str, tuple[int, ...]] = {}
    offered: dict[str, tuple[int, ...]] = {}
    for node, arrived in ends:
        joined = by_origin(_origins(node), arrived)
        series = [lag.series(one.committed, one.received, **spans) for one in joined]
        lags[node.name] = np.maximum.reduce(series)
        for channel, one in zip(node.channels, arrived, strict=True):
            sizes = _sizes(measured, channel, router.routes(node, measured.setting), node, one)
            name = channel.legs[-1].link
            offered[name] = tuple(lag.offered(one.committed, sizes, **spans).tolist())
            carried[name] = _carried(measured.crossings[name].spans, channel.legs[-1].shape.delay, spans)
    return Run(
        method=Method.MEASURED,
        setting=measured.setting,
        repetition=measured.repetition,
        duration=duration,
        links=tuple(links.values()),
        nodes=tuple(nodes),
        series=Series(
            start=0,
            width=window.width,
            offered=offered,
            carried=carried,
            lag={name: tuple(values.tolist()) for name, values in lags.items()},
        ),
    )


def _carried(found: Sequence[Span], delay: float, spans: Mapping[str, int]) -> tuple[int, ...]:
    """Return the bytes that left the source over a link in each span of a series, with those of the protocol."""
    ends = np.array([_microseconds(one.start + one.seconds - delay) for one in found], np.int64)
    sizes = np.array([one.down for one in found], np.int64)
    lengths = np.array([_microseconds(one.seconds) for one in found], np.int64)
    inside = ends > lengths
    carried = lag.carried(
        ends[inside],
        sizes[inside],
        lengths[inside],
        start=spans["start"],
        width=spans["width"],
        count=spans["count"],
    )
    return tuple(carried.tolist())


def _arrived(measured: Measured, node: PlannedNode, channel: Channel, route: Route) -> Arrived:
    """Return the transactions of one origin that a channel received, with their times."""
    origin = measured.committed[channel.origin]
    received = measured.received[node.name, channel.name]
    last = route.passages[-1]
    crossing = content(origin.traffic, last.form, last.filter)
    expected = crossing.transaction if crossing.counts is None else crossing.transaction[crossing.counts]
    times = np.full(len(origin.traffic), -1, np.int64)
    for key, number in received.log.keys().items():
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


def _sizes(
    measured: Measured, channel: Channel, routes: Sequence[Route], node: PlannedNode, arrived: Arrived
) -> Ints:
    """Return the bytes of each transaction that arrived."""
    last = routes[node.channels.index(channel)].passages[-1]
    traffic = measured.committed[channel.origin].traffic
    crossing = content(traffic, last.form, last.filter)
    sizes = np.zeros(len(traffic), np.int64)
    sizes[crossing.transaction] = crossing.bytes
    found: Ints = sizes[arrived.transaction]
    return found


def _link(
    measured: Measured, node: PlannedNode, channel: Channel, route: Route, arrived: Arrived
) -> LinkFigures:
    leg = channel.legs[-1]
    crossing = measured.crossings[leg.link]
    count, events = _crossed(measured, node, channel)
    count += 0 if leg.is_grpc else PACKET_BYTES * events
    hop = route.passages[-1].hop
    outages = tuple(
        OutageFigures(
            start=_microseconds(start),
            end=None if end is None else _microseconds(end),
            catch_up=None
            if end is None
            else lag.catch_up(arrived.committed, arrived.received, _microseconds(start), _microseconds(end)),
        )
        for start, end in crossing.outages
    )
    return LinkFigures(
        name=leg.link,
        source=leg.source,
        target=leg.target,
        rate=hop.rate,
        delay=hop.delay // 1000,
        jitter=hop.jitter // 1000,
        bytes=count,
        transactions=len(arrived.transaction),
        overhead=crossing.counters.down - count,
        outages=outages,
    )


def _crossed(measured: Measured, node: PlannedNode, channel: Channel) -> tuple[int, int]:
    """Return the bytes and the number of the events that crossed a link in a run."""
    origins = [
        measured.committed[one.origin] for one in node.channels if one.legs[-1].link == channel.legs[-1].link
    ]
    log = measured.received[node.name, channel.name].log
    is_whole = all(one.is_whole for one in origins)
    counted = [one for one in log.transactions if any(one.key in origin.keys for origin in origins)]
    return (
        sum(one.bytes for one in counted) + (log.bytes_before if is_whole else 0),
        sum(one.events for one in counted) + (log.events_before if is_whole else 0),
    )


def _microseconds(seconds: float) -> int:
    return round(seconds * 1e6)


def _nodes(
    node: PlannedNode, arrived: Sequence[Arrived], links: Mapping[str, LinkFigures], limit: int
) -> Iterable[NodeFigures]:
    measures = [lag.measure(one.committed, one.received, limit=limit, missing=one.missing) for one in arrived]
    whole = measures[0] if len(measures) == 1 else together(by_origin(_origins(node), arrived), limit)
    names = dict.fromkeys(channel.legs[-1].link for channel in node.channels)
    yield NodeFigures(
        name=node.name,
        transactions=whole.transactions,
        missing=whole.missing,
        bytes=sum(links[name].bytes for name in names),
        lag=_lag(whole),
    )
    if len(measures) > 1:
        for channel, one in zip(node.channels, measures, strict=True):
            yield NodeFigures(
                name=node.name,
                channel=channel.name,
                transactions=one.transactions,
                missing=one.missing,
                bytes=links[channel.legs[-1].link].bytes,
                lag=_lag(one),
            )


def _lag(one: Lag) -> LagFigures:
    return LagFigures(p50=one.p50, p95=one.p95, p99=one.p99, worst=one.worst, above=one.above)


def _origins(node: PlannedNode) -> list[str]:
    return [channel.origin for channel in node.channels]
