"""The HTTP endpoint that Prometheus scrapes.

On loopback the endpoint speaks plain HTTP. On other addresses it speaks HTTPS, and Prometheus must show a certificate.
prometheus_client's own server has no limits and lets one silent client block a TLS server. Therefore this module has a
server with limits around prometheus_client's WSGI application.
"""

from __future__ import annotations

import socket
import ssl
import sys
import threading
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from socketserver import ThreadingMixIn
from typing import TYPE_CHECKING, Any
from wsgiref.simple_server import WSGIRequestHandler, WSGIServer

import structlog
from prometheus_client import CollectorRegistry, make_wsgi_app
from prometheus_client.registry import Collector

from dumpfilter.base.errors import DumpfilterError
from dumpfilter.base.security.listening import (
    Endpoint,
    Lack,
    check_listener,
    host_and_port,
    is_loopback,
    listening_socket,
)

# At run time this import would load a large package that an endpoint without TLS does not need.
if TYPE_CHECKING:
    from dumpfilter.base.security.tls import TlsSource

log = structlog.get_logger("dumpfilter.console.metrics")

MAX_SCRAPES = 8
"""The limit of concurrent connections. For a further one, the oldest that has not sent its request yet is closed."""

_ROOM_SECONDS = 1.0
"""The time limit for a closed connection to make room for a new one, seconds."""

SCRAPE_SECONDS = 30.0
"""The time limit of a connection, seconds."""


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
