"""The transactions that a node receives over each path, and the node's lag and byte counts computed from them.

A simulation computes arrival times and bytes from the bytes of each transaction, and from the routes of the origins to
the node. An experiment measures them. Both use this module for the figures.
"""

from __future__ import annotations

import functools
import heapq
from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass
from fractions import Fraction
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from dumpfilter.analyse.traffic.facts import Ints
from dumpfilter.simulation import lag
from dumpfilter.simulation._hop import Dropped
from dumpfilter.simulation.lag import Window
from dumpfilter.simulation.plan import PlannedNode
from dumpfilter.simulation.results import LinkFigures, NodeFigures, OutageFigures, Run, Series, Setting
from dumpfilter.simulation.route import (
    AGAIN,
    MICROSECOND,
    NEVER,
    Crossed,
    Down,
    Form,
    Hop,
    Route,
    cross,
    looks,
    room_of,
    times_of,
)
from dumpfilter.simulation.traffic import SetTraffic

POINTS = 400
"""The maximum number of intervals in a series (figures over time)."""
MOST_SERIES = 24
"""The maximum number of nodes with a series (figures over time) in a run. The nodes with the greatest lag are chosen.
"""
_WIDTHS = [step * 10**power for power in range(3, 13) for step in (1, 2, 5)]
"""The interval widths that a series may have, microseconds."""


class Arrived(NamedTuple):
    """The transactions of one origin (a node that writes binlogs) that arrived at a node.

    Times are microseconds since the start of the run.
    """

    transaction: Ints
    """For each transaction, its index in the binlog set of the node that wrote it."""
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
    """The parameters of the run to which the group belongs."""
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


def window_of(duration: int) -> Window:
    """Return the intervals of time into which the plots of a run are divided. A plot shows one value for each interval.

    There are at most ``POINTS`` intervals, all of the same round width. ``duration`` is that of the run, microseconds.

    >>> window_of(60_000_000)
    Window(width=200000, count=301)
    """
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
        shared: dict[str, list[int]] = {}
        for n, channel in enumerate(channels):
            shared.setdefault(channel.legs[-1].link, []).append(n)
        links = [_link(group, numbers, [flows[n] for n in numbers]) for numbers in shared.values()]
        found.append(Outcome(nodes, links, 0 if last is None else last + group.delay))
    return found


def _link(group: Group, numbers: Sequence[int], flows: Sequence[Flow]) -> LinkFigures:
    """Return the figures of the last link of a node's channels ``numbers``, which share this link. ``flows`` has the
    transactions of each of them.
    """
    leg, hop = group.nodes[0].channels[numbers[0]].legs[-1], group.routes[numbers[0]].hops[-1]
    return LinkFigures(
        name=leg.link,
        source=leg.source,
        target=leg.target,
        count=len(group.nodes),
        rate=hop.rate,
        delay=hop.delay // MICROSECOND + group.delay,
        jitter=hop.jitter // MICROSECOND,
        bytes=sum(flow.bytes for flow in flows),
        transactions=sum(len(flow.arrived.transaction) for flow in flows),
        messages=_sum(flow.messages for flow in flows),
        overhead=_sum(flow.overhead for flow in flows),
        outages=tuple(_outage(flows, *outage) for outage in flows[0].outages),
    )


def _sum(values: Iterable[int | None]) -> int | None:
    known = list(values)
    return sum(one for one in known if one is not None) if None not in known else None


def _outage(flows: Sequence[Flow], start: int, end: int | None) -> OutageFigures:
    caught_up = None
    if end is not None and not any(flow.arrived.missing for flow in flows):
        of = [flow.arrived for flow in flows]
        caught_up = max(lag.catch_up(one.committed, one.received, start, end) for one in of)
    return OutageFigures(start=start, end=end, catch_up=caught_up)


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


