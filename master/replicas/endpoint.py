"""The replication port of a master process: its settings, its start and its stop."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING

import structlog

from dumpfilter.errors import OptionError
from dumpfilter.options.port_file import write_port

# At run time these imports would load packages for SQL and TLS, which only a master with such a port needs.
if TYPE_CHECKING:
    from dumpfilter.console.directory import ConnectionDirectory
    from dumpfilter.console.executor import Executor
    from dumpfilter.master.replicas.filters import ReplicaFilters
    from dumpfilter.master.replicas.server import ReplicaServer
    from dumpfilter.master.server import MasterServer
    from dumpfilter.security.tls import TlsSource

log = structlog.get_logger("dumpfilter.master")


@dataclass(frozen=True)
class ReplicaEndpoint:
    """The settings of the replication port, as the command line gives them."""

    host: str
    port: int
    """The TCP port. With 0 the operating system chooses a free port."""
    port_file: Path | None = None
    """The file into which the port is written once replicas can connect."""
    tls: TlsSource | None = None
    """The port's certificate and key. None: the master makes a certificate."""
    ca: Path | None = None
    """The CA that must have signed a client's certificate, for a port that makes its own certificate."""
    insecure: bool = False
    """Whether replicas on other machines may connect without TLS (``--insecure``)."""


@contextmanager
def serving_replicas(
    endpoint: ReplicaEndpoint,
    server: MasterServer,
    filters: ReplicaFilters,
    executor: Executor,
    directory: ConnectionDirectory,
) -> Iterator[tuple[ReplicaServer, int]]:
    """Serve real replicas while the ``with`` block runs, and yield the server and its TCP port.

    Raises OptionError if nobody could log in, or if the address cannot be listened on.
    """
    from dumpfilter.console.port import listening_socket
    from dumpfilter.master.replicas.server import ReplicaServer
    from dumpfilter.security.tls import temporary_tls

    if not filters.entries:
        raise OptionError(
            "--replica-port: no replica could log in: name at least one [[replica]] in the file of --config"
        )
    replicas = ReplicaServer(
        lambda: server.service,
        server.gate.places,
        filters,
        executor,
        tls=endpoint.tls or temporary_tls(endpoint.host, endpoint.ca),
        directory=directory,
        demand_tls=not endpoint.insecure,
        max_connections=server.max_connections,
    )
    listener = listening_socket("the replication port", endpoint.host, endpoint.port)
    port = int(listener.getsockname()[1])
    server.wait(replicas.open(listener))
    server.count_replicas = lambda: (len(replicas.port.connections), server.max_connections)
    log.info("replicas.listening", host=endpoint.host, port=port)
    try:
        if endpoint.port_file is not None:
            write_port(endpoint.port_file, port)
        yield replicas, port
    finally:
        server.wait(replicas.close())
