"""A port for MySQL clients in an asyncio loop: it accepts clients, limits their number, and lists their connections."""

from __future__ import annotations

import abc
import asyncio
import contextlib
import itertools
import socket
import sys
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Mapping
from concurrent.futures import Executor as ThreadPool
from dataclasses import dataclass, field
from typing import Any

import structlog
from mysql_mimic.types import Capabilities

from dumpfilter.base.security.passwords import StoredPassword
from dumpfilter.base.security.tls import TlsSource
from dumpfilter.console import answers, auth
from dumpfilter.console.auth import Accounts, LoginTurns, RsaExchange
from dumpfilter.console.limits import CONSOLE_MEMORY, RESULT_MEMORY, RESULT_SHARE, Costs, Memory
from dumpfilter.console.sql.commands import Executor
from dumpfilter.console.sql.grammar import Role
from dumpfilter.console.sql.server_errors import ER_CON_COUNT_ERROR, SqlError
from dumpfilter.console.wire import ClientGone, ClientReader, PacketStream

log = structlog.get_logger("dumpfilter.console")

CAPABILITIES = (
    Capabilities.CLIENT_LONG_PASSWORD
    | Capabilities.CLIENT_FOUND_ROWS
    | Capabilities.CLIENT_LONG_FLAG
    | Capabilities.CLIENT_CONNECT_WITH_DB
    | Capabilities.CLIENT_ODBC
    | Capabilities.CLIENT_IGNORE_SPACE
    | Capabilities.CLIENT_PROTOCOL_41
    | Capabilities.CLIENT_INTERACTIVE
    | Capabilities.CLIENT_SSL
    | Capabilities.CLIENT_TRANSACTIONS
    | Capabilities.CLIENT_SECURE_CONNECTION
    | Capabilities.CLIENT_MULTI_RESULTS
    | Capabilities.CLIENT_PS_MULTI_RESULTS
    | Capabilities.CLIENT_PLUGIN_AUTH
    | Capabilities.CLIENT_PLUGIN_AUTH_LENENC_CLIENT_DATA
    | Capabilities.CLIENT_DEPRECATE_EOF
)
"""The capabilities (optional parts of the client protocol) that the console announces to clients.

The console does not announce compression. It does not announce connection and query attributes either, because it has
no use for them.
"""

DEFAULT_MAX_CONNECTIONS = 151
"""The limit of the number of connected clients, which is the default of a server's ``max_connections``."""

DEFAULT_DENIAL_SECONDS = 1.0
"""The time that a client with a wrong password waits for its error, seconds."""

RESERVED_CONNECTIONS = 2
"""The number of connections beyond the limit of connections that administrators may open.

A server reserves one connection for administrators in the same way (``max_connections + 1``).
"""

MAX_UNAUTHENTICATED = 64
"""The limit of the number of clients that have connected and not logged in yet.

For a further client, the port closes the connection that has waited longest, among those of the address with the
most such connections. So silent connections lock nobody out.
"""

MOST_SELECTS = 2
"""The limit of concurrent SELECTs of one user that read tables. A further one waits, and its waiting counts as running
time.
"""

MOST_LARGE_STATEMENTS = 2
"""The limit of large statements, of all clients together, that are parsed and carried out at a time."""

_COMPLAINT_SECONDS = 60.0
_ACCEPT_AGAIN_SECONDS = 1.0


@dataclass(frozen=True)
class Greeting:
    """The contents of the first packet that a server sends to a client: version, capabilities and authentication
    plugin.
    """

    server_version: str
    capabilities: Capabilities = CAPABILITIES
    plugin: str = auth.NATIVE
    """The authentication plugin that the server prefers.

    MariaDB's clients can verify a self-signed certificate only with mysql_native_password. MySQL's clients ignore the
    greeting's plugin and begin with caching_sha2_password.
    """


@dataclass(frozen=True)
class PortSettings:
    """The settings of a port for MySQL clients: its name, TLS, the limit of connections, and the delay after a wrong
    password.
    """

    name: str
    """The name of the port in the log."""
    tls: TlsSource
    demand_tls: bool = True
    """Whether clients on other machines must use TLS."""
    max_connections: int = DEFAULT_MAX_CONNECTIONS
    denial_seconds: float = DEFAULT_DENIAL_SECONDS
    rsa: RsaExchange | None = field(default=None, repr=False)
    """The RSA key for the password exchange of clients without TLS. None: a client whose password must be sent needs
    TLS.
    """


