"""The HTTP endpoint from which Prometheus scrapes the metrics of a master or slave.

On loopback the endpoint speaks plain HTTP. On other addresses it speaks HTTPS, and Prometheus must show a certificate.
prometheus_client's own server has no limits and lets one silent client block a TLS server. Therefore this module has a
loop with limits around prometheus_client's handler of requests.
"""

from __future__ import annotations

import asyncio
import io
import platform
import socket
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import Any

from prometheus_client import CollectorRegistry, MetricsHandler, ProcessCollector
from prometheus_client.core import Metric
from prometheus_client.registry import Collector

from dumpfilter.base.errors import DumpfilterError
from dumpfilter.base.logs import logger
from dumpfilter.base.security import listening
from dumpfilter.console.facts import Facts, metric
from dumpfilter.console.serving_loop import ServingLoop, accepted

log = logger("dumpfilter.console.metrics")

MAX_SCRAPES = 8
"""The limit of concurrent connections. For a further connection, the oldest connection that has not sent its request
yet is closed, or else the oldest of all.
"""
SCRAPE_SECONDS = 30.0
"""The time limit of a connection to the HTTP endpoint for Prometheus, seconds."""


class Process(
    Facts[str], prefix="dumpfilter_", labels={"version": str, "python": lambda _: platform.python_version()}
):
    """The declaration of the metrics that masters and slaves have in common. The ``process_…`` metrics of
    prometheus_client are served together with them.
    """

    build_info = metric(lambda _: 1.0)
    """The version of dumpfilter and of Python, as labels. The value is always 1."""


class CommonCollector(ProcessCollector):
    """A Prometheus collector of the metrics that every process has: the versions of dumpfilter and Python, and the use
    of the machine.

    ``version`` is the version of dumpfilter.
    """

    def __init__(self, version: str) -> None:
        super().__init__(registry=None)
        self._version = version

    def collect(self) -> Iterator[Metric]:
        """Yield the metrics of the version, memory, processor time, open files, and start time."""
        yield from Process.families([self._version])
        yield from super().collect()


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
        tls, lacks = None if self.insecure else self.tls, {}
        if tls is None:
            lacks["without TLS"] = "give --tls-cert and --tls-key"
        if tls is None or tls.current().ca is None:
            lacks["without a login"] = "give --tls-ca, the CA of Prometheus' certificate"
        self.check_protection(
            "the metrics' endpoint", "--metrics-address", lacks, permit="--metrics-insecure"
        )


@contextmanager
def serving_metrics(
    endpoint: MetricsEndpoint | None, collectors: Callable[[], Iterable[Collector]]
) -> Iterator[str | None]:
    """Serve metrics as long as the ``with`` block runs, and yield the URL for Prometheus. Without an endpoint, yield
    None.

    ``collectors`` returns prometheus_client's collectors, which read the metrics at each scrape. Raises OptionError
    when the address cannot be used, and Exposed when other machines could read the metrics without a certificate.
    Raises OutputError when the file for the port's number cannot be written.
    """
    if endpoint is None:
        yield None
        return
    endpoint.check()
    collected = CollectorRegistry(support_collectors_without_names=True)
    for collector in collectors():
        collected.register(collector)
    listener = listening.listening_socket(
        "cannot serve metrics on",
        endpoint.host,
        endpoint.port,
        "choose others with --metrics-address and --metrics-port",
    )
    handler = _Request.factory(collected)
    port = listener.getsockname()[1]
    with ServingLoop("metrics") as loop, loop.running(_accept(listener, endpoint, handler)):
        endpoint.write_port(port)
        yield endpoint.url(port)


class _Request(MetricsHandler):
    """The handler of one HTTP request of Prometheus. The handler reads the request from bytes in memory and writes the
    answer to memory, because asyncio does the network I/O.
    """

    def setup(self) -> None:
        self.rfile, self.wfile = io.BytesIO(self.request), io.BytesIO()

    def finish(self) -> None:
        """Keep the answer in memory. The method of the base class would close the buffer that holds the answer."""


async def _accept(listener: socket.socket, endpoint: MetricsEndpoint, handler: Callable[..., Any]) -> None:
    """Accept connections from the listening socket until this task is cancelled, and answer one HTTP request on each.

    ``handler`` gets the bytes of a request and the client's address. The object that ``handler`` returns has the bytes
    of the answer in ``wfile``. All requests are handled in one asyncio loop, so that scrapes run one at a time.
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
                    # A client that says nothing, or reads nothing, must not keep Prometheus out.
                    max(is_silent, key=is_silent.__getitem__).cancel()
                    await asyncio.wait(is_silent, return_when=asyncio.FIRST_COMPLETED)
                task = clients.create_task(answer(client, address[0]))
                is_silent[task] = True
                task.add_done_callback(is_silent.pop)
