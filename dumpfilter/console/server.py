"""The server of a console: its event loop in a thread, its port for MySQL clients, and the worker threads for
statements.
"""

from __future__ import annotations

import contextlib
from collections.abc import Mapping
from concurrent.futures import ThreadPoolExecutor

import structlog

from dumpfilter.base.security.listening import listening_socket
from dumpfilter.base.security.passwords import StoredPassword
from dumpfilter.base.security.tls import TlsSource, temporary_tls
from dumpfilter.console.connection import Connection
from dumpfilter.console.executor import Executor
from dumpfilter.console.login import Doorkeeper
from dumpfilter.console.port import (
    DEFAULT_DENIAL_SECONDS,
    DEFAULT_MAX_CONNECTIONS,
    ClientPort,
    ConnectionDirectory,
    Greeting,
    PortSettings,
)
from dumpfilter.console.roles import Role
from dumpfilter.console.serving_loop import ServingLoop
from dumpfilter.console.wire import PacketStream

log = structlog.get_logger("dumpfilter.console")

_STOP_SECONDS = 10.0


class ConsoleServer(ClientPort):
    """The server of a console, the port on which MySQL clients query and control a master or slave.

    The server runs in its own thread. The method ``start`` or a ``with`` statement starts it.

    Parameters:
        executor: the master or slave that carries out the clients' commands.
        port: the TCP port; with 0, the operating system chooses a free port.
        users: a password for each user name; a text is a password in the clear. None or empty: nobody can log in.
        roles: the role of each user. A user without an entry has the role ``read``. None: every user has the role
            ``all``.
        tls: the certificate. None: a temporary self-signed certificate is made.
        demand_tls: whether clients on other machines must use TLS.
        directory: the registry of connections that the process's ports share. None: one for this port alone.
    """

    def __init__(
        self,
        executor: Executor,
        host: str = "127.0.0.1",
        port: int = 0,
        users: Mapping[str, str | StoredPassword] | None = None,
        *,
        roles: Mapping[str, Role] | None = None,
        tls: TlsSource | None = None,
        demand_tls: bool = True,
        max_connections: int = DEFAULT_MAX_CONNECTIONS,
        denial_seconds: float = DEFAULT_DENIAL_SECONDS,
        directory: ConnectionDirectory | None = None,
    ) -> None:
        # The pool has two threads for each connection. An interrupted statement may hold its thread for a while,
        # and the client can already send the next statement.
        super().__init__(
            PortSettings("console", tls or temporary_tls(host), demand_tls, max_connections, denial_seconds),
            users or {},
            ConnectionDirectory() if directory is None else directory,
            ThreadPoolExecutor(2 * max_connections, "console-statement"),
        )
        self.host = host
        self.port = port
        """The TCP port. If 0 was given, the attribute has the chosen port after the start."""
        self.listed = self.directory
        self._executor = executor
        self._roles = None if roles is None else dict(roles)
        self._loop: ServingLoop | None = None

    def start(self) -> ConsoleServer:
        """Start the thread that accepts clients, and return the server itself.

        Clients can connect when the method returns. Raises OptionError if the address cannot be listened on.
        """
        listener = listening_socket("the console cannot listen on", self.host, self.port)
        self.port = listener.getsockname()[1]
        self._loop = ServingLoop("console")
        self._loop.start()
        self._loop.wait(self.open(listener))
        log.info("console.listening", host=self.host, port=self.port)
        for user in sorted(user for user, password in self.accounts.users.items() if password.is_empty):
            log.info(
                "console.no_password",
                user=user,
                hint="MariaDB's clients since 11.4 verify a self-signed certificate by the password",
            )
        return self

    def stop(self) -> None:
        """Stop listening, close every client's connection, and interrupt the running statements."""
        if self._loop is not None:
            with contextlib.suppress(TimeoutError):
                self._loop.wait(self.close(), _STOP_SECONDS)
            self._loop.end(_STOP_SECONDS)
            self.pool.shutdown(wait=False, cancel_futures=True)
        self._loop = None

    def __enter__(self) -> ConsoleServer:
        return self.start()

    def __exit__(self, *_: object) -> None:
        self.stop()

    def change_users(
        self, users: Mapping[str, StoredPassword], roles: Mapping[str, Role] | None = None
    ) -> None:
        """Replace the users who may log in, and their roles (which statements each may run). Any thread can call this
        method.

        The connections of users who are gone, or who have another password now, are closed. A changed role takes effect
        at the user's next statement.
        """
        self._roles = None if roles is None else dict(roles)
        super().change_users(users)

    def role_of(self, user: str) -> Role:
        """Return the present role of a user, which decides what statements the user may run. Without roles every user
        has the role ``all``.
        """
        return Role.ALL if self._roles is None else self._roles.get(user, Role.READ)

    def executor_of(self, user: str) -> Executor:
        """Return the master or slave that carries out the statements. It is the same for every user."""
        return self._executor

    def greeting(self) -> Greeting:
        """Return the greeting (contents of the first packet to a client), with the server version of the master or
        slave.
        """
        return Greeting(self._executor.version)

    def connect(self, stream: PacketStream, number: int, address: str) -> Connection:
        """Return the object that serves the connection of a new client.

        ``stream`` has the client's packets. ``number`` is the connection id, and ``address`` the client's network
        address.
        """
        return Connection(Doorkeeper(stream, self, number, address))
