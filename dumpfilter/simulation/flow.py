"""The transactions that arrive over a channel, and the lag and byte counts of a node computed from them.

A simulation computes arrival times and bytes; an experiment measures them. Both use this module for the figures.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

import numpy as np

from dumpfilter.simulation import lag
from dumpfilter.simulation.lag import Lag, Window
from dumpfilter.simulation.plan import Leg, PlannedNode
from dumpfilter.simulation.results import LagFigures, LinkFigures, NodeFigures, OutageFigures, Series
from dumpfilter.simulation.route import Form, Passage, Route
from dumpfilter.simulation.traffic import Ints

POINTS = 400
"""The maximum number of intervals in a series (figures over time)."""
_WIDTHS = [step * 10**power for power in range(3, 13) for step in (1, 2, 5)]
"""The interval widths that a series may have, microseconds."""


class Arrived(NamedTuple):
    """The transactions that arrived at the end of a route. Times are microseconds since the start of the run."""

    transaction: Ints
    committed: Ints
    received: Ints
    missing: int
    """The number of transactions that never arrive. The arrays leave them out."""


@dataclass(frozen=True)
class LinkOutcome:
    """The traffic of the last link of a route: bytes, transactions, messages, and outages (microseconds)."""

    bytes: int
    transactions: int
    messages: int | None = None
    overhead: int | None = None
    """The bytes that the protocols add to the events. None: not known."""
    outages: tuple[OutageFigures, ...] = ()


class Flow(NamedTuple):
    """The transactions of one origin that came over one channel. Times are microseconds since the start of the run."""

    arrived: Arrived
    link: LinkOutcome
    offered: tuple[Ints, Ints]
    """Two arrays for the last link: the time at which the sender had each transaction, and the transaction's bytes."""
    carried: tuple[Ints, Ints, Ints]
    """Three arrays for the last link: the time at which each transaction's last byte left, its bytes, and the
    duration of sending them.
    """


@dataclass(frozen=True)
class Outcome:
    """The lag of a node in one run, and the traffic of its links."""

    lag: Lag
    channels: Sequence[Lag]
    links: tuple[LinkOutcome, ...]
    """The traffic of the last link of each channel."""
    duration: int
    """The time at which the node had received everything, microseconds since the start of the run."""


@dataclass(frozen=True)
class Group:
    """Nodes with equal routes, and therefore equal lag and traffic."""

    routes: tuple[Route, ...]
    nodes: tuple[PlannedNode, ...]


