"""The recording of durations, which Prometheus shows as histograms."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import contextmanager
from time import perf_counter
from time import time as unix_time

from prometheus_client import Histogram
from prometheus_client.core import Metric
from prometheus_client.samples import Sample

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

_CREATED = "_created"
"""The ending of prometheus_client's sample with a histogram's creation time, which no panel needs."""


class Latency:
    """A recorder of durations in seconds. Any thread may record."""

    def __init__(self, definition: Definition) -> None:
        self.definition = definition
        self._histogram = Histogram(
            definition.name, definition.help, registry=None, buckets=definition.buckets
        )

    def observe(self, seconds: float) -> None:
        """Record one duration. Clocks of two machines can differ, so that a negative duration counts as 0."""
        self._histogram.observe(max(0.0, seconds))

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
        (metric,) = self._histogram.collect()
        return [
            sample._replace(labels={**(labels or {}), **sample.labels})
            for sample in metric.samples
            if not sample.name.endswith(_CREATED)
        ]


def family_of(definition: Definition, latencies: Iterable[tuple[Labels, Latency]]) -> Metric:
    """Return one metric with the samples of several recorders, each with labels of its own."""
    return definition.with_samples(
        [sample for labels, latency in latencies for sample in latency.samples(labels)]
    )
