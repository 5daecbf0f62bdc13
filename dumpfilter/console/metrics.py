"""The metrics of a master or slave: their declaration as facts, and the HTTP endpoint that Prometheus scrapes.

A fact is a value about an object such as a slave. It is declared once, and shown as table column, metric and JSON. A
status table of the console, a scrape and docs/metrics.md use the same declarations. The values are read when a client
asks, so that a fact costs nothing until then.

On loopback the endpoint speaks plain HTTP. On other addresses it speaks HTTPS, and Prometheus must show a certificate.
prometheus_client's own server has no limits and lets one silent client block a TLS server. Therefore this module has a
loop with limits around prometheus_client's handler of requests.
"""

from __future__ import annotations

import asyncio
import io
import platform
import socket
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
from typing import Any, ClassVar, Generic, TypeVar

import structlog
from prometheus_client import CollectorRegistry, MetricsHandler, ProcessCollector
from prometheus_client.core import Metric
from prometheus_client.registry import Collector
from prometheus_client.samples import Sample
from prometheus_client.utils import floatToGoString

from dumpfilter.base.errors import DumpfilterError
from dumpfilter.base.options.docstrings import attribute_texts
from dumpfilter.base.security import listening
from dumpfilter.console.serving_loop import ServingLoop, accepted
from dumpfilter.console.sql.result import Column, ColumnType, Result

log = structlog.get_logger("dumpfilter.console.metrics")

WORK_BUCKETS = (0.0001, 0.00025, 0.0005, 0.001, 0.0025, 0.005, 0.01, 0.025, 0.05, 0.1, 0.25, 0.5, 1.0, 2.5)
"""The histogram buckets for work that takes less than a second on a healthy machine: their upper bounds, seconds."""

DELAY_BUCKETS = (*WORK_BUCKETS[3:], 5.0, 10.0, 60.0, 600.0, 3600.0)
"""The histogram buckets for the time since a transaction's commit: upper bounds, seconds. A slave that catches up is
hours behind.
"""

T = TypeVar("T")
_SAMPLES_A_TURN = 64
"""The number of samples that a scrape formats before it lets other threads run.

A scrape of 5,000 slaves formats 65,000 samples. Without pauses the master's other threads would wait for the
interpreter lock for 5 ms at a time.
"""

MAX_SCRAPES = 8
"""The limit of concurrent connections. For a further one, the oldest that has not sent its request yet is closed."""
SCRAPE_SECONDS = 30.0
"""The time limit of a connection to the HTTP endpoint for Prometheus, seconds."""


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


@dataclass
class Fact:
    """The declaration of one value that can be read about an object, such as the GTID set of a slave.

    The class attribute to which the declaration is assigned gives the value its name. A fact can be shown as a column
    of a status table, as a Prometheus metric, and as a JSON member.
    """

    read: Callable[[Any], Any] | str = ""
    """The function that returns the value for an object, or None for no value. A text is an attribute path instead,
    such as ``counts.bytes_sent``; the default is the fact's name.
    """
    type: ColumnType | type[Latency] = ColumnType.INTEGER
    """The type of the column, or ``Latency`` for a histogram. The value of a ``TIMESTAMP`` is a Unix time, seconds."""
    metric: str = ""
    """The name of the Prometheus metric; a counter's name ends with ``_total``. Empty: the fact is not a metric."""
    is_column: bool = True
    """Whether the fact is a column of a status table and a JSON member."""
    name: str = ""
    help: str = ""

    @property
    def kind(self) -> str:
        """The type of this value's metric in Prometheus: ``counter``, ``gauge`` or ``histogram``."""
        if self.type is Latency:
            return "histogram"
        return "counter" if self.metric.endswith("_total") else "gauge"

    @property
    def reader(self) -> Callable[[Any], Any]:
        """The function that reads this value from an object. It returns None if the object has no such value."""
        return self.read if callable(self.read) else attrgetter(self.read or self.name)


column = Fact
"""The declaration of a column of a status table, which is also a Prometheus metric if ``metric`` names one."""

metric = partial(Fact, is_column=False)
"""The declaration of a Prometheus metric that is not in a status table. It has the name of the class attribute."""


