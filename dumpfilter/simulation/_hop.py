"""Compiled loops that simulate how transactions cross a hop: a network link, or the applier of a node (the threads that
apply transactions).

All times are nanoseconds since the start of the run.
"""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from dumpfilter.base.compiler.arrays import Bools, Float64s2, Int32s2, Int64s, Int64s2
from dumpfilter.base.compiler.kernels import inlined, inner, kernel
from dumpfilter.binlog.native import floats
from dumpfilter.dump.stream.pace import LEAST, SECONDS, SMALL, SMALL_SECONDS


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
    most_message: int
    is_apart: bool = False
    """Whether the sender, after an outage, sends the lost transactions again in separate messages, one for all
    transactions that one poll of its binlog had found. If False, lost transactions share messages of full size.
    """


class Dropped(NamedTuple):
    """The bytes and times of a sender's reports about transactions that its filter dropped. By these reports the node
    at the other end of the link learns of the dropped transactions.

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
    after: int = 0
    """The number of separate messages after the last sent transaction."""


_NONE = -(1 << 62)
"""A time earlier than all others, nanoseconds."""
_D_START, _D_RESTART = 0, 1

_PUSHED = 50_000_000
"""The longest time on the wire for which all bytes of a message get the same random delay, nanoseconds. A longer
message is delayed in parts, as a busy link (a proxy) reads it.
"""


@inlined
def time_of(size, hop):
    """Return the time to send ``size`` bytes over the link ``hop``, rounded to a whole nanosecond."""
    # The estimate is wrong by one at most, and the remainder tells it. The product need not fit into 64 bits, since the
    # remainder does. Vector instructions have no division of integers.
    found = np.int64(np.float64(size) * np.divide(np.float64(hop.numerator), np.float64(hop.denominator)))
    rest = size * hop.numerator + hop.denominator // 2 - found * hop.denominator
    return found + np.int64(rest >= hop.denominator) - np.int64(rest < 0)


@kernel
def looks(arrived: Int64s, again: int, pause: int, period: int, found: Int64s):
    """Compute the time at which a sender finds each transaction in its binlog, and write it into the array ``found``.

    ``arrived`` has the time at which each transaction is in the sender's binlog, ascending. The sender looks into its
    binlog from time to time, and finds all transactions that have arrived. After a look that found transactions, the
    sender looks once more, when the time ``again`` has passed. If this second look finds none, the sender finds the
    next transaction on arrival, but at least ``pause`` after the last successful look.

    With a ``period``, the sender looks when a transaction arrives, and at each multiple of ``period``, but not within
    ``pause`` after the last successful look. All times are nanoseconds.
    """
    last = np.int64(_NONE)
    coming = 0
    for i in range(len(arrived)):
        if arrived[i] > last:
            earliest = last + pause
            if arrived[i] <= last + again:
                last += again
            elif arrived[i] >= earliest or not period:
                last = max(arrived[i], earliest)
            else:
                last = (earliest + period - 1) // period * period
                coming = max(coming, i)
                while coming < len(arrived) and arrived[coming] < earliest:
                    coming += 1
                if coming < len(arrived):
                    last = min(last, arrived[coming])
        found[i] = last


@kernel
def gather(seen: Int64s, is_sent: Bools, longest: int, told: Int64s):
    """Compute the time at which a sender tells its reader of each transaction, and write it into the array ``told``.

    ``seen`` has the time at which the sender finds each transaction, ascending, and ``is_sent`` whether the filter
    passes it. All transactions with equal times were found together. If the filter drops all of them, the sender does
    not report them at once. It waits until it finds a transaction to send, but at most the time ``longest``. The wait
    also ends when the sender finds further dropped transactions in the second half of this time.
    """
    n = len(seen)
    # The sender waits with the transactions from ``waiting`` on, until the time ``due``.
    waiting = 0
    due = np.int64(_NONE)
    i = 0
    while i < n:
        now = seen[i]
        if waiting < i and due <= now:
            told[waiting:i] = due
            waiting = i
        begin = i
        is_dropped = True
        while i < n and seen[i] == now:
            is_dropped = is_dropped and not is_sent[i]
            i += 1
        if is_dropped and waiting == begin:
            due = now + longest
        elif not is_dropped or due - now <= longest // 2:
            told[waiting:i] = now
            waiting = i
    told[waiting:n] = due


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
    came: Int64s,
):
    """Simulate sending transactions over a network link (``hop``), one message after another.

    ``arrived`` has the time at which the sender has each transaction, and ``sizes`` the bytes of each. ``room`` has for
    each transaction the number of earlier ones that must have left before the connection's send buffers have room for
    it. ``dropped`` describes the sender's reports about transactions that a filter dropped, which use the link, too.
    ``downs`` has one row for each outage: its start, and the time at which the dump resumes.

    The results are written into the arrays ``departed`` (one entry more than there are transactions), ``received`` and
    ``came``. The first ``i`` transactions had left the sender at ``departed[i]``, and transaction ``i`` was received at
    ``received[i]``. All times are nanoseconds, but ``came`` has the times of ``received`` in microseconds, rounded up.

    Return the number of messages, and the number of separate messages that only report dropped transactions.
    """
    n = len(arrived)
    message = hop.message
    # At first, the times of departure as if all transactions were sent together.
    for j in range(n):
        departed[j + 1] = time_of(sizes[j] + dropped.told[j], hop) + hop.fixed
    departed[0] = 0
    for j in range(n):
        departed[j + 1] += departed[j]
    departed[0] = _NONE
    empty_time = time_of(dropped.size, hop)
    down = 0
    messages = 0
    empty = 0
    # The last byte so far left at ``end``, the last message arrived at ``last``, and the last outage ended at
    # ``opened``. The reader had the bytes ``had`` then. The outage began at ``began``.
    end = _NONE
    last = _NONE
    opened = _NONE
    began = _NONE
    had = 0
    # The first transaction of a message, of which ``kept`` bytes reached the reader before an outage, and the first one
    # that arrives after the message is made. The bytes of all transactions before each of the two.
    first = 0
    kept = 0
    coming = 0
    before = 0
    found = 0
    while first < n:
        ready = max(arrived[first], opened)
        made = max(ready, departed[room[first]])
        reports = 0
        if made == arrived[first] and dropped.empty[first]:
            reports = dropped.empty[first]
            end = max(max(end, dropped.first[first]) + reports * empty_time, dropped.last[first] + empty_time)
        end = max(end, ready)
        # A sender that is down begins when the dump goes on. Outages that are over do not matter any more.
        while down < len(downs) and end >= downs[down, _D_START]:
            message = message_after(before + kept - had, downs[down, _D_START] - max(opened, 0), hop)
            had = before + kept
            began = downs[down, _D_START]
            opened = downs[down, _D_RESTART]
            end = made = max(end, opened)
            down += 1
        until = arrived[first] if hop.is_apart and arrived[first] < began else made
        while coming < n and arrived[coming] <= until:
            found += sizes[coming]
            coming += 1
        stop = coming
        filled = found - before
        if filled >= message:
            # The message is full, or ends before a large transaction.
            filled = sizes[first]
            stop = first + 1
            while stop < coming and filled < message and filled + sizes[stop] <= 2 * message:
                filled += sizes[stop]
                stop += 1
        whole = sizes[first] - kept
        parts = pieces(whole, message)
        start = end
        end += time_of(whole + dropped.told[first] + hop.message_overhead * parts, hop) + hop.fixed
        shift = end - departed[first + 1]
        end = departed[stop] + shift
        arrival = max(end + hop.delay, last)
        if hop.jitter:
            arrival = shaken(start, end, first, last, hop)
        if down < len(downs) and arrival > downs[down, _D_START]:
            # The outage loses the message, which has not arrived.
            time = downs[down, _D_START] - hop.delay - start
            needed = time_of(whole + hop.message_overhead * parts, hop)
            if message and stop == first + 1 and time > 0 and needed:
                # The complete messages of a large transaction that had left by then have arrived.
                left = np.int64(np.float64(whole) * np.float64(time) / np.float64(needed))
                kept += min(left, whole - 1) // message * message
            message = message_after(before + kept - had, downs[down, _D_START] - max(opened, 0), hop)
            had = before + kept
            began = downs[down, _D_START]
            opened = end = downs[down, _D_RESTART]
            down += 1
        else:
            last = arrival
            rounded = (arrival + 999) // 1000
            for j in range(first, stop):
                departed[j + 1] += shift
                received[j] = arrival
                came[j] = rounded
            messages += parts
            empty += reports
            before += filled
            first = stop
            kept = 0
    return messages, empty


@inner
def shaken(start, end, number, last, hop):
    """Return the time at which a message arrives over the link ``hop``, whose delay is random.

    The message is on the wire from ``start`` to ``end``. ``number`` is the index of its first transaction, and ``last``
    the time at which the message before arrived. A long message crosses the link in parts, each with its own delay. No
    part overtakes another, so that the latest one counts.
    """
    arrival = last
    left = start
    part = number
    while left < end or part == number:
        left = min(left + _PUSHED, end)
        arrival = max(arrival, left + max(hop.delay + noise(hop.seed, part, hop.jitter), 0))
        part += 1 << 40
    return arrival


@inner
def message_after(carried, time, hop):
    """Return the message size on the link ``hop`` after an outage, bytes. The sender chooses it by the rate before the
    outage: the reader received ``carried`` bytes in ``time`` nanoseconds.

    The function follows :func:`dumpfilter.dump.stream.pace.message_size`.
    """
    rate = carried * 1e9 / max(time, 1)
    wanted = max(min(rate * SMALL_SECONDS, SMALL), rate * SECONDS, LEAST)
    if wanted >= hop.most_message:
        return max(hop.message, hop.most_message)
    size = np.int64(LEAST)
    while 2 * size <= wanted:
        size *= 2
    return max(hop.message, size)


@inlined
def pieces(size, message):
    """Return the number of messages into which a transaction of ``size`` bytes is divided. ``message`` is the
    message size in bytes; 0 means no division. Up to twice this size, the transaction is one message.
    """
    # The inverse is computed once for all transactions. With the half, its rounding does not matter.
    if size <= 2 * message or not message:
        return np.int64(1)
    return np.int64((np.float64(size + message) - 0.5) * np.divide(1.0, np.float64(message)))


LANES = 16
"""The number of links that :func:`cross_together` simulates in one call. Because the compiler knows the number, vector
instructions cover the loops over links without a remainder.
"""
MOST_LAG = 2**31 - 1
EXACT = 1 << 51
"""The limit below which 64-bit floats represent a whole number and its half exactly, and a product with an inverse,
rounded down, is the exact integer quotient.
"""
BLOCK = 1024
"""The number of transactions whose times :func:`cross_together` computes before it computes their lags. Their times are
then still in the processor's cache.
"""


@kernel
def cross_together(
    arrived: Int64s,
    committed: Int64s,
    sizes: Int64s,
    room: Int64s,
    dropped: Dropped,
    hop: Parameters,
    rates: Float64s2,
    departed: Float64s2,
    lags: Int32s2,
    counts: Int64s2,
):
    """Simulate sending the same transactions over :data:`LANES` links that differ only in their rates. The links have
    no delay, no jitter and no outages.

    ``arrived`` has the time at which the sender has each transaction (nanoseconds), and ``sizes`` the bytes of each.
    ``room`` has for each transaction the number of earlier ones that must have left before the send buffers have room
    for it. ``dropped`` has the sender's reports about dropped transactions. ``committed`` has the time of each
    transaction's commit, microseconds. ``hop`` has the links' common properties. ``rates`` has a column for each link:
    the numerator and the denominator of the time for a byte, nanoseconds.

    The results are written into ``lags`` and ``counts``. ``lags`` has a row for each link with the time from the commit
    of each transaction to its receipt, microseconds, rounded up. :data:`MOST_LAG` stands for all longer times.
    ``counts`` has a column for each link: the number of messages, the number of separate messages that only report
    dropped transactions, and the greatest lag.

    ``departed`` is memory for the latest times of departure, with a row for each transaction and a column for each
    link. The number of rows is a power of two, and later transactions overwrite the rows of earlier ones. The rows must
    suffice for the transactions in ``room``, the longest message, and :data:`BLOCK` transactions after it.

    Vector instructions compute several links at once, so that the loops over links have no branches. All times and
    bytes are whole numbers in 64-bit floats. The caller makes sure that none is too large (:data:`EXACT`). Instead of
    dividing, the loops shift the dividend by half a unit, against rounding errors, and multiply by the inverse.
    """
    n = len(arrived)
    mask = np.uintp(departed.shape[0] - 1)
    message = np.float64(hop.message)
    inverse = 1.0 / message if hop.message else 0.0
    numerator = floats(LANES)
    inverse_rate = floats(LANES)
    half = floats(LANES)
    empty_time = floats(LANES)
    end = floats(LANES)
    made = floats(LANES)
    filled = floats(LANES)
    messages = floats(LANES)
    empty = floats(LANES)
    following = floats(LANES)
    arrival = floats(LANES)
    lag = floats(LANES)
    worst = floats(LANES)
    for lane in range(LANES):
        numerator[lane] = rates[0, lane]
        inverse_rate[lane] = np.divide(1.0, rates[1, lane])
        half[lane] = np.floor(rates[1, lane] * 0.5) + 0.5
        empty_time[lane] = np.floor((dropped.size * rates[0, lane] + half[lane]) * inverse_rate[lane])
        end[lane] = filled[lane] = messages[lane] = empty[lane] = worst[lane] = departed[0, lane] = 0.0
        made[lane] = -1.0
    unfinished = 0
    for start in range(0, n, BLOCK):
        stop = min(start + BLOCK, n)
        for j in range(start, stop):
            free = np.uintp(room[j]) & mask
            after = np.uintp(j + 1) & mask
            ready = np.float64(arrived[j])
            size = np.float64(sizes[j])
            # A message with this size or more is full, or too full for the transaction.
            full = min(message, 2.0 * message - size + 1.0)
            parts = max(np.floor((size + message - 0.5) * inverse), 1.0) if size > 2.0 * message else 1.0
            joining = np.float64(sizes[j] + dropped.told[j])
            overhead = parts * hop.message_overhead
            if dropped.empty[j]:
                reports = np.float64(dropped.empty[j])
                first = np.float64(dropped.first[j])
                last = np.float64(dropped.last[j])
                for lane in range(LANES):
                    is_new = (ready > made[lane]) | (filled[lane] >= full)
                    sent = is_new & (abs(departed[free, lane]) <= ready)
                    reported = max(
                        max(end[lane], first) + reports * empty_time[lane], last + empty_time[lane]
                    )
                    end[lane] = reported if sent else end[lane]
                    empty[lane] += reports if sent else 0.0
            for lane in range(LANES):
                begins = (ready > made[lane]) | (filled[lane] >= full)
                made[lane] = max(ready, abs(departed[free, lane])) if begins else made[lane]
                filled[lane] = size + (0.0 if begins else filled[lane])
                messages[lane] += parts if begins else 0.0
                sent = joining + (overhead if begins else 0.0)
                left = max(end[lane], ready) + np.floor(
                    (sent * numerator[lane] + half[lane]) * inverse_rate[lane]
                )
                end[lane] = left
                # A time with a minus is that of a transaction that begins a message.
                departed[after, lane] = -left if begins else left
        # From the last transaction to the first: all transactions of a message are received with its last one. If a
        # message goes on in the next block, its lags are computed once more there.
        for lane in range(LANES):
            following[lane] = -1.0
        for j in range(stop - 1, unfinished - 1, -1):
            after = np.uintp(j + 1) & mask
            since = np.float64(committed[j]) * 1000.0 - 999.5
            for lane in range(LANES):
                left = departed[after, lane]
                arrival[lane] = abs(left) if following[lane] < 0.0 else arrival[lane]
                following[lane] = left
                lag[lane] = min((arrival[lane] - since) * 0.001, MOST_LAG)
                worst[lane] = max(worst[lane], lag[lane])
            for lane in range(LANES):
                lags[lane, np.uintp(j)] = np.int32(lag[lane])
        unfinished = stop
        for lane in range(LANES):
            begin = stop
            while not np.signbit(departed[np.uintp(begin) & mask, lane]):
                begin -= 1
            unfinished = min(unfinished, begin - 1)
    for lane in range(LANES):
        counts[0, lane] = np.int64(messages[lane])
        counts[1, lane] = np.int64(empty[lane])
        counts[2, lane] = np.int64(worst[lane])
