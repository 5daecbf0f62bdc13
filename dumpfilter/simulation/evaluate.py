"""The computation of a node's lag and of the bytes on its links. Inputs are the bytes of each transaction and the
routes from the origins to the node.
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
from dumpfilter.simulation.flow import Arrived, Flow, LinkOutcome, Outcome, outages_of, outcomes_of
from dumpfilter.simulation.hop import MICROSECOND, NEVER, Crossed, Hop, cross, looks, times_of
from dumpfilter.simulation.route import AGAIN, AT_ONCE, Form, Passage, Route
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
    """The transactions that cross a link, with the bytes of each. Some entries may be stand-ins: empty transactions
    sent in place of dropped ones.
    """

    transaction: Ints
    bytes: Ints
    counts: npt.NDArray[np.bool_] | None
    """For each entry, whether it is a transaction of the origin (True) or a stand-in (False). None: there are no
    stand-ins.
    """


def content(traffic: SetTraffic, form: Form, number: int | None, seen: Ints | None = None) -> Content:
    """Return the transactions that cross a link in a given form (gRPC chunks, MySQL packets …), with their bytes.

    ``number`` is the index of the filter on the link (None: no filter). ``seen`` has the time at which the sender
    sees each transaction. It matters for stand-ins only; None means that the sender sees all transactions together.
    """
    sent = traffic.everything if number is None else traffic.filtered[number]
    match form:
        case Form.EVENTS:
            return Content(sent.transaction, sent.bytes, None)
        case Form.COMPRESSED:
            return Content(sent.transaction, sent.compressed, None)
        case Form.PACKETS:
            return Content(sent.transaction, sent.bytes + PACKET_BYTES * sent.events, None)
        case Form.SPLIT:
            split = None if number is None else traffic.split[number]
            split = split or traffic.everything
            return Content(split.transaction, split.bytes, None)
    packets = Content(sent.transaction, sent.bytes + PACKET_BYTES * sent.events, None)
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


class Crossing(NamedTuple):
    """The part of a link's simulation that does not depend on the link's rate and delay: the transactions with their
    commit times.
    """

    content: Content
    committed: Ints
    """The commit time of each entry of ``content``, microseconds since the start of the run."""


_KEPT = 4
"""The maximum size of each cache of a :class:`Schedule`, entries."""


def dropped_before(transaction: Ints, seen: Ints | None, empty_chunk: int) -> Dropped:
    """Return the reports about dropped transactions that a sender makes before each sent transaction.

    ``transaction`` has the indexes of the sent transactions. ``seen`` has the time at which the sender sees each
    transaction of the set, nanoseconds. After a poll that finds only transactions to drop, the sender sends a chunk
    of ``empty_chunk`` bytes without events. With ``seen`` None, it sends no such chunks.
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
    is_empty: npt.NDArray[np.bool_] = (np.diff(seen, prepend=-1) > 0) & ~np.isin(seen, seen[transaction])
    return is_empty


