"""The chart of traffic over time, with and without the slaves' filters on the master."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from dumpfilter.printable import visible
from dumpfilter.report.figures import Chart, Json
from dumpfilter.spark_jobs.bandwidth.report.groups import Group, by_traffic, groups_of
from dumpfilter.spark_jobs.bandwidth.results import Results
from dumpfilter.spark_jobs.bandwidth.totals import counted

MOST_CHOICES = 200
"""The largest number of slaves, or of groups of equal slaves, whose curves a reader can choose."""
ALL = "all slaves together"
"""The name of the first choice."""
ALL_COUNTED = "all slaves to which something passes"
"""The name of the first choice if a slave is left out, since nothing passes its filter."""

_NUMBERS = 160_000
"""The most numbers of all curves together. Each makes the page a few bytes larger."""
_LEAST_STEPS = 400
_HEIGHT = 340
_EMPTY_PART = 0.2
"""The part of the drawn time above which a time without traffic is a break of the axis."""
_MOST_BREAKS = 8
_LEAST_EMPTY = 10
"""The least number of empty steps that become a break of the axis."""

Ints = npt.NDArray[np.int64]


def time_chart(results: Results) -> Chart | None:
    """Return the chart of bytes a second over time. The reader chooses one of the slaves, or all together.

    Each step has the mean of its time buckets and the largest of them, so that no peak is lost. Long times without
    traffic are left out. Return None if there is no slave, or if no event has a time.
    """
    starts = np.array(results.bucket_starts, np.int64)
    if not len(starts) or not results.slaves:
        return None
    groups = by_traffic(groups_of(results))[:MOST_CHOICES]
    groups = sorted(groups, key=lambda group: group.name) if len(groups) > 1 else []
    steps = _Steps(starts, results.bucket_seconds, max(_LEAST_STEPS, _NUMBERS // (4 + 2 * len(groups))))
    curves: list[list[float]] = []

    def line(values: Ints) -> Json:
        mean, most = steps.curve(values)
        curves.append(mean)
        made: Json = {"y": len(curves) - 1}
        if most != mean:
            curves.append(most)
            made["most"] = len(curves) - 1
        return made

    def choice(unfiltered: Json, filtered: Json, values: Sequence[Ints]) -> Json:
        is_same = np.array_equal(values[0], values[1])
        marks = [
            mark
            for column, colour in zip(
                values[: 1 if is_same else None], ("whole-line", "master"), strict=False
            )
            for mark in steps.peak(column, colour)
        ]
        return {
            "lines": [unfiltered] if is_same else [unfiltered, filtered],
            "marks": marks,
            "segments": steps.segments,
            "width": steps.width,
        }

    whole = np.array(results.series.no_filter, np.int64)
    summed = counted(results.slaves)
    together = sum(
        (np.array(results.series.slaves[slave.name], np.int64) for slave in summed),
        np.zeros(len(starts), np.int64),
    )
    everyone = whole * len(summed)
    choices = [choice(line(everyone), line(together), (everyone, together))]
    one = line(whole) if groups else {}
    for group in groups:
        own = np.array(results.series.slaves[group.figures.name], np.int64)
        choices.append(choice(one, line(own), (whole, own)))
    data = {
        "height": _HEIGHT,
        "x": {"kind": "time"},
        "y": {"kind": "rate", "unit": "bytes"},
        "lines": [
            {"name": "no filter", "colour": "whole-line", "area": "whole-area", "step": True},
            {"name": "filter on the master", "colour": "master", "area": "master-area", "step": True},
        ],
        "curves": curves,
        "choices": choices,
    }
    everybody = ALL if len(summed) == len(results.slaves) else ALL_COUNTED
    return Chart(data, _HEIGHT, (everybody, *map(_title, groups)) if groups else ())


def _title(group: Group) -> str:
    return visible(group.name) + (f" (×{group.count}, each)" if group.count > 1 else "")


class _Steps:
    """The steps of the curves: equal spans of time of one or more buckets, without long empty times."""

    def __init__(self, starts: Ints, bucket: int, most: int) -> None:
        self._starts = starts
        self._bucket = bucket
        joined = 1
        while True:
            width = bucket * joined
            places = np.unique(starts // width)
            segments = _segments(places)
            n = int((segments[:, 1] - segments[:, 0]).sum())
            if n <= most:
                break
            joined = max(joined + 1, -(-n * joined // most))
        self.width = width
        """The length of a step, seconds."""
        self.segments: list[list[int]] = (segments * width).tolist()
        """The spans that are drawn, Unix seconds."""
        lengths = segments[:, 1] - segments[:, 0]
        before = np.cumsum(lengths) - lengths
        step = starts // width
        of = np.searchsorted(segments[:, 0], step, side="right") - 1
        self._place: Ints = before[of] + step - segments[of, 0]
        self._n = n

    def curve(self, values: Ints) -> tuple[list[float], list[float]]:
        """Return for each step the mean and the largest bytes a second of its buckets."""
        sums = np.zeros(self._n, np.int64)
        np.add.at(sums, self._place, values)
        most = np.zeros(self._n, np.int64)
        np.maximum.at(most, self._place, values)
        return _short(sums / self.width), _short(most / self._bucket)

    def peak(self, values: Ints, colour: str) -> list[Json]:
        """Return the mark of the bucket with the most bytes; none without bytes."""
        at = int(np.argmax(values))
        if not values[at]:
            return []
        middle = int(self._starts[at]) + self._bucket / 2
        return [{"x": middle, "y": int(values[at]) / self._bucket, "colour": colour}]


def _segments(places: Ints) -> Ints:
    """Return the begin and the end of each span of steps, of shape (n, 2). ``places`` has the steps with traffic,
    ascending."""
    empty = np.diff(places) - 1
    drawn = int(places[-1] - places[0]) + 1
    breaks = []
    for at in np.argsort(-empty)[:_MOST_BREAKS].tolist():
        if empty[at] <= max(_LEAST_EMPTY, _EMPTY_PART * drawn):
            break
        drawn -= int(empty[at])
        breaks.append(at)
    after = np.array(sorted(breaks), np.int64)
    begins = places[np.concatenate([[0], after + 1]).astype(np.int64)]
    ends = places[np.concatenate([after, [len(places) - 1]]).astype(np.int64)] + 1
    return np.stack([begins, ends], axis=1)


def _short(values: npt.NDArray[np.float64]) -> list[float]:
    # Whole numbers need fewer bytes in the page.
    return [
        int(value) if value == int(value) or value >= 1000 else round(value, 1) for value in values.tolist()
    ]