def curves_of(nodes: Iterable[tuple[Group, Sequence[Flow]]], window: Window) -> Series:
    """Return the data of the plots for the first node of each of several groups of equal nodes.

    They are the bytes on each link and the greatest lag in each interval of ``window``. Each group has the arrivals
    over each path from a binlog's writer to its nodes.
    """
    found: dict[str, dict[str, Ints]] = {"offered": {}, "carried": {}, "lag": {}}
    for group, flows in nodes:
        node = group.nodes[0]
        arrived = at_node(group, flows)
        found["lag"][node.name] = lag.series(arrived.committed, arrived.received + group.delay, window)
        for channel, flow in zip(node.channels, flows, strict=True):
            of_flow = {
                "offered": lag.offered(*flow.offered(), window),
                "carried": lag.carried(*flow.carried(), window),
            }
            for what, values in of_flow.items():
                found[what][channel.legs[-1].link] = values + found[what].get(channel.legs[-1].link, 0)
    columns = {
        what: {name: tuple(values.tolist()) for name, values in of.items()} for what, of in found.items()
    }
    return Series(start=0, width=window.width, **columns)


def run_of(
    groups: Sequence[Group],
    outcomes: Sequence[Outcome],
    flows_of: Callable[[Group], Sequence[Flow]],
    **fields: Any,
) -> Run:
    """Combine the figures of all groups of equal nodes into the results of one run, with data for the plots of the
    nodes with the greatest lag.

    ``flows_of`` returns the flows of a group. ``fields`` are further fields of the :class:`Run`.
    """
    duration = max(outcome.duration for outcome in outcomes)
    worst = heapq.nsmallest(MOST_SERIES, range(len(groups)), key=lambda number: _rank(outcomes[number]))
    curves = ((groups[number], flows_of(groups[number])) for number in sorted(worst))
    return Run(
        setting=groups[0].setting,
        duration=duration,
        links=tuple(link for outcome in outcomes for link in outcome.links),
        nodes=tuple(node for outcome in outcomes for node in outcome.nodes),
        series=curves_of(curves, window_of(duration)),
        **fields,
    )


def _rank(outcome: Outcome) -> tuple[int, str]:
    """Return a sort key that puts groups of nodes with a great lag before others."""
    return -outcome.nodes[0].lag.p99, outcome.nodes[0].name


PACKET_BYTES = 5
"""The bytes that MySQL's replication protocol adds to each event: the packet header and the status byte."""

MESSAGE_OVERHEAD = {"mysql": 93, "mariadb": 75}
"""The bytes that a gRPC message adds to its events, by the server's family: HTTP/2 frames, and the chunk's other
fields. Measured.
"""

GAP_BYTES = 47
"""The bytes by which a report of consecutive dropped transactions (their GTIDs and the end position) lengthens a
chunk. Measured.
"""

EMPTY_BYTES = 35
"""The bytes of a chunk that reports dropped transactions and has no events, without the overhead of every message.
Measured.
"""


class Content(NamedTuple):
    """The transactions that cross a link, with the bytes of each. An entry may be a stand-in, which is an empty
    transaction sent in place of a dropped one.
    """

    transaction: Ints
    bytes: Ints
    counts: npt.NDArray[np.bool_] | None
    """For each entry, whether it is a transaction of the origin (True) or an empty transaction in place of a dropped
    one (False). None: there are only transactions of the origin.
    """


def content(traffic: SetTraffic, form: Form, number: int | None, seen: Ints | None = None) -> Content:
    """Return the transactions that cross a link, with the bytes of each in the link's encoding (``form``).

    Encodings are, for example, gRPC chunks and MySQL packets. ``number`` is the index of the filter on the link (None:
    no filter). ``seen`` has the time at which the sender finds each transaction in its binlog. It matters only for
    empty transactions that replace dropped ones. None means that the sender finds all transactions together.
    """
    sent = traffic.sent(number)
    if form is Form.EVENTS:
        return Content(sent.transaction, sent.bytes, None)
    packets = Content(sent.transaction, sent.bytes + PACKET_BYTES * sent.events, None)
    if form is Form.PACKETS:
        return packets
    return _with_stand_ins(traffic, packets, np.zeros(len(traffic), np.int64) if seen is None else seen)