class Facts(Generic[T]):
    """The facts about objects of one type, such as slaves: values that are shown as table columns or metrics.

    The attributes of a subclass declare them by :func:`column` and :func:`metric`, in the order of the columns. The
    string literal after an attribute is the help text of its metric. ``prefix`` is put before the name of each metric.
    ``labels`` are the labels of the metrics: for each name, the function that returns the label's value for an object.
    """

    labels: ClassVar[Mapping[str, Callable[[Any], str]]]
    metrics: ClassVar[list[Fact]]
    """The facts that are Prometheus metrics, in the order of docs/metrics.md."""
    columns: ClassVar[tuple[Column, ...]]
    """The columns of the status table that shows these facts."""
    _cells: ClassVar[dict[str, tuple[ColumnType | type[Latency], Callable[[Any], Any]]]]

    def __init_subclass__(
        cls, prefix: str = "", labels: Mapping[str, Callable[[Any], str]] | None = None
    ) -> None:
        facts = {name: fact for name, fact in vars(cls).items() if isinstance(fact, Fact)}
        texts = attribute_texts(cls)
        for name, fact in facts.items():
            fact.name, fact.help = name, texts.get(name, "")
            if fact.metric or not fact.is_column:
                fact.metric = prefix + (fact.metric or name)
        cls.labels = labels or {}
        cls.metrics = [fact for fact in facts.values() if fact.metric]
        cls._cells = {name: (fact.type, fact.reader) for name, fact in facts.items() if fact.is_column}
        cls.columns = tuple(Column(name, ColumnType(kind)) for name, (kind, _) in cls._cells.items())

    @classmethod
    def table(cls, things: Iterable[T]) -> Result:
        """Return a status table with one row for each of the objects ``things``."""
        cells = cls._cells.values()
        return Result(cls.columns, [[_cell(kind, read(thing)) for kind, read in cells] for thing in things])

    @classmethod
    def document(cls, thing: T, names: Container[str] | None = None) -> dict[str, Any]:
        """Return the facts (values) about the object ``thing`` by name, in a form that JSON can represent.

        Times are Unix times, seconds. With ``names`` only the facts of these names are read.
        """
        return {name: read(thing) for name, (_, read) in cls._cells.items() if names is None or name in names}

    @classmethod
    def families(cls, things: Iterable[T]) -> Iterator[Metric]:
        """Yield the Prometheus metrics of these facts. Each has one sample for each of the objects ``things`` with a
        value.
        """
        labelled = [({name: of(thing) for name, of in cls.labels.items()}, thing) for thing in things]
        for fact in cls.metrics:
            name, read = fact.metric, fact.reader
            # prometheus_client adds _total to the samples of a counter.
            metric = Metric(name.removesuffix("_total"), fact.help, fact.kind)
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


class Process(
    Facts[str], prefix="dumpfilter_", labels={"version": str, "python": lambda _: platform.python_version()}
):
    """The metrics that a master and a slave have in common. prometheus_client's ``process_…`` metrics come with
    them.
    """

    build_info = metric(lambda _: 1.0)
    """The version of dumpfilter and of Python, as labels. The value is always 1."""


