"""The transactions that a node receives over each path, and the node's lag and byte counts computed from them.

A simulation computes arrival times and bytes from the bytes of each transaction, and from the routes of the origins to
the node. An experiment measures them. Both use this module for the figures.
"""

from __future__ import annotations

import functools
import math
from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from fractions import Fraction
from itertools import chain
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from dumpfilter.simulation import lag
from dumpfilter.simulation._hop import Dropped
from dumpfilter.simulation.lag import Window
from dumpfilter.simulation.plan import AT_ONCE, PlannedNode
from dumpfilter.simulation.results import LinkFigures, NodeFigures, OutageFigures, Run, Series, Setting
from dumpfilter.simulation.route import (
    AGAIN,
    MICROSECOND,
    NEVER,
    Crossed,
    Form,
    Hop,
    Passage,
    Route,
    cross,
    looks,
    room_of,
    times_of,
)
from dumpfilter.simulation.traffic import Ints, SetTraffic

POINTS = 400
"""The maximum number of intervals in a series (figures over time)."""
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
    filtered = traffic.split if form is Form.SPLIT else traffic.filtered
    sent = traffic.everything if number is None else filtered[number]
    if form is Form.COMPRESSED:
        return Content(sent.transaction, sent.compressed, None)
    if form in (Form.EVENTS, Form.SPLIT):
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
    """The transactions that a sender sends over a link, with the time of each commit, and the time at which the sender
    has each.
    """

    content: Content
    committed: Ints
    """The time of each commit, microseconds since the start of the run."""
    ready: Ints
    """The time at which the sender has each transaction, nanoseconds."""


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
        self._from_start = self.committed * MICROSECOND
        kept = functools.lru_cache(_KEPT)
        self._departing = kept(self._make_departing)
        self._reached = kept(self._make_reached)
        self._seen = kept(self._make_seen)
        self._polls = kept(lambda *sender: Polls.of(self._seen(*sender)))
        self._room = kept(self._make_room)
        self._sent_from = kept(self._make_sent_from)
        self._dropped = kept(self._make_dropped)

    def passed(self, passages: tuple[Passage, ...]) -> tuple[Departing, Crossed]:
        """Simulate sending this binlog's transactions over consecutive links, each with its filter (``passages``).

        Return the transactions that crossed the last link, and their times of departure and arrival.
        """
        *before, last = passages
        way, hop = tuple(before), last.hop
        together = None
        if last.form is Form.STAND_INS and self.traffic.stand_ins_joined:
            # The rate and the delay do not matter, so that more routes have the same content.
            together = Hop(tick=hop.tick or AT_ONCE, downs=last.idle)
        sent = (last.form, last.filter, way, together)
        departing = self._departing(*sent)
        seen = self._sent_from(hop.tick, *sent)
        dropped = None
        if last.form is Form.EVENTS and last.filter is not None:
            dropped = self._dropped(way, hop.tick, last.filter)
        if hop.message:
            hop = hop._replace(message_overhead=self.overhead)
        return departing, cross(seen, departing.content.bytes, hop, dropped, self._room(hop.ahead, *sent))

    def reached(self, passages: tuple[Passage, ...]) -> Ints:
        """Return the time at which each transaction of this binlog reaches the end of consecutive links, nanoseconds.

        ``passages`` are the links with their filters. Without links the result is the time of the commit.
        """
        return self._reached(passages) if passages else self._from_start

    def _make_departing(
        self, form: Form, number: int | None, way: tuple[Passage, ...], hop: Hop | None
    ) -> Departing:
        """Return the transactions that cross a link in a given form. ``number`` is the index of the filter (None: no
        filter), and ``way`` has the hops to the link's sender.

        If ``hop`` is given, transactions that reach the sender during an outage of this hop are seen together when the
        outage is over.
        """
        seen = None
        if hop is not None:
            seen = self._seen(way, hop.tick)
            for down in hop.downs:
                seen = np.where((seen >= down.start) & (seen < down.restart), down.restart, seen)
        found = content(self.traffic, form, number, seen)
        return Departing(found, self.committed[found.transaction], self.reached(way)[found.transaction])

    def _make_sent_from(self, tick: int, *sent: Any) -> Ints:
        """Return the time from which on a sender can send each transaction, nanoseconds. See :meth:`_make_seen`."""
        departing = self._departing(*sent)
        if not tick:
            return departing.ready
        # The sender looks for the transactions of all filters.
        *_, way, _ = sent
        return self._seen(way, tick)[departing.content.transaction]

    def _make_room(self, ahead: int, *sent: Any) -> Ints:
        return room_of(self._departing(*sent).content.bytes, ahead)

    def _make_reached(self, passages: tuple[Passage, ...]) -> Ints:
        departing, crossed = self.passed(passages)
        transaction = departing.content.transaction
        *before, last = passages
        if last.form is Form.EVENTS and last.filter is not None and last.hop.tick:
            polls = self._polls(tuple(before), last.hop.tick)
            return told_at(transaction, polls, crossed, last.hop, self.overhead + EMPTY_BYTES)
        # A transaction that this reader was not sent takes the time of the one before it, so that the times ascend.
        at = np.full(len(self.traffic), -1, np.int64)
        at[transaction] = crossed.received
        reached: Ints = np.maximum.accumulate(at)
        return reached

    def _make_dropped(self, passages: tuple[Passage, ...], tick: int, number: int) -> Dropped:
        """Return the reports about dropped transactions that the sender at the end of ``passages`` makes. ``number``
        is the index of the filter.
        """
        polls = self._polls(passages, tick) if tick else None
        return dropped_before(self.traffic.filtered[number].transaction, polls, self.overhead + EMPTY_BYTES)

    def _make_seen(self, passages: tuple[Passage, ...], tick: int) -> Ints:
        """Return the time at which the sender at the end of ``passages`` sees each transaction, nanoseconds. It
        does not look for ``tick`` nanoseconds after it found some.
        """
        return looks(self.reached(passages), tick, AGAIN)


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