def _with_stand_ins(traffic: SetTraffic, sent: Content, seen: Ints) -> Content:
    """Return the sent transactions together with the stand-ins (empty transactions) that a real replica gets for
    dropped ones.

    ``seen`` has the time at which the sender sees each transaction. MariaDB needs one stand-in for consecutive
    dropped transactions that are seen together.
    """
    if not traffic.stand_in_events or not len(traffic.stand_in_bytes):
        return sent
    sizes = np.where(
        traffic.stand_in_bytes > 0, traffic.stand_in_bytes + PACKET_BYTES * traffic.stand_in_events, 0
    )
    is_sent = np.zeros(len(traffic), np.bool_)
    is_sent[sent.transaction] = True
    if traffic.stand_ins_joined:
        # One stand-in serves a run of dropped transactions that the sender sees together: the last one of the run.
        ends_run = np.ones(len(traffic), np.bool_)
        ends_run[:-1] = is_sent[1:] | (np.diff(seen) > 0)
        sizes[~ends_run] = 0
    sizes[sent.transaction] = sent.bytes
    kept = np.flatnonzero(sizes)
    return Content(kept, sizes[kept], is_sent[kept])


_KEPT = 4
"""The maximum size of each cache of a :class:`Schedule`, entries."""


class Polls(NamedTuple):
    """The polls of a sender, which are its looks for new transactions. Poll 0 stands for the time before the first."""

    number: Ints
    """For each transaction of the binlog set, the number of the poll that finds it."""
    time: Ints
    """The time of each poll, nanoseconds."""

    @classmethod
    def of(cls, seen: Ints) -> Polls:
        """Return the polls that find transactions at the times ``seen``, which ascend (nanoseconds)."""
        is_first = np.diff(seen, prepend=-1) > 0
        return cls(np.cumsum(is_first), np.append(-1, seen[is_first]))

    def empty(self, transaction: Ints) -> npt.NDArray[np.bool_]:
        """Return for each poll whether it finds only transactions to drop. Those in ``transaction`` are sent."""
        found = np.ones(len(self.time), np.bool_)
        found[0] = False
        found[self.number[transaction]] = False
        return found


def dropped_before(transaction: Ints, polls: Polls | None, empty_chunk: int) -> Dropped:
    """Return the reports by which a sender tells its reader about dropped transactions, before each sent transaction.

    ``transaction`` has the indexes of the sent transactions. After a poll that finds only transactions to drop, the
    sender sends a message of ``empty_chunk`` bytes without events. With ``polls`` None, it sends no such messages.
    """
    after_gap = np.diff(transaction, prepend=-1) > 1
    if polls is None:
        nothing = np.zeros(len(transaction), np.int64)
        return Dropped(np.where(after_gap, GAP_BYTES, 0), nothing, nothing, nothing)
    # The chunk of a sent transaction reports only transactions that were dropped in the same poll.
    poll = polls.number[transaction]
    is_told = after_gap & (poll == polls.number[np.maximum(transaction - 1, 0)])
    is_empty = polls.empty(transaction)
    times = np.append(polls.time[is_empty], 0)
    until = np.cumsum(is_empty)[poll]
    number = np.diff(until, prepend=0)
    return Dropped(
        np.where(is_told, GAP_BYTES, 0), number, times[until - number], times[until - 1], empty_chunk
    )


def told_at(transaction: Ints, polls: Polls, crossed: Crossed, hop: Hop, empty_chunk: int) -> Ints:
    """Return the time at which the reader of a link learns of each transaction, sent or dropped, nanoseconds.

    ``transaction`` has the indexes of the sent transactions, and ``crossed`` the times at which they crossed the link
    ``hop``. ``polls`` are those of the sender. After a poll that finds nothing to send, a message of ``empty_chunk``
    bytes reports the dropped transactions.
    """
    is_empty = polls.empty(transaction)[polls.number] & (np.diff(polls.number, prepend=0) > 0)
    needed = int(times_of(np.array([empty_chunk]), hop)[0])
    spent = np.cumsum(is_empty) * needed
    left = np.where(is_empty, polls.time[polls.number] + needed - spent, -1 - spent)
    left[transaction] = crossed.departed - spent[transaction]
    at = np.maximum.accumulate(left) + spent + hop.delay
    for down in hop.downs:
        at = np.where((at >= down.start) & (at < down.restart), down.restart + hop.delay, at)
    at[transaction] = crossed.received
    # Nothing overtakes the next transaction that is sent.
    following = np.append(crossed.received, NEVER)[np.searchsorted(transaction, np.arange(len(polls.number)))]
    reached: Ints = np.maximum.accumulate(np.minimum(at, following))
    return reached