def window_of(duration: int) -> Window:
    """Return the intervals of a series for a run of ``duration`` microseconds: at most ``POINTS``, with a round
    width.

    >>> window_of(60_000_000)
    Window(width=200000, count=301)
    """
    width = next((each for each in _WIDTHS if duration // each < POINTS), _WIDTHS[-1])
    return Window(width, duration // width + 1)


def outages_of(arrived: Arrived, outages: Iterable[tuple[int, int | None]]) -> tuple[OutageFigures, ...]:
    """Return for each outage the time that the reader needed to catch up. ``outages`` has start and end (None: no
    end) of each, microseconds.
    """
    return tuple(
        OutageFigures(
            start=start,
            end=end,
            catch_up=None
            if end is None or arrived.missing
            else lag.catch_up(arrived.committed, arrived.received, start, end),
        )
        for start, end in outages
    )


def outcomes_of(
    routes: Sequence[Route], flows: Sequence[Flow], *, limit: int, delays: Sequence[int] = (0,)
) -> list[Outcome]:
    """Compute the lag of a node from ``flows``, the arrivals over each of its channels. Return one outcome for each
    of ``delays``.

    A delay (microseconds) is added to all arrival times; for a node with several channels it must be 0. ``limit`` is
    the lag (microseconds) above which time is counted.
    """
    channels = [
        lag.measure(one.committed, one.received, delays, limit=limit, missing=one.missing)
        for one in (flow.arrived for flow in flows)
    ]
    arrived, whole = _at_node(routes, flows), channels[0]
    if len(flows) > 1:
        whole = lag.measure(arrived.committed, arrived.received, delays, limit=limit, missing=arrived.missing)
    last = int(arrived.received[-1]) if len(arrived.received) else None
    links = tuple(flow.link for flow in flows)
    return [
        Outcome(one, each, links, 0 if last is None else last + delay)
        for delay, one, *each in zip(delays, whole, *channels, strict=True)
    ]


def curves_of(group: Group, flows: Sequence[Flow], window: Window) -> Series:
    """Compute the traffic and lag in each interval of ``window``, for the first node of a group of equal nodes.

    ``flows`` has the arrivals over each of its channels.
    """
    node = group.nodes[0]
    links = [channel.legs[-1].link for channel in node.channels]
    arrived = _at_node(group.routes, flows)
    lags = lag.series(arrived.committed, arrived.received, window)
    return Series(
        start=0,
        width=window.width,
        offered={
            name: tuple(lag.offered(*flow.offered, window).tolist())
            for name, flow in zip(links, flows, strict=True)
        },
        carried={
            name: tuple(lag.carried(*flow.carried, window).tolist())
            for name, flow in zip(links, flows, strict=True)
        },
        lag={node.name: tuple(lags.tolist())},
    )


def _at_node(routes: Sequence[Route], flows: Sequence[Flow]) -> Arrived:
    """Return the arrivals at a node over all its channels, in the order of receipt.

    If several channels bring one origin's transactions, a transaction's first arrival counts.
    """
    if len(flows) == 1:
        return flows[0].arrived
    missing: dict[str, int] = {}
    for route, flow in zip(routes, flows, strict=True):
        missing[route.origin] = min(flow.arrived.missing, missing.get(route.origin, flow.arrived.missing))
    origin = np.repeat(
        [list(missing).index(route.origin) for route in routes], [len(flow.arrived[0]) for flow in flows]
    )
    transaction, committed, received = map(
        np.concatenate, zip(*(flow.arrived[:3] for flow in flows), strict=True)
    )
    order = np.argsort(received, kind="stable")
    _, first = np.unique(np.stack([origin, transaction])[:, order], axis=1, return_index=True)
    kept = order[np.sort(first)]
    return Arrived(transaction[kept], committed[kept], received[kept], sum(missing.values()))


def series_of(window: Window, found: Iterable[Series]) -> Series:
    """Return the series of several nodes as one."""
    whole = Series(start=0, width=window.width, offered={}, carried={}, lag={})
    for one in found:
        whole.offered.update(one.offered)
        whole.carried.update(one.carried)
        whole.lag.update(one.lag)
    return whole


def link_figures(group: Group, outcome: Outcome) -> Iterable[LinkFigures]:
    """Yield the traffic of the last link of each channel, for a group of equal nodes."""
    for n, channel in enumerate(group.nodes[0].channels):
        names = {node.channels[n].legs[-1].link for node in group.nodes}
        yield _link(channel.legs[-1], group.routes[n].passages[-1], outcome.links[n], len(names))


def _link(leg: Leg, last: Passage, outcome: LinkOutcome, count: int) -> LinkFigures:
    return LinkFigures(
        name=leg.link,
        source=leg.source,
        target=leg.target,
        rate=last.hop.rate,
        delay=last.hop.delay // 1000,
        jitter=last.hop.jitter // 1000,
        estimated=last.form is Form.COMPRESSED,
        count=count,
        **vars(outcome),
    )


def node_figures(group: Group, outcome: Outcome, nbytes: int) -> Iterable[NodeFigures]:
    """Yield the lag of a group of equal nodes: of the whole node, and of each channel if there are several.

    ``nbytes`` is the sum of the bytes over all last links of one node.
    """
    first = group.nodes[0]
    names = tuple(node.name for node in group.nodes)
    alike: dict[str, Any] = {
        "name": first.name,
        "count": len(names),
        "members": names if len(names) > 1 else (),
    }
    yield NodeFigures(**alike, **_lag(outcome.lag), bytes=nbytes)
    if len(first.channels) > 1:
        for channel, one, link in zip(first.channels, outcome.channels, outcome.links, strict=True):
            yield NodeFigures(**alike, **_lag(one), channel=channel.name, bytes=link.bytes)


def _lag(one: Lag) -> dict[str, Any]:
    figures = LagFigures(p50=one.p50, p95=one.p95, p99=one.p99, worst=one.worst, above=one.above)
    return {"transactions": one.transactions, "missing": one.missing, "lag": figures}
