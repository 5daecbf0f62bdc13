"""A port for MySQL clients in an asyncio loop: it accepts clients, limits their number, and lists their connections."""

from __future__ import annotations

import asyncio
import itertools
import socket
import sys
import threading
import time
from collections import Counter, defaultdict
from collections.abc import Callable, Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice
from typing import Any, ClassVar, NamedTuple

from mysql_mimic.types import Capabilities

from dumpfilter.base.logs import MOST_LINES, Seldom, logger
from dumpfilter.base.security.listening import Endpoint, listening_socket
from dumpfilter.base.security.passwords import CHECKS_AT_ONCE, Sha2Crypt, StoredPassword
from dumpfilter.base.security.throttle import Throttle
from dumpfilter.base.security.tls import temporary_tls
from dumpfilter.console import auth
from dumpfilter.console.limits import UserLimits
from dumpfilter.console.serving_loop import ServingLoop, accepted
from dumpfilter.console.sql.commands import Executor
from dumpfilter.console.sql.grammar import Role
from dumpfilter.console.sql.server_errors import ER_CON_COUNT_ERROR

log = logger("dumpfilter.console")

CAPABILITIES = (
    Capabilities.CLIENT_LONG_PASSWORD
    | Capabilities.CLIENT_LONG_FLAG
    | Capabilities.CLIENT_CONNECT_WITH_DB
    | Capabilities.CLIENT_PROTOCOL_41
    | Capabilities.CLIENT_SSL
    | Capabilities.CLIENT_TRANSACTIONS
    | Capabilities.CLIENT_SECURE_CONNECTION
    | Capabilities.CLIENT_MULTI_RESULTS
    | Capabilities.CLIENT_PS_MULTI_RESULTS
    | Capabilities.CLIENT_PLUGIN_AUTH
    | Capabilities.CLIENT_PLUGIN_AUTH_LENENC_CLIENT_DATA
)
"""The capabilities (optional parts of the client protocol) that the console announces to clients.

The console announces neither compression nor connection and query attributes, because it does not use them. Without
CLIENT_DEPRECATE_EOF all clients expect the same packets after the columns and the rows of a result.
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

For a further client, the port closes the connection that has waited longest, among those of the address with the most
such connections. Therefore silent connections lock nobody out.
"""

MOST_LARGE_STATEMENTS = 2
"""The limit of large statements (16,384 characters or more), of all clients together, that are parsed and carried out
at a time.
"""

_FREE_FAILURES = 2
"""The number of wrong passwords of a user and an address after which the next check is delayed."""

_LOOPBACK = Endpoint()


@dataclass(frozen=True)
class ConsoleEndpoint(Endpoint):
    """The settings of a console, the port on which MySQL clients query and control a master or slave.

    In addition to the settings of every :class:`Endpoint`, such as address and TLS, a console has a user and a
    password.
    """

    user: str | None = None
    """The user who may log in besides the users of the configuration file.

    With None, ``root`` may log in if the configuration file names no user.
    """
    password: str = field(default="", repr=False)

    def accounts(
        self, passwords: Mapping[str, StoredPassword] = {}, roles: Mapping[str, Role] = {}
    ) -> tuple[dict[str, StoredPassword], dict[str, Role]]:
        """Return the stored password and the role of each user who may log in to the console, in two mappings by user
        name.

        ``passwords`` and ``roles`` are those of the configuration file. The endpoint's own user replaces a configured
        user of the same name, and has the role ``all`` with a password, and ``read`` without. Raises Exposed if a user
        has no password although other machines can reach the console. If the endpoint is insecure, a warning is logged
        instead.
        """
        users, roles = dict(passwords), dict(roles)
        if self.user is not None or not users:
            user = self.user or auth.DEFAULT_USER
            users[user] = StoredPassword.plain(self.password)
            roles[user] = Role.ALL if self.password else Role.READ
        unsafe = (user for user, password in users.items() if password.is_empty)
        cure = "set DUMPFILTER_CONSOLE_PASSWORD or --console-password-file"
        lacks = {f"without a password of user {user!r}": cure for user in islice(unsafe, 1)}
        self.check_protection("the console", "--host or --console-host", lacks)
        return users, roles


class Greeting(NamedTuple):
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


ConnectionDirectory = dict[int, Any]
"""The open connections of a process, each a :class:`~dumpfilter.console.connection.Connection`, by connection id. All
ports of the process share one dictionary.
"""
_numbers = itertools.count(1)
"""The connection ids of the next connections. Connection ids are unique in the process."""


