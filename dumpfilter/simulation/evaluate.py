"""The computation of the times at which transactions arrive at a node, and of the bytes on its links. Inputs are the
bytes of each transaction and the routes from the origins to the node.
"""

from __future__ import annotations

import functools
from collections.abc import Mapping, Sequence
from dataclasses import replace
from fractions import Fraction
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from dumpfilter.simulation import lag
from dumpfilter.simulation._hop import Dropped
from dumpfilter.simulation.flow import Arrived, Flow
from dumpfilter.simulation.hop import MICROSECOND, NEVER, Crossed, Hop, cross, looks, times_of
from dumpfilter.simulation.plan import AT_ONCE
from dumpfilter.simulation.route import AGAIN, Form, Passage, Route
from dumpfilter.simulation.traffic import Ints, SetTraffic

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
    """For each entry, whether it is a transaction of the origin (True) or a stand-in (False). None: there are no
    stand-ins.
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


def dropped_before(transaction: Ints, seen: Ints | None, empty_chunk: int) -> Dropped:
    """Return the reports by which a sender tells its reader about dropped transactions, before each sent transaction.

    ``transaction`` has the indexes of the sent transactions. ``seen`` has the time at which the sender finds each
    transaction of the set, nanoseconds. After a poll that finds only transactions to drop, the sender sends a message
    of ``empty_chunk`` bytes without events. With ``seen`` None, it sends no such messages.
    """
    after_gap = np.diff(transaction, prepend=-1) > 1
    if seen is None:
        nothing = np.zeros(len(transaction), np.int64)
        return Dropped(np.where(after_gap, GAP_BYTES, 0), nothing, nothing, nothing)
    # The chunk of a sent transaction reports only transactions that were dropped in the same poll.
    is_told = after_gap & (seen[transaction] == seen[np.maximum(transaction - 1, 0)])
    is_empty = _empty_looks(transaction, seen)
    times = np.append(seen[is_empty], 0)
    until = np.cumsum(is_empty)[transaction]
    number = np.diff(until, prepend=0)
    return Dropped(
        np.where(is_told, GAP_BYTES, 0), number, times[until - number], times[until - 1], empty_chunk
    )


def _empty_looks(transaction: Ints, seen: Ints) -> npt.NDArray[np.bool_]:
    """Return a mask over all transactions: True for the first transaction seen by a poll that finds nothing to send."""
    is_first = np.diff(seen, prepend=-1) > 0
    poll = np.cumsum(is_first)
    sends = np.zeros(len(seen) + 1, np.bool_)
    sends[poll[transaction]] = True
    is_empty: npt.NDArray[np.bool_] = is_first & ~sends[poll]
    return is_empty


def told_at(transaction: Ints, seen: Ints, crossed: Crossed, hop: Hop, empty_chunk: int) -> Ints:
    """Return the time at which the reader of a link learns of each transaction, sent or dropped, nanoseconds.

    ``transaction`` has the indexes of the sent transactions, and ``crossed`` the times at which they crossed the link
    ``hop``. ``seen`` has the time at which the sender finds each transaction of the binlog set. After a poll that finds
    nothing to send, a message of ``empty_chunk`` bytes reports the dropped transactions.
    """
    is_empty = _empty_looks(transaction, seen)
    needed = int(times_of(np.array([empty_chunk]), hop)[0])
    spent = np.cumsum(is_empty) * needed
    left = np.where(is_empty, seen + needed - spent, -1 - spent)
    left[transaction] = crossed.departed - spent[transaction]
    at = np.maximum.accumulate(left) + spent + hop.delay
    for down in hop.downs:
        at = np.where((at >= down.start) & (at < down.restart), down.restart + hop.delay, at)
    at[transaction] = crossed.received
    # Nothing overtakes the next transaction that is sent.
    following = np.append(crossed.received, NEVER)[np.searchsorted(transaction, np.arange(len(seen)))]
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
        departing = self._departing(last.form, last.filter, way, together)
        # The sender polls for the transactions of all filters.
        seen = departing.ready
        if hop.tick:
            seen = self._seen(way, hop.tick)[departing.content.transaction]
        dropped = None
        if last.form is Form.EVENTS and last.filter is not None:
            dropped = self._dropped(way, hop.tick, last.filter)
        if hop.message:
            hop = replace(hop, message_overhead=self.overhead)
        return departing, cross(seen, departing.content.bytes, hop, dropped)

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

    def _make_reached(self, passages: tuple[Passage, ...]) -> Ints:
        departing, crossed = self.passed(passages)
        transaction = departing.content.transaction
        *before, last = passages
        if last.form is Form.EVENTS and last.filter is not None and last.hop.tick:
            seen = self._seen(tuple(before), last.hop.tick)
            return told_at(transaction, seen, crossed, last.hop, self.overhead + EMPTY_BYTES)
        # A transaction that this reader was not sent takes the time of the one before it, so that the times ascend.
        at = np.full(len(self.traffic), -1, np.int64)
        at[transaction] = crossed.received
        reached: Ints = np.maximum.accumulate(at)
        return reached

    def _make_dropped(self, passages: tuple[Passage, ...], tick: int, number: int) -> Dropped:
        """Return the reports about dropped transactions that the sender at the end of ``passages`` makes. ``number``
        is the index of the filter.
        """
        seen = self._seen(passages, tick) if tick else None
        return dropped_before(self.traffic.filtered[number].transaction, seen, self.overhead + EMPTY_BYTES)

    def _make_seen(self, passages: tuple[Passage, ...], tick: int) -> Ints:
        """Return the time at which the sender at the end of ``passages`` sees each transaction, nanoseconds. It
        polls every ``tick`` nanoseconds.
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
    there, gone = _before_never(ready), _before_never(crossed.departed)
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
        lambda: (ready[there] // MICROSECOND, sizes[there]),
        lambda: (
            crossed.departed[gone] // MICROSECOND,
            sizes[gone],
            times_of(sizes[gone], last.hop) // MICROSECOND,
        ),
    )


def _before_never(ascending: Ints) -> slice:
    return slice(int(np.searchsorted(ascending, NEVER)))


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