def told_at(transaction: Ints, seen: Ints, crossed: Crossed, hop: Hop, empty_chunk: int) -> Ints:
    """Return the time at which a reader learns of each transaction of the set, sent or dropped, nanoseconds.

    ``transaction`` has the indexes of the sent transactions, and ``crossed`` the times at which they crossed the
    hop. ``seen`` has the time at which the sender sees each transaction of the set. A poll that finds nothing to
    send is reported by a chunk of ``empty_chunk`` bytes.
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


class Schedule:
    """The commit times of one origin (the node that wrote the binlog) in one run, with cached results computed from
    them.

    Routes of several nodes share these results, so the latest ones of each method are cached.
    """

    def __init__(self, traffic: SetTraffic, load: Fraction | None = Fraction(1)) -> None:
        """Make the schedule of an origin's binlog set. ``load`` is the factor by which the commit times are
        compressed. None: all transactions are committed at time 0.
        """
        self.traffic = traffic
        self.overhead = MESSAGE_OVERHEAD[traffic.family]
        self._load = load
        kept = functools.lru_cache(_KEPT)
        self.crossing = kept(self._crossing)
        self._reached = kept(self._at_last)
        self._seen = kept(self._looked)
        self._told = kept(self._dropped)

    @functools.cached_property
    def committed(self) -> Ints:
        """The commit time of each transaction in the origin's binlog, microseconds since the start of the run."""
        times = self.traffic.time
        if not len(times) or self._load is None:
            return np.zeros(len(times), np.int64)
        # The product of months and a large denominator would not fit into 64 bits.
        whole, rest = np.divmod(times - times[0], self._load.numerator)
        committed: Ints = (
            whole * self._load.denominator + rest * self._load.denominator // self._load.numerator
        )
        return committed

    def _crossing(
        self, form: Form, number: int | None, passages: tuple[Passage, ...] = (), hop: Hop | None = None
    ) -> Crossing:
        """Return the transactions that cross a link in a given form. ``number`` is the index of the filter (None: no
        filter).

        ``passages`` are the hops from the origin to the link's sender. If ``hop`` is given, transactions that reach
        the sender during an outage of this hop are seen together when the outage is over.
        """
        seen = None
        if hop is not None:
            seen = self._seen(passages, hop.tick)
            for down in hop.downs:
                seen = np.where((seen >= down.start) & (seen < down.restart), down.restart, seen)
        found = content(self.traffic, form, number, seen)
        return Crossing(found, self.committed[found.transaction])

    def at_sender(self, passages: tuple[Passage, ...]) -> Ints | None:
        """Return the time at which each transaction reaches the end of ``passages``, nanoseconds. Without passages
        return None, because the origin has each transaction at its commit.
        """
        return self._reached(passages) if passages else None

    def _at_last(self, passages: tuple[Passage, ...]) -> Ints:
        crossing, crossed, _ = self.passed(passages)
        last = passages[-1]
        if last.form is Form.EVENTS and last.filter is not None and last.hop.tick:
            seen = self._seen(passages[:-1], last.hop.tick)
            return told_at(crossing.content.transaction, seen, crossed, last.hop, self.overhead + EMPTY_BYTES)
        # A transaction that this reader was not sent takes the time of the one before it, so that the times ascend.
        at = np.full(len(self.traffic), -1, np.int64)
        at[crossing.content.transaction] = crossed.received
        reached: Ints = np.maximum.accumulate(at)
        return reached

    def passed(self, passages: tuple[Passage, ...]) -> tuple[Crossing, Crossed, Ints]:
        """Simulate sending the transactions over ``passages``, one hop after the other.

        Return three values for the last hop: what crossed it, the times of departure and arrival, and the times at
        which its sender had the transactions (nanoseconds).
        """
        last = passages[-1]
        if last.form is Form.STAND_INS and self.traffic.stand_ins_joined:
            # The rest of the hop does not matter, so that more routes have the same crossing.
            crossing = self.crossing(
                last.form,
                last.filter,
                passages[:-1],
                Hop(tick=last.hop.tick or AT_ONCE, downs=last.idle),
            )
        else:
            crossing = self.crossing(last.form, last.filter)
        before = self.at_sender(passages[:-1])
        at = crossing.committed * MICROSECOND if before is None else before[crossing.content.transaction]
        hop, dropped, seen = last.hop, None, at
        if hop.tick:
            # The sender polls for the transactions of all filters.
            seen = self._seen(passages[:-1], hop.tick)[crossing.content.transaction]
        if hop.message:
            hop = replace(hop, message_overhead=self.overhead)
        if last.form is Form.EVENTS and last.filter is not None:
            dropped = self._told(passages[:-1], last.hop.tick, last.filter)
        return crossing, cross(seen, crossing.content.bytes, hop, dropped), at

    def _dropped(self, passages: tuple[Passage, ...], tick: int, number: int | None) -> Dropped:
        """Return the reports about dropped transactions that the sender at the end of ``passages`` makes. ``number``
        is the index of the filter.
        """
        transaction = self.crossing(Form.EVENTS, number).content.transaction
        seen = self._seen(passages, tick) if tick else None
        return dropped_before(transaction, seen, self.overhead + EMPTY_BYTES)

    def _looked(self, passages: tuple[Passage, ...], tick: int) -> Ints:
        """Return the time at which the sender at the end of ``passages`` sees each transaction, nanoseconds. It
        polls every ``tick`` nanoseconds.
        """
        before = self.at_sender(passages)
        return looks(self.committed * MICROSECOND if before is None else before, tick, AGAIN)


