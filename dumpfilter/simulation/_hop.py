"""Compiled loops that simulate how transactions cross a hop: a network link, or the applier of a node (the threads that
apply transactions).

All times are nanoseconds since the start of the run.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from dumpfilter.base.compiler.arrays import Int64s, Int64s2
from dumpfilter.base.compiler.kernels import inlined, inner, kernel


class Parameters(NamedTuple):
    """The properties of a simulated network link as integers, for the compiled loops.

    :class:`dumpfilter.simulation.flow.Hop` describes the fields of equal names. Sending a byte takes ``numerator /
    denominator`` nanoseconds.
    """

    numerator: int
    denominator: int
    delay: int
    jitter: int
    seed: int
    message: int
    message_overhead: int
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
_LATEST = (1 << 63) - 1
"""A time later than all others, nanoseconds."""
_EXACT = 1 << 52
"""The limit below which 64-bit floats represent a whole number and its half exactly."""
_D_START, _D_RESTART, _D_MESSAGE = 0, 1, 2


@inlined
def time_of(size, numerator, denominator, limit):
    """Return the time to send ``size`` bytes, rounded to a whole nanosecond. One byte takes ``numerator / denominator``
    nanoseconds.

    Below ``limit`` bytes, the product of size and ``numerator`` is exact as a 64-bit float. From this size on the
    slower integer division is used.
    """
    if size < limit:
        # The quotient of two exact floats is never rounded up to a whole number. A division of floats takes a third of
        # the time of one of integers.
        total = np.float64(size) * np.float64(numerator) + np.float64(denominator // 2)
        return np.int64(total / np.float64(denominator))
    whole = size // denominator
    return whole * numerator + ((size - whole * denominator) * numerator + denominator // 2) // denominator


@kernel
def looks(arrived: Int64s, tick: int, again: int, found: Int64s):
    """Compute the time at which a sender finds each transaction in its binlog, and write it into the array ``found``.

    ``arrived`` has the time at which each transaction is in the sender's binlog, ascending. The sender looks into its
    binlog from time to time, and finds all transactions that have arrived. After a look that found some, it looks again
    ``again`` later. If that look finds none, the sender finds the next transaction on arrival, but at least ``tick``
    after the last successful look. All times are nanoseconds.
    """
    last = np.int64(_NONE)
    for i in range(len(arrived)):
        if arrived[i] > last:
            next_look = last + again
            last = next_look if arrived[i] <= next_look else max(arrived[i], last + tick)
        found[i] = last


@inner
def noise(seed, number, largest):
    """Return the jitter of one transaction's delay: a pseudo-random integer between ``-largest`` and ``largest``.

    The integer depends only on ``seed``, ``largest`` and ``number``, the transaction's index on the link. A repeated
    simulation has the same jitter.
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
    room: Int64s,
    dropped: Dropped,
    hop: Parameters,
    downs: Int64s2,
    departed: Int64s,
    received: Int64s,
):
    """Simulate sending transactions over a network link (``hop``).

    ``arrived`` has the time at which the sender has each transaction, and ``sizes`` its bytes. The connection's send
    buffers have room for transaction ``i`` when the first ``room[i]`` transactions have left. ``dropped`` describes the
    sender's reports about transactions that a filter dropped, which use the link, too. ``downs`` has one row for each
    outage: its start, the time at which the dump resumes, and the message size (bytes) from then on.

    The results are written into the arrays ``departed`` and ``received``, which have one entry more than there are
    transactions. Transaction ``i`` left the sender at ``departed[i + 1]``, and was received at ``received[i + 1]``.

    Return the number of messages, and the bytes of the reports about dropped transactions.

    The processor cannot predict whether a transaction begins a message. Therefore the loop has no branch for this
    decision, except for links with outages or jitter. Instead, ``new`` is 1 if the transaction begins a message, else
    0, and the mask ``k`` has all its bits or none.
    """
    if hop.jitter or len(downs):
        return _walk(arrived, sizes, room, dropped, hop, downs, departed, received, False)
    return _walk(arrived, sizes, room, dropped, hop, downs, departed, received, True)


