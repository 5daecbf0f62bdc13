"""The values that describe a link (network connection of two nodes): its shape (rate, delay, jitter, scheduled
outages), state, counters and history.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import Literal

from dumpfilter.base.options.values import format_rate, format_time


@dataclass(frozen=True)
class Outage:
    """A scheduled interval in which a link (network connection of two nodes) is down.

    Times are seconds since the link got its schedule of outages. In the results of an experiment, they are seconds
    since the first commit.
    """

    start: float
    end: float | None
    """The time at which the link is up again. None: it stays down until it is healed by hand."""
    connected: float | None = field(default=None, repr=False)
    """The time at which the target (the reading node) connected again, for an outage that is over. None: not known."""


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

    def __str__(self) -> str:
        """Return the rate, delay and jitter in short, such as ``2mbit 50ms ±5ms``. The text is empty for a link without
        rate limit, delay and jitter.

        >>> str(LinkShape(2_000_000, 0.05, 0.005))
        '2mbit 50ms ±5ms'
        """
        rate = "" if self.rate is None else format_rate(self.rate)
        times = ((prefix, seconds) for prefix, seconds in (("", self.delay), ("±", self.jitter)) if seconds)
        return " ".join([rate, *(f"{prefix}{format_time(seconds)}" for prefix, seconds in times)]).strip()


PLAIN = LinkShape()
"""The shape of a link without limit, delay and outages. Such a link only counts bytes."""

LinkState = Literal["up", "cut", "silent"]
"""``up``: bytes pass. ``cut``: connections are refused. ``silent``: connections stay open, and no byte passes."""


@dataclass(frozen=True)
class Counters:
    """The state of a link (up, cut or silent), and its numbers of bytes and connections since it was opened. A link is
    a proxy between two nodes.
    """

    state: LinkState = "up"
    down: int = 0
    """The bytes that reached the target (the reading node): the binlog, and the rest of the protocol."""
    up: int = 0
    """The bytes that reached the source (the sending node): requests and acknowledgements."""
    waiting: int = 0
    """The bytes of both directions that are in the link now."""
    connections: int = 0
    """The connections that the link has accepted."""
    open: int = 0
    """The connections that are open now."""


@dataclass(frozen=True)
class Happening:
    """One entry of a link's history: a change of its shape (rate, delay, jitter, outages), a fault such as a cut, or a
    connection.
    """

    time: float
    """The time, seconds since 1970, by a clock that never jumps within one process of links."""
    kind: str
    """``opened``, ``shape``, ``cut``, ``healed``, ``silenced``, ``reset``, ``connected``, ``ended`` or ``failed``."""
    detail: str = ""
    """The reason, or the new values, as text for people."""
