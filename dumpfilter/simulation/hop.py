"""One hop of a simulated route: a link, on which transactions stay in order, or an applier. Times are whole
nanoseconds.

A transaction leaves a link at ``max(a, f) + s``. In this formula, ``a`` is the time at which the transaction came. The
link had sent everything before at the time ``f``, and needs the time ``s`` for the transaction's bytes. This is
Lindley's recursion. ``s`` is rounded to a whole nanosecond for each transaction. The result therefore does not depend
on how the transactions are divided into ranges.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from dumpfilter.dump.stream.pace import message_size
from dumpfilter.simulation import _hop
from dumpfilter.simulation._hop import Dropped
from dumpfilter.simulation.traffic import Ints
from dumpfilter.topology.links.line import BITS

NANOSECONDS = 1_000_000_000
"""The nanoseconds of a second."""
MICROSECOND = 1_000
"""The nanoseconds of a microsecond. Times of transactions are microseconds."""
NEVER = 1 << 62
"""The time at which an outage without an end is over, nanoseconds."""
_MOST_DENOMINATOR = 10**9
"""The limit of the denominator of a byte's time. The products of a transaction's bytes then fit into 64 bits."""


@dataclass(frozen=True)
class Down:
    """An outage of a hop, nanoseconds since the first transaction's commit."""

    start: int
    end: int
    """The time at which the network is up again, nanoseconds."""
    restart: int
    """The time at which the dump goes on, nanoseconds. Between ``end`` and ``restart`` the reader waits before it tries
    again, and connects.
    """


@dataclass(frozen=True)
class Hop:
    """A link between two nodes, or an applier (a link without delay). Times are nanoseconds."""

    rate: int | None = None
    """Bits per second. None: no limit."""
    delay: int = 0
    jitter: int = 0
    """The maximum of the random value that is added to or subtracted from ``delay``. Transactions stay in order."""
    seed: int = 0
    """The seed of the random numbers for the jitter."""
    downs: tuple[Down, ...] = ()
    """The outages, ascending. They do not overlap."""
    message: int = 0
    """The bytes after which a message ends. A transaction counts as received when its whole message has come. 0: each
    transaction is a message of its own.
    """
    most_message: int = 0
    """The limit to which messages grow after an outage, bytes, when the reader reports how much the line carried
    before.
    """
    message_overhead: int = 0
    """The bytes that each message adds to its events on the link."""
    ahead: int = 0
    """The bytes that the buffers of a connection hold. The sender makes messages until they are full. 0: no limit."""
    tick: int = 0
    """The interval at which the sender polls for new transactions (:func:`looks`). 0: it has each transaction
    at once.
    """
    fixed: int = 0
    """The time that each transaction needs in addition to the time for its bytes."""


class Crossed(NamedTuple):
    """The times at which transactions crossed a hop, in nanoseconds, and the traffic that they made."""

    departed: Ints
    """The time at which the last byte of each transaction left the sender."""
    received: Ints
    """The time at which each transaction arrived whole. It never decreases."""
    messages: int
    resent: int
    """The bytes that were sent twice, because an outage lost them."""
    told: int
    """The bytes of the reports about dropped transactions."""


def nanoseconds_of_a_byte(rate: int | None) -> tuple[int, int]:
    """Return the time that a byte needs at ``rate`` bits per second (None: no time), nanoseconds, as numerator and
    denominator.

    >>> nanoseconds_of_a_byte(2_000_000), nanoseconds_of_a_byte(512_000), nanoseconds_of_a_byte(None)
    ((4000, 1), (15625, 1), (0, 1))
    """
    if rate is None:
        return 0, 1
    exact = Fraction(8 * NANOSECONDS, rate)
    return (
        exact if exact.denominator <= _MOST_DENOMINATOR else exact.limit_denominator(_MOST_DENOMINATOR)
    ).as_integer_ratio()


def cross(arrived: Ints, sizes: Ints, hop: Hop, dropped: Dropped | None = None) -> Crossed:
    """Send transactions over a hop. ``arrived`` has the time at which the sender sees each, nanoseconds, ascending;
    ``sizes`` has their bytes.

    ``dropped`` has the sender's reports about dropped transactions, which use the line, too. None: the sender reports
    nothing.

    >>> arrived, sizes = np.array([0, 10, 20]), np.array([100, 100, 100])
    >>> cross(arrived, sizes, Hop(rate=160_000_000)).received.tolist()
    [5000, 10000, 15000]
    """
    numerator, denominator = nanoseconds_of_a_byte(hop.rate)
    departed, received = np.empty(len(arrived), np.int64), np.empty(len(arrived), np.int64)
    if dropped is None:
        nothing = np.zeros(len(arrived), np.int64)
        dropped = Dropped(nothing, nothing, nothing, nothing)
    messages, resent, told = _hop.cross(
        np.ascontiguousarray(arrived, np.int64),
        np.ascontiguousarray(sizes, np.int64),
        dropped,
        _hop.Parameters(
            numerator,
            denominator,
            hop.delay,
            hop.jitter,
            hop.seed,
            hop.message,
            hop.message_overhead,
            hop.ahead,
            hop.fixed,
        ),
        _downs(arrived, sizes, hop),
        departed,
        received,
    )
    return Crossed(departed, received, int(messages), int(resent), int(told))


def _downs(arrived: Ints, sizes: Ints, hop: Hop) -> Ints:
    """Return the outages of a hop as rows for the compiled loop: start, restart, and the size of messages after the
    restart.
    """
    rows, begin = [], 0
    for down in hop.downs:
        offered = sizes[slice(*np.searchsorted(arrived, (begin, down.start)))].sum()
        rate = offered * NANOSECONDS / max(down.start - begin, 1)
        if hop.rate is not None:
            rate = min(rate, hop.rate / BITS)
        rows.append((down.start, down.restart, max(hop.message, message_size(rate, hop.most_message))))
        begin = down.restart
    return np.array(rows, np.int64).reshape(-1, 3)


def looks(arrived: Ints, tick: int, again: int) -> Ints:
    """Return the time at which a polling sender sees each transaction that ``arrived``. All times are nanoseconds,
    ascending.

    After a poll that found something, the sender polls again when it has made the message, ``again`` nanoseconds later.
    Otherwise it polls once in each ``tick``.

    >>> looks(np.array([1, 19, 20, 23, 60]), 20, 5).tolist()
    [20, 20, 20, 25, 60]
    """
    found = np.empty(len(arrived), np.int64)
    _hop.looks(np.ascontiguousarray(arrived, np.int64), tick, again, found)
    return found


def times_of(sizes: Ints, hop: Hop) -> Ints:
    """Return the time that each transaction needs to be sent on a hop, nanoseconds, from its size in bytes."""
    numerator, denominator = nanoseconds_of_a_byte(hop.rate)
    whole, rest = np.divmod(sizes, denominator)
    times: Ints = whole * numerator + (rest * numerator + denominator // 2) // denominator + hop.fixed
    return times
