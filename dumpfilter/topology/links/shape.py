"""The shape of a link: its rate, delay and jitter, and the faults that happen to it at set times."""

from __future__ import annotations

from dataclasses import dataclass, field


@dataclass(frozen=True)
class Outage:
    """A span of time in which a link is down. Times are seconds since the link was opened or its shape was set."""

    start: float
    end: float | None
    """The time at which the link is up again. None: somebody must heal it."""
    connected: float | None = field(default=None, repr=False)
    """The time at which the target connected again, for an outage that is over. None: not known."""


@dataclass(frozen=True)
class LinkShape:
    """The rate, delay and faults of a link. Each direction has the rate and the delay to itself."""

    rate: int | None = None
    """Bits per second in each direction. None: as fast as the machine is."""
    delay: float = 0.0
    """The time that a byte needs from one end to the other, seconds. A round trip takes twice the time."""
    jitter: float = 0.0
    """The largest random difference from ``delay`` in both directions, seconds. Bytes never overtake one another."""
    outages: tuple[Outage, ...] = ()
    """The scheduled outages. At the begin of an outage all connections are reset, and new ones are refused."""

    def is_down(self, time: float) -> bool:
        """Tell whether an outage holds at this time. The end of an outage does not belong to it."""
        return any(one.start <= time and (one.end is None or time < one.end) for one in self.outages)

    def next_change(self, time: float) -> float | None:
        """Return the next time after ``time`` at which an outage begins or ends."""
        times = (at for one in self.outages for at in (one.start, one.end) if at is not None)
        return min((at for at in times if at > time), default=None)


PLAIN = LinkShape()
"""The shape of a link that only counts bytes."""
