"""The transactions that a node receives over each path, and the node's lag and byte counts computed from them.

A simulation computes arrival times and bytes; an experiment measures them. Both use this module for the figures.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import Any, NamedTuple

import numpy as np

from dumpfilter.simulation import lag
from dumpfilter.simulation.lag import Window
from dumpfilter.simulation.plan import PlannedNode
from dumpfilter.simulation.results import LinkFigures, NodeFigures, OutageFigures, Run, Series, Setting
from dumpfilter.simulation.route import Form, Route
from dumpfilter.simulation.traffic import Ints

POINTS = 400
"""The maximum number of intervals in a series (figures over time)."""
_WIDTHS = [step * 10**power for power in range(3, 13) for step in (1, 2, 5)]
"""The interval widths that a series may have, microseconds."""


class Arrived(NamedTuple):
    """The transactions of one origin (a node that writes binlogs) that arrived at a node.

    Times are microseconds since the start of the run.
    """

    transaction: Ints
    """The index of each transaction in the binlog set of its origin."""
    committed: Ints
    received: Ints
    missing: int
    """The number of transactions that never arrive. The arrays leave them out."""


class Flow(NamedTuple):
    """The transactions that a node received over one path from an origin (a node that writes binlogs), and the traffic
    on the path's last link.

    A node with several paths from origins has one Flow for each. Times are microseconds since the start of the run.
    """

    arrived: Arrived
    bytes: int
    """The bytes of the transactions that arrived."""
    messages: int | None
    """The number of messages of the protocol. None: not known."""
    overhead: int | None
    """The bytes that the protocols add to the events. None: not known."""
    outages: Sequence[tuple[int, int | None]]
    """The start and the end (None: no end) of each outage of the last link."""
    offered: Callable[[], tuple[Ints, Ints]]
    """A function that returns two arrays for the last link: the time at which the sender had each transaction, and the
    transaction's bytes. Only the few nodes with plots need them.
    """
    carried: Callable[[], tuple[Ints, Ints, Ints]]
    """A function that returns three arrays for the last link: the time at which each transaction's last byte left, its
    bytes, and the duration of sending them.
    """


@dataclass(frozen=True, eq=False)
class Group:
    """Nodes of a simulated topology that have the same lag and traffic, because their links have equal properties and
    filters.

    Such nodes are computed once. Groups are compared by identity.
    """

    setting: Setting
    """The parameters of the run."""
    routes: tuple[Route, ...]
    nodes: tuple[PlannedNode, ...]
    delay: int = 0
    """A part of the last link's delay that ``routes`` do not contain, microseconds. It is added to all arrival times.
    Groups that differ in this part only are computed together.
    """


class Outcome(NamedTuple):
    """The lag and traffic that one run of a simulation or experiment gives for a group of nodes with equal figures."""

    nodes: list[NodeFigures]
    """The figures of the whole node, and if it has several channels also those of each channel."""
    links: list[LinkFigures]
    """The figures of each link over which the node reads."""
    duration: int
    """The time at which the node had received everything, microseconds since the start of the run."""


def window_of(outcomes: Iterable[Outcome]) -> Window:
    """Return the intervals of time into which the plots of a run are divided. A plot shows one value for each interval.

    There are at most ``POINTS`` intervals, all of the same round width in microseconds. ``outcomes`` has the figures of
    all nodes of the run, including the duration of the run.

    >>> window_of([Outcome([], [], 60_000_000)])
    Window(width=200000, count=301)
    """
    duration = max(outcome.duration for outcome in outcomes)
    width = next((each for each in _WIDTHS if duration // each < POINTS), _WIDTHS[-1])
    return Window(width, duration // width + 1)


def outcomes_of(groups: Sequence[Group], flows: Sequence[Flow], *, limit: int) -> list[Outcome]:
    """Compute the lag and traffic of several groups of equal nodes. The groups differ only in the delay of the link to
    the node.

    ``flows`` has the transactions that arrive over each path to such a node. ``limit`` is a lag in microseconds. The
    result includes the time during which the lag is above this limit.
    """
    whole = at_node(groups[0], flows)
    arrivals = [whole, *(flow.arrived for flow in flows if len(flows) > 1)]
    delays = [group.delay for group in groups]
    lags = [lag.measure(one.committed, one.received, delays, limit=limit) for one in arrivals]
    last = int(whole.received[-1]) if len(whole.received) else None
    found = []
    for number, group in enumerate(groups):
        channels = group.nodes[0].channels
        names = tuple(node.name for node in group.nodes)
        nodes = [
            NodeFigures(
                name=names[0],
                channel=channels[n - 1].name if n else None,
                count=len(names),
                members=names if len(names) > 1 else (),
                transactions=len(arrived.transaction),
                missing=arrived.missing,
                bytes=flows[n - 1].bytes if n else sum(flow.bytes for flow in flows),
                lag=lags[n][number],
            )
            for n, arrived in enumerate(arrivals)
        ]
        links: dict[str, LinkFigures] = {}
        for n, flow in enumerate(flows):
            link = _link(group, n, flow)
            links[link.name] = _added(links[link.name], link) if link.name in links else link
        found.append(Outcome(nodes, list(links.values()), 0 if last is None else last + group.delay))
    return found


def _link(group: Group, number: int, flow: Flow) -> LinkFigures:
    """Return the figures of the last link of a channel, as far as the channel's transactions are concerned."""
    leg, last = group.nodes[0].channels[number].legs[-1], group.routes[number].passages[-1]
    arrived = flow.arrived
    outages = []
    for start, end in flow.outages:
        caught_up = None
        if end is not None and not arrived.missing:
            caught_up = lag.catch_up(arrived.committed, arrived.received, start, end)
        outages.append(OutageFigures(start=start, end=end, catch_up=caught_up))
    return LinkFigures(
        name=leg.link,
        source=leg.source,
        target=leg.target,
        count=len(group.nodes),
        rate=last.hop.rate,
        delay=last.hop.delay // 1000 + group.delay,
        jitter=last.hop.jitter // 1000,
        bytes=flow.bytes,
        estimated=last.form is Form.COMPRESSED,
        transactions=len(arrived.transaction),
        messages=flow.messages,
        overhead=flow.overhead,
        outages=tuple(outages),
    )


