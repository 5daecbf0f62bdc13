"""The console that a master or slave serves beside its replication: its settings, its start, and its threads."""

from __future__ import annotations

import contextlib
import gc
import sys
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

import structlog

from dumpfilter.base.security.listening import Endpoint, Lack, check_listener, listening_socket
from dumpfilter.base.security.passwords import StoredPassword
from dumpfilter.base.security.tls import TlsSource, temporary_tls
from dumpfilter.console.auth import DEFAULT_USER
from dumpfilter.console.connection import Connection, Doorkeeper
from dumpfilter.console.port import (
    DEFAULT_DENIAL_SECONDS,
    DEFAULT_MAX_CONNECTIONS,
    ClientPort,
    ConnectionDirectory,
    Greeting,
    PortSettings,
)
from dumpfilter.console.serving_loop import ServingLoop
from dumpfilter.console.sql.commands import Executor
from dumpfilter.console.sql.grammar import Role
from dumpfilter.console.wire import PacketStream

log = structlog.get_logger("dumpfilter.console")

_STOP_SECONDS = 10.0

_SWITCH_SECONDS = 5e-4
"""The time after which Python makes a computing thread release the interpreter lock, seconds
(``sys.setswitchinterval``).

A thread that passes a commit on takes the lock several times. With Python's 5 ms, commits that come every 5 ms would
queue up as long as a statement runs.
"""


@dataclass(frozen=True)
class ConsoleEndpoint(Endpoint):
    """The settings of a console, the port on which MySQL clients query and control a master or slave.

    The settings are address, user, password and TLS files.
    """

    user: str | None = None
    """The user who may log in besides the users of the configuration file.

    With None, ``root`` may log in if the configuration file names no user.
    """
    password: str = field(default="", repr=False)
    new_password_file: Path | None = None
    """The file into which a random password was written at this start because the file did not exist; None otherwise.
    """

    def users(self, configured: Mapping[str, StoredPassword] | None = None) -> dict[str, StoredPassword]:
        """Return the stored password of each user who may log in to the console, by user name.

        ``configured`` has the users of the configuration file. The endpoint's own user replaces a configured user of
        the same name. Raises Exposed if a user has no password although other machines can reach the console.
        """
        users = dict(configured or {})
        if self.user is not None or not users:
            users[self.user or DEFAULT_USER] = StoredPassword.plain(self.password)
        lacks = [
            Lack(
                f"without a password of user {user!r}",
                "set DUMPFILTER_CONSOLE_PASSWORD or --console-password-file",
            )
            for user, password in users.items()
            if password.is_empty
        ]
        warning = check_listener(
            "the console", "--host or --console-host", self.host, lacks[:1], insecure=self.insecure
        )
        if warning is not None:
            log.warning("insecure", reason=warning)
        return users

    def roles(self, configured: Mapping[str, Role] | None = None) -> dict[str, Role]:
        """Return the role of each user who may log in to the console, by user name. A role says which statements are
        allowed.

        ``configured`` has the roles of the configuration file's users. The user of these settings has the role ``all``
        if the user has a password, and the role ``read`` otherwise.
        """
        roles = dict(configured or {})
        if self.user is not None or not roles:
            roles[self.user or DEFAULT_USER] = Role.ALL if self.password else Role.READ
        return roles


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


@contextmanager
def serving(
    endpoint: ConsoleEndpoint,
    executor: Executor,
    users: Mapping[str, StoredPassword],
    tls: TlsSource,
    roles: Mapping[str, Role],
    directory: ConnectionDirectory | None = None,
) -> Iterator[ConsoleServer]:
    """Serve a console (a port for MySQL clients) as long as the ``with`` block runs, and yield its server.

    ``executor`` is the master or slave that carries out the statements. ``users`` has a password for each user name,
    and ``roles`` a role. ``directory`` is the registry of connections that the process's ports share; None: one for
    this port alone. Raises OptionError if the address cannot be used, and OutputError if the file for the port's number
    cannot be written.
    """
    server = ConsoleServer(
        executor,
        endpoint.host,
        endpoint.port,
        users,
        roles=roles,
        tls=tls,
        demand_tls=not endpoint.insecure,
        directory=directory,
    )
    if endpoint.new_password_file is not None:
        log.warning(
            "console.password_made", user=endpoint.user or DEFAULT_USER, file=str(endpoint.new_password_file)
        )
    for user in sorted(user for user, password in users.items() if password.is_empty):
        log.warning(
            "console.read_only",
            user=user,
            role=roles.get(user, Role.READ).value,
            hint="the user has no password; with --console-password-file the user gets the role all",
        )
    server.start()
    sys.setswitchinterval(_SWITCH_SECONDS)
    # The objects of the started program stay. The garbage collector, which stops all threads, need not visit them each
    # time when a statement has made many objects.
    gc.freeze()
    try:
        endpoint.write_port(server.port)
        yield server
    finally:
        server.stop()
