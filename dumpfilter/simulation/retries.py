"""The times at which a reader tries to connect again after an outage."""

from __future__ import annotations

from dataclasses import dataclass

from dumpfilter.topology.model import Node

ROUND_TRIPS = 4
"""The round trips of a new connection until the first event arrives: the login or registration, the request of the
dump, and the answer."""

_OPTION = "--connect-retry"
_MEAN = 0.75
"""The mean of the random factor by which a slave shortens its waits."""


@dataclass(frozen=True)
class Retries:
    """Waits between attempts to connect, seconds. Each wait is twice as long as the one before, up to ``longest``.

    The defaults are those of a slave of dumpfilter, whose option ``--connect-retry`` is 60 seconds.
    """

    first: float = 0.075
    longest: float = 45.0

    def restart(self, start: float, end: float, delay: float) -> float:
        """Return the time at which a dump goes on after an outage, seconds.

        The reader loses its connection at ``start``. Its attempts fail until ``end``. ``delay`` is the link's delay.
        """
        at, wait = start, self.first
        # After the doubling all waits are equal, so the attempts before the end need no loop.
        while at < end and wait < self.longest:
            at += wait
            wait = min(2 * wait, self.longest)
        if at < end:
            at += -(-(end - at) // self.longest) * self.longest
        return max(at, end) + 2 * ROUND_TRIPS * delay


REPLICA_RETRIES = Retries(first=1.0, longest=1.0)
"""The waits of a real replica, as a topology sets them."""
SLAVE_RETRIES = Retries(longest=0.375)
"""The waits of a slave of dumpfilter, as a topology sets them (``--connect-retry=0.5``)."""


def retries_of(node: Node) -> Retries:
    """Return the waits of a node of a topology. ``--connect-retry`` among its options sets the longest wait.

    The waits of dumpfilter are random, from half of the longest wait to the whole. The simulation takes the mean.
    """
    found = option_of(node, _OPTION)
    if found is not None:
        longest = _MEAN * float(found)
        return Retries(min(Retries.first, longest), longest)
    return REPLICA_RETRIES if node.server else SLAVE_RETRIES


def option_of(node: Node, name: str) -> str | None:
    """Return the value of an option among a node's own options. None: the node does not have the option."""
    for at, option in enumerate(node.options):
        found, equals, value = option.partition("=")
        if f"--{found.lstrip('-')}".replace("_", "-") == name:
            return value if equals else node.options[at + 1]
    return None