class CommonCollector(Collector):
    """A Prometheus collector of the metrics that every process has: the versions of dumpfilter and Python, and the use
    of the machine.

    ``version`` is the version of dumpfilter.
    """

    def __init__(self, version: str) -> None:
        self._version = version
        self._process = ProcessCollector(registry=None)

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics of the version, memory, processor time, open files, and start time."""
        yield from Process.families([self._version])
        yield from self._process.collect()


@dataclass(frozen=True)
class MetricsEndpoint(listening.Endpoint):
    """The settings of the HTTP endpoint from which Prometheus reads the metrics of a master or slave.

    An address that other machines can reach needs the certificate and key of the process, unless ``insecure`` is set.
    """

    @property
    def uses_tls(self) -> bool:
        """Whether Prometheus must use HTTPS and show a certificate to read the metrics from this endpoint."""
        return not listening.is_loopback(self.host) and not self.insecure

    def url(self, port: int) -> str:
        """Return the URL that Prometheus scrapes, on the TCP port ``port``."""
        return f"{'https' if self.uses_tls else 'http'}://{listening.host_and_port(self.host, port)}/metrics"

    def check(self) -> None:
        """Raise Exposed if other machines could read the metrics without TLS, or without a client certificate.

        ``insecure`` turns the error into a warning in the log.
        """
        tls, lacks = None if self.insecure else self.tls, []
        if tls is None:
            lacks.append(listening.Lack("without TLS", "give --tls-cert and --tls-key"))
        if tls is None or tls.current().ca is None:
            lacks.append(
                listening.Lack("without a login", "give --tls-ca, the CA of Prometheus' certificate")
            )
        warning = listening.check_listener(
            "the metrics' endpoint",
            "--metrics-address",
            self.host,
            lacks,
            insecure=self.insecure,
            permit="--metrics-insecure",
        )
        if warning is not None:
            log.warning("insecure", reason=warning)


@contextmanager
def serving_metrics(
    endpoint: MetricsEndpoint | None, collectors: Callable[[], Iterable[Collector]]
) -> Iterator[str | None]:
    """Serve metrics as long as the ``with`` block runs, and yield the URL for Prometheus. Without an endpoint, yield
    None.

    ``collectors`` returns prometheus_client's collectors, which read the metrics at each scrape. Raises OptionError
    when the address cannot be used, and Exposed when other machines could read the metrics without a certificate.
    """
    if endpoint is None:
        yield None
        return
    endpoint.check()
    collected = CollectorRegistry(auto_describe=False)
    for collector in collectors():
        collected.register(collector)
    listener = listening.listening_socket(
        "cannot serve metrics on",
        endpoint.host,
        endpoint.port,
        "choose others with --metrics-address and --metrics-port",
    )
    handler = _Request.factory(collected)
    port, loop = listener.getsockname()[1], ServingLoop("metrics")
    loop.start()
    try:
        with loop.running(_accept(listener, endpoint, handler)):
            endpoint.write_port(port)
            yield endpoint.url(port)
    finally:
        loop.end()


class _Request(MetricsHandler):
    """The handler of one HTTP request, which is read from memory and answered there."""

    def setup(self) -> None:
        self.rfile, self.wfile = io.BytesIO(self.request), io.BytesIO()

    def finish(self) -> None:
        """Keep the answer."""


async def _accept(listener: socket.socket, endpoint: MetricsEndpoint, handler: Callable[..., Any]) -> None:
    """Accept connections from the listening socket until this task is cancelled, and answer their requests by
    ``handler``. All run in one asyncio loop, so that scrapes run one at a time.
    """
    loop = asyncio.get_running_loop()
    is_silent: dict[Any, bool] = {}
    """The tasks of the connections, the oldest first, and whether each has not received its request yet."""

    async def answer(client: socket.socket, peer: str) -> None:
        reader, transport = asyncio.StreamReader(), None
        protocol = asyncio.StreamReaderProtocol(reader)
        try:
            async with asyncio.timeout(SCRAPE_SECONDS):
                tls = endpoint.tls.current().context if endpoint.tls and endpoint.uses_tls else None
                transport, _ = await loop.connect_accepted_socket(lambda: protocol, client, ssl=tls)
                if tls is not None and not transport.get_extra_info("peercert"):
                    log.warning("metrics refused", peer=peer, reason="the client shows no certificate")
                    return
                request = await reader.readuntil(b"\r\n\r\n")
                is_silent[asyncio.current_task()] = False
                writer = asyncio.StreamWriter(transport, protocol, reader, loop)
                writer.write(handler(request, peer, None).wfile.getvalue())
                writer.close()
                await writer.wait_closed()
        except Exception as error:
            expected = isinstance(error, (OSError, EOFError, DumpfilterError, asyncio.LimitOverrunError))
            (log.debug if expected else log.error)("scrape failed", peer=peer, error=repr(error))
        finally:
            (transport.abort if transport else client.close)()

    with listener:
        async with asyncio.TaskGroup() as clients:
            async for client, address in accepted(listener):
                if len(is_silent) >= MAX_SCRAPES:
                    # A client that says nothing must not keep Prometheus out.
                    for oldest in [task for task in is_silent if is_silent[task]][:1]:
                        oldest.cancel()
                    await asyncio.wait(is_silent, return_when=asyncio.FIRST_COMPLETED)
                task = clients.create_task(answer(client, address[0]))
                is_silent[task] = True
                task.add_done_callback(is_silent.pop)