class ClientPort:
    """A TCP port for MySQL clients in an asyncio loop, with everything that its connections share, such as users and
    limits.

    A subclass may decide how clients are greeted, and which master or slave carries out their statements. Any thread
    may call :meth:`change_users`.

    Parameters:
        executor: the master or slave that carries out the clients' statements.
        endpoint: the address, and the certificate. Without a certificate a temporary self-signed one is made. Clients
            on other machines must use TLS, unless the endpoint is insecure.
        users: a password for each user who may log in; a text is a password in the clear. None: nobody can log in.
        roles: the role of each user. A user without an entry has the role ``read``. None: every user has the role
            ``all``.
        directory: the open connections, which the process's ports share. None: a dictionary for this port alone.
        max_connections: the limit of the number of connected clients.
        denial_seconds: the time that a client with a wrong password waits for its error, seconds.
        threads: the number of threads that run statements. With 0 there are two for each connection: an interrupted
            statement may hold its thread for a while, and the client can already send the next statement.
        threads_of_user: the limit of concurrent statements of one user.
    """

    name = "console"
    """The name of the port in the log."""
    title = "console"
    """The name of the port in errors."""
    connection: ClassVar[Callable[..., Any]]
    """The subclass of :class:`~dumpfilter.console.connection.Connection` that serves this port's clients."""

    def __init__(
        self,
        executor: Executor,
        endpoint: Endpoint = _LOOPBACK,
        users: Mapping[str, str | StoredPassword] | None = None,
        *,
        roles: Mapping[str, Role] | None = None,
        directory: ConnectionDirectory | None = None,
        max_connections: int = DEFAULT_MAX_CONNECTIONS,
        denial_seconds: float = DEFAULT_DENIAL_SECONDS,
        threads: int = 0,
        threads_of_user: int = sys.maxsize,
    ) -> None:
        self.executor = executor
        self.endpoint = endpoint
        self.port = endpoint.port
        """The TCP port. If 0 was given, the attribute has the chosen port after the start."""
        self.tls = endpoint.tls or temporary_tls(endpoint.host, endpoint.ca)
        self.users: Mapping[str, StoredPassword] = {
            name: StoredPassword.plain(password) if isinstance(password, str) else password
            for name, password in (users or {}).items()
        }
        """The stored passwords of all users who may log in, by user name. A change replaces the mapping."""
        self.roles = roles
        self.proved: dict[Sha2Crypt, bytes | None] = {}
        """The digests of passwords that logins have proved, by the stored hash. With them caching_sha2_password checks
        later logins without the password itself.
        """
        self.rsa = auth.RsaExchange()
        """The RSA key by which clients without TLS send a password."""
        self.hashers = ThreadPoolExecutor(CHECKS_AT_ONCE, f"{self.name}-password")
        """The threads that hash passwords. A stranger may send any number of passwords, each for another user."""
        self.guesses = Throttle(free=_FREE_FAILURES, longest=denial_seconds)
        self.refusals = Seldom(most=MOST_LINES)
        """The rate limit of the audit log's lines about refused logins, of which a stranger can cause any number."""
        self.denial_seconds = denial_seconds
        self.directory = ConnectionDirectory() if directory is None else directory
        self.pool = ThreadPoolExecutor(threads or 2 * max_connections, f"{self.name}-statement")
        self.max_connections = max_connections
        self.large = threading.BoundedSemaphore(MOST_LARGE_STATEMENTS)
        self.keeping = threading.Lock()
        """The lock that a thread holds to change :attr:`kept`, the memory of clients between their statements."""
        self.kept = Counter[int]()
        """The memory of clients between their statements, bytes by connection id."""
        self.unread = Counter[str]()
        """The memory of the results that clients have not read completely yet, bytes by user."""
        self.limits = defaultdict[str, UserLimits](lambda: UserLimits(threads_of_user))
        """The limits of each user. Only configured users can log in, so that there are few."""
        self._started = time.monotonic()

    async def greeting(self) -> Greeting:
        """Return the contents of the first packet to the next client. If the method raises SqlError, the client gets
        this error instead of the packet.
        """
        return Greeting(self.executor.version)

    def executor_of(self, user: str) -> Executor:
        """Return the master or slave that carries out the statements of a user. If the method raises SqlError, the user
        gets this error at the login.
        """
        return self.executor

    def role_of(self, user: str) -> Role:
        """Return the present role of a user, which decides what statements the user may run. Any thread may call the
        method.
        """
        return Role.ALL if self.roles is None else self.roles.get(user, Role.READ)

    @property
    def clients(self) -> dict[int, Any]:
        """The port's open connections by connection id, each a :class:`~dumpfilter.console.connection.Connection`."""
        return {number: one for number, one in self.directory.copy().items() if one.port is self}

    @property
    def listed(self) -> dict[int, Any]:
        """The connections that a client of this port may list (SHOW PROCESSLIST) and end (KILL), by connection id. A
        console's clients see all connections of the process.
        """
        return self.directory

    def status(self) -> dict[str, int]:
        """Return the values that SHOW STATUS shows for the port: Threads_connected, Threads_running and Uptime
        (seconds), by name.
        """
        clients = self.clients.values()
        return {
            "Threads_connected": len(clients),
            "Threads_running": sum(client.running is not None for client in clients),
            "Uptime": int(time.monotonic() - self._started),
        }

    @contextmanager
    def serving(self, loop: ServingLoop) -> Iterator[None]:
        """Accept clients in an asyncio loop while the ``with`` block runs. At its end close every client's connection,
        and interrupt the running statements.

        Raises OptionError if the address cannot be listened on, and OutputError if the file for the port's number
        cannot be written.
        """
        endpoint = self.endpoint
        listener = listening_socket(f"the {self.title} cannot listen on", endpoint.host, endpoint.port)
        self.port = listener.getsockname()[1]
        try:
            with loop.running(self._accept_clients(listener)):
                endpoint.write_port(self.port)
                yield
        finally:
            for pool in (self.pool, self.hashers):
                pool.shutdown(wait=False, cancel_futures=True)

    async def _accept_clients(self, listener: socket.socket) -> None:
        """Accept clients until this task is cancelled."""
        with listener:
            async with asyncio.TaskGroup() as clients:
                async for client, address in accepted(listener):
                    clients.create_task(self._serve(client, address))

    async def _serve(self, client: socket.socket, address: tuple[Any, ...]) -> None:
        # An error that nobody foresaw must not close the port to all later clients, as it would in the task group.
        try:
            self._make_room()
            number = next(_numbers)
            connection = self.directory[number] = self.connection(self, client, address, number)
            try:
                await connection.serve()
            finally:
                del self.directory[number]
                await connection.close()
        except Exception:
            log.exception("unforeseen error", port=self.name)
            client.close()

    def change_users(
        self, users: Mapping[str, StoredPassword], roles: Mapping[str, Role] | None = None
    ) -> None:
        """Replace the users who may log in to this port, and their roles (which statements each may run). With
        ``roles`` None every user has the role ``all``.

        The connections of users who are gone, or who have another password now, are closed. A changed role takes effect
        at the user's next statement.
        """
        old, self.users, self.roles = self.users, dict(users), roles

        def end(client: Any) -> None:
            if client.user in old and old[client.user] != users.get(client.user):
                client.task.cancel()

        # In the loop no login stands between the check of the old password and its session.
        for client in self.clients.values():
            client.task.get_loop().call_soon_threadsafe(end, client)

    def _make_room(self) -> None:
        """Close a connection that has not logged in, if as many such connections as :data:`MAX_UNAUTHENTICATED` are
        open. The closed connection is the oldest one from the client address that has most of these connections.
        """
        waiting = [one for one in self.clients.values() if not (one.session or one.task.cancelling())]
        if len(waiting) >= MAX_UNAUTHENTICATED:
            ((crowd, _),) = Counter(client.peer for client in waiting).most_common(1)
            oldest = next(client for client in waiting if client.peer == crowd)
            log.warning("client.too_many_logins", port=self.name, connection=oldest.id, peer=crowd)
            oldest.task.cancel()

    def admit(self, number: int, user: str) -> None:
        """Check that a user who has just logged in may keep the new connection. Raises SqlError 1040 if the port has
        too many other connections.

        ``number`` is the connection id of the new connection. Users with the role ``all`` have a few reserved
        connections.
        """
        others = sum(client.session is not None for n, client in self.clients.items() if n != number)
        reserved = RESERVED_CONNECTIONS if self.role_of(user).includes(Role.ALL) else 0
        if others >= self.max_connections + reserved:
            log.warning("client.too_many_connections", port=self.name, user=user, others=others)
            raise ER_CON_COUNT_ERROR()