def without_delay(routes: tuple[Route, ...]) -> tuple[tuple[Route, ...], int]:
    """Return the routes of a node with the last hop's delay set to 0, and this delay in microseconds.

    A delay without jitter and outages makes each transaction later by this constant, so nodes that differ only in it
    are computed together. If the last hop has jitter or outages, or the node has several routes, return ``routes``
    unchanged and 0.
    The benchmark ``simulation`` measures 10,000 such nodes at ten rates.
    """
    *before, last = routes[0].passages
    hop = last.hop
    if len(routes) > 1 or hop.jitter or hop.downs or hop.delay % MICROSECOND:
        return routes, 0
    passages = (*before, replace(last, hop=replace(hop, delay=0)))
    return (replace(routes[0], passages=passages),), hop.delay // MICROSECOND


def evaluate(
    routes: Sequence[Route], schedules: Mapping[str, Schedule], *, limit: int, delays: Sequence[int] = (0,)
) -> list[Outcome]:
    """Compute the lag of a node and the bytes on the last link of each of its routes. A node has one route for each
    channel.

    Return one outcome for each of ``delays``, microseconds, which is added to all arrival times. ``schedules`` has
    the schedule of each origin by name. ``limit`` is the lag (microseconds) above which time is counted.
    """
    return outcomes_of(routes, flows_of(routes, schedules), limit=limit, delays=delays)


def flows_of(routes: Sequence[Route], schedules: Mapping[str, Schedule]) -> list[Flow]:
    """Simulate each route: send its origin's transactions over all its hops. Return the arrivals of each route, in
    order.
    """
    return [_travel(route, schedules[route.origin]) for route in routes]


def _travel(route: Route, schedule: Schedule) -> Flow:
    last = route.passages[-1]
    crossing, crossed, at = schedule.passed(route.passages)
    (transaction, sizes, counts), received = crossing.content, crossed.received
    if route.apply is not None:
        received = _apply(schedule.traffic, route, crossing.content, received)
    # Times ascend, so that those of a link that stays down are at the end.
    came = _before_never(received)
    kept = came if counts is None else np.flatnonzero(counts[came])
    arrived = Arrived(
        transaction[kept],
        crossing.committed[kept],
        lag.microseconds(received[kept]),
        len(received if counts is None else np.flatnonzero(counts)) - len(received[kept]),
    )
    downs = [
        (down.start // MICROSECOND, None if down.end >= NEVER else down.end // MICROSECOND)
        for down in last.hop.downs
    ]
    # Each transaction of MySQL's protocol is a message of its own, and the protocol's bytes count with its events.
    has_messages = last.hop.message > 0
    link = LinkOutcome(
        int(sizes[_before_never(crossed.received)].sum()),
        len(arrived.transaction),
        crossed.messages if has_messages else None,
        crossed.messages * schedule.overhead + crossed.told if has_messages else None,
        outages_of(arrived, downs),
    )
    there, gone = _before_never(at), _before_never(crossed.departed)
    return Flow(
        arrived,
        link,
        (at[there] // MICROSECOND, sizes[there]),
        (crossed.departed[gone] // MICROSECOND, sizes[gone], times_of(sizes[gone], last.hop) // MICROSECOND),
    )


def _before_never(ascending: Ints) -> slice:
    return slice(int(np.searchsorted(ascending, NEVER)))


def _apply(traffic: SetTraffic, route: Route, crossing: Content, received: Ints) -> Ints:
    assert route.apply is not None
    passes = traffic.everything if route.applied is None else traffic.filtered[route.applied]
    sizes = np.zeros(len(traffic), np.int64)
    sizes[passes.transaction] = passes.bytes
    wanted = sizes[crossing.transaction] > 0
    done = cross(received[wanted], sizes[crossing.transaction][wanted], route.apply).received
    found = np.full(len(received), -1, np.int64)
    found[wanted] = done
    # A transaction without anything to apply is applied with the one before it.
    return np.maximum(np.maximum.accumulate(found), received)