class Departing(NamedTuple):
    """The transactions that a sender sends over a link, with the times at which the sender has them. The arrays have
    one entry for each transaction.
    """

    content: Content
    committed: Ints
    """The time of each commit, microseconds since the start of the run."""
    ready: Ints
    """The time at which each transaction is in the sender's binlog, nanoseconds."""
    seen: Ints
    """The time at which the sender finds each transaction in its binlog, nanoseconds."""
    room: Ints
    """The number of transactions that must have left before there is room for each one (see :func:`room_of`)."""
    dropped: Dropped | None
    """The sender's reports about dropped transactions. None: no reports."""


class Schedule:
    """The commit times of the binlog of one origin (a node that writes binlogs), and the arrival times computed from
    them.

    The latest results of each method are cached, because several nodes receive the same transactions over the same
    links.
    """

    def __init__(self, traffic: SetTraffic, load: Fraction | None = Fraction(1)) -> None:
        """Compute the commit times in the simulation from the commit times that the binlog set ``traffic`` has.

        The times between commits are divided by ``load``. With None, all transactions are committed at time 0.
        """
        self.traffic = traffic
        self.overhead = MESSAGE_OVERHEAD[traffic.family]
        self.committed = _committed(traffic.time, load)
        """The commit time of each transaction in the origin's binlog, microseconds since the start of the run."""
        kept = functools.lru_cache(_KEPT)
        self.reached = kept(self._reached)
        self._departing = kept(self._make_departing)
        self._seen = kept(self._make_seen)
        self._polls = kept(lambda *sender: Polls.of(self._seen(*sender)))

    def passed(self, hops: tuple[Hop, ...]) -> tuple[Departing, Crossed]:
        """Simulate sending this binlog's transactions over consecutive links (``hops``), each with its filter.

        Return the transactions that crossed the last link, and their times of departure and arrival.
        """
        *way, hop = hops
        # Links that differ in other properties, such as the rate, are sent the same.
        departing = self._departing(tuple(way), hop.tick, hop.form, hop.filter, hop.ahead, hop.idle)
        if hop.message:
            hop = hop._replace(message_overhead=self.overhead)
        return departing, cross(
            departing.seen, departing.content.bytes, hop, departing.dropped, departing.room
        )

    def _reached(self, hops: tuple[Hop, ...]) -> Ints:
        """Return the time at which each transaction of this binlog reaches the end of consecutive links, nanoseconds.

        ``hops`` are the links with their filters. Without links the result is the time of the commit.
        """
        if not hops:
            return self.committed * MICROSECOND
        departing, crossed = self.passed(hops)
        transaction = departing.content.transaction
        *way, hop = hops
        if hop.form is Form.EVENTS and hop.filter is not None and hop.tick:
            polls = self._polls(tuple(way), hop.tick)
            return told_at(transaction, polls, crossed, hop, self.overhead + EMPTY_BYTES)
        # A transaction that this reader was not sent takes the time of the one before it, so that the times ascend.
        at = np.full(len(self.traffic), -1, np.int64)
        at[transaction] = crossed.received
        reached: Ints = np.maximum.accumulate(at)
        return reached

    def _make_departing(
        self,
        way: tuple[Hop, ...],
        tick: int,
        form: Form,
        number: int | None,
        ahead: int,
        idle: tuple[Down, ...],
    ) -> Departing:
        """Return the transactions that cross a link in a given form. ``number`` is the index of the filter (None: no
        filter), and ``way`` has the links to the link's sender. The other parameters are those of :class:`Hop`.
        """
        together = seen = self._seen(way, tick)
        for down in idle:
            together = np.where((together >= down.start) & (together < down.restart), down.restart, together)
        found = content(self.traffic, form, number, together)
        sent = found.transaction
        dropped = None
        if form is Form.EVENTS and number is not None:
            polls = self._polls(way, tick) if tick else None
            dropped = dropped_before(sent, polls, self.overhead + EMPTY_BYTES)
        ready = self.reached(way)[sent]
        return Departing(found, self.committed[sent], ready, seen[sent], room_of(found.bytes, ahead), dropped)

    def _make_seen(self, way: tuple[Hop, ...], tick: int) -> Ints:
        """Return the time at which the sender at the end of ``way`` sees each transaction, nanoseconds. It
        does not look for ``tick`` nanoseconds after it found some.
        """
        return looks(self.reached(way), tick, AGAIN) if tick else self.reached(way)