@inlined
def _walk(arrived, sizes, room, dropped, hop, downs, departed, received, is_calm):
    n = len(arrived)
    message = np.int64(hop.message)
    limit = np.int64(_EXACT // max(hop.numerator, 1))
    empty_time = time_of(dropped.size, hop.numerator, hop.denominator, limit)
    down = 0
    messages = np.int64(0)
    told = np.int64(0)
    # The message that is made: its first transaction, when it was made and began to leave, its bytes so far, and the
    # bytes of reports before it. The bytes ``kept`` of its first transaction reached the reader before an outage.
    first = 0
    made = np.int64(_NONE)
    start = np.int64(_NONE)
    filled = np.int64(0)
    told_before = np.int64(0)
    kept = np.int64(0)
    # The last byte so far left at ``end``, the last message arrived at ``last``, and the last outage ended at
    # ``opened``.
    end = np.int64(_NONE)
    last = np.int64(_NONE)
    opened = np.int64(_NONE)
    departed[0] = _NONE
    j = 0
    while True:
        new = np.int64(1)
        if j < n:
            new = np.int64(arrived[j] > made) | np.int64(filled >= message) | np.int64(sizes[j] > message)
        last_of_calm = end + hop.delay
        if not is_calm and new:
            # The message before this one is complete. An outage loses it if it has not arrived by then.
            if j > first:
                delay = np.int64(hop.delay)
                if hop.jitter:
                    delay = max(delay + noise(hop.seed, first, hop.jitter), np.int64(0))
                arrival = max(end + delay, last)
                if down < len(downs) and arrival > downs[down, _D_START]:
                    whole = sizes[first] - kept
                    messages -= pieces(whole, message)
                    told = told_before
                    if message and j == first + 1:
                        kept += _whole_until(whole, start, downs[down, _D_START] - delay, message, hop, limit)
                    opened = end = downs[down, _D_RESTART]
                    message = downs[down, _D_MESSAGE]
                    down += 1
                    j = first
                else:
                    last = arrival
                    kept = np.int64(0)
            first = j
            told_before = told
            last_of_calm = last
        k = -new
        received[j] = (last_of_calm & k) | (_LATEST & ~k)
        if j >= n:
            break
        ready = max(arrived[j], opened)
        free = departed[room[j]]
        made ^= (made ^ max(ready, free)) & k
        if dropped.empty[j] and new and free <= ready == arrived[j]:
            reports = dropped.empty[j]
            told += reports * dropped.size
            end = max(max(end, dropped.first[j]) + reports * empty_time, dropped.last[j] + empty_time)
        # A transaction that joins a message was ready before the message began to leave.
        end = max(end, ready)
        if not is_calm and new:
            # A sender that is down begins when the dump goes on. Outages that are over do not matter any more.
            while down < len(downs) and end >= downs[down, _D_START]:
                opened = downs[down, _D_RESTART]
                message = downs[down, _D_MESSAGE]
                end = made = max(end, opened)
                down += 1
            start = end
        size = sizes[j] - (kept & k)
        parts = pieces(size, message) & k
        messages += parts
        told += dropped.told[j]
        size += dropped.told[j] + hop.message_overhead * parts
        end += time_of(size, hop.numerator, hop.denominator, limit) + hop.fixed
        departed[j + 1] = end
        filled = (filled & ~k) + sizes[j]
        j += 1
    for i in range(n, 0, -1):
        received[i - 1] = min(received[i - 1], received[i])
    return messages, told


@inlined
def pieces(size, message):
    """Return the number of messages into which a transaction of ``size`` bytes is divided. ``message`` is the
    message size in bytes; 0 means no division.
    """
    # The inverse is computed once for all transactions. With the half, its rounding does not matter.
    if not message:
        return np.int64(1)
    return max(np.int64((np.float64(size) + 0.5) * (1.0 / np.float64(message))), np.int64(1))


@inner
def _whole_until(size, start, stop, message, hop, limit):
    """Return how many bytes of one large transaction left the sender in complete messages between the times ``start``
    and ``stop``, nanoseconds. After an outage the sender does not send these bytes again.

    ``size`` is the number of bytes of the transaction that remain to be sent, and ``message`` the message size, bytes.
    ``hop`` has the link's properties. ``limit`` is the size in bytes up to which :func:`time_of` computes with floats.
    """
    needed = time_of(
        size + hop.message_overhead * pieces(size, message), hop.numerator, hop.denominator, limit
    )
    if stop <= start or needed == 0:
        return np.int64(0)
    sent = np.int64(float(size) * float(stop - start) / float(needed))
    return min(sent, size - 1) // message * message
