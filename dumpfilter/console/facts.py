"""Facts: values about an object such as a slave, each declared once, and shown as table column, metric and JSON.

A status table of the console, a scrape and docs/metrics.md use the same declarations. The values are read when a client
asks, so that a fact costs nothing until then.
"""

from __future__ import annotations

import threading
import time
from bisect import bisect_left
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass
from datetime import UTC, datetime
from functools import partial
from itertools import accumulate
from operator import attrgetter
from typing import TYPE_CHECKING, Any, ClassVar, Generic, TypeVar

from dumpfilter.base.options.docstrings import attribute_texts
from dumpfilter.console.sql.result import Column, ColumnType, Result

# The status of a directory does without prometheus_client, which takes 0.05 s to import.
if TYPE_CHECKING:
    from prometheus_client.core import Metric
    from prometheus_client.samples import Sample

WORK_BUCKETS = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5)
"""The histogram buckets for work that takes less than a second on a healthy machine: their upper bounds, seconds."""

DELAY_BUCKETS = (*WORK_BUCKETS[3:], 5.0, 10.0, 60.0, 600.0, 3600.0)
"""The histogram buckets for the time since a transaction's commit: upper bounds, seconds. The bounds reach up to an
hour, because a slave that catches up may be far behind.
"""

T = TypeVar("T")

_SAMPLES_A_TURN = 64
"""The number of samples that a scrape formats before it lets other threads run.

A scrape of 5,000 slaves formats 65,000 samples. Without pauses the master's other threads would wait for the
interpreter lock for 5 ms at a time.
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
            self.observe(time.time() - moment)

    @contextmanager
    def measured(self) -> Iterator[None]:
        """Record the duration of the ``with`` block as one observation of this histogram."""
        begin = time.perf_counter()
        try:
            yield
        finally:
            self.observe(time.perf_counter() - begin)

    def buckets(self) -> tuple[list[tuple[str, int]], float]:
        """Return the buckets of the histogram, and the sum of all recorded durations, seconds. A bucket is a pair: its
        upper bound as text, and the number of durations up to this bound. The last bound is ``+Inf``.
        """
        from prometheus_client.utils import floatToGoString

        with self._lock:
            counts, total = list(self._counts), self._sum
        bounds = [*map(floatToGoString, self._bounds), "+Inf"]
        return list(zip(bounds, accumulate(counts), strict=True)), total


@dataclass
class Fact:
    """The declaration of one value that can be read about an object, such as the GTID set of a slave.

    The class attribute to which the declaration is assigned gives the value its name. A fact can be shown as a column
    of a status table, as a Prometheus metric, and as a JSON member.
    """

    read: Callable[[Any], Any] | str = ""
    """The function that returns the value for an object, or None for no value. A text instead of a function is an
    attribute path of the object, such as ``counts.bytes_sent``. The empty text stands for the attribute with the fact's
    name.
    """
    type: ColumnType | type[Latency] = ColumnType.INTEGER
    """The type of the column, or ``Latency`` for a histogram. The value of a ``TIMESTAMP`` is a Unix time, seconds."""
    metric: str = ""
    """The name of the Prometheus metric; a counter's name ends with ``_total``. Empty: the value is not a metric."""
    is_column: bool = True
    """Whether the declared value is a column of a status table and a JSON member."""
    name: str = ""
    owner: Any = None
    """The class whose attribute this declaration is."""

    @property
    def help(self) -> str:
        """The help text of the Prometheus metric. The text is the string literal after the attribute that declares the
        metric. Without such a literal the text is empty.
        """
        return attribute_texts(self.owner).get(self.name, "")

    @property
    def kind(self) -> str:
        """The type of this fact's Prometheus metric: ``counter``, ``gauge`` or ``histogram``."""
        if self.type is Latency:
            return "histogram"
        return "counter" if self.metric.endswith("_total") else "gauge"

    @property
    def reader(self) -> Callable[[Any], Any]:
        """The function that returns this fact's value (such as a GTID set) for a given object (such as a slave). The
        function returns None if the object has no such value.
        """
        return self.read if callable(self.read) else attrgetter(self.read or self.name)


