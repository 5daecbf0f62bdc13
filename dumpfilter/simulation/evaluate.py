"""The computation of a node's lag and the bytes on its links, from the traffic of each transaction and the routes to
the node.
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
"""The bytes that MySQL's protocol adds before each event: packet header and status byte."""

MESSAGE_OVERHEAD = {"mysql": 93, "mariadb": 75}
"""The bytes that a gRPC message adds around the events, by the server's family: HTTP/2 frames, and the fields of a
chunk with its GTIDs. Measured.
"""

GAP_BYTES = 47
"""The bytes that a chunk needs to report the GTIDs and the position of neighbouring dropped transactions. Measured."""

EMPTY_BYTES = 35
"""The bytes of a chunk that only reports dropped transactions, in addition to those of every message. Measured."""


class Content(NamedTuple):
    """The transactions that cross a link, and the bytes of each. A dropped transaction may be replaced by a stand-in
    (an empty transaction).
    """

    transaction: Ints
    bytes: Ints
    counts: npt.NDArray[np.bool_] | None
    """Whether each entry is a transaction of the source, and not a stand-in. None: all are."""


def content(traffic: SetTraffic, form: Form, number: int | None, seen: Ints | None = None) -> Content:
    """Return the transactions that cross a link, and their bytes, in one form (chunks, packets …).

    ``number`` is the index of the filter that they have passed (None: no filter). ``seen`` has the time at which the
    sender sees each transaction (None: it sees them all together).
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
    """Add to the sent transactions the stand-ins (empty transactions) that a real replica gets for dropped ones.

    ``seen`` has the time at which the sender sees each transaction.
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
    """The transactions that cross a link, as far as they do not depend on the link's rate and delay."""

    content: Content
    committed: Ints
    """The commit time of each entry, microseconds since the begin of the run."""


_KEPT = 4
"""The number of results that each cache of a :class:`Schedule` keeps."""


def dropped_before(transaction: Ints, seen: Ints | None, empty_chunk: int) -> Dropped:
    """Return what a sender reports about the dropped transactions before each one that is sent.

    ``transaction`` has the indexes of the transactions that are sent. ``seen`` has the time at which the sender sees
    each transaction, in nanoseconds. A sender that sees only transactions that it drops sends a chunk of
    ``empty_chunk`` bytes without events. ``seen`` None: the sender sends no such chunks.
    """
    after_gap = np.diff(transaction, prepend=-1) > 1
    if seen is None:
        nothing = np.zeros(len(transaction), np.int64)
        return Dropped(np.where(after_gap, GAP_BYTES, 0), nothing, nothing, nothing)
    # A message with events only tells what was dropped in the same look.
    is_told = after_gap & (seen[transaction] == seen[np.maximum(transaction - 1, 0)])
    is_empty = _empty_looks(transaction, seen)
    times = np.append(seen[is_empty], 0)
    until = np.cumsum(is_empty)[transaction]
    number = np.diff(until, prepend=0)
    return Dropped(
        np.where(is_told, GAP_BYTES, 0), number, times[until - number], times[until - 1], empty_chunk
    )


def _empty_looks(transaction: Ints, seen: Ints) -> npt.NDArray[np.bool_]:
    """Return for each transaction whether the sender saw it first in a poll (look for new transactions) that found
    nothing to send.
    """
    is_empty: npt.NDArray[np.bool_] = (np.diff(seen, prepend=-1) > 0) & ~np.isin(seen, seen[transaction])
    return is_empty


