"""The replication port: it serves the binlog set to real MySQL and MariaDB replicas, in the master's asyncio loop."""

from __future__ import annotations

import contextlib
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import replace

import structlog
from mysql_mimic.types import Capabilities

from dumpfilter.base.errors import DumpfilterError
from dumpfilter.base.security.listening import Endpoint, listening_socket
from dumpfilter.base.security.tls import temporary_tls
from dumpfilter.console.auth import CACHING_SHA2, NATIVE, RsaExchange
from dumpfilter.console.connection import Doorkeeper
from dumpfilter.console.port import (
    CAPABILITIES,
    DEFAULT_DENIAL_SECONDS,
    ClientPort,
    ConnectionDirectory,
    Greeting,
    PortSettings,
)
from dumpfilter.console.serving_loop import ServingLoop
from dumpfilter.console.sql.commands import Command, Executor, ShowReplicas
from dumpfilter.console.sql.result import Result
from dumpfilter.console.wire import PacketStream
from dumpfilter.dump.packets.protocol import frame
from dumpfilter.master.limits import Places
from dumpfilter.master.register import Register
from dumpfilter.master.replicas.connection import ReplicaConnection, ReplicaPort
from dumpfilter.master.replicas.failures import failure
from dumpfilter.master.replicas.filters import ReplicaFilters
from dumpfilter.master.service import DumpFilterService

log = structlog.get_logger("dumpfilter.master")

REPLICA_CAPABILITIES = (
    CAPABILITIES
    | Capabilities.CLIENT_COMPRESS
    | Capabilities.CLIENT_CONNECT_ATTRS
    | Capabilities.CLIENT_ZSTD_COMPRESSION_ALGORITHM
)
"""The protocol capabilities that the port announces. For MariaDB, compression with zstd is left out."""

_STATEMENT_THREADS = 12
_THREADS_OF_USER = 4
"""The largest number of statements of one user that run at the same time, so that no user occupies all threads."""
_END_SECONDS = 12.0
"""The longest time that the closing of a port may take, seconds."""
_MARIADB_PREFIX = "5.5.5-"
"""The prefix of the version that MariaDB announces, because old replicas refuse a source of version 10."""


class OwnReplicas:
    """An executor of the SQL statements that a user of the replication port sends. SHOW REPLICAS lists only the
    replicas that log in as this user. The tables of the schema ``dumpfilter``, which are for operators, are missing.
    """

    def __init__(self, executor: Executor, user: str, register: Register) -> None:
        self._executor = executor
        self._user = user
        self._register = register

    def execute(self, command: Command) -> Result:
        """Execute a statement that a real replica's user may send, and return the result. SHOW REPLICAS returns only
        the replicas that logged in as the same user.
        """
        result = self._executor.execute(command)
        if not isinstance(command, ShowReplicas):
            return result
        # Replicas of different users may have the same server id. MariaDB's rows have no UUID, which comes last.
        own: set[tuple[object, ...]] = set()
        for slave in self._register.all():
            if slave.peer.user == self._user:
                server_id, host, port, _, uuid = slave.peer.row(0)
                own |= {(server_id, host, port), (server_id, host, port, uuid)}
        return replace(result, rows=[row for row in result.rows if (*row[:3], *row[4:]) in own])

    @property
    def tables(self) -> Mapping[tuple[str, str], Callable[[], Result]]:
        """The tables that users of the replication port can read, without those of the schema ``dumpfilter``."""
        return {names: read for names, read in self._executor.tables.items() if names[0] != "dumpfilter"}

    @property
    def version(self) -> str:
        """The version that clients see: that of the server that wrote the binlog."""
        return self._executor.version

    def variables(self) -> Mapping[str, str | int]:
        """Return the system variables of the master's SQL console, by name."""
        return self._executor.variables()

    @property
    def functions(self) -> Mapping[str, Callable[..., int | None]]:
        """The SQL functions that wait for replication, such as SOURCE_POS_WAIT, by name."""
        return self._executor.functions


class ReplicaServer(ClientPort):
    """The replication port of one master, to which real replicas (MySQL and MariaDB servers) connect.

    ``executor`` executes the SQL statements that the port does not answer itself. Replicas are registered like
    dumpfilter's slaves, and share decisions and scans with them.
    """

    def __init__(
        self,
        endpoint: Endpoint,
        service: DumpFilterService,
        places: Places,
        filters: ReplicaFilters,
        executor: Executor,
        directory: ConnectionDirectory,
        *,
        max_connections: int,
        denial_seconds: float = DEFAULT_DENIAL_SECONDS,
    ) -> None:
        tls = endpoint.tls or temporary_tls(endpoint.host, endpoint.ca)
        super().__init__(
            PortSettings(
                "replicas", tls, not endpoint.insecure, max_connections, denial_seconds, RsaExchange()
            ),
            filters.accounts(),
            directory,
            ThreadPoolExecutor(_STATEMENT_THREADS, "replica-statement"),
            _THREADS_OF_USER,
        )
        self._endpoint = endpoint
        self._service = service
        self._shared = ReplicaPort(filters, places)
        self._executor = executor

    @contextmanager
    def serving(self, loop: ServingLoop, **log_fields: str) -> Iterator[int]:
        """Serve replicas in an asyncio loop while the ``with`` block runs, and yield the TCP port number.

        ``log_fields`` are additional fields of the log line. Raises OptionError if the port cannot be opened.
        """
        endpoint = self._endpoint
        listener = listening_socket("the replication port cannot listen on", endpoint.host, endpoint.port)
        port = int(listener.getsockname()[1])
        # Loading the compiled function takes a while.
        frame(b"", 0)
        loop.wait(self.open(listener))
        log.info("replicas.listening", **log_fields, host=endpoint.host, port=port)
        try:
            endpoint.write_port(port)
            yield port
        finally:
            with contextlib.suppress(TimeoutError):
                loop.wait(self.close(), _END_SECONDS)

    async def close(self) -> None:
        """Stop listening, and close the connection of every client."""
        await super().close()
        self.pool.shutdown(wait=False, cancel_futures=True)

    def take_over_accounts(self) -> None:
        """Replace the port's users and passwords by those of the ``[[replica]]`` tables that are in force now, after
        the configuration was read again. Any thread can call this method.
        """
        self.change_users(self._shared.filters.accounts())

    def greeting(self) -> Greeting:
        """Return the first packet for a new client, which names the version of the server that wrote the binlog. Raises
        SqlError if the binlog set is unusable.
        """
        try:
            store = self._service.store
        except DumpfilterError as error:
            raise failure(error) from None
        version = store.format_description.server_version
        if store.family == "mysql":
            return Greeting(version, REPLICA_CAPABILITIES, CACHING_SHA2)
        without_zstd = REPLICA_CAPABILITIES & ~Capabilities.CLIENT_ZSTD_COMPRESSION_ALGORITHM
        return Greeting(_MARIADB_PREFIX + version, without_zstd, NATIVE)

    def connect(self, stream: PacketStream, number: int, address: str) -> ReplicaConnection:
        """Return the object that serves the connection of a new client. ``stream`` has the client's packets, ``number``
        is the connection id, and ``address`` the client's network address.
        """
        return ReplicaConnection(Doorkeeper(stream, self, number, address), self._shared, self._service)

    def executor_of(self, user: str) -> Executor:
        """Return the executor of SQL statements for ``user``, which shows only the replicas that log in as this
        user.
        """
        return OwnReplicas(self._executor, user, self._service.register)
