"""Routes: the hops from an origin to a node under one setting, as plain values. Equal routes are computed once."""

from __future__ import annotations

import enum
import zlib
from collections.abc import Mapping
from dataclasses import dataclass, field, replace
from fractions import Fraction

from dumpfilter.dump.stream.pace import BUFFERS, LARGEST, message_size
from dumpfilter.simulation.hop import MICROSECOND, NANOSECONDS, NEVER, Down, Hop
from dumpfilter.simulation.plan import Channel, FilterKey, Leg, PlannedNode
from dumpfilter.simulation.results import Setting, Variant
from dumpfilter.simulation.retries import Retries
from dumpfilter.topology.links.line import BITS
from dumpfilter.topology.links.shape import LinkShape

CALL_BYTES, CALL_SECONDS = 217, 0.008
"""The bytes of the call by which a slave measures its line, and the seconds that both processes need for it.
Measured.
"""
TICK = 20_000_000
"""The interval at which a master polls files that another process writes, nanoseconds."""
AT_ONCE = 1
"""The polling interval of a node that its own receiver wakes, so that it never waits, nanoseconds."""
AGAIN = 2_000_000
"""The time in which a node makes a chunk of what it has found, nanoseconds, before it polls again. Measured: 0.9 to 2.5
ms.
"""


class Form(enum.StrEnum):
    """The form in which transactions cross a link."""

    EVENTS = "events"
    """Chunks of events over gRPC, as slaves of dumpfilter get them."""
    COMPRESSED = "compressed"
    """Chunks of events, compressed by zstd. Their sizes are estimates."""
    PACKETS = "packets"
    """Packets of MySQL's protocol, one for each event."""
    STAND_INS = "stand-ins"
    """Packets of MySQL's protocol, with stand-ins (empty transactions) for dropped transactions."""
    SPLIT = "split"
    """The events of a binlog that was split by schema: whole schemas."""


class Filtering(enum.Enum):
    """The nodes that filter."""

    NOBODY = enum.auto()
    READERS = enum.auto()
    SENDERS = enum.auto()


_WAYS: Mapping[Variant, tuple[Filtering, Form]] = {
    Variant.NONE: (Filtering.NOBODY, Form.EVENTS),
    Variant.SLAVE: (Filtering.READERS, Form.EVENTS),
    Variant.MASTER: (Filtering.SENDERS, Form.EVENTS),
    Variant.NONE_COMPRESSED: (Filtering.NOBODY, Form.COMPRESSED),
    Variant.MASTER_COMPRESSED: (Filtering.SENDERS, Form.COMPRESSED),
    Variant.SPLIT: (Filtering.SENDERS, Form.SPLIT),
    Variant.REPLICA: (Filtering.SENDERS, Form.STAND_INS),
    Variant.PLAIN: (Filtering.SENDERS, Form.EVENTS),
}
"""The nodes that filter in each variant, and the form in which transactions reach slaves of dumpfilter."""


@dataclass(frozen=True)
class Passage:
    """One hop of a route, with the form and the filter of the transactions that cross it."""

    form: Form
    filter: int | None
    """The index of the filter that the transactions have passed. None: all transactions."""
    hop: Hop
    idle: tuple[Down, ...] = ()
    """The intervals in which the sender had no reader. It then sees all transactions of an interval together."""


@dataclass(frozen=True)
class Route:
    """The hops by which one origin's transactions come to a node."""

    origin: str
    passages: tuple[Passage, ...]
    apply: Hop | None = None
    """The node's applier as a hop. None: a transaction counts when it has been received."""
    applied: int | None = None
    """The index of the filter of what the node applies. None: it applies everything."""


