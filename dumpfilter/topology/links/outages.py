"""Scheduled outages of a link."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from dumpfilter.topology.links.shape import Outage


@dataclass(frozen=True)
class Schedule:
    """The outages of a link. Times are seconds since the schedule began."""

    outages: Sequence[Outage] = ()

    def is_down(self, time: float) -> bool:
        """Tell whether an outage holds at this time. The end of an outage does not belong to it."""
        return any(
            outage.start <= time and (outage.end is None or time < outage.end) for outage in self.outages
        )

    def next_change(self, time: float) -> float | None:
        """Return the next time after ``time`` at which an outage begins or ends."""
        times = (at for outage in self.outages for at in (outage.start, outage.end) if at is not None)
        return min((at for at in times if at > time), default=None)
