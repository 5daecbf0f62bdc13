"""Routes: the links over which transactions come from the node that wrote them to another node, in one run of a
simulation, and the simulation of one link (hop).

Routes are plain values without names, so that nodes with equal routes are computed once. A hop is a network link that
keeps transactions in order, or the applier of a node.

A transaction leaves a link at the time ``max(a, f) + s`` (Lindley's recursion). It arrived at the sender at ``a``,
the link had sent all earlier bytes at ``f``, and sending the transaction takes ``s``. ``s`` is rounded to a whole
nanosecond for each transaction. The result therefore does not depend on how the transactions are divided into ranges.
All times are whole nanoseconds.
"""

from __future__ import annotations

import enum
import functools
import zlib
from collections.abc import Callable, Iterator, Mapping
from dataclasses import replace
from fractions import Fraction
from operator import attrgetter
from typing import NamedTuple

import numpy as np

from dumpfilter.analyse.traffic.facts import Ints
from dumpfilter.dump.stream.pace import BUFFERS, LARGEST, message_size
from dumpfilter.simulation import _hop
from dumpfilter.simulation._hop import Dropped, Parameters
from dumpfilter.simulation.plan import FilterKey, Leg, Plan, PlannedNode, Retries
from dumpfilter.simulation.results import Setting, Variant
from dumpfilter.topology.links.line import BITS
from dumpfilter.topology.links.shape import LinkShape

NANOSECONDS = 1_000_000_000
"""The number of nanoseconds in a second."""
MICROSECOND = 1_000
"""The number of nanoseconds in a microsecond, the unit of transaction times."""
NEVER = 1 << 62
"""The end time of an outage that never ends, nanoseconds."""
_MOST_DENOMINATOR = 10**9
"""The limit of the denominator of the time for one byte. It keeps the products with a transaction's bytes within 64
bits.
"""


class Down(NamedTuple):
    """An outage of a link. Times are nanoseconds since the first transaction's commit."""

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
    """Chunks of events over gRPC, as dumpfilter slaves receive them."""
    PACKETS = "packets"
    """Packets of MySQL's replication protocol, one for each event."""
    STAND_INS = "stand-ins"
    """Packets of MySQL's replication protocol, with stand-ins (empty transactions) for dropped transactions."""


class Hop(NamedTuple):
    """One link on the path from a binlog's writer to a node, in one run of a simulation, with the filter of its sender.

    The applier of a node is simulated as a link without delay. Times are nanoseconds.
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
    downs: tuple[Down, ...] = ()
    """The outages in ascending order, without overlap."""
    most_message: int = 0
    """The limit of the message size after an outage, bytes. After an outage the message size follows the rate that
    the reader reports.
    """
    ahead: int = 0
    """The capacity of the connection's send buffers, bytes. The sender makes messages until they are full. 0: no
    limit.
    """
    tick: int = 0
    """The time in which the sender does not look for new transactions after it found some, nanoseconds (see
    :func:`looks`). 0: the sender sees each transaction at once.
    """
    form: Form = Form.EVENTS
    """The encoding of transactions on the link, such as gRPC chunks or packets of MySQL's protocol."""
    filter: int | None = None
    """The index, in the plan's filters, of the filter on this link. None: no filter."""
    idle: tuple[Down, ...] = ()
    """The intervals in which the sender had no reader. The sender sees all transactions of an interval together at
    its end.
    """


class Crossed(NamedTuple):
    """The times at which transactions crossed a link, nanoseconds, and the number of messages that they needed."""

    departed: Ints
    """The time at which the last byte of each transaction left the sender, nanoseconds."""
    received: Ints
    """The time at which each transaction had arrived completely, nanoseconds. The values never decrease."""
    messages: int
    told: int
    """The bytes of the reports about dropped transactions that crossed the link."""


def nanoseconds_of_a_byte(rate: int | None) -> tuple[int, int]:
    """Return the time to send one byte at ``rate`` bits per second, as numerator and denominator of nanoseconds.
    ``rate`` None: 0.

    >>> nanoseconds_of_a_byte(2_000_000), nanoseconds_of_a_byte(512_000), nanoseconds_of_a_byte(None)
    ((4000, 1), (15625, 1), (0, 1))
    """
    if rate is None:
        return 0, 1
    exact = Fraction(8 * NANOSECONDS, rate)
    return (
        exact if exact.denominator <= _MOST_DENOMINATOR else exact.limit_denominator(_MOST_DENOMINATOR)
    ).as_integer_ratio()


