"""Compiled loops that simulate how transactions cross a hop, which is a network link or the applier of a node.

All times are nanoseconds since the start of the run.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from dumpfilter.base.compiler.arrays import Int64s, Int64s2
from dumpfilter.base.compiler.kernels import inlined, inner, kernel


class Parameters(NamedTuple):
    """The properties of a simulated network link as integers, for the compiled loops.

    :class:`dumpfilter.simulation.route.Hop` describes the fields of equal names. Sending a byte takes ``numerator /
    denominator`` nanoseconds.
    """

    numerator: int
    denominator: int
    delay: int
    jitter: int
    seed: int
    message: int
    message_overhead: int
    ahead: int
    fixed: int


class Dropped(NamedTuple):
    """The reports by which a sender tells its reader about transactions that a filter dropped: their bytes and times.

    Each array has one entry for each sent transaction. The entry is about the transactions dropped directly before the
    sent one.
    """

    told: Int64s
    """For each sent transaction, the bytes that the report about the transactions dropped before it adds to its
    message.
    """
    empty: Int64s
    """The number of separate messages before the sent transaction that only report dropped transactions. A sender
    that has fallen behind sends none of them.
    """
    first: Int64s
    """For each sent transaction, the time at which the sender makes the first separate report message, nanoseconds."""
    last: Int64s
    """For each sent transaction, the time at which the sender makes the last separate report message, nanoseconds."""
    size: int = 0
    """The size of one separate report message, bytes."""


_NONE = -(1 << 62)
"""A time earlier than all others, nanoseconds."""
_D_START, _D_RESTART, _D_MESSAGE = 0, 1, 2


_SMALL = 1 << 31
"""The limit below which the product of two integers fits into 64 bits."""


@inlined
def time_of(size, numerator, denominator):
    """Return the time to send ``size`` bytes, rounded to a whole nanosecond. One byte takes ``numerator /
    denominator`` nanoseconds.
    """
    if denominator == 1:
        return size * numerator
    if size < _SMALL and numerator < _SMALL:
        # One division of unsigned numbers takes a third of the time of the two below.
        total = np.uint64(size) * np.uint64(numerator) + np.uint64(denominator) // np.uint64(2)
        return np.int64(total // np.uint64(denominator))
    whole = size // denominator
    return whole * numerator + ((size - whole * denominator) * numerator + denominator // 2) // denominator


@kernel
def looks(arrived: Int64s, tick: int, again: int, found: Int64s):
    """Compute the time at which a sender that polls its binlog finds each transaction, and write it into ``found``.

    ``arrived`` has the time at which each transaction is in the sender's binlog, ascending. The sender polls at
    multiples of ``tick``. After a poll that found transactions, it polls again ``again`` later. All times are
    nanoseconds.
    """
    last = np.int64(_NONE)
    for i in range(len(arrived)):
        if arrived[i] > last:
            next_look = last + again
            last = next_look if arrived[i] <= next_look else -(-arrived[i] // tick) * tick
        found[i] = last


@kernel
def noise(seed: int, number: int, largest: int):
    """Return a pseudo-random integer between ``-largest`` and ``largest``, which is the jitter of one transaction's
    delay.

    The integer depends only on ``seed``, ``largest`` and the transaction's ``number``.
    """
    z = np.uint64(seed) * np.uint64(0xD1342543DE82EF95) + np.uint64(number + 1) * np.uint64(
        0x9E3779B97F4A7C15
    )
    z = (z ^ (z >> np.uint64(30))) * np.uint64(0xBF58476D1CE4E5B9)
    z = (z ^ (z >> np.uint64(27))) * np.uint64(0x94D049BB133111EB)
    z ^= z >> np.uint64(31)
    return np.int64(z % np.uint64(2 * largest + 1)) - largest


@kernel
def cross(
    arrived: Int64s,
    sizes: Int64s,
    dropped: Dropped,
    hop: Parameters,
    downs: Int64s2,
    departed: Int64s,
    received: Int64s,
):
    """Simulate sending transactions over a network link (``hop``).

    Write the time at which each transaction left the sender into ``departed``, and the time at which it was received
    into ``received``. ``arrived`` has the time at which the sender has each transaction, and ``sizes`` its bytes.
    ``dropped`` describes the reports about dropped transactions, which use the link, too. ``downs`` has one row for
    each outage: its start, the time at which the dump resumes, and the message size from then on.

    Return the number of messages, and the bytes of the reports about dropped transactions.
    """
    n = len(arrived)
    message = np.int64(hop.message)
    empty_time = time_of(dropped.size, hop.numerator, hop.denominator)
    free = np.int64(_NONE)
    last = np.int64(_NONE)
    messages = 0
    all_told = np.int64(0)
    down = 0
    i = 0
    # The bytes of transaction number i that an outage did not lose. The reader has them, and they are not sent again.
    kept = np.int64(0)
    opened = np.int64(_NONE)
    left = 0
    left_bytes = np.int64(0)
    made_bytes = np.int64(0)
    while i < n:
        made = max(arrived[i], opened)
        if hop.ahead:
            # A sender makes the next message when the buffers have room for more.
            while left < i and left_bytes < made_bytes - hop.ahead:
                left_bytes += sizes[left]
                made = max(made, departed[left])
                left += 1
            if left:
                made = max(made, departed[left - 1])
        extra = np.int64(0)
        empty = dropped.empty[i]
        if empty and made == arrived[i]:
            extra += empty * dropped.size
            free = max(max(free, dropped.first[i]) + empty * empty_time, dropped.last[i] + empty_time)
        start = max(free, made)
        # A sender that is down begins when the dump goes on. Outages that are over do not matter any more.
        while down < len(downs) and start >= downs[down, _D_START]:
            opened = downs[down, _D_RESTART]
            message = downs[down, _D_MESSAGE]
            start = max(start, opened)
            made = start
            down += 1
        end = start
        filled = np.int64(0)
        j = i
        while j < n:
            # A transaction that is larger than a message is sent in several messages, of which the last one counts.
            if j > i and (filled >= message or sizes[j] > message or arrived[j] > made):
                break
            size = sizes[j] - kept if j == i else sizes[j]
            overhead = dropped.told[j]
            extra += overhead
            if j == i:
                overhead += hop.message_overhead * pieces(size, message)
            end += time_of(size + overhead, hop.numerator, hop.denominator) + hop.fixed
            departed[j] = end
            filled += sizes[j]
            j += 1
        delay = np.int64(hop.delay)
        if hop.jitter:
            delay = max(delay + noise(hop.seed, i, hop.jitter), np.int64(0))
        arrival = max(end + delay, last)
        if down < len(downs) and arrival > downs[down, _D_START]:
            # The outage loses everything that has not arrived. The dump goes on with this message.
            if message and j == i + 1:
                kept += _whole_until(sizes[i] - kept, start, downs[down, _D_START] - delay, message, hop)
            opened = free = downs[down, _D_RESTART]
            message = downs[down, _D_MESSAGE]
            down += 1
            continue
        for k in range(i, j):
            received[k] = arrival
        messages += pieces(sizes[i] - kept, message) if j == i + 1 else 1
        kept = np.int64(0)
        all_told += extra
        last = arrival
        free = end
        made_bytes += filled
        i = j
    return messages, all_told


@inlined
def pieces(size, message):
    """Return the number of messages into which a transaction of ``size`` bytes is divided. ``message`` is the
    message size in bytes; 0 means no division.
    """
    # Most transactions are smaller than a message, and a division takes as long as the rest of a step.
    return size // message if message and size >= 2 * message else np.int64(1)


@inner
def _whole_until(size, start, stop, message, hop):
    """Return how many bytes of one large transaction left the sender in complete messages between the times
    ``start`` and ``stop``.
    """
    needed = time_of(size + hop.message_overhead * pieces(size, message), hop.numerator, hop.denominator)
    if stop <= start or needed == 0:
        return np.int64(0)
    sent = np.int64(float(size) * float(stop - start) / float(needed))
    return min(sent, size - 1) // message * message
