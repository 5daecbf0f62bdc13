"""The recording of durations, which Prometheus shows as histograms."""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from itertools import accumulate
from time import perf_counter
from time import time as unix_time

from prometheus_client.samples import Sample
from prometheus_client.utils import floatToGoString

WORK_BUCKETS = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5)
"""The histogram buckets for work that takes less than a second on a healthy machine: their upper bounds, seconds."""

DELAY_BUCKETS = (*WORK_BUCKETS[3:], 5.0, 10.0, 60.0, 600.0, 3600.0)
"""The histogram buckets for the time since a transaction's commit: upper bounds, seconds. A slave that catches up is
hours behind.
"""


class Latency:
    """A histogram of durations in seconds, which Prometheus reads as a metric. Any thread may record.

    A master with 1,000 slaves records thousands of durations a second. The Histogram of prometheus_client takes more
    than twice as long for each of them, so that this class replaces it.
    """

    def __init__(self, bounds: tuple[float, ...]) -> None:
        """Count durations in buckets with the upper bounds ``bounds``, seconds, and in one bucket for longer
        durations.
        """
        self._bounds = bounds
        self._counts = [0] * (len(self._bounds) + 1)
        self._sum = 0.0
        self._lock = threading.Lock()

    def observe(self, seconds: float) -> None:
        """Record one duration, seconds. A negative duration, from the different clocks of two machines, counts as 0."""
        if seconds < 0:
            seconds = 0.0
        bucket = bisect_left(self._bounds, seconds)
        with self._lock:
            self._counts[bucket] += 1
            self._sum += seconds

    def observe_since(self, moment: float | None) -> None:
        """Record the time that has passed since ``moment``, a Unix time in seconds. None records nothing."""
        if moment is not None:
            self.observe(unix_time() - moment)

    @contextmanager
    def measured(self) -> Iterator[None]:
        """Record the duration of the ``with`` block as one observation of this histogram."""
        begin = perf_counter()
        try:
            yield
        finally:
            self.observe(perf_counter() - begin)

    def samples(self, name: str, labels: Mapping[str, str]) -> list[Sample]:
        """Return the histogram's samples for Prometheus. ``name`` is the metric's name, and ``labels`` are added to
        each sample.
        """
        with self._lock:
            counts, total = list(self._counts), self._sum
        bounds = [*map(floatToGoString, self._bounds), "+Inf"]
        found = [
            Sample(f"{name}_bucket", {**labels, "le": bound}, count)
            for bound, count in zip(bounds, accumulate(counts), strict=True)
        ]
        ends = {"count": sum(counts), "sum": total}
        return found + [Sample(f"{name}_{part}", dict(labels), value) for part, value in ends.items()]