def told_at(transaction: Ints, seen: Ints, crossed: Crossed, hop: Hop, empty_chunk: int) -> Ints:
    """Return the time at which a reader knows of each transaction, nanoseconds, also of those that were dropped.

    ``transaction`` has the indexes of the transactions that ``crossed`` the hop, and ``seen`` the times at which the
    sender sees all transactions. A chunk of ``empty_chunk`` bytes reports each poll that finds nothing to send.
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
    """The commit times of one origin (the node whose server wrote the binlog) in one run, and what follows from them.

    Several routes need the same results, so the latest ones are cached.
    """

    def __init__(self, traffic: SetTraffic, load: Fraction | None = Fraction(1)) -> None:
        """Make the schedule of a binlog set. ``load`` is the factor by which commits follow one another faster; None:
        all are there from the beginning.
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
        """The time at which the origin's binlog had each transaction, microseconds since the begin of the run."""
        times = self.traffic.time
        if not len(times) or self._load is None:
            return np.zeros(len(times), np.int64)
        committed: Ints = (times - times[0]) * self._load.denominator // self._load.numerator
        return committed

    def _crossing(
        self, form: Form, number: int | None, passages: tuple[Passage, ...] = (), hop: Hop | None = None
    ) -> Crossing:
        """Return what crosses a link in one form, with the index ``number`` of the filter (None: no filter).

        The sender is at the end of ``passages``. With its ``hop``, it sees all transactions that came during one of the
        hop's outages together after the outage.
        """
        seen = None
        if hop is not None:
            seen = self._seen(passages, hop.tick)
            for down in hop.downs:
                seen = np.where((seen >= down.start) & (seen < down.restart), down.restart, seen)
        found = content(self.traffic, form, number, seen)
        return Crossing(found, self.committed[found.transaction])

    def at_sender(self, passages: tuple[Passage, ...]) -> Ints | None:
        """Return the time at which each transaction is at the end of these passages, nanoseconds. Without passages
        return None, since transactions are there when they are committed.
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
        """Send the transactions over all passages (hops, one after the other).

        Return what crossed the last one, its times of departure and arrival, and the times at which its sender had the
        transactions, nanoseconds.
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
            # The sender looks for transactions of all filters.
            seen = self._seen(passages[:-1], hop.tick)[crossing.content.transaction]
        if hop.message:
            hop = replace(hop, message_overhead=self.overhead)
        if last.form is Form.EVENTS and last.filter is not None:
            dropped = self._told(passages[:-1], last.hop.tick, last.filter)
        return crossing, cross(seen, crossing.content.bytes, hop, dropped), at

    def _dropped(self, passages: tuple[Passage, ...], tick: int, number: int | None) -> Dropped:
        """Return what the sender at the end of these passages reports about transactions that the filter with index
        ``number`` dropped.
        """
        transaction = self.crossing(Form.EVENTS, number).content.transaction
        seen = self._seen(passages, tick) if tick else None
        return dropped_before(transaction, seen, self.overhead + EMPTY_BYTES)

    def _looked(self, passages: tuple[Passage, ...], tick: int) -> Ints:
        """Return the time at which the sender at the end of these passages sees each transaction, nanoseconds. It polls
        every ``tick`` nanoseconds.
        """
        before = self.at_sender(passages)
        return looks(self.committed * MICROSECOND if before is None else before, tick, AGAIN)


def without_delay(routes: tuple[Route, ...]) -> tuple[tuple[Route, ...], int]:
    """Return the routes of a node without the delay of the last hop, and this delay, microseconds.

    A delay without jitter and outages makes all transactions late by the same time. Nodes that differ in such a delay
    are computed together. Other routes stay as they are, with 0.
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
    """Compute the lag of a node and the bytes on the last links of its routes, one route for each channel.

    Return the outcome for each of ``delays``, microseconds (see :func:`without_delay`). ``schedules`` has the commit
    times of each origin by name. ``limit`` is the lag in microseconds; the time above it is counted.
    """
    return outcomes_of(routes, flows_of(routes, schedules), limit=limit, delays=delays)


def flows_of(routes: Sequence[Route], schedules: Mapping[str, Schedule]) -> list[Flow]:
    """Send the transactions of each route's origin over all hops of the route, and return how they arrive."""
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
        crossed.resent,
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
