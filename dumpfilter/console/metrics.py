"""The metrics of a master or slave: their declaration as facts, and the HTTP endpoint that Prometheus scrapes.

A fact is a value about an object such as a slave. It is declared once, and shown as table column, metric and JSON. A
status table of the console, a scrape and docs/metrics.md use the same declarations. The values are read when a client
asks, so that a fact costs nothing until then.

On loopback the endpoint speaks plain HTTP. On other addresses it speaks HTTPS, and Prometheus must show a certificate.
prometheus_client's own server has no limits and lets one silent client block a TLS server. Therefore this module has a
server with limits around prometheus_client's WSGI application.
"""

from __future__ import annotations

import platform
import socket
import ssl
import sys
import threading
import time
from bisect import bisect_left
from collections.abc import Callable, Container, Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from itertools import accumulate
from operator import attrgetter
from socketserver import ThreadingMixIn
from time import perf_counter
from time import time as unix_time
from typing import TYPE_CHECKING, Any, Generic, NamedTuple, TypeVar
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

import structlog
from prometheus_client import CollectorRegistry, ProcessCollector, make_wsgi_app
from prometheus_client.core import Metric
from prometheus_client.registry import Collector
from prometheus_client.samples import Sample
from prometheus_client.utils import floatToGoString

from dumpfilter.base.errors import DumpfilterError
from dumpfilter.base.options.docstrings import attribute_texts
from dumpfilter.base.security.listening import (
    Endpoint,
    Lack,
    check_listener,
    host_and_port,
    is_loopback,
    listening_socket,
)
from dumpfilter.console.sql.result import Column, ColumnType, Result

# At run time this import would load a large package that an endpoint without TLS does not need.
if TYPE_CHECKING:
    from dumpfilter.base.security.tls import TlsSource

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

_ATTRIBUTE = "*"
"""The placeholder in a declaration for the name of the attribute to which the declaration is assigned."""

MAX_SCRAPES = 8
"""The limit of concurrent connections. For a further one, the oldest that has not sent its request yet is closed."""
_ROOM_SECONDS = 1.0
"""The time limit for a closed connection to make room for a new one, seconds."""
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


PROCESS_FACTS: Facts[str] = Facts(
    (
        Fact(
            "",
            read=lambda _: 1.0,
            metric="dumpfilter_build_info",
            help="The version of dumpfilter and of Python, as labels. The value is always 1.",
        ),
    ),
    labels={"version": str, "python": lambda _: platform.python_version()},
)
"""The metrics that a master and a slave have in common. prometheus_client's ``process_…`` metrics come with them."""


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
        yield from PROCESS_FACTS.families([self._version])
        yield from self._process.collect()