def flows_of(routes: Sequence[Route], schedules: Mapping[str, Schedule]) -> list[Flow]:
    """Simulate each of ``routes``, which are the links from an origin (a node that writes binlogs) to another node.

    Return the arrivals and the bytes of each route, in order. ``schedules`` has the commit times of each origin, by
    the origin's name.
    """
    return [_travel(route, schedules[route.origin]) for route in routes]


def _travel(route: Route, schedule: Schedule) -> Flow:
    last = route.passages[-1]
    ((transaction, sizes, counts), committed, ready), crossed = schedule.passed(route.passages)
    received = crossed.received
    if route.apply is not None:
        received = _applied(schedule.traffic, route.apply, route.applied, transaction, received)
    # Times ascend, so that those of a link that stays down are at the end.
    came = _before_never(received)
    kept = came if counts is None else np.flatnonzero(counts[came])
    arrived = lag.microseconds(received[kept])
    missing = (len(transaction) if counts is None else int(counts.sum())) - len(arrived)

    def offered() -> tuple[Ints, Ints]:
        there = _before_never(ready)
        return ready[there] // MICROSECOND, sizes[there]

    def carried() -> tuple[Ints, Ints, Ints]:
        gone = _before_never(crossed.departed)
        needed = times_of(sizes[gone], last.hop)
        return crossed.departed[gone] // MICROSECOND, sizes[gone], needed // MICROSECOND

    # Each transaction of MySQL's protocol is a message of its own, and the protocol's bytes count with its events.
    has_messages = last.hop.message > 0
    return Flow(
        Arrived(transaction[kept], committed[kept], arrived, missing),
        int(sizes[_before_never(crossed.received)].sum()),
        crossed.messages if has_messages else None,
        crossed.messages * schedule.overhead + crossed.told if has_messages else None,
        [
            (down.start // MICROSECOND, None if down.end >= NEVER else down.end // MICROSECOND)
            for down in last.hop.downs
        ],
        offered,
        carried,
    )


def _before_never(ascending: Ints) -> slice:
    return slice(int(ascending.searchsorted(NEVER)))


def _applied(
    traffic: SetTraffic, applier: Hop, number: int | None, transaction: Ints, received: Ints
) -> Ints:
    """Return the time at which a node has applied each transaction that it received, nanoseconds. ``number`` is the
    index of the filter of what it applies (None: everything).
    """
    passes = traffic.everything if number is None else traffic.filtered[number]
    sizes = np.zeros(len(traffic), np.int64)
    sizes[passes.transaction] = passes.bytes
    wanted = sizes[transaction] > 0
    found = np.full(len(received), -1, np.int64)
    found[wanted] = cross(received[wanted], sizes[transaction][wanted], applier).received
    # A transaction without anything to apply is applied with the one before it.
    return np.maximum(np.maximum.accumulate(found), received)
