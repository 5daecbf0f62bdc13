"""The shape of a link: its rate, delay and jitter, and its scheduled outages."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Outage:
    """A scheduled interval in which a link (network connection of two nodes) is down.

    Times are seconds since the link was opened or its shape was set.
    """

    start: float
    end: float | None
    """The time at which the link is up again. None: it stays down until it is healed by hand."""
    connected: float | None = field(default=None, repr=False)
    """The time at which the target connected again, for an outage that is over. None: not known."""


@dataclass(frozen=True)
class LinkShape:
    """The rate, delay, jitter and scheduled outages of a link (network connection of two nodes).

    Each direction has the full rate.
    """

    rate: int | None = None
    """Bits per second in each direction. None: no limit."""
    delay: float = 0.0
    """The one-way delay, seconds. A round trip takes twice the time."""
    jitter: float = 0.0
    """The maximum of the random value that is added to or subtracted from ``delay``, seconds. The order of bytes never
    changes.
    """
    outages: tuple[Outage, ...] = ()
    """The scheduled outages. At the begin of an outage all connections are reset, and until its end new ones are
    refused.
    """

    def is_down(self, time: float) -> bool:
        """Tell whether the link is in a scheduled outage at ``time``, seconds. At the end of an outage it is up."""
        return any(one.start <= time and (one.end is None or time < one.end) for one in self.outages)


PLAIN = LinkShape()
"""The shape of a link without limit, delay and outages. Such a link only counts bytes."""
