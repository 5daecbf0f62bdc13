"""Facts: values about an object such as a slave. Each is declared once, and shown as table column, Prometheus metric
and JSON.

A status table of the console, a scrape of Prometheus and docs/metrics.md use the same declarations. The values are read
when a client asks. A fact therefore costs nothing until then.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from operator import attrgetter
from typing import Any, Generic, NamedTuple, TypeVar

from prometheus_client.core import Metric
from prometheus_client.samples import Sample

from dumpfilter.base.options.docstrings import attribute_texts
from dumpfilter.console.metrics.latency import Latency
from dumpfilter.console.sql.result import Column, ColumnType, Result

T = TypeVar("T")

_SAMPLES_A_TURN = 64
"""The number of samples that a scrape formats before it lets other threads run.

A scrape of 5,000 slaves formats 65,000 samples. Without pauses the master's other threads would wait for the
interpreter lock for 5 ms at a time.
"""


class Fact(NamedTuple):
    """The declaration of one value that can be read about an object, such as the GTID set of a slave.

    A fact can be shown as a column of a status table, as a Prometheus metric, and as a JSON member.
    """

    name: str
    """The name of the column and of the JSON member. An empty name means that the fact is only a metric."""
    type: ColumnType | type[Latency] = ColumnType.INTEGER
    """The type of the column, or ``Latency`` for a histogram. The value of a ``TIMESTAMP`` is a Unix time, seconds."""
    read: Callable[[Any], Any] | str = ""
    """The function that returns the value for an object, or None for no value. A text is an attribute path instead,
    such as ``counts.bytes_sent``; the default is ``name``.
    """
    metric: str = ""
    """The name of the Prometheus metric; a counter's name ends with ``_total``. Empty: the fact is not a metric."""
    help: str = ""

    @property
    def kind(self) -> str:
        """The type of this value's metric in Prometheus: ``counter``, ``gauge`` or ``histogram``."""
        if self.type is Latency:
            return "histogram"
        return "counter" if self.metric.endswith("_total") else "gauge"

    @property
    def family(self) -> str:
        """The name of this value's Prometheus metric without ``_total``, which prometheus_client adds to the samples of
        a counter.
        """
        return self.metric.removesuffix("_total")

    @property
    def reader(self) -> Callable[[Any], Any]:
        """The function that reads this value from an object. It returns None if the object has no such value."""
        return self.read if callable(self.read) else attrgetter(self.read or self.name)


_ATTRIBUTE = "*"
"""The placeholder in a declaration for the name of the attribute to which the declaration is assigned."""


def column(
    read: Callable[[Any], Any] | str = "", type: ColumnType = ColumnType.INTEGER, *, metric: str = ""
) -> Fact:
    """Declare a value as a column of a status table. The column has the name of the class attribute to which the result
    is assigned.

    ``read`` returns the value for an object, or is the path of an attribute of the object, such as
    ``counts.bytes_sent``. With ``metric`` the column is also a Prometheus metric of that name; ``*`` in the name stands
    for the class attribute's name.
    """
    return Fact(_ATTRIBUTE, type, read, metric)


def metric(
    read: Callable[[Any], Any] | str = _ATTRIBUTE, type: ColumnType | type[Latency] = ColumnType.INTEGER
) -> Fact:
    """Declare a value as a Prometheus metric that is not in a status table. The metric has the name of the class
    attribute to which the result is assigned.

    ``read`` returns the value for an object, or is the path of an attribute of the object, such as
    ``counts.bytes_sent``.
    """
    return Fact("", type, read, _ATTRIBUTE)


def declared(body: type, prefix: str) -> tuple[Fact, ...]:
    """Return the facts (values shown as columns or metrics) that the class ``body`` declares by :func:`column` and
    :func:`metric`.

    The string literal after an attribute is the help text of its metric. ``prefix`` is put before the name of each
    metric.
    """
    texts = attribute_texts(body)
    return tuple(
        Fact(
            name if fact.name else "",
            fact.type,
            name if fact.read == _ATTRIBUTE else fact.read,
            f"{prefix}{fact.metric.replace(_ATTRIBUTE, name)}" if fact.metric else "",
            texts.get(name, ""),
        )
        for name, fact in vars(body).items()
        if isinstance(fact, Fact)
    )


@dataclass(frozen=True)
class Facts(Generic[T]):
    """The facts about objects of one type, such as slaves. A fact is a value that is shown as a table column or a
    metric.

    The order is that of the columns.
    """

    facts: tuple[Fact, ...]
    labels: Mapping[str, Callable[[T], str]] = field(default_factory=dict)
    """The labels of the metrics: for each name, the function that returns the label's value for an object."""

    @cached_property
    def metrics(self) -> tuple[Fact, ...]:
        """The facts (values about an object) that are Prometheus metrics, in the order of docs/metrics.md."""
        return tuple(fact for fact in self.facts if fact.metric)

    @cached_property
    def columns(self) -> tuple[Column, ...]:
        """The columns of the status table that shows these facts: one for each fact (value about an object) with a
        name.
        """
        return tuple(Column(fact.name, ColumnType(fact.type)) for fact in self.facts if fact.name)

    @cached_property
    def _readers(self) -> tuple[tuple[str, ColumnType | type[Latency], Callable[[T], Any]], ...]:
        return tuple((fact.name, fact.type, fact.reader) for fact in self.facts if fact.name)

    def table(self, things: Iterable[T]) -> Result:
        """Return a status table with one row for each of the objects ``things``. Each fact (value about an object) with
        a name is a column.
        """
        return Result(
            self.columns,
            [[_cell(kind, read(thing)) for _, kind, read in self._readers] for thing in things],
        )

    def document(self, thing: T, names: Container[str] | None = None) -> dict[str, Any]:
        """Return the facts (values) about the object ``thing`` by name, in a form that JSON can represent.

        Times are Unix times, seconds. With ``names`` only the facts of these names are read.
        """
        return {name: read(thing) for name, _, read in self._readers if names is None or name in names}

    def families(self, things: Iterable[T]) -> Iterator[Metric]:
        """Yield the Prometheus metrics of these facts. Each has one sample for each of the objects ``things`` with a
        value.
        """
        labelled = [({name: of(thing) for name, of in self.labels.items()}, thing) for thing in things]
        for fact in self.metrics:
            name, read = fact.metric, fact.reader
            metric = Metric(fact.family, fact.help, fact.kind)
            values = ((labels, read(thing)) for labels, thing in labelled)
            if fact.type is Latency:
                samples = [sample for labels, latency in values for sample in latency.samples(name, labels)]
            else:
                samples = [Sample(name, labels, value) for labels, value in values if value is not None]
            metric.samples = _Samples(samples)
            yield metric


def _cell(kind: ColumnType | type[Latency], value: Any) -> Any:
    if kind is ColumnType.TIMESTAMP and value is not None:
        return datetime.fromtimestamp(value, UTC)
    return int(value) if isinstance(value, bool) else value


class _Samples(list[Sample]):
    """A list of samples whose iteration pauses now and then, so that other threads run while the scrape formats the
    samples.
    """

    def __iter__(self) -> Iterator[Sample]:
        for number, sample in enumerate(super().__iter__(), 1):
            if number % _SAMPLES_A_TURN == 0:
                time.sleep(0)
            yield sample
