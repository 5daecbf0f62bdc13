"""A plain simulation of a hop, event by event in exact fractions of a second, to judge the compiled one."""

from __future__ import annotations

from collections.abc import Sequence
from fractions import Fraction

from dumpfilter.simulation.hop import Hop


def time_of(size: int, hop: Hop) -> Fraction:
    """Return the time for some bytes, rounded to a whole nanosecond as the simulation does."""
    if hop.rate is None:
        return Fraction(0)
    exact = Fraction(size * 8 * 10**9, hop.rate)
    return Fraction((exact + Fraction(1, 2)).__floor__())


def receive_times(arrived: Sequence[int], sizes: Sequence[int], hop: Hop) -> list[int]:
    """Return the time at which each transaction is received, over a hop without jitter.

    A queue of transactions, a clock, and a sender that takes a message from the queue whenever it is free.
    """
    queue = list(range(len(arrived)))
    received: dict[int, int] = {}
    clock = Fraction(0)
    downs = list(hop.downs)
    while queue:
        clock = max(clock, Fraction(arrived[queue[0]]))
        down = next((one for one in downs if one.start <= clock), None)
        if down is not None:
            downs.remove(down)
            clock = max(clock, Fraction(down.restart))
            continue
        message: list[int] = []
        filled = 0
        made = max(Fraction(arrived[queue[0]]), clock - time_of(hop.ahead, hop))
        for number in queue:
            if message and (arrived[number] > made or filled >= hop.message):
                break
            message.append(number)
            filled += sizes[number]
        end = clock
        for place, number in enumerate(message):
            end += time_of(sizes[number] + (0 if place else hop.message_overhead), hop) + hop.fixed
        if downs and end + hop.delay > downs[0].start:
            clock = Fraction(downs[0].restart)
            downs.pop(0)
            continue
        for number in message:
            received[number] = int(end + hop.delay)
        queue = queue[len(message) :]
        clock = end
    return [received[number] for number in range(len(arrived))]
