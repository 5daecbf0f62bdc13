"""The way of transactions from the node that wrote them to another node, in one run of a simulation, and the node's
lag and byte counts.

A *hop* is a network link that keeps transactions in order, or the applier of a node. A *route* has the hops from an
origin to a node. Hops and routes are plain values without names, so that nodes with equal routes are computed once.

A transaction leaves a link at the time ``max(a, f) + s`` (Lindley's recursion). The transaction arrived at the sender
at ``a``, the link had sent all earlier bytes at ``f``, and sending the transaction takes ``s``. ``s`` is rounded to a
whole nanosecond for each transaction. The result therefore does not depend on which transactions are computed together.
Times on a route are whole nanoseconds.

A simulation computes the arrivals at a node, a :class:`Flow` for each route. An experiment measures the
arrivals. This module derives the figures for simulations and experiments.
"""

from __future__ import annotations

import enum
import functools
import heapq
import math
import zlib
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from operator import attrgetter
from typing import Any, NamedTuple

import numpy as np
import numpy.typing as npt

from dumpfilter.analyse.traffic.facts import Ints
from dumpfilter.base.errors import OptionError
from dumpfilter.dump.stream.pace import BUFFERS, LARGEST, message_size
from dumpfilter.simulation import _hop, lag
from dumpfilter.simulation._hop import Dropped, Parameters
from dumpfilter.simulation.lag import Window
from dumpfilter.simulation.plan import FilterKey, Leg, Plan, PlannedNode, Retries, Sender, SetTraffic
from dumpfilter.simulation.results import (
    LinkFigures,
    NodeFigures,
    OutageFigures,
    Run,
    Series,
    Setting,
    Variant,
)
from dumpfilter.topology.links.line import BITS
from dumpfilter.topology.links.shape import LinkShape, Outage

# -- hops

NANOSECONDS = 1_000_000_000
"""The number of nanoseconds in a second."""
MICROSECOND = 1_000
"""The number of nanoseconds in a microsecond, the unit of transaction times."""
NEVER = 1 << 62
"""The end time of an outage that never ends, nanoseconds."""


class Down(NamedTuple):
    """An outage of a simulated network link. Times are nanoseconds since the first transaction's commit."""

    start: int
    end: int
    """The time at which the link works again, nanoseconds."""
    restart: int
    """The time at which the dump resumes, nanoseconds. After ``end`` the reader waits for its next attempt to
    connect, and then connects.
    """


class Form(enum.StrEnum):
    """The encodings in which transactions cross a simulated link, for example gRPC messages or packets of MySQL's
    protocol.
    """

    EVENTS = "events"
    """Chunks (gRPC messages with many events), as dumpfilter slaves receive them."""
    PACKETS = "packets"
    """Packets of MySQL's replication protocol, one for each event."""
    STAND_INS = "stand-ins"
    """Packets of MySQL's replication protocol, with stand-ins (empty transactions) for dropped transactions."""


class Hop(NamedTuple):
    """One link on the path from a binlog's writer to a node, as simulated in one run, together with the sender's
    filter.

    The applier of a node (its threads that apply transactions) is simulated as a link without delay. Times are
    nanoseconds.
    """

    rate: int | None = None
    """The bit rate, bits per second. None: no limit."""
    delay: int = 0
    jitter: int = 0
    """The maximum of the random value that is added to or subtracted from ``delay``, nanoseconds. Transactions stay
    in order.
    """
    seed: int = 0
    """The seed of the random numbers for the jitter."""
    message: int = 0
    """The size at which the sender ends a message, bytes. A transaction is received when its whole message has
    arrived. 0: each transaction is one message.
    """
    message_overhead: int = 0
    """The bytes that each message adds to its events on the link."""
    fixed: int = 0
    """The constant time that each transaction takes in addition to the time for its bytes, nanoseconds."""
    most_message: int = 0
    """The limit of the message size after an outage, bytes. After an outage the message size follows the rate that
    the reader reports.
    """
    ahead: int = 0
    """The capacity of the connection's send buffers, bytes. The sender makes messages until they are full. 0: no
    limit.
    """
    downs: tuple[Down, ...] = ()
    """The outages in ascending order, without overlap."""
    sender: Sender = Sender.SERVER
    form: Form = Form.EVENTS
    """The encoding of transactions on the link, such as gRPC chunks or packets of MySQL's protocol."""
    filter: int | None = None
    """The index of this link's filter in :attr:`Plan.filters`, the distinct filters of the simulated topology. None: no
    filter.
    """
    restarts: tuple[int, ...] = ()
    """The times at which the sender reads its binlog for a reader after an outage, ascending. Until then it has not
    looked at the transactions that this reader lacks.
    """


class Crossed(NamedTuple):
    """The simulated times at which transactions left the sender of a network link and arrived at its reader, and the
    number of messages that carried them.
    """

    departed: Ints
    """The time at which the last byte of each transaction left the sender, nanoseconds."""
    received: Ints
    """The time at which each transaction had arrived completely, nanoseconds. The values never decrease."""
    came: Ints
    """The times ``received`` in microseconds, rounded up."""
    messages: int
    told: int
    """The bytes of the reports about dropped transactions that crossed the link."""


def nanoseconds_of_a_byte(rate: int | None) -> tuple[int, int]:
    """Return the time to send one byte at ``rate`` bits per second, as numerator and denominator of nanoseconds. With
    ``rate`` None (no limit) the time is 0.

    >>> nanoseconds_of_a_byte(2_000_000), nanoseconds_of_a_byte(512_000), nanoseconds_of_a_byte(None)
    ((4000, 1), (15625, 1), (0, 1))
    """
    if rate is None:
        return 0, 1
    shared = math.gcd(8 * NANOSECONDS, rate)
    return 8 * NANOSECONDS // shared, rate // shared