@dataclass(frozen=True)
class Router:
    """Makes the routes of nodes from the plan's channels."""

    numbers: Mapping[FilterKey, int]
    """The index of each filter in the plan."""
    applier: Hop | None = None
    """The applier that every node has, as a hop. None: a transaction counts when it has been received."""
    seed: int = 0
    _passages: dict[tuple[int, Setting], tuple[Leg, Passage]] = field(
        init=False, repr=False, compare=False, default_factory=dict
    )
    """A cache of passages, by the ``id`` of their leg and the setting. All nodes behind a leg share its passage."""

    def routes(self, node: PlannedNode, setting: Setting) -> tuple[Route, ...]:
        """Return the route of each of a node's channels under one setting."""
        return tuple(self._route(channel, setting) for channel in node.channels)

    def _route(self, channel: Channel, setting: Setting) -> Route:
        is_filtered = self.applier and _WAYS[setting.variant][0] is not Filtering.NOBODY
        return Route(
            channel.origin,
            tuple(self._known_passage(leg, setting) for leg in channel.legs),
            self.applier,
            self._number(channel.applied) if is_filtered else None,
        )

    def _number(self, key: FilterKey) -> int | None:
        return self.numbers[key] if key.is_on else None

    def _known_passage(self, leg: Leg, setting: Setting) -> Passage:
        found = self._passages.get((id(leg), setting))
        if found is None:
            # The leg is kept, so that no other object gets its identity.
            found = self._passages[id(leg), setting] = (leg, self._passage(leg, setting))
        return found[1]

    def _passage(self, leg: Leg, setting: Setting) -> Passage:
        filtering, form = _WAYS[setting.variant]
        passed = self._number(
            {
                # A slave without rules still does not get the transactions of origins that it ignores.
                Filtering.NOBODY: FilterKey((), leg.logged.origin),
                Filtering.READERS: leg.logged,
                Filtering.SENDERS: leg.sent,
            }[filtering]
        )
        if not leg.is_grpc:
            form = Form.STAND_INS if leg.filters else Form.PACKETS
        if form is Form.STAND_INS and passed is None:
            form = Form.PACKETS
        idle: tuple[Down, ...] = ()
        if form is Form.STAND_INS:
            idle = tuple(Down(at, end, end) for at, end in (map(_nanoseconds, one) for one in leg.idle))
        return Passage(form, passed, self._hop(leg, form, setting), idle)

    def _hop(self, leg: Leg, form: Form, setting: Setting) -> Hop:
        shape = leg.shape
        if setting.link in (None, leg.link):
            if setting.rate is not None:
                shape = replace(shape, rate=setting.rate)
            if setting.delay is not None:
                shape = replace(shape, delay=setting.delay / 1e6)
        hop = hop_of(shape, leg.retries, seed=self.seed ^ zlib.crc32(leg.link.encode()))
        if leg.filters:
            hop = replace(hop, tick=TICK if leg.looks else AT_ONCE)
        if form in (Form.PACKETS, Form.STAND_INS):
            return hop
        most = leg.chunk_size or LARGEST
        return replace(
            hop,
            message=message_size(told_rate(shape), most),
            most_message=most,
            ahead=BUFFERS,
        )


def told_rate(shape: LinkShape) -> float:
    """Return the rate that a slave first reports to its master, bytes per second. The slave measures it by a call with
    a small answer.
    """
    on_line = 0.0 if shape.rate is None else CALL_BYTES * BITS / shape.rate
    return CALL_BYTES / (2 * shape.delay + on_line + CALL_SECONDS)


def hop_of(shape: LinkShape, retries: Retries, *, seed: int) -> Hop:
    """Return the hop for a link with this shape. A link without jitter has the seed 0, so that equal links are equal
    hops.
    """
    downs: list[Down] = []
    for outage in sorted(shape.outages, key=lambda one: one.start):
        start = _nanoseconds(outage.start)
        if downs and start < downs[-1].end:
            continue
        if outage.end is None:
            downs.append(Down(start, NEVER, NEVER))
            break
        restart = retries.restart(outage.start, outage.end, shape, outage.connected)
        downs.append(Down(start, _nanoseconds(outage.end), _nanoseconds(restart)))
    return Hop(
        shape.rate,
        _nanoseconds(shape.delay),
        _nanoseconds(shape.jitter),
        seed if shape.jitter else 0,
        tuple(downs),
    )


def _nanoseconds(seconds: float) -> int:
    """Convert seconds to nanoseconds, rounded to whole microseconds, which is the resolution of times in a topology."""
    return round(seconds * (NANOSECONDS // MICROSECOND)) * MICROSECOND


def scaled(load: float) -> Fraction:
    """Return a load (the factor of speed) as an exact fraction, so that all engines compute equal times.

    >>> scaled(1.5), scaled(0.1)
    (Fraction(3, 2), Fraction(1, 10))
    """
    return Fraction(load).limit_denominator(1_000_000)