def cross(
    arrived: Ints, sizes: Ints, hop: Hop, dropped: Dropped | None = None, room: Ints | None = None
) -> Crossed:
    """Simulate sending transactions over a network link (``hop``). Return their times of departure and arrival, and the
    number of messages.

    ``arrived`` has the time at which the sender has each transaction, nanoseconds, ascending; ``sizes`` has their
    bytes. ``dropped`` has the sender's reports about dropped transactions, which use the link, too (None: no reports).
    ``room`` is the result of :func:`room_of`, which equal senders share (None: not known).

    >>> arrived, sizes = np.array([0, 10, 20]), np.array([100, 100, 100])
    >>> cross(arrived, sizes, Hop(rate=160_000_000)).received.tolist()
    [5000, 10000, 15000]
    """
    departed, received = np.empty(len(arrived) + 1, np.int64), np.empty(len(arrived) + 1, np.int64)
    if dropped is None:
        nothing = np.zeros(len(arrived), np.int64)
        dropped = Dropped(nothing, nothing, nothing, nothing)
    messages, told = _hop.cross(
        np.ascontiguousarray(arrived, np.int64),
        np.ascontiguousarray(sizes, np.int64),
        room_of(sizes, hop.ahead) if room is None else room,
        dropped,
        Parameters(*nanoseconds_of_a_byte(hop.rate), *hop[1:7]),
        _outages(arrived, sizes, hop),
        departed,
        received,
    )
    return Crossed(departed[1:], received[1:], int(messages), int(told))


def room_of(sizes: Ints, ahead: int) -> Ints:
    """Return for each transaction the number of transactions that must have left before send buffers of ``ahead``
    bytes have room for the message that begins with it. 0: no transaction must have left.

    >>> room_of(np.array([3, 3, 3, 3]), 5).tolist()
    [0, 0, 1, 2]
    """
    if not ahead:
        return np.zeros(len(sizes), np.int64)
    ends = np.cumsum(sizes)
    return np.searchsorted(ends, ends - sizes - ahead).astype(np.int64) + (ends - sizes > ahead)


def _outages(arrived: Ints, sizes: Ints, hop: Hop) -> Ints:
    """Return the outages of a hop as an int64 array of rows: start, restart (nanoseconds), and the message size
    (bytes) after the restart.
    """
    rows, begin = [], 0
    for down in hop.downs:
        # The product of 10 GB and a second's nanoseconds does not fit into 64 bits.
        offered = int(sizes[slice(*np.searchsorted(arrived, (begin, down.start)))].sum())
        rate = offered * NANOSECONDS / max(down.start - begin, 1)
        if hop.rate is not None:
            rate = min(rate, hop.rate / BITS)
        rows.append((down.start, down.restart, max(hop.message, message_size(rate, hop.most_message))))
        begin = down.restart
    return np.array(rows, np.int64).reshape(-1, 3)


def looks(arrived: Ints, tick: int, again: int) -> Ints:
    """Return the time at which a sender finds each transaction in its binlog.

    ``arrived`` has the times at which the transactions arrive in the sender's binlog. All times are nanoseconds,
    ascending. After the sender found transactions, it looks again ``again`` nanoseconds later, when it has made the
    message. If it then finds none, it finds the next one as it arrives, but not earlier than ``tick`` after the last.

    >>> looks(np.array([1, 19, 20, 23, 60]), 20, 5).tolist()
    [1, 21, 21, 26, 60]
    """
    found = np.empty(len(arrived), np.int64)
    _hop.looks(np.ascontiguousarray(arrived, np.int64), tick, again, found)
    return found