def cross(
    arrived: Ints, sizes: Ints, hop: Hop, dropped: Dropped | None = None, room: Ints | None = None
) -> Crossed:
    """Simulate sending transactions over a network link (``hop``). Return their times of departure and arrival, the
    number of messages, and the bytes of the reports about dropped transactions.

    ``arrived`` has the time at which the sender has each transaction, nanoseconds, ascending; ``sizes`` has their
    bytes. ``dropped`` has the sender's reports about dropped transactions, which use the link, too (None: no reports).
    ``room`` has for each transaction the number of earlier ones that must have left before the send buffers have room
    for it (None: :func:`room_for` computes this number).

    >>> arrived, sizes = np.array([0, 10, 20]), np.array([100, 100, 100])
    >>> cross(arrived, sizes, Hop(rate=160_000_000)).received.tolist()
    [5000, 10000, 15000]
    """
    n = len(arrived)
    dropped = dropped or _no_reports(n)
    departed, received, came = np.empty(n + 1, np.int64), np.empty(n, np.int64), np.empty(n, np.int64)
    messages, empty = _hop.cross(
        np.ascontiguousarray(arrived, np.int64),
        np.ascontiguousarray(sizes, np.int64),
        room_for(sizes, hop.ahead) if room is None else room,
        dropped,
        Parameters(*nanoseconds_of_a_byte(hop.rate), *hop[1:8], is_apart=hop.sender is Sender.FILES),
        np.array([(down.start, down.restart) for down in hop.downs], np.int64).reshape(-1, 2),
        departed,
        received,
        came,
    )
    told = empty * dropped.size + int(dropped.told.sum())
    return Crossed(departed[1:], received, came, messages, told)


def room_for(sizes: Ints, ahead: int) -> Ints:
    """Return for each transaction the number of earlier transactions that must have left before the connection's send
    buffers have room for it.

    ``sizes`` has the transactions' bytes. The buffers have the size ``ahead``, bytes (0: no limit).

    >>> room_for(np.array([10, 20, 30, 40]), 50)
    array([0, 0, 0, 1])
    """
    before = np.cumsum(sizes) - sizes
    return np.searchsorted(before, before - (ahead or NEVER))


class Received(NamedTuple):
    """The lags of the transactions that crossed a network link, in the order of receipt, and the number of messages.
    Transactions that never arrive have no lag.
    """

    lags: npt.NDArray[Any]
    """The time from the commit of each transaction until the node has received or applied it, microseconds."""
    messages: int
    told: int
    """The bytes of the reports about dropped transactions."""
    percentiles: Sequence[int] | None = None
    """The 50th, 95th and 99th percentile of ``lags`` (:data:`lag.SHARES`), and the greatest lag. None: not known."""


