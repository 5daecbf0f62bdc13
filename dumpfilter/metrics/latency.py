"""The recording of durations, which Prometheus shows as histograms."""

from __future__ import annotations

import threading
from bisect import bisect_left
from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from itertools import accumulate
from time import perf_counter
from time import time as unix_time

from prometheus_client.core import Metric
from prometheus_client.samples import Sample
from prometheus_client.utils import floatToGoString

from dumpfilter.metrics.definition import Definition, Labels

WORK_BUCKETS = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5)
"""The buckets of work that takes less than a second on a healthy machine, seconds."""

DELAY_BUCKETS = (
    0.001,
    0.0025,
    0.005,
    0.01,
    0.025,
    0.05,
    0.1,
    0.25,
    0.5,
    1.0,
    2.5,
    5.0,
    10.0,
    60.0,
    600.0,
    3600.0,
)
"""The buckets of the time since a transaction was committed, seconds. A slave that catches up is hours behind."""


class Latency:
    """A recorder of durations in seconds. Any thread may record.

    prometheus_client's Histogram takes more than twice as long for an observation. A master with 1,000 slaves makes
    thousands of observations a second.
    """

    def __init__(self, definition: Definition) -> None:
        self.definition = definition
        self._bounds = definition.buckets
        self._counts = [0] * (len(self._bounds) + 1)
        self._sum = 0.0
        self._lock = threading.Lock()

    def observe(self, seconds: float) -> None:
        """Record one duration. Clocks of two machines can differ, so that a negative duration counts as 0."""
        if seconds < 0:
            seconds = 0.0
        bucket = bisect_left(self._bounds, seconds)
        with self._lock:
            self._counts[bucket] += 1
            self._sum += seconds

    def observe_since(self, moment: float | None) -> None:
        """Record the time since a moment, which is a Unix time. None is not recorded."""
        if moment is not None:
            self.observe(unix_time() - moment)

    @contextmanager
    def measured(self) -> Iterator[None]:
        """Record the duration of the ``with`` block."""
        begin = perf_counter()
        try:
            yield
        finally:
            self.observe(perf_counter() - begin)

    def samples(self, labels: Labels | None = None) -> list[Sample]:
        """Return the histogram's samples, with ``labels`` added to each."""
        name, labels = self.definition.name, dict(labels or {})
        with self._lock:
            counts, total = list(self._counts), self._sum
        bounds = [*map(floatToGoString, self._bounds), "+Inf"]
        found = [
            Sample(f"{name}_bucket", {**labels, "le": bound}, count)
            for bound, count in zip(bounds, accumulate(counts), strict=True)
        ]
        return [*found, Sample(f"{name}_count", labels, sum(counts)), Sample(f"{name}_sum", labels, total)]


def family_of(definition: Definition, latencies: Iterable[tuple[Labels, Latency]]) -> Metric:
    """Return one metric with the samples of several recorders, each with labels of its own."""
    return definition.with_samples(
        [sample for labels, latency in latencies for sample in latency.samples(labels)]
    )