@dataclass(frozen=True)
class MetricsEndpoint(Endpoint):
    """The settings of the HTTP endpoint from which Prometheus reads the metrics of a master or slave.

    An address that other machines can reach needs the certificate and key of the process, unless ``insecure`` is set.
    """

    @property
    def uses_tls(self) -> bool:
        """Whether Prometheus must use HTTPS and show a certificate to read the metrics from this endpoint."""
        return not is_loopback(self.host) and not self.insecure

    def url(self, port: int) -> str:
        """Return the URL that Prometheus scrapes, on the TCP port ``port``."""
        return f"{'https' if self.uses_tls else 'http'}://{host_and_port(self.host, port)}/metrics"

    def check(self) -> None:
        """Raise Exposed if other machines could read the metrics without TLS, or without a client certificate.

        ``insecure`` turns the error into a warning in the log.
        """
        lacks = []
        if self.insecure:
            lacks.append(Lack("without TLS and without a login", "give --tls-cert, --tls-key and --tls-ca"))
        elif self.tls is None:
            lacks.append(Lack("without TLS", "give --tls-cert and --tls-key"))
        if not self.insecure and (self.tls is None or self.tls.current().ca is None):
            lacks.append(Lack("without a login", "give --tls-ca, the CA of Prometheus' certificate"))
        warning = check_listener(
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
    listener = listening_socket(
        "cannot serve metrics on",
        endpoint.host,
        endpoint.port,
        "choose others with --metrics-address and --metrics-port",
    )
    server = _Server(listener, endpoint.tls if endpoint.uses_tls else None, collected)
    thread = threading.Thread(target=server.serve_forever, name="metrics", daemon=True)
    thread.start()
    try:
        endpoint.write_port(server.server_port)
        yield endpoint.url(server.server_port)
    finally:
        server.shutdown()
        thread.join()
        server.server_close()


class _Handler(WSGIRequestHandler):
    """A handler of one HTTP request."""

    server: _Server

    def parse_request(self) -> bool:
        """Read the request's header, and tell the server that the client has sent it."""
        is_right = super().parse_request()
        self.server.silent.pop(self.client_address, None)
        return is_right

    def log_message(self, format: str, *args: Any) -> None:
        """Write no log line, because Prometheus would cause one every few seconds."""


class _Server(ThreadingMixIn, WSGIServer):
    """An HTTP server with a thread for each connection, and with limits on the number and duration of connections."""

    daemon_threads = True
    block_on_close = False

    def __init__(self, listener: socket.socket, tls: TlsSource | None, registry: CollectorRegistry) -> None:
        host, port = listener.getsockname()[:2]
        super().__init__((host, port), _Handler, bind_and_activate=False)
        self.socket.close()
        self.socket = listener
        self.server_name, self.server_port = host, port
        self.setup_environ()
        self._app = make_wsgi_app(registry)
        self._scraping = threading.Lock()
        self.set_app(self._scrape)
        self._tls = tls
        self._places = threading.Semaphore(MAX_SCRAPES)
        self.silent: dict[Any, socket.socket] = {}
        """The connections that have not sent their request yet, by the client's address, the oldest first."""

    def _scrape(self, environ: Any, start_response: Any) -> Any:
        """Answer one request. Scrapes run one at a time."""
        with self._scraping:
            return self._app(environ, start_response)

    def process_request(self, request: Any, client_address: Any) -> None:
        if not self._places.acquire(blocking=False):
            # A client that says nothing must not keep Prometheus out.
            for oldest in list(self.silent.values())[:1]:
                _cut(oldest)
            if not self._places.acquire(timeout=_ROOM_SECONDS if self.silent else 0):
                self.shutdown_request(request)
                return
        self.silent[client_address] = request
        try:
            super().process_request(request, client_address)
        except RuntimeError:
            # The system refuses a thread. One scrape fails, and the server goes on.
            self.silent.pop(client_address, None)
            self._places.release()
            self.shutdown_request(request)

    def process_request_thread(self, request: Any, client_address: Any) -> None:
        try:
            super().process_request_thread(request, client_address)
        finally:
            self.silent.pop(client_address, None)
            self._places.release()

    def finish_request(self, request: Any, client_address: Any) -> None:
        end = threading.Timer(SCRAPE_SECONDS, _cut, [request])
        end.daemon = True
        end.start()
        try:
            if self._tls is None:
                super().finish_request(request, client_address)
            else:
                self._finish_with_tls(self._tls, request, client_address)
        finally:
            end.cancel()

    def _finish_with_tls(self, tls: TlsSource, request: socket.socket, client_address: Any) -> None:
        with tls.current().context.wrap_socket(request.dup(), server_side=True) as encrypted:
            if not encrypted.getpeercert(binary_form=True):
                log.warning(
                    "metrics refused", peer=client_address[0], reason="the client shows no certificate"
                )
                return
            super().finish_request(encrypted, client_address)

    def handle_error(self, request: Any, client_address: Any) -> None:
        error = sys.exception()
        expected = isinstance(error, (OSError, ssl.SSLError, DumpfilterError))
        (log.debug if expected else log.error)("scrape failed", peer=client_address[0], error=repr(error))


def _cut(request: socket.socket) -> None:
    try:
        request.shutdown(socket.SHUT_RDWR)
    except OSError:
        # The client has closed the connection, or the request is complete.
        return
