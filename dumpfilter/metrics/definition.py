"""The definition of a metric: name, kind, help text, labels and buckets, from which exposition and documentation come.

A collector reads the values when Prometheus asks for them (a scrape). Counting therefore costs nothing beyond the
counters that the product keeps anyway.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum
from typing import Generic, TypeVar

from prometheus_client.core import Metric
from prometheus_client.samples import Sample

T = TypeVar("T")

Labels = Mapping[str, str]
"""The values of a sample's labels, by the label's name."""

_BREATH = 64
"""The number of samples after which the scrape lets other threads run.

A scrape of 5,000 slaves formats 65,000 samples. Without pauses the master's other threads would wait for the
interpreter lock for 5 ms at a time.
"""


class Kind(StrEnum):
    """The kinds of metrics, with Prometheus' names."""

    COUNTER = "counter"
    GAUGE = "gauge"
    HISTOGRAM = "histogram"


@dataclass(frozen=True)
class Definition:
    """One metric. Its name is the one that Prometheus shows, so that a counter's name ends with ``_total``."""

    name: str
    kind: Kind
    help: str
    labels: tuple[str, ...] = ()
    buckets: tuple[float, ...] = ()
    """The upper bounds of a histogram's buckets, without +Inf."""

    @property
    def family_name(self) -> str:
        """The name without ``_total``, which prometheus_client adds to the samples of a counter."""
        return self.name.removesuffix("_total") if self.kind is Kind.COUNTER else self.name

    @property
    def series(self) -> tuple[str, ...]:
        """The names of the time series that the metric has in Prometheus."""
        if self.kind is Kind.HISTOGRAM:
            return tuple(f"{self.name}_{part}" for part in ("bucket", "count", "sum"))
        return (self.name,)

    def family(self, values: Iterable[tuple[Labels, float | None]]) -> Metric:
        """Return the metric with one sample for each pair of labels and value. A value of None has no sample."""
        samples = [Sample(self.name, dict(labels), value) for labels, value in values if value is not None]
        return self.with_samples(samples)

    def with_samples(self, samples: Sequence[Sample]) -> Metric:
        """Return the metric with these samples."""
        metric = Metric(self.family_name, self.help, self.kind.value)
        metric.samples = _Samples(samples)
        return metric


@dataclass(frozen=True)
class Reading(Generic[T]):
    """A metric together with the function that reads its value from an object, for example from a slave."""

    definition: Definition
    read: Callable[[T], float | None]
    """Returns the value, or None when the object has no such value at present."""

    def family(self, objects: Sequence[tuple[Labels, T]]) -> Metric:
        """Return the metric with one sample for each object."""
        return self.definition.family((labels, self.read(each)) for labels, each in objects)


class _Samples(list[Sample]):
    """A list of samples that lets other threads run while the scrape formats the samples."""

    def __iter__(self) -> Iterator[Sample]:
        for number, sample in enumerate(super().__iter__(), 1):
            if number % _BREATH == 0:
                time.sleep(0)
            yield sample


def counter(name: str, help: str, labels: tuple[str, ...] = ()) -> Definition:
    return Definition(name, Kind.COUNTER, help, labels)


def gauge(name: str, help: str, labels: tuple[str, ...] = ()) -> Definition:
    return Definition(name, Kind.GAUGE, help, labels)


def histogram(name: str, help: str, buckets: tuple[float, ...], labels: tuple[str, ...] = ()) -> Definition:
    return Definition(name, Kind.HISTOGRAM, help, labels, buckets)