def cross_together(departing: Departing, hop: Hop, rates: Sequence[int | None]) -> list[Received | None]:
    """Simulate sending the same transactions (``departing``) over several network links that differ from ``hop`` in
    their rates only. This takes a fraction of the time of a call of :func:`cross` for each link.

    Return for each of ``rates`` (bits per second) the lags of the received transactions and the number of messages. An
    item is None if this function cannot simulate the link, so that the caller must call :func:`cross`. All items are
    None for a single rate, for links with a delay, jitter or outages, without transactions, and if sizes or times are
    too large. An item is also None if a lag on its link is too large.
    """
    sizes, dropped = departing.content.bytes, departing.dropped
    if len(rates) == 1 or hop.delay or hop.jitter or hop.downs or not len(sizes):
        return [None] * len(rates)
    unused = [(0, 1)] * (_hop.LANES - len(rates))
    times = np.array([*map(nanoseconds_of_a_byte, rates), *unused], np.float64).T.copy()
    largest = int(sizes.max())
    largest += GAP_BYTES + hop.message_overhead * (1 + (largest // hop.message if hop.message else 0))
    if max(largest * times[0].max() + times[1].max(), departing.seen[-1]) >= _hop.EXACT:
        return [None] * len(rates)
    longest_message = hop.message // max(int(sizes.min()), 1) + 1
    kept = _hop.BLOCK + 1 + max(longest_message, int((np.arange(len(sizes)) - departing.room).max()))
    departed = np.empty((1 << min(kept, len(sizes)).bit_length(), _hop.LANES))
    lags = np.empty((_hop.LANES, len(sizes)), np.int32)
    counts = np.empty((3, _hop.LANES), np.int64)
    _hop.cross_together(
        departing.seen,
        departing.committed,
        sizes,
        departing.room,
        dropped,
        Parameters(0, 1, *hop[1:8]),
        times,
        departed,
        lags,
        counts,
    )
    told, lags = int(dropped.told.sum()), lags[: len(rates)]
    columns = zip(lags, lag.percentiles_of(lags), *counts[:, : len(rates)].tolist(), strict=True)
    return [
        Received(row, messages, empty * dropped.size + told, (*each, worst))
        if worst < _hop.MOST_LAG
        else None
        for row, each, messages, empty, worst in columns
    ]


def _no_reports(n: int) -> Dropped:
    return Dropped(*np.zeros((4, n), np.int64))


AGAIN = 2_000_000
"""The time in which a master makes a message of the transactions that it found, before it polls its binlog again,
nanoseconds. Measured: 0.9 to 2.5 ms.
"""
PAUSE = 20_000_000
"""The minimum time from a successful poll of the binlog to the next one, nanoseconds. It holds for slaves, and for
masters that read files (except for a second poll after :data:`AGAIN`). A master that receives a server's binlog reports
dropped commits after at most this time.
"""
SLAVE_PERIOD = 50_000_000
"""The interval at which a slave publishes the end of its relay log if nothing more arrives, nanoseconds."""

_LOOKS = {
    Sender.SERVER: (0, 0, 0),
    Sender.FILES: (AGAIN, PAUSE, 0),
    Sender.RECEIVER: (AGAIN, 0, 0),
    Sender.SLAVE: (0, PAUSE, SLAVE_PERIOD),
}
"""For each kind of sender, the times ``again``, ``pause`` and ``period`` between its polls of the binlog, nanoseconds,
as :func:`_hop.looks` explains them.
"""


def looks(arrived: Ints, sender: Sender) -> Ints:
    """Return the time at which a sender finds each transaction in its binlog, by the kind of sender.

    ``arrived`` has the times at which the transactions arrive in the sender's binlog. All times are nanoseconds,
    ascending. The example prints one line for each kind: a server, a master that reads files, a master that receives a
    server's binlog, and a slave.

    >>> arrived = np.array([1, 2, 21, 24, 60, 90]) * 1_000_000
    >>> for sender in Sender:
    ...     print(looks(arrived, sender) // 1_000_000)
    [ 1  2 21 24 60 90]
    [ 1  3 23 25 60 90]
    [ 1  3 21 24 60 90]
    [ 1 21 21 50 90 90]
    """
    found = np.empty(len(arrived), np.int64)
    _hop.looks(np.ascontiguousarray(arrived, np.int64), *_LOOKS[sender], found)
    return found


def times_of(sizes: Ints, hop: Hop) -> Ints:
    """Return the time that each transaction takes to be sent over the link ``hop``, nanoseconds, without the link's
    delay.

    ``sizes`` has the transactions' bytes.
    """
    numerator, denominator = nanoseconds_of_a_byte(hop.rate)
    # As in the compiled loops: the estimate is wrong by one at most, and the remainder tells it.
    found: Ints = (sizes * (numerator / denominator)).astype(np.int64)
    rest = sizes * numerator + denominator // 2 - found * denominator
    return found + (rest >= denominator) - (rest < 0) + hop.fixed


CALL_BYTES, CALL_SECONDS = 217, 0.008
"""The bytes and the processing seconds of the gRPC call by which a slave measures its connection's rate. Measured."""


# -- routes

_WAYS: Mapping[Variant, tuple[Callable[[Leg], FilterKey], Form]] = {
    Variant.NONE: (attrgetter("unfiltered"), Form.EVENTS),
    Variant.SLAVE: (attrgetter("logged"), Form.EVENTS),
    Variant.MASTER: (attrgetter("sent"), Form.EVENTS),
    Variant.REPLICA: (attrgetter("sent"), Form.STAND_INS),
    Variant.PLAIN: (attrgetter("sent"), Form.EVENTS),
}
"""For each variant (way to bring the binlog to the slaves), the filter of the events that cross a link, and the
encoding in which they reach dumpfilter slaves.
"""


class Route(NamedTuple):
    """The path of transactions from one origin (a node that writes binlogs) to another node, in one run. ``hops`` are
    the network links on the path, in order, each with this run's rate, delay and filter.
    """

    origin: str
    hops: tuple[Hop, ...]
    apply: Hop | None = None
    """The node's applier, treated as one more hop after the links, with the filter of the transactions that the node
    applies. None: a transaction counts as applied when it is received.
    """


class Router:
    """A calculator of the routes to a node in one run. A route is the sequence of links from one origin (a node that
    writes binlogs) to the node. Each link has this run's rate, delay and filter, and the encoding (:class:`Form`) of
    the transactions that cross the link.

    A changed rate or delay of the run replaces the one that the link has in ``plan``, the simulated topology.
    ``applier`` says how fast each node applies transactions, and is simulated as one more link after the last one. With
    ``applier`` None a transaction's lag ends when the node has received the transaction. ``seed`` is the seed of the
    random jitter of links.
    """

    def __init__(self, plan: Plan, applier: Hop | None = None, seed: int = 0) -> None:
        self._numbers = {key: number for number, key in enumerate(plan.filters)}
        self._applier = applier
        self._seed = seed
        # All nodes behind a link share its hop.
        self._hop = functools.cache(self._make_hop)

    def routes(self, node: PlannedNode, setting: Setting) -> tuple[Route, ...]:
        """Return the routes (sequences of links) over which ``node`` gets its transactions in one run, in the order of
        the node's channels.

        The result has one :class:`Route` for each path from a binlog's writer to the node. ``setting`` has the
        parameters of the run, such as a changed rate. Its variant (way to bring the binlog to the slaves, such as
        filtered on the master) determines which filter each link has. The variant and the kind of slave determine the
        encoding of transactions on the link, such as gRPC messages or MySQL packets.
        """
        # Without filters a node applies everything.
        numbers = {} if setting.variant is Variant.NONE else self._numbers
        return tuple(
            Route(
                channel.origin,
                tuple(self._hop(leg, setting) for leg in channel.legs),
                self._applier and self._applier._replace(filter=numbers.get(channel.applied)),
            )
            for channel in node.channels
        )

    def _make_hop(self, leg: Leg, setting: Setting) -> Hop:
        filter_of, form = _WAYS[setting.variant]
        # A filter without rules has no number.
        number = self._numbers.get(filter_of(leg))
        if not leg.is_grpc:
            form = Form.STAND_INS if leg.sender else Form.PACKETS
        if form is Form.STAND_INS and number is None:
            form = Form.PACKETS
        shape = leg.shape
        rate, delay = shape.rate, shape.delay
        if setting.link is None or setting.link == leg.link:
            rate = rate if setting.rate is None else setting.rate
            delay = delay if setting.delay is None else setting.delay / 1e6
        has_messages = form is Form.EVENTS
        most = (leg.chunk_size or LARGEST) if has_messages else 0
        return Hop(
            rate,
            _nanoseconds(delay),
            _nanoseconds(shape.jitter),
            # Without jitter equal links have equal seeds, so that they are computed once.
            self._seed ^ zlib.crc32(leg.link.encode()) if shape.jitter else 0,
            message_size(told_rate(rate, delay), most) if has_messages else 0,
            downs=tuple(_downs(replace(shape, rate=rate, delay=delay), leg.retries)),
            most_message=most,
            ahead=BUFFERS if has_messages else 0,
            sender=leg.sender,
            form=form,
            filter=number,
            restarts=tuple(map(_nanoseconds, leg.restarts)) if form is Form.STAND_INS else (),
        )


def without_delay(routes: tuple[Route, ...]) -> tuple[tuple[Route, ...], int]:
    """Return the routes (sequences of links) to a node with the last link's delay set to 0, and this delay in
    microseconds.

    A delay without jitter and outages makes each transaction later by this constant, so nodes that differ only in it
    are computed together. Return ``routes`` unchanged and 0 if the last link has jitter, outages or a delay that is no
    whole number of microseconds, or if the node has several routes.
    """
    *before, hop = routes[0].hops
    if len(routes) > 1 or hop.jitter or hop.downs or hop.delay % MICROSECOND:
        return routes, 0
    origin, _, apply = routes[0]
    return (Route(origin, (*before, hop._replace(delay=0)), apply),), hop.delay // MICROSECOND


def all_but_rate(routes: tuple[Route, ...]) -> tuple[object, ...]:
    """Return a value that is equal for nodes whose routes (sequences of links) differ at most in the rate of each
    route's last link. Such nodes are computed together.
    """
    # The rate is the first field of a hop. A copy without it would take several times as long.
    return tuple((origin, hops[:-1], hops[-1][1:], apply) for origin, hops, apply in routes)


def told_rate(rate: int | None, delay: float) -> float:
    """Return the transfer rate that a slave reports to its master at the start of a dump, bytes per second.

    The slave measures the rate by the time of one short gRPC call, and the master chooses the message size by this
    rate. ``rate`` (bits per second) and ``delay`` (seconds) are those of the slave's link.
    """
    on_line = 0.0 if rate is None else CALL_BYTES * BITS / rate
    return CALL_BYTES / (2 * delay + on_line + CALL_SECONDS)


def _downs(shape: LinkShape, retries: Retries) -> Iterator[Down]:
    """Yield the outages of a link in ascending order, for the simulation. Outages that overlap or touch one another are
    merged.

    ``shape`` has the scheduled outages. ``retries`` has the reader's waits between attempts to connect, which determine
    when the dump resumes after an outage.
    """
    merged: list[Outage] = []
    for outage in sorted(shape.outages, key=lambda one: one.start):
        until = _end(merged[-1]) if merged else -math.inf
        if until < outage.start:
            merged.append(outage)
        elif _end(outage) > until:
            merged[-1] = replace(outage, start=merged[-1].start)
    for outage in merged:
        start = _nanoseconds(outage.start)
        if outage.end is None:
            yield Down(start, NEVER, NEVER)
        else:
            restart = retries.restart(outage.start, outage.end, shape, outage.connected)
            yield Down(start, _nanoseconds(outage.end), _nanoseconds(restart))


def _end(outage: Outage) -> float:
    return math.inf if outage.end is None else outage.end


def _nanoseconds(seconds: float) -> int:
    """Convert seconds to nanoseconds, rounded to whole microseconds, which is the resolution of times in a topology."""
    return round(seconds * (NANOSECONDS // MICROSECOND)) * MICROSECOND


# -- what crosses a link, and when


class Arrived(NamedTuple):
    """The transactions of one origin (a node that writes binlogs) that arrived at a node in a run, with their commit
    times and lags.

    Times are microseconds since the start of the run.
    """

    transaction: Ints
    """For each transaction, its index in the binlog set of the node that wrote it."""
    committed: Ints
    lags: npt.NDArray[Any]
    """The time from the commit of each transaction to its arrival, as int64 or int32."""
    missing: Ints
    """The commit times of the transactions that never arrive. The other arrays leave them out."""
    percentiles: Sequence[int] | None = None
    """The 50th, 95th and 99th percentile of ``lags`` (:data:`lag.SHARES`), and the greatest lag. None: not known."""

    @property
    def received(self) -> Ints:
        """The time at which each transaction arrived at the node, microseconds since the start of the run. The values
        never decrease.
        """
        received: Ints = self.committed + self.lags
        return received

    @property
    def ages(self) -> tuple[Ints, Ints]:
        """The commit time and the lag of each transaction. The lag of a transaction that never arrives is its age at
        the end of the run, which is the time of the last commit or arrival.
        """
        if not len(self.missing):
            return self.committed, self.lags
        end = np.append(self.missing, self.received[-1:]).max()
        committed = np.concatenate([self.committed, self.missing])
        return committed, np.concatenate([self.lags, end - self.missing])


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
    load: Callable[[Window], tuple[Ints, Ints]]
    """A function that returns two arrays for the last link, with an item for each interval of time into which a
    :class:`Window` divides the run. They are the bytes that the sender got and the bytes that it sent. Only the few
    nodes with plots need them.
    """


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
    """The transactions that cross a link, as arrays with an entry for each: its index in the origin's binlog, and its
    bytes. An entry may be a stand-in, which is an empty transaction sent in place of a dropped one.
    """

    transaction: Ints
    bytes: Ints
    counts: npt.NDArray[np.bool_] | None
    """For each entry, whether it is a transaction of the origin (True) or an empty transaction in place of a dropped
    one (False). None: there are only transactions of the origin.
    """
    outside: int = 0
    """The bytes of events outside transactions, if the filter passes no transaction. Otherwise 0, since these bytes are
    then counted with the transactions.
    """


def content(
    traffic: SetTraffic, form: Form, number: int | None, seen: Ints | None = None, earlier: int | None = None
) -> Content:
    """Return the transactions that cross a link, with the bytes of each in the link's encoding (``form``), such as gRPC
    chunks or MySQL packets.

    ``traffic`` has the transactions of the sender's binlog, and ``number`` is the index of the filter on the link
    (None: no filter). ``seen`` has the time at which the sender finds each transaction in its binlog. None means that
    the sender finds all transactions together.

    ``seen`` and ``earlier`` matter only for stand-ins, which are empty transactions in place of dropped ones.
    ``earlier`` is the index of the filter on the link to the sender, if the sender is a slave of dumpfilter. Stand-ins
    for transactions that this filter dropped are shorter.
    """
    sent = traffic.sent(number)
    overhead = 0 if form is Form.EVENTS else PACKET_BYTES
    outside = sent.outside[0] + overhead * sent.outside[1]
    found = Content(sent.transaction, sent.bytes + overhead * sent.events, None, outside)
    if form is not Form.STAND_INS:
        return found
    seen = np.zeros(len(traffic), np.int64) if seen is None else seen
    return _with_stand_ins(traffic, found, seen, earlier)


def _with_stand_ins(traffic: SetTraffic, sent: Content, seen: Ints, earlier: int | None) -> Content:
    """Return the sent transactions together with the stand-ins, which are empty transactions in place of dropped ones.
    A real replica (MySQL or MariaDB server) gets them, so that it has the GTIDs of dropped transactions.

    ``traffic`` has all transactions of the sender's binlog, and ``sent`` those that the filter passes. ``seen`` has the
    time at which the sender finds each transaction. MariaDB needs one stand-in for consecutive dropped transactions
    that are found together. Dropped transactions without a GTID get no stand-in.

    ``earlier`` is the index of the filter on the link to the sender, if the sender is a slave of dumpfilter. Stand-ins
    for transactions that this filter dropped are shorter. None: there is no such filter.
    """
    if not traffic.stand_in_events or not len(traffic.stand_in_bytes):
        return sent
    made = traffic.stand_in_bytes.copy()
    if earlier is not None and traffic.gap_stand_in_bytes:
        made = np.minimum(made, traffic.gap_stand_in_bytes)
        had = traffic.sent(earlier).transaction
        made[had] = traffic.stand_in_bytes[had]
    sizes = np.where(made > 0, made + PACKET_BYTES * traffic.stand_in_events, 0)
    is_sent = np.zeros(len(traffic), np.bool_)
    is_sent[sent.transaction] = True
    if traffic.stand_ins_joined:
        # One stand-in serves a run of dropped transactions that the sender sees together: the last one of the run.
        ends_run = np.ones(len(traffic), np.bool_)
        ends_run[:-1] = is_sent[1:] | (np.diff(seen) > 0)
        sizes[~ends_run] = 0
    sizes[sent.transaction] = sent.bytes
    kept = np.flatnonzero(sizes)
    return Content(kept, sizes[kept], is_sent[kept], sent.outside)


_KEPT = 4
"""The maximum number of results in each cache of a :class:`Schedule`, such as the arrival times over one path."""


class Polls(NamedTuple):
    """The polls of a sender: their times, and the poll that finds each transaction. In a poll, the sender reads all
    transactions from its binlog that are new since the poll before. Poll 0 stands for the time before the first poll.
    """

    number: Ints
    """For each transaction of the binlog set, the number of the poll that finds it."""
    time: Ints
    """The time of each poll, nanoseconds."""

    @classmethod
    def of(cls, seen: Ints) -> Polls:
        """Return the polls of a sender. In a poll, the sender reads the new transactions from its binlog.

        ``seen`` has the time at which the sender finds each transaction of its binlog, nanoseconds, ascending. One poll
        finds all transactions with equal times.
        """
        is_first = np.diff(seen, prepend=-1) > 0
        return cls(np.cumsum(is_first), np.append(-1, seen[is_first]))


def dropped_before(transaction: Ints, polls: Polls | None, empty_chunk: int) -> Dropped:
    """Return the reports by which a sender tells its reader about dropped transactions, before each sent transaction.

    ``transaction`` has the indexes, in the binlog set, of the sent transactions. ``polls`` has the times at which the
    sender searches its binlog for new ones. After a poll that finds only transactions to drop, the sender sends a
    message of ``empty_chunk`` bytes without events. With ``polls`` None, it sends no such messages.
    """
    after_gap = np.diff(transaction, prepend=-1) > 1
    if polls is None:
        return _no_reports(len(transaction))._replace(told=np.where(after_gap, GAP_BYTES, 0))
    # The chunk of a sent transaction reports only transactions that were dropped in the same poll.
    poll = polls.number[transaction]
    is_told = after_gap & (poll == polls.number[transaction - 1])
    # All polls between those of two sent transactions find nothing to send.
    first = np.minimum(np.append(0, poll[:-1]) + 1, poll)
    return Dropped(
        np.where(is_told, GAP_BYTES, 0),
        poll - first,
        polls.time[first],
        polls.time[poll - 1],
        empty_chunk,
        len(polls.time) - 1 - int(poll[-1] if len(poll) else 0),
    )


def told_at(transaction: Ints, polls: Polls, crossed: Crossed, hop: Hop, empty_chunk: int) -> Ints:
    """Return the time at which the reader of a link learns of each transaction of a binlog set, sent or dropped,
    nanoseconds.

    ``transaction`` has the indexes, in the binlog set, of the sent transactions, and ``crossed`` the times at which
    they crossed the link ``hop``. ``polls`` has the times at which the sender searches its binlog for new transactions.
    After a poll that finds nothing to send, a message of ``empty_chunk`` bytes reports the dropped transactions.
    """
    is_empty = np.diff(polls.number, prepend=0) > 0
    is_empty &= ~np.isin(polls.number, polls.number[transaction])
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
    # The first transactions have no time yet if a sent one was found together with them.
    return np.maximum.accumulate(np.where(at < hop.delay, following, np.minimum(at, following)))


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
    dropped: Dropped
    """The sender's reports about dropped transactions."""
    before: Ints
    """The bytes of all transactions before each one, and at the end those of all."""
    room: Ints
    """For each transaction, the number of earlier ones that must have left before the link's send buffers have room for
    it.
    """


class Schedule:
    """The commit times of the binlog of one origin (a node that writes binlogs), and the arrival times computed from
    them.

    The latest results of each method are cached, because several nodes receive the same transactions over the same
    links.
    """

    def __init__(self, traffic: SetTraffic, load: float = 1.0) -> None:
        """Compute the commit times in the simulation from the commit times that the binlog set ``traffic`` has.

        The times between commits are divided by ``load``. With ``inf`` all transactions are committed at time 0. Raises
        OptionError if the last commit would be after 146 years, whose nanoseconds do not fit into 64 bits.
        """
        self.traffic = traffic
        self.overhead = MESSAGE_OVERHEAD[traffic.family]
        committed = (traffic.time - traffic.time[:1]) / load
        if (committed >= NEVER // MICROSECOND).any():
            raise OptionError(f"load × {load:g}: the commits would take over 146 years; give a greater load")
        self.committed: Ints = committed.astype(np.int64)
        """The commit time of each transaction in the origin's binlog, microseconds since the start of the run."""
        kept = functools.lru_cache(_KEPT)
        self.reached = kept(self._reached)
        self.passed = kept(self._passed)
        self._departing = kept(self._make_departing)
        self._seen = kept(self._make_seen)
        self._polls = kept(lambda *looking: Polls.of(self._seen(*looking)))

    def departing(self, hops: tuple[Hop, ...]) -> Departing:
        """Return the transactions that cross the last of consecutive links (``hops``), with the times at which the
        sender has them.
        """
        *way, hop = hops
        # Links that differ in other properties, such as the rate, are sent the same.
        sent = Hop(ahead=hop.ahead, sender=hop.sender, form=hop.form, filter=hop.filter)
        if hop.form is Form.STAND_INS:
            sent = sent._replace(delay=hop.delay, downs=hop.downs, restarts=hop.restarts)
        return self._departing(tuple(way), sent)

    def _passed(self, hops: tuple[Hop, ...]) -> tuple[Departing, Crossed]:
        """Simulate sending the transactions of this origin's binlog over consecutive links (``hops``), each with its
        filter. The origin is the node that wrote the binlog.

        Return the transactions that crossed the last link, and their times of departure and arrival.
        """
        departing, hop = self.departing(hops), self.with_overhead(hops[-1])
        return departing, cross(
            departing.seen, departing.content.bytes, hop, departing.dropped, departing.room
        )

    def with_overhead(self, hop: Hop) -> Hop:
        """Return a copy of the link ``hop`` whose ``message_overhead`` is the number of bytes that each gRPC message
        adds to the events of this origin's binlog. The number depends on whether MySQL or MariaDB wrote the binlog, and
        is 0 for a link that carries MySQL's protocol.
        """
        return hop._replace(message_overhead=self.overhead if hop.message else 0)

    def _reached(self, hops: tuple[Hop, ...]) -> Ints:
        """Return the time at which each transaction of this origin's binlog reaches the end of consecutive links,
        nanoseconds.

        ``hops`` are the links with their filters. Without links the result is the time of the commit. A master or slave
        of dumpfilter reports to a slave the transactions that the filter drops. For such a transaction the result is
        the time at which the report arrives. For a dropped transaction without a report, the result is the time of the
        last sent transaction before the dropped one (-1: none).
        """
        if not hops:
            return self.committed * MICROSECOND
        departing, crossed = self.passed(hops)
        transaction = departing.content.transaction
        *way, hop = hops
        if hop.form is Form.EVENTS and hop.filter is not None and hop.sender:
            polls = self._polls(*_looking(tuple(way), hop))
            return told_at(transaction, polls, crossed, hop, self.overhead + EMPTY_BYTES)
        # A transaction that this reader was not sent takes the time of the one before it, so that the times ascend.
        at = np.full(len(self.traffic), -1, np.int64)
        at[transaction] = crossed.received
        return np.maximum.accumulate(at)

    def _make_departing(self, way: tuple[Hop, ...], hop: Hop) -> Departing:
        """Return the transactions that cross the link ``hop``, with the times at which the sender has them.

        ``way`` has the links from the binlog's writer to the link's sender. Of ``hop`` only the properties of the
        sender matter: its send buffers (``ahead``), its kind (``sender``), its encoding (``form``) and its filter. If
        the sender replaces dropped transactions by empty ones (stand-ins), the delay and the outages of ``hop`` matter,
        too.
        """
        together = seen = self._seen(*_looking(way, hop))
        for down in hop.downs:
            # The sender looks for what this reader lacks when a reader comes back.
            missed = (together >= down.start - hop.delay) & (together < down.restart)
            looks_at = np.array([*hop.restarts, down.restart])
            together = np.where(missed, looks_at[np.searchsorted(hop.restarts, together)], together)
        has_gaps = way and hop.sender is Sender.SLAVE and way[-1].form is Form.EVENTS
        earlier = way[-1].filter if has_gaps else None
        found = content(self.traffic, hop.form, hop.filter, together, earlier)
        sent = found.transaction
        if hop.form is Form.EVENTS and hop.filter is not None:
            polls = self._polls(*_looking(way, hop)) if hop.sender else None
            dropped = dropped_before(sent, polls, self.overhead + EMPTY_BYTES)
        else:
            dropped = _no_reports(len(sent))
        before, room = np.append(0, np.cumsum(found.bytes)), room_for(found.bytes, hop.ahead)
        return Departing(
            found, self.committed[sent], self.reached(way)[sent], seen[sent], dropped, before, room
        )

    def _make_seen(self, way: tuple[Hop, ...], sender: Sender, number: int | None) -> Ints:
        """Return the time at which a sender finds each transaction in its binlog, nanoseconds. For a dropped
        transaction the result has the time at which the sender reports it.

        ``way`` has the links from the binlog's writer to the sender. ``number`` is the index of the sender's filter, if
        the sender is a master that receives a server's binlog. Such a master reports dropped transactions with a delay.
        None: no filter, or another kind of sender.
        """
        seen = looks(self.reached(way), sender)
        if number is None:
            return seen
        is_sent = np.zeros(len(seen), np.bool_)
        is_sent[self.traffic.sent(number).transaction] = True
        reported = np.empty_like(seen)
        _hop.gather(seen, is_sent, PAUSE, reported)
        return reported


def _looking(way: tuple[Hop, ...], hop: Hop) -> tuple[tuple[Hop, ...], Sender, int | None]:
    """Return the arguments with which :meth:`Schedule._make_seen` computes the time at which the sender of the link
    ``hop`` finds each transaction in its binlog. The results for equal arguments are cached.

    The arguments are the links ``way`` before ``hop``, the kind of sender, and the index of the filter on ``hop``. The
    index is None for senders whose times do not depend on the filter.
    """
    return way, hop.sender, hop.filter if hop.sender is Sender.RECEIVER else None


def travel(routes: Sequence[Route], schedule: Schedule) -> list[Flow]:
    """Simulate the links from an origin (a node that writes binlogs) to other nodes. Return for each of ``routes`` the
    transactions that arrive over it, with their times and bytes.

    ``routes`` begin at one origin, and differ only in the rate of the last link. ``schedule`` has the origin's commit
    times.
    """
    departing = schedule.departing(routes[0].hops)
    hop, rates = schedule.with_overhead(routes[0].hops[-1]), [route.hops[-1].rate for route in routes]
    together = [None] * len(rates) if routes[0].apply else cross_together(departing, hop, rates)
    found = []
    for route, received in zip(routes, together, strict=True):
        if received is None:
            _, crossed = schedule.passed(route.hops)
            came = crossed.came
            if route.apply is not None:
                came = _applied(schedule.traffic, route.apply, departing, crossed)
            there = _before_never(crossed.received)
            received = Received(came[there] - departing.committed[there], crossed.messages, crossed.told)
        found.append(_flow(route, schedule, departing, received))
    return found


def _flow(route: Route, schedule: Schedule, departing: Departing, received: Received) -> Flow:
    """Return the transactions that a node receives over ``route``, with their bytes.

    ``departing`` has the transactions that are sent over the last link. ``received`` has the lags of the transactions
    that arrive, which are the first ones in ``departing``. ``schedule`` has the origin's commit times, and computes
    from them when transactions cross the links.
    """
    lags, messages, told, percentiles = received
    hop, count, dropped = route.hops[-1], len(lags), departing.dropped
    transaction, sizes, counts, outside = departing.content
    kept: Any = slice(None) if counts is None else counts[:count]
    lost: Any = slice(None) if counts is None else counts[count:]
    missing = departing.committed[count:][lost]
    percentiles = None if counts is not None or len(missing) else percentiles

    @functools.cache
    def load(window: Window) -> tuple[Ints, Ints]:
        _, crossed = schedule.passed(route.hops)
        there, gone = _before_never(departing.ready), _before_never(crossed.departed)
        needed = times_of(sizes[gone], hop) // MICROSECOND
        return (
            lag.offered(departing.ready[there] // MICROSECOND, sizes[there], window),
            lag.carried(crossed.departed[gone] // MICROSECOND, sizes[gone], needed, window),
        )

    # Each transaction of MySQL's protocol is a message of its own, and the protocol's bytes count with its events.
    has_messages = hop.message > 0
    return Flow(
        Arrived(
            transaction[:count][kept], departing.committed[:count][kept], lags[kept], missing, percentiles
        ),
        outside + int(departing.before[count]),
        messages if has_messages else None,
        messages * schedule.overhead + told + dropped.after * dropped.size if has_messages else None,
        [
            (down.start // MICROSECOND, None if down.end >= NEVER else down.end // MICROSECOND)
            for down in hop.downs
        ],
        load,
    )


def _before_never(ascending: Ints) -> slice:
    return slice(int(ascending.searchsorted(NEVER)))


def _applied(traffic: SetTraffic, applier: Hop, departing: Departing, crossed: Crossed) -> Ints:
    """Return the time at which a node has applied each transaction that it received, microseconds, rounded up.

    ``departing`` has the received transactions of the binlog set ``traffic``, and ``crossed`` their times of receipt.
    ``applier`` has the node's speed of applying, and the filter of the transactions that the node applies.
    """
    passes = traffic.sent(applier.filter)
    applied = np.zeros(len(traffic), np.int64)
    applied[passes.transaction] = passes.bytes
    sizes = applied[departing.content.transaction]
    found = np.full(len(sizes), -1, np.int64)
    found[sizes > 0] = cross(crossed.received[sizes > 0], sizes[sizes > 0], applier).came
    # A transaction without anything to apply is applied with the one before it.
    return np.maximum(np.maximum.accumulate(found), crossed.came)


# -- figures

POINTS = 400
"""The maximum number of intervals in a series (figures over time)."""
MOST_SERIES = 24
"""The maximum number of nodes with a series (figures over time) in a run. The nodes with the greatest lag are chosen.
"""
_WIDTHS = [step * 10**power for power in range(3, 13) for step in (1, 2, 5)]
"""The interval widths that a series may have, microseconds."""


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
    """A part of the last link's delay that ``routes`` (the sequences of links to the nodes) do not contain,
    microseconds. This part is added to all arrival times. Groups that differ in this part only are computed together.
    """


class Outcome(NamedTuple):
    """The lag and traffic that one run of a simulation or experiment gives for a group of nodes with equal figures. An
    Outcome has the figures of the node, of its channels and of its links, and the time of the last receipt.
    """

    nodes: list[NodeFigures]
    """The figures of the whole node, and if it has several channels also those of each channel."""
    links: list[LinkFigures]
    """The figures of each link over which the node reads."""
    duration: int
    """The time at which the node had received everything that ever arrives, microseconds since the start of the run. If
    transactions never arrive, the time of the last commit, if that is later.
    """


def window_of(duration: int) -> Window:
    """Return the intervals of time into which the plots of a run are divided. A plot shows one value for each interval.

    There are at most ``POINTS`` intervals, all of the same round width. ``duration`` is that of the run, microseconds.

    >>> window_of(60_000_000)
    Window(width=200000, count=301)
    """
    width = next((each for each in _WIDTHS if duration // each < POINTS), _WIDTHS[-1])
    return Window(width, duration // width + 1)


def outcomes_of(groups: Sequence[Group], flows: Sequence[Flow], *, limit: int) -> list[Outcome]:
    """Return the lag and traffic of each group of equal nodes, in the groups' order. The groups differ only in the
    delay of the link to the node.

    ``flows`` has an item for each path to a node of these groups: the transactions that arrive over the path, without
    that delay. ``limit`` is a lag in microseconds. The result includes the time during which the lag is above this
    limit.
    """
    whole = at_node(groups[0], flows)
    arrivals = [whole, *(flow.arrived for flow in flows if len(flows) > 1)]
    nbytes = [sum(flow.bytes for flow in flows), *(flow.bytes for flow in flows)]
    delays = [group.delay for group in groups]
    lags = [lag.measure(*one.ages, delays, limit, one.percentiles) for one in arrivals]
    committed, ages = whole.ages
    last = int(committed[-1] + ages[-1]) if len(ages) else None
    traffic = functools.cache(lambda numbers: _traffic([flows[n] for n in numbers]))
    found = []
    for number, group in enumerate(groups):
        channels = group.nodes[0].channels
        nodes = [
            NodeFigures(
                **_names([node.name for node in group.nodes]),
                channel=channels[n - 1].name if n else None,
                transactions=len(arrived.transaction),
                missing=len(arrived.missing),
                bytes=nbytes[n],
                lag=lags[n][number],
            )
            for n, arrived in enumerate(arrivals)
        ]
        shared: dict[str, tuple[int, ...]] = {}
        for n, channel in enumerate(channels):
            link = channel.legs[-1].link
            shared[link] = (*shared.get(link, ()), n)
        links = [_link(group, numbers[0], traffic(numbers)) for numbers in shared.values()]
        found.append(Outcome(nodes, links, 0 if last is None else last + group.delay))
    return found


def _names(names: Sequence[str]) -> dict[str, Any]:
    """Return the fields ``name``, ``count`` and ``members`` of a :class:`NodeFigures` or :class:`LinkFigures` that
    holds for all the nodes or links with the given names.
    """
    return {"name": names[0], "count": len(names), "members": names if len(names) > 1 else ()}


def _link(group: Group, number: int, traffic: Mapping[str, Any]) -> LinkFigures:
    """Return the figures (bytes, messages, outages) of a link over which one or more channels of a node read.

    ``group`` has the node, and the other nodes with equal links and filters. ``number`` is the index of one of the
    link's channels in the node's ``channels``, and ``traffic`` has the bytes, messages and outages, as :func:`_traffic`
    returns them.
    """
    leg, hop = group.nodes[0].channels[number].legs[-1], group.routes[number].hops[-1]
    return LinkFigures(
        **_names([node.channels[number].legs[-1].link for node in group.nodes]),
        source=leg.source,
        target=leg.target,
        rate=hop.rate,
        delay=hop.delay // MICROSECOND + group.delay,
        jitter=hop.jitter // MICROSECOND,
        **traffic,
    )


def _traffic(flows: Sequence[Flow]) -> dict[str, Any]:
    """Return the figures of a link (bytes, messages, outages) that do not depend on its delay, by the names of the
    fields of :class:`LinkFigures`. ``flows`` has the transactions received over each path whose last link is this link.
    """
    return {
        "bytes": sum(flow.bytes for flow in flows),
        "transactions": sum(len(flow.arrived.transaction) for flow in flows),
        "messages": _sum(flow.messages for flow in flows),
        "overhead": _sum(flow.overhead for flow in flows),
        "outages": tuple(_outage(flows, *outage) for outage in flows[0].outages),
    }


def _sum(values: Iterable[int | None]) -> int | None:
    known = list(values)
    return sum(one for one in known if one is not None) if None not in known else None


def _outage(flows: Sequence[Flow], start: int, end: int | None) -> OutageFigures:
    caught_up = None
    if end is not None and not any(len(flow.arrived.missing) for flow in flows):
        of = [flow.arrived for flow in flows]
        caught_up = max(lag.catch_up(one.committed, one.received, start, end) for one in of)
    return OutageFigures(start=start, end=end, catch_up=caught_up)


def at_node(group: Group, flows: Sequence[Flow]) -> Arrived:
    """Return the transactions that arrive at a node of ``group`` (nodes with equal links and filters) over all paths,
    in the order of receipt.

    ``flows`` has the arrivals over each path from an origin (a node that writes binlogs). If several paths bring one
    origin's transactions, a transaction's first arrival counts. The caller must add to the times ``group.delay``, the
    part of the last link's delay that ``group.routes`` leave out.
    """
    if len(flows) == 1:
        return flows[0].arrived
    missing: dict[str, Ints] = {}
    for route, flow in zip(group.routes, flows, strict=True):
        lost = flow.arrived.missing
        missing[route.origin] = min(lost, missing.get(route.origin, lost), key=len)
    origin = np.repeat(
        [list(missing).index(route.origin) for route in group.routes],
        [len(flow.arrived.transaction) for flow in flows],
    )
    columns = zip(*(flow.arrived[:3] for flow in flows), strict=True)
    transaction, committed, lags = map(np.concatenate, columns)
    order = np.argsort(committed + lags, kind="stable")
    _, first = np.unique(np.stack([origin, transaction])[:, order], axis=1, return_index=True)
    kept = order[np.sort(first)]
    return Arrived(transaction[kept], committed[kept], lags[kept], np.concatenate([*missing.values()]))


def curves_of(nodes: Iterable[tuple[Group, Sequence[Flow]]], window: Window) -> Series:
    """Return the data of the plots: the bytes on each link and the greatest lag of each node, for each interval of time
    into which ``window`` divides the run.

    ``nodes`` has pairs of a group of equal nodes and the arrivals over each path to them. The plots show only the first
    node of each group.
    """
    offered: dict[str, Ints] = {}
    carried: dict[str, Ints] = {}
    lags: dict[str, Ints] = {}
    for group, flows in nodes:
        node, (committed, ages) = group.nodes[0], at_node(group, flows).ages
        lags[node.name] = lag.series(committed, committed + ages + group.delay, window)
        for channel, flow in zip(node.channels, flows, strict=True):
            link = channel.legs[-1].link
            came, left = flow.load(window)
            offered[link] = offered.get(link, 0) + came
            carried[link] = carried.get(link, 0) + left

    def columns(of: Mapping[str, Ints]) -> dict[str, tuple[int, ...]]:
        return {name: tuple(values.tolist()) for name, values in of.items()}

    return Series(
        start=0, width=window.width, offered=columns(offered), carried=columns(carried), lag=columns(lags)
    )


def run_of(
    groups: Sequence[Group],
    outcomes: Sequence[Outcome],
    flows_of: Callable[[Group], Sequence[Flow]],
    **fields: Any,
) -> Run:
    """Combine the lag and traffic of all groups of nodes with equal links and filters into the results of one run. The
    results include data for plots of the nodes with the greatest lag.

    ``outcomes`` has the lag and traffic of each group, in the same order. ``flows_of`` is called with a group, and
    returns the arrivals over each path to its nodes. ``fields`` are further fields of the :class:`Run`, such as
    ``method``.
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
    """Return a sort key that puts groups of equal nodes with a great lag before other groups. The key has the negative
    99th percentile of the lag, and a node's name.
    """
    return -outcome.nodes[0].lag.p99, outcome.nodes[0].name
