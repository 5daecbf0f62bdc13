"""The bytes of schemas or tables in periods of time."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import numpy as np

from dumpfilter.inspection.by_heading import HeadingSums
from dumpfilter.report.headings import sums as sums_of
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
        labels = [one.name if options.by is Division.TABLE else one.labels[0] for one in sums.headings]
        numbers = {label: number for number, label in enumerate(dict.fromkeys(labels))}
        of_heading = np.array([numbers[label] for label in labels], np.int64)
        keys = sums.period * len(numbers) + of_heading[sums.heading]
        found, first, which = np.unique(keys, return_index=True, return_inverse=True)
        nbytes = sums_of(which, sums.volume[:, 1], len(found))
        totals = sums_of(found % max(len(numbers), 1), nbytes, len(numbers)).tolist()
        names = list(numbers)
        periods: dict[int, dict[str, int]] = {}
        # A period lists its names in the order in which the sums have them.
        for k in np.lexsort((first, found // max(len(numbers), 1))).tolist():
            period, name = divmod(int(found[k]), len(names))
            periods.setdefault(period * sums.seconds, {})[names[name]] = int(nbytes[k])
        return cls(
            options.by,
            sums.seconds,
            tuple(
                sorted(
                    (one for one in names if totals[numbers[one]]),
                    key=lambda one: (-totals[numbers[one]], one),
                )
            ),
            {start: of_names for start, of_names in periods.items() if any(of_names.values())},
        )

    def as_dict(self) -> dict[str, Any]:
        """Return the figures as a dictionary, for output as JSON."""
        return {
            "by": self.by.value,
            "period_seconds": self.seconds,
            "periods": [{"start": start or None, "bytes": found} for start, found in self.periods.items()],
        }