def _added(one: LinkFigures, other: LinkFigures) -> LinkFigures:
    """Return the figures of a link that carries two channels, from those of each channel."""
    changes: dict[str, Any] = {}
    for name in ("bytes", "transactions", "messages", "overhead"):
        values = (getattr(one, name), getattr(other, name))
        changes[name] = None if None in values else sum(values)
    pairs = zip(one.outages, other.outages, strict=True)
    changes["outages"] = tuple(max(pair, key=_catch_up) for pair in pairs)
    return one.model_copy(update=changes)


def _catch_up(outage: OutageFigures) -> float:
    return math.inf if outage.catch_up is None else outage.catch_up


def at_node(group: Group, flows: Sequence[Flow]) -> Arrived:
    """Return the transactions that arrive at a node of ``group`` over all paths to the node, in the order of receipt.

    ``flows`` has the arrivals over each path. If several paths bring one origin's transactions, a transaction's first
    arrival counts. The times do not include the part of the last link's delay that ``group.delay`` holds.
    """
    if len(flows) == 1:
        return flows[0].arrived
    missing: dict[str, int] = {}
    for route, flow in zip(group.routes, flows, strict=True):
        missing[route.origin] = min(flow.arrived.missing, missing.get(route.origin, flow.arrived.missing))
    origin = np.repeat(
        [list(missing).index(route.origin) for route in group.routes],
        [len(flow.arrived.transaction) for flow in flows],
    )
    columns = zip(*(flow.arrived[:3] for flow in flows), strict=True)
    transaction, committed, received = map(np.concatenate, columns)
    order = np.argsort(received, kind="stable")
    _, first = np.unique(np.stack([origin, transaction])[:, order], axis=1, return_index=True)
    kept = order[np.sort(first)]
    return Arrived(transaction[kept], committed[kept], received[kept], sum(missing.values()))


def curves_of(group: Group, flows: Sequence[Flow], window: Window) -> Series:
    """Return the data of the plots for the first node of a group of equal nodes.

    They are the bytes on each link and the greatest lag in each interval of ``window``. ``flows`` has the arrivals over
    each path from a binlog's writer to the node.
    """
    node = group.nodes[0]
    arrived = at_node(group, flows)
    lags = lag.series(arrived.committed, arrived.received + group.delay, window)
    offered: dict[str, Ints] = {}
    carried: dict[str, Ints] = {}
    for channel, flow in zip(node.channels, flows, strict=True):
        name = channel.legs[-1].link
        offered[name] = lag.offered(*flow.offered(), window) + offered.get(name, 0)
        carried[name] = lag.carried(*flow.carried(), window) + carried.get(name, 0)
    return Series(
        start=0,
        width=window.width,
        offered={name: tuple(values.tolist()) for name, values in offered.items()},
        carried={name: tuple(values.tolist()) for name, values in carried.items()},
        lag={node.name: tuple(lags.tolist())},
    )


def run_of(outcomes: Sequence[Outcome], curves: Sequence[Series], window: Window, **fields: Any) -> Run:
    """Combine the figures of all groups of equal nodes, and the plot data of some nodes, into the results of one run.

    ``window`` has the intervals of the plots. ``fields`` are further fields of the :class:`Run`, such as its setting.
    """
    series = {
        name: dict(chain.from_iterable(getattr(one, name).items() for one in curves))
        for name in ("offered", "carried", "lag")
    }
    return Run(
        duration=max(outcome.duration for outcome in outcomes),
        links=tuple(chain.from_iterable(outcome.links for outcome in outcomes)),
        nodes=tuple(chain.from_iterable(outcome.nodes for outcome in outcomes)),
        series=Series(start=0, width=window.width, **series),
        **fields,
    )
