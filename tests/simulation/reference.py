"""A plain simulation of a hop, event by event in exact fractions of a second, to judge the compiled one."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from dumpfilter.simulation._hop import Dropped
from dumpfilter.simulation.flow import Hop


def time_of(size: int, hop: Hop) -> Fraction:
    """Return the time for some bytes, rounded to a whole nanosecond as the simulation does."""
    if hop.rate is None:
        return Fraction(0)
    exact = Fraction(size * 8 * 10**9, hop.rate)
    return Fraction((exact + Fraction(1, 2)).__floor__())


def receive_times(
    arrived: Sequence[int], sizes: Sequence[int], hop: Hop, dropped: Dropped | None = None
) -> list[int]:
    """Return the time at which each transaction is received, over a hop without jitter.

    A queue of transactions, a clock, and a sender that takes a message from the queue whenever it is free. ``dropped``
    has the sender's reports about dropped transactions (None: no reports).
    """
    told = [0] * len(sizes) if dropped is None else dropped.told.tolist()
    queue = list(range(len(arrived)))
    received: dict[int, int] = {}
    departures: list[tuple[int, Fraction]] = []
    free = opened = Fraction(-(1 << 62))
    kept = 0
    downs = list(hop.downs)
    while queue:
        made = max(Fraction(arrived[queue[0]]), opened)
        if hop.ahead:
            made = max(made, _room(departures, hop.ahead))
        if dropped is not None and made == arrived[queue[0]]:
            free = _after_reports(free, queue[0], dropped, hop)
        start = max(made, free)
        while downs and downs[0].start <= start:
            opened = Fraction(downs.pop(0).restart)
            made = start = max(start, opened)
        message: list[int] = []
        filled = 0
        for number in queue:
            is_full = filled >= hop.message or filled + sizes[number] > 2 * hop.message
            if message and (arrived[number] > made or is_full):
                break
            message.append(number)
            filled += sizes[number]
        end = start
        left = []
        for place, number in enumerate(message):
            size = sizes[number] if place else sizes[number] - kept
            end += (
                time_of(
                    size + told[number] + (0 if place else hop.message_overhead * _pieces(size, hop)), hop
                )
                + hop.fixed
            )
            left.append((sizes[number], end))
        if downs and end + hop.delay > downs[0].start:
            down = downs.pop(0)
            opened = free = Fraction(down.restart)
            if hop.message and len(message) == 1:
                kept += _whole(sizes[message[0]] - kept, down.start - hop.delay - int(start), hop)
            continue
        kept = 0
        for number in message:
            received[number] = int(end + hop.delay)
        departures += left
        queue = queue[len(message) :]
        free = end
    return [received[number] for number in range(len(arrived))]


def _after_reports(free: Fraction, number: int, dropped: Dropped, hop: Hop) -> Fraction:
    """Return the time at which the separate reports before a transaction have left."""
    needed = time_of(dropped.size, hop)
    left = max(free, Fraction(int(dropped.first[number]))) + int(dropped.empty[number]) * needed
    return max(left, int(dropped.last[number]) + needed) if dropped.empty[number] else free


def _pieces(size: int, hop: Hop) -> int:
    return 1 if not hop.message or size <= 2 * hop.message else -(-size // hop.message)


def _whole(size: int, time: int, hop: Hop) -> int:
    """Return the bytes in the whole messages of a transaction that leave in a time, without the last message."""
    needed = int(time_of(size + hop.message_overhead * _pieces(size, hop), hop))
    if time <= 0 or not needed:
        return 0
    sent = int(float(size) * float(time) / float(needed))
    return min(sent, size - 1) // hop.message * hop.message


def _room(departures: Sequence[tuple[int, Fraction]], ahead: int) -> Fraction:
    """Return the time from which on at most ``ahead`` bytes have not departed."""
    waiting = sum(size for size, _ in departures)
    room = Fraction(-(1 << 62))
    for size, end in departures:
        if waiting <= ahead:
            break
        waiting -= size
        room = end
    return room