def _committed(times: Ints, load: Fraction | None) -> Ints:
    """Return the time of each commit, microseconds since the first one, compressed by the factor ``load`` (None: all
    are 0).
    """
    if not len(times) or load is None:
        return np.zeros(len(times), np.int64)
    # The product of months and a large denominator would not fit into 64 bits.
    whole, rest = np.divmod(times - times[0], load.numerator)
    committed: Ints = whole * load.denominator + rest * load.denominator // load.numerator
    return committed


def travel(route: Route, schedule: Schedule) -> Flow:
    """Simulate ``route``, which has the links from an origin (a node that writes binlogs) to another node. Return the
    arrivals and bytes. ``schedule`` has the origin's commit times.
    """
    hop = route.hops[-1]
    departing, crossed = schedule.passed(route.hops)
    transaction, sizes, counts = departing.content
    received = crossed.received
    if route.apply is not None:
        received = _applied(schedule.traffic, route.apply, transaction, received)
    # Times ascend, so that those of a link that stays down are at the end.
    came = _before_never(received)
    kept = came if counts is None else np.flatnonzero(counts[came])
    arrived = lag.microseconds(received[kept])
    missing = (len(transaction) if counts is None else int(counts.sum())) - len(arrived)

    def offered() -> tuple[Ints, Ints]:
        there = _before_never(departing.ready)
        return departing.ready[there] // MICROSECOND, sizes[there]

    def carried() -> tuple[Ints, Ints, Ints]:
        gone = _before_never(crossed.departed)
        needed = times_of(sizes[gone], hop)
        return crossed.departed[gone] // MICROSECOND, sizes[gone], needed // MICROSECOND

    # Each transaction of MySQL's protocol is a message of its own, and the protocol's bytes count with its events.
    has_messages = hop.message > 0
    return Flow(
        Arrived(transaction[kept], departing.committed[kept], arrived, missing),
        int(sizes[_before_never(crossed.received)].sum()),
        crossed.messages if has_messages else None,
        crossed.messages * schedule.overhead + crossed.told if has_messages else None,
        [
            (down.start // MICROSECOND, None if down.end >= NEVER else down.end // MICROSECOND)
            for down in hop.downs
        ],
        offered,
        carried,
    )


def _before_never(ascending: Ints) -> slice:
    return slice(int(ascending.searchsorted(NEVER)))


def _applied(traffic: SetTraffic, applier: Hop, transaction: Ints, received: Ints) -> Ints:
    """Return the time at which a node has applied each transaction that it received, nanoseconds."""
    passes = traffic.sent(applier.filter)
    sizes = np.zeros(len(traffic), np.int64)
    sizes[passes.transaction] = passes.bytes
    wanted = sizes[transaction] > 0
    found = np.full(len(received), -1, np.int64)
    found[wanted] = cross(received[wanted], sizes[transaction][wanted], applier).received
    # A transaction without anything to apply is applied with the one before it.
    return np.maximum(np.maximum.accumulate(found), received)