class ConnectionDirectory(dict[int, Any]):
    """The open client connections of a process, by their connection ids.

    A process may have several ports for MySQL clients. All of them share one directory, so that an id is unique in the
    process. Each value is a :class:`~dumpfilter.console.connection.Connection`.
    """

    def __init__(self) -> None:
        super().__init__()
        self.numbers = itertools.count(1)
        """The numbers (connection ids) of the next connections."""


class UserLimits:
    """The limits on what one user of a console or replication port may take, on all the user's connections together.
    An object is made at the user's first login.

    ``results`` counts the memory of all users' results, of which this user may take a share. ``threads`` is the largest
    number of this user's statements that run at once.
    """

    def __init__(self, results: Memory, threads: int) -> None:
        self.costs = Costs()
        self.threads = asyncio.Semaphore(threads)
        self.selects = threading.BoundedSemaphore(MOST_SELECTS)
        """The semaphore of the SELECTs that read tables."""
        self.results = Memory(
            int(results.most * RESULT_SHARE),
            "results of a user that clients have not read yet",
            advice="read them, or try with less",
            within=results,
        )


class ClientPort(abc.ABC):
    """A TCP port for MySQL clients in an asyncio loop, with everything that its connections share, such as users and
    limits.

    A subclass decides how clients are greeted, and which master or slave carries out their statements. Any thread may
    call :meth:`change_users`.

    Parameters:
        settings: name, TLS and limits of the port.
        users: a password for each user who may log in.
        directory: the registry of all connections of the process, to which the port adds its connections.
        pool: the worker threads that run the statements.
        threads_of_user: the limit of concurrent statements of one user.
    """

    def __init__(
        self,
        settings: PortSettings,
        users: Mapping[str, str | StoredPassword],
        directory: ConnectionDirectory,
        pool: ThreadPool,
        threads_of_user: int = sys.maxsize,
    ) -> None:
        self.settings = settings
        self.clients: dict[int, Any] = {}
        """The port's open connections by number, each a :class:`~dumpfilter.console.connection.Connection`."""
        self.listed = self.clients
        """The connections that a client of this port may list (SHOW PROCESSLIST) and end (KILL), by number."""
        self.accounts = Accounts(users)
        self.directory = directory
        self.pool = pool
        self.turns = LoginTurns(settings.denial_seconds)
        self.kept = Memory(CONSOLE_MEMORY, "prepared statements and variables of all connections")
        self.large = threading.BoundedSemaphore(MOST_LARGE_STATEMENTS)
        self.results = Memory(RESULT_MEMORY, "results that clients have not read yet")
        self.limits = defaultdict[str, UserLimits](lambda: UserLimits(self.results, threads_of_user))
        """The limits of each user. Only configured users can log in, so that there are few."""
        self._started = time.monotonic()
        self._accepting: asyncio.Task[None] | None = None

    @abc.abstractmethod
    def greeting(self) -> Greeting:
        """Return the contents of the first packet to the next client. An SqlError is sent to the client instead of the
        packet.
        """

    @abc.abstractmethod
    def connect(self, stream: PacketStream, number: int, address: str) -> Any:
        """Return the object that serves the connection of a new client, a
        :class:`~dumpfilter.console.connection.Connection`.

        ``stream`` has the client's packets. ``number`` is the connection id, and ``address`` the client's network
        address. May raise SqlError, which is sent to the client.
        """

    @abc.abstractmethod
    def executor_of(self, user: str) -> Executor:
        """Return the master or slave that carries out the statements of a user."""

    def role_of(self, user: str) -> Role:
        """Return the present role of a user, which decides what statements the user may run. Any thread may call the
        method.
        """
        return Role.READ

    def status(self) -> dict[str, int]:
        """Return the port's status variables Threads_connected, Threads_running and Uptime (seconds) by name."""
        clients = self.clients.copy().values()
        return {
            "Threads_connected": len(clients),
            "Threads_running": sum(client.running is not None for client in clients),
            "Uptime": int(time.monotonic() - self._started),
        }

    async def open(self, listener: socket.socket) -> None:
        """Accept clients from a listening socket from now on. The port owns the socket, and closes it."""
        listener.setblocking(False)
        self._accepting = asyncio.create_task(self._accept_clients(listener))

    async def _accept_clients(self, listener: socket.socket) -> None:
        """Accept clients until this task is cancelled. uvloop's own server would close clients without a word when the
        process has no file descriptor left; this one lets them wait, and logs the error once a minute.
        """
        loop = asyncio.get_running_loop()
        complained = -_COMPLAINT_SECONDS
        with listener:
            while True:
                try:
                    client, _ = await loop.sock_accept(listener)
                    _set_up(client)
                    await loop.connect_accepted_socket(
                        lambda: asyncio.StreamReaderProtocol(ClientReader(), self._serve), client
                    )
                except Exception as error:
                    # An error that nobody foresaw must not close the port to all later clients.
                    if time.monotonic() - complained >= _COMPLAINT_SECONDS:
                        complained = time.monotonic()
                        hint = "the port goes on; report this error"
                        if isinstance(error, OSError):
                            hint = "the process may need more file descriptors (ulimit -n)"
                        log.error("console.not_accepted", reason=repr(error), hint=hint)
                    await asyncio.sleep(_ACCEPT_AGAIN_SECONDS)

    async def close(self) -> None:
        """Stop listening, close every client's connection, and interrupt the running statements."""
        if self._accepting is None:
            return
        tasks = [self._accepting, *(client.task for client in self.clients.values())]
        for task in tasks:
            task.cancel()
        await asyncio.gather(*tasks, return_exceptions=True)

    def change_users(self, users: Mapping[str, StoredPassword]) -> None:
        """Replace the users who may log in to this port.

        The connections of users who are gone, or who have another password now, are closed.
        """
        changed = self.accounts.change(users)

        def end(client: Any) -> None:
            if client.user in changed:
                client.task.cancel()

        # In the loop no login stands between the check of the old password and its session.
        for client in self.clients.copy().values():
            client.task.get_loop().call_soon_threadsafe(end, client)

    async def _serve(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        assert isinstance(reader, ClientReader)
        number = next(self.directory.numbers)
        stream = PacketStream(reader, writer)
        try:
            connection = self.connect(stream, number, stream.peer_name[0])
            self._make_room()
            self.clients[number] = self.directory[number] = connection
            await connection.serve()
        except SqlError as error:
            # The port cannot serve anybody at present. A replica logs the error and connects again.
            with contextlib.suppress(ClientGone, OSError):
                await stream.send(answers.error(error, is_greeted=False))
        except (ClientGone, asyncio.CancelledError):
            # KILL and the end of the server cancel this task, which is no error.
            pass
        finally:
            self.clients.pop(number, None)
            self.directory.pop(number, None)
            await stream.close()

    def _make_room(self) -> None:
        """Close one connection without a login if there are too many of them (see :data:`MAX_UNAUTHENTICATED`)."""
        waiting = [
            client
            for client in self.clients.values()
            if client.session is None and not client.task.cancelling()
        ]
        if len(waiting) < MAX_UNAUTHENTICATED:
            return
        ((crowd, _),) = Counter(client.peer for client in waiting).most_common(1)
        oldest = next(client for client in waiting if client.peer == crowd)
        number = oldest.id
        log.warning("client.too_many_logins", port=self.settings.name, connection=number, peer=crowd)
        oldest.task.cancel()

    def admit(self, number: int, user: str) -> None:
        """Raise SqlError 1040 if the port has too many connections for another one, of a user who has just logged in.

        ``number`` is the connection id of the new connection. Users with the role ``all`` have a few reserved
        connections.
        """
        others = sum(client.session is not None for n, client in self.clients.items() if n != number)
        reserved = RESERVED_CONNECTIONS if self.role_of(user).includes(Role.ALL) else 0
        if others >= self.settings.max_connections + reserved:
            log.warning("client.too_many_connections", port=self.settings.name, user=user, others=others)
            raise ER_CON_COUNT_ERROR()


def _set_up(client: socket.socket) -> None:
    # Keep-alive packets reveal clients that vanished without closing the connection.
    with contextlib.suppress(OSError):
        client.setsockopt(socket.SOL_SOCKET, socket.SO_KEEPALIVE, 1)
        # TCP_NODELAY sends short answers at once.
        client.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