def times_of(sizes: Ints, hop: Hop) -> Ints:
    """Return the time that each transaction takes to be sent over the link ``hop``, nanoseconds, without the link's
    delay.

    ``sizes`` has the transactions' bytes.
    """
    numerator, denominator = nanoseconds_of_a_byte(hop.rate)
    whole, rest = np.divmod(sizes, denominator)
    times: Ints = whole * numerator + (rest * numerator + denominator // 2) // denominator + hop.fixed
    return times


CALL_BYTES, CALL_SECONDS = 217, 0.008
"""The bytes and the processing seconds of the gRPC call by which a slave measures its connection's rate. Measured."""
AGAIN = 2_000_000
"""The time in which a node makes a chunk of the transactions that it found, before it looks again, nanoseconds.
Measured: 0.9 to 2.5 ms.
"""
_FINEST = 1_000_000
"""The largest denominator of a load as a fraction. Its inverse is the smallest load."""


_WAYS: Mapping[Variant, tuple[Callable[[Leg], FilterKey], Form]] = {
    Variant.NONE: (attrgetter("unfiltered"), Form.EVENTS),
    Variant.SLAVE: (attrgetter("logged"), Form.EVENTS),
    Variant.MASTER: (attrgetter("sent"), Form.EVENTS),
    Variant.REPLICA: (attrgetter("sent"), Form.STAND_INS),
    Variant.PLAIN: (attrgetter("sent"), Form.EVENTS),
}
"""For each variant, the filter of the events that cross a link, and the encoding in which they reach dumpfilter slaves.
"""


class Route(NamedTuple):
    """The links over which transactions come from one origin (a node that writes binlogs) to a node, in one run."""

    origin: str
    hops: tuple[Hop, ...]
    apply: Hop | None = None
    """The node's applier, treated as one more hop after the links, with the filter of the transactions that the node
    applies. None: a transaction counts as applied when it is received.
    """


class Router:
    """The computation of the links to each node, with the properties that they have in one run.

    The parameters of a run, such as a changed rate, replace the properties in the plan. ``applier`` is the speed at
    which each node applies transactions; None: a transaction counts from its receipt. ``seed`` is the seed of the
    random jitter of links.
    """

    def __init__(self, plan: Plan, applier: Hop | None = None, seed: int = 0) -> None:
        self._numbers = {key: number for number, key in enumerate(plan.filters)}
        self._applier = applier
        self._seed = seed
        # All nodes behind a link share its hop.
        self._hop = functools.cache(self._make_hop)

    def routes(self, node: PlannedNode, setting: Setting) -> tuple[Route, ...]:
        """Return the links over which ``node`` gets its transactions, with their properties in one run.

        The result has one :class:`Route` for each path from a binlog's writer to the node. ``setting`` has the
        parameters of the run.
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
            form = Form.STAND_INS if leg.tick else Form.PACKETS
        if form is Form.STAND_INS and number is None:
            form = Form.PACKETS
        shape = leg.shape
        if setting.link in (None, leg.link):
            rate = shape.rate if setting.rate is None else setting.rate
            shape = replace(
                shape, rate=rate, delay=shape.delay if setting.delay is None else setting.delay / 1e6
            )
        has_messages = form not in (Form.PACKETS, Form.STAND_INS)
        most = (leg.chunk_size or LARGEST) if has_messages else 0
        idle = ((_nanoseconds(start), _nanoseconds(end)) for start, end in leg.idle)
        return Hop(
            shape.rate,
            _nanoseconds(shape.delay),
            _nanoseconds(shape.jitter),
            # Without jitter equal links have equal seeds, so that they are computed once.
            self._seed ^ zlib.crc32(leg.link.encode()) if shape.jitter else 0,
            message_size(told_rate(shape), most) if has_messages else 0,
            downs=tuple(_downs(shape, leg.retries)),
            most_message=most,
            ahead=BUFFERS if has_messages else 0,
            tick=leg.tick,
            form=form,
            filter=number,
            idle=tuple(Down(start, end, end) for start, end in idle) if form is Form.STAND_INS else (),
        )


def without_delay(routes: tuple[Route, ...]) -> tuple[tuple[Route, ...], int]:
    """Return the routes (sequences of links) to a node with the last link's delay set to 0, and this delay in
    microseconds.

    A delay without jitter and outages makes each transaction later by this constant, so nodes that differ only in it
    are computed together. If the last link has jitter or outages, or the node has several routes, return ``routes``
    unchanged and 0.
    """
    *before, hop = routes[0].hops
    if len(routes) > 1 or hop.jitter or hop.downs or hop.delay % MICROSECOND:
        return routes, 0
    return (routes[0]._replace(hops=(*before, hop._replace(delay=0))),), hop.delay // MICROSECOND


def told_rate(shape: LinkShape) -> float:
    """Return the transfer rate that a slave reports to its master at the start of a dump, bytes per second.

    The slave measures the rate by a call with a small answer, and the master chooses the message size by it. ``shape``
    has the rate and delay of the slave's link.
    """
    on_line = 0.0 if shape.rate is None else CALL_BYTES * BITS / shape.rate
    return CALL_BYTES / (2 * shape.delay + on_line + CALL_SECONDS)


def _downs(shape: LinkShape, retries: Retries) -> Iterator[Down]:
    """Yield the outages of a link in ascending order, without those that begin during an earlier one."""
    until = -NEVER
    for outage in sorted(shape.outages, key=lambda one: one.start):
        start = _nanoseconds(outage.start)
        if start < until:
            continue
        if outage.end is None:
            yield Down(start, NEVER, NEVER)
            return
        until = _nanoseconds(outage.end)
        restart = retries.restart(outage.start, outage.end, shape, outage.connected)
        yield Down(start, until, _nanoseconds(restart))


def _nanoseconds(seconds: float) -> int:
    """Convert seconds to nanoseconds, rounded to whole microseconds, which is the resolution of times in a topology."""
    return round(seconds * (NANOSECONDS // MICROSECOND)) * MICROSECOND


def scaled(load: float) -> Fraction:
    """Return the load factor, by which the times between commits are divided, as an exact fraction.

    All engines (threads or Spark) then compute equal times.

    >>> scaled(1.5), scaled(0.1)
    (Fraction(3, 2), Fraction(1, 10))
    """
    # A smaller load would be rounded to 0, at which nothing is ever committed.
    return max(Fraction(load).limit_denominator(_FINEST), Fraction(1, _FINEST))
