"""The times at which a slave or other reader of a binlog reconnects after an outage of its link."""

from __future__ import annotations

import contextlib
import math
from collections.abc import Iterable
from dataclasses import dataclass

from dumpfilter.base.errors import OptionError
from dumpfilter.topology.links.shape import PLAIN, LinkShape
from dumpfilter.topology.model import Node

_OPTION = "--connect-retry"
_MEAN = 0.75
"""The mean of the random factor (0.5 to 1) by which dumpfilter multiplies its reconnect waits."""
_BITS = 8


@dataclass(frozen=True)
class Retries:
    """The waits of a slave between attempts to reconnect, seconds.

    The first wait is ``first``, and each further one is twice as long, up to ``longest``. The defaults are those of a
    dumpfilter slave with ``--connect-retry=60``.
    """

    first: float = 0.075
    longest: float = 45.0
    round_trips: float = 4.1
    """The number of round trips from the start of a connection to the first event: TCP handshake, login or
    registration, and the dump request. Measured.
    """
    nbytes: int = 950
    """The bytes sent in both directions during these round trips of connecting. Measured."""

    def restart(
        self, start: float, end: float, shape: LinkShape = PLAIN, connected: float | None = None
    ) -> float:
        """Return the time at which a slave receives events again after an outage of its link.

        The result is in seconds since the start of the run. The slave loses its connection at ``start``, and its
        attempts to connect fail until ``end``. ``shape`` gives the link's delay and rate. ``connected`` is the time
        of the successful attempt; None: it is computed from the waits.
        """
        if connected is None:
            at, wait = start, self.first
            # After the doubling all waits are equal, so the attempts before the end need no loop.
            while at < end and wait < self.longest:
                at += wait
                wait = min(2 * wait, self.longest)
            if at < end and self.longest:
                at += -(-(end - at) // self.longest) * self.longest
            connected = max(at, end)
        on_line = 0.0 if shape.rate is None else self.nbytes * _BITS / shape.rate
        return connected + 2 * self.round_trips * shape.delay + on_line


def all_down(links: Iterable[tuple[LinkShape, Retries]]) -> tuple[tuple[float, float], ...]:
    """Return the intervals in which no reader of a node is connected, as pairs of start and end, seconds.

    ``links`` has each reader's link, with its outages, and the reader's waits before it reconnects.
    """
    common = [(-math.inf, math.inf)]
    for shape, retries in links:
        downs = [
            (one.start, retries.restart(one.start, one.end, shape, one.connected))
            for one in shape.outages
            if one.end is not None
        ]
        pairs = ((max(one[0], other[0]), min(one[1], other[1])) for one in common for other in downs)
        common = [(start, end) for start, end in pairs if start < end]
    return tuple(common)


REPLICA_RETRIES = Retries(1.0, 1.0, 16.5, 1300)
"""The reconnect waits of a real replica as :mod:`dumpfilter.testbed` configures it. A replica queries many variables
of its source when it connects.
"""
RECEIVER_RETRIES = Retries(longest=_MEAN * 15, round_trips=11.2, nbytes=1100)
"""The reconnect waits of a master that receives the binlog from a running server."""
SLAVE_RETRIES = Retries(longest=0.375)
"""The reconnect waits of a dumpfilter slave as :mod:`dumpfilter.testbed` starts it (``--connect-retry=0.5``)."""


def retries_of(node: Node) -> Retries:
    """Return the waits of a node between attempts to reconnect. The node's option ``--connect-retry`` sets the longest
    wait.

    Waits of dumpfilter are random, from half of the nominal wait to all of it. The simulation uses the mean.
    """
    found = number_of(node, _OPTION)
    if found is not None:
        longest = _MEAN * found
        return Retries(min(Retries.first, longest), longest)
    if node.server:
        return REPLICA_RETRIES
    return RECEIVER_RETRIES if node.kind == "master" else SLAVE_RETRIES


def number_of(node: Node, name: str) -> float | None:
    """Return the number that a node's command line gives for an option such as ``--connect-retry``, or None without
    it.

    Raises OptionError for a missing value, and for one that is no number of 0 or more.
    """
    found = None
    options = iter(node.options)
    for option in options:
        spelled, equals, value = option.partition("=")
        if f"--{spelled.lstrip('-')}".replace("_", "-") == name:
            found = value if equals else next(options, "")
    if found is None:
        return None
    with contextlib.suppress(ValueError):
        number = float(found)
        if 0 <= number < math.inf:
            return number
    raise OptionError(f"node {node.name}: options: {name}={found}: give a number of 0 or more")