column = Fact
"""The declaration of a column of a status table, which is also a Prometheus metric if ``metric`` names one."""

metric = partial(Fact, is_column=False)
"""The declaration of a Prometheus metric that is not in a status table. The metric has the name of the class attribute,
after the prefix of the class.
"""


class Facts(Generic[T]):
    """The facts about objects of one type, such as slaves: values that are shown as table columns or metrics.

    The attributes of a subclass declare the facts by :func:`column` and :func:`metric`, in the order of the columns.
    The string literal after an attribute is the help text of its metric. ``prefix`` is put before the name of each
    metric. ``labels`` are the labels of the metrics: for each name, the function that returns the label's value for an
    object.
    """

    labels: ClassVar[Mapping[str, Callable[[Any], str]]]
    metrics: ClassVar[list[Fact]]
    """The declared values (facts) about an object that are Prometheus metrics, in the order of docs/metrics.md."""
    columns: ClassVar[tuple[Column, ...]]
    """The columns of the status table that shows the declared values, such as those about slaves."""
    _cells: ClassVar[dict[str, tuple[Any, Callable[[Any], Any]]]]

    def __init_subclass__(
        cls, prefix: str = "", labels: Mapping[str, Callable[[Any], str]] | None = None
    ) -> None:
        facts = {name: fact for name, fact in vars(cls).items() if isinstance(fact, Fact)}
        for name, fact in facts.items():
            fact.name, fact.owner = name, cls
            if fact.metric or not fact.is_column:
                fact.metric = prefix + (fact.metric or name)
        cls.labels = labels or {}
        cls.metrics = [fact for fact in facts.values() if fact.metric]
        cls._cells = {name: (fact.type, fact.reader) for name, fact in facts.items() if fact.is_column}
        cls.columns = tuple(Column(name, kind) for name, (kind, _) in cls._cells.items())

    @classmethod
    def table(cls, things: Iterable[T]) -> Result:
        """Return a status table about the objects ``things``, such as slaves. Each object is a row, and each declared
        value that a status table shows is a column.
        """
        cells = cls._cells.values()
        return Result(cls.columns, [[_cell(kind, read(thing)) for kind, read in cells] for thing in things])

    @classmethod
    def document(cls, thing: T, names: Container[str] | None = None) -> dict[str, Any]:
        """Return the values (facts) of the object ``thing``, such as a slave, by the names of the columns in the table
        that shows such objects.

        JSON can represent the result. Times are Unix times, seconds. With ``names`` only the facts of these names are
        read.
        """
        return {name: read(thing) for name, (_, read) in cls._cells.items() if names is None or name in names}

    @classmethod
    def families(cls, things: Iterable[T]) -> Iterator[Metric]:
        """Yield the Prometheus metrics about the objects ``things``, such as slaves, one metric for each declared
        value.

        A metric has one sample for each object. An object without the value has no sample.
        """
        from prometheus_client import core

        labelled = [([of(thing) for of in cls.labels.values()], thing) for thing in things]
        for fact in cls.metrics:
            read, family = fact.reader, getattr(core, f"{fact.kind.capitalize()}MetricFamily")
            metric = family(fact.metric, fact.help, labels=cls.labels)
            for labels, thing in labelled:
                if (value := read(thing)) is not None:
                    metric.add_metric(labels, *(value.buckets() if fact.type is Latency else [value]))
            metric.samples = _Samples(metric.samples)
            yield metric


def _cell(kind: ColumnType, value: Any) -> Any:
    if kind is ColumnType.TIMESTAMP and value is not None:
        return datetime.fromtimestamp(value, UTC)
    return int(value) if isinstance(value, bool) else value


class _Samples(list["Sample"]):
    """A list of a metric's samples. Its iteration pauses now and then, so that other threads run while Prometheus'
    request is answered, for which all samples are formatted.
    """

    def __iter__(self) -> Iterator[Sample]:
        for number, sample in enumerate(super().__iter__(), 1):
            if number % _SAMPLES_A_TURN == 0:
                time.sleep(0)
            yield sample
