"""The simulation of one hop: a network link that keeps transactions in order, or the applier of a node.

A transaction leaves a link at the time ``max(a, f) + s`` (Lindley's recursion). It arrived at the sender at ``a``,
the link had sent all earlier bytes at ``f``, and sending the transaction takes ``s``. ``s`` is rounded to a whole
nanosecond for each transaction. The result therefore does not depend on how the transactions are divided into ranges.
All times are whole nanoseconds.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from typing import NamedTuple

import numpy as np

from dumpfilter.dump.stream.pace import message_size
from dumpfilter.simulation import _hop
from dumpfilter.simulation._hop import Dropped, Parameters
from dumpfilter.simulation.traffic import Ints
from dumpfilter.topology.links.line import BITS

NANOSECONDS = 1_000_000_000
"""The number of nanoseconds in a second."""
MICROSECOND = 1_000
"""The number of nanoseconds in a microsecond, the unit of transaction times."""
NEVER = 1 << 62
"""The end time of an outage that never ends, nanoseconds."""
_MOST_DENOMINATOR = 10**9
"""The limit of the denominator of the time for one byte. It keeps the products with a transaction's bytes within 64
bits.
"""


@dataclass(frozen=True)
class Down:
    """An outage of a link. Times are nanoseconds since the first transaction's commit."""

    start: int
    end: int
    """The time at which the network works again, nanoseconds."""
    restart: int
    """The time at which the dump resumes, nanoseconds. After ``end`` the reader waits for its next attempt to
    connect, and then connects.
    """


@dataclass(frozen=True)
class Hop:
    """The properties of a simulated link between two nodes. The applier of a node is simulated as a link without delay.
    Times are nanoseconds.
    """

    rate: int | None = None
    """The bit rate, bits per second. None: no limit."""
    delay: int = 0
    jitter: int = 0
    """The maximum of the random value that is added to or subtracted from ``delay``, nanoseconds. Transactions stay
    in order.
    """
    seed: int = 0
    """The seed of the random numbers for the jitter."""
    downs: tuple[Down, ...] = ()
    """The outages in ascending order, without overlap."""
    message: int = 0
    """The size at which the sender ends a message, bytes. A transaction is received when its whole message has
    arrived. 0: each transaction is one message.
    """
    most_message: int = 0
    """The limit of the message size after an outage, bytes. After an outage the message size follows the rate that
    the reader reports.
    """
    message_overhead: int = 0
    """The bytes that each message adds to its events on the link."""
    ahead: int = 0
    """The capacity of the connection's send buffers, bytes. The sender makes messages until they are full. 0: no
    limit.
    """
    tick: int = 0
    """The interval at which the sender polls for new transactions, nanoseconds (see :func:`looks`). 0: the sender
    sees each transaction at once.
    """
    fixed: int = 0
    """The constant time that each transaction takes in addition to the time for its bytes, nanoseconds."""


class Crossed(NamedTuple):
    """The times at which transactions crossed a link, nanoseconds, and the number of messages that they needed."""

    departed: Ints
    """The time at which the last byte of each transaction left the sender, nanoseconds."""
    received: Ints
    """The time at which each transaction had arrived completely, nanoseconds. The values never decrease."""
    messages: int
    told: int
    """The bytes of the reports about dropped transactions."""


def nanoseconds_of_a_byte(rate: int | None) -> tuple[int, int]:
    """Return the time to send one byte at ``rate`` bits per second, as numerator and denominator of nanoseconds.
    ``rate`` None: 0.

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
    """Simulate sending transactions over a network link (``hop``). Return their times of departure and arrival, and the
    number of messages.

    ``arrived`` has the time at which the sender has each transaction, nanoseconds, ascending; ``sizes`` has their
    bytes. ``dropped`` has the sender's reports about dropped transactions, which use the link, too (None: no reports).

    >>> arrived, sizes = np.array([0, 10, 20]), np.array([100, 100, 100])
    >>> cross(arrived, sizes, Hop(rate=160_000_000)).received.tolist()
    [5000, 10000, 15000]
    """
    departed, received = np.empty(len(arrived), np.int64), np.empty(len(arrived), np.int64)
    if dropped is None:
        nothing = np.zeros(len(arrived), np.int64)
        dropped = Dropped(nothing, nothing, nothing, nothing)
    messages, told = _hop.cross(
        np.ascontiguousarray(arrived, np.int64),
        np.ascontiguousarray(sizes, np.int64),
        dropped,
        _parameters(hop),
        _downs(arrived, sizes, hop),
        departed,
        received,
    )
    return Crossed(departed, received, int(messages), int(told))


def _parameters(hop: Hop) -> Parameters:
    _, _, *others = Parameters._fields
    return Parameters(*nanoseconds_of_a_byte(hop.rate), *(getattr(hop, name) for name in others))


def _downs(arrived: Ints, sizes: Ints, hop: Hop) -> Ints:
    """Return the outages of a hop as an int64 array of rows: start, restart (nanoseconds), and the message size
    (bytes) after the restart.
    """
    rows, begin = [], 0
    for down in hop.downs:
        # The product of 10 GB and a second's nanoseconds does not fit into 64 bits.
        offered = int(sizes[slice(*np.searchsorted(arrived, (begin, down.start)))].sum())
        rate = offered * NANOSECONDS / max(down.start - begin, 1)
        if hop.rate is not None:
            rate = min(rate, hop.rate / BITS)
        rows.append((down.start, down.restart, max(hop.message, message_size(rate, hop.most_message))))
        begin = down.restart
    return np.array(rows, np.int64).reshape(-1, 3)


def looks(arrived: Ints, tick: int, again: int) -> Ints:
    """Return the time at which a sender that polls its binlog finds each transaction.

    ``arrived`` has the times at which the transactions arrive in the sender's binlog. All times are nanoseconds,
    ascending. After a poll that found transactions, the sender polls again ``again`` nanoseconds later, when it has
    made the message. After a poll that found none, it polls at the next multiple of ``tick``.

    >>> looks(np.array([1, 19, 20, 23, 60]), 20, 5).tolist()
    [20, 20, 20, 25, 60]
    """
    found = np.empty(len(arrived), np.int64)
    _hop.looks(np.ascontiguousarray(arrived, np.int64), tick, again, found)
    return found


def times_of(sizes: Ints, hop: Hop) -> Ints:
    """Return the time that each transaction takes to be sent over the link ``hop``, nanoseconds, without the link's
    delay.

    ``sizes`` has the transactions' bytes.
    """
    numerator, denominator = nanoseconds_of_a_byte(hop.rate)
    whole, rest = np.divmod(sizes, denominator)
    times: Ints = whole * numerator + (rest * numerator + denominator // 2) // denominator + hop.fixed
    return times
