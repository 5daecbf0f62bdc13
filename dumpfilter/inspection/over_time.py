"""The bytes of schemas or tables in periods of time."""

from __future__ import annotations

from collections import Counter
from dataclasses import dataclass
from typing import Any

import numpy as np

from dumpfilter.inspection.by_heading import HeadingSums
from dumpfilter.report.periods import Division, wider

MOST_PERIODS = 32
"""The most periods with traffic, unless the user chooses the length."""


@dataclass(frozen=True)
class OverTimeOptions:
    """The choice of bytes over time: by schema or table, and the length of a period, seconds (None: by the span)."""

    by: Division
    period: int | None = None


@dataclass(frozen=True)
class OverTime:
    """The bytes of each schema or table in each period."""

    by: Division
    seconds: int
    """The length of a period."""
    names: tuple[str, ...]
    """The names of the schemas or tables, those with most bytes first."""
    periods: dict[int, dict[str, int]]
    """The bytes by name in each period with traffic, by the period's begin (Unix seconds; 0: without a timestamp)."""

    @classmethod
    def of(cls, sums: HeadingSums, options: OverTimeOptions) -> OverTime:
        """Return the bytes of a binlog set over time."""
        while options.period is None and len(np.unique(sums.period)) > MOST_PERIODS:
            sums = sums.in_periods(wider(sums.seconds))
        totals: Counter[str] = Counter()
        periods: dict[int, Counter[str]] = {}
        for heading, period, (_, nbytes, _) in zip(
            sums.heading.tolist(), sums.period.tolist(), sums.volume.tolist(), strict=True
        ):
            one = sums.headings[heading]
            name = one.name if options.by is Division.TABLE else one.labels[0]
            totals[name] += nbytes
            periods.setdefault(period * sums.seconds, Counter())[name] += nbytes
        return cls(
            options.by,
            sums.seconds,
            tuple(sorted((name for name in totals if totals[name]), key=lambda name: (-totals[name], name))),
            {start: dict(found) for start, found in sorted(periods.items()) if found.total()},
        )

    def as_dict(self) -> dict[str, Any]:
        """Return the figures as a dictionary, for output as JSON."""
        return {
            "by": self.by.value,
            "period_seconds": self.seconds,
            "periods": [{"start": start or None, "bytes": found} for start, found in self.periods.items()],
        }
