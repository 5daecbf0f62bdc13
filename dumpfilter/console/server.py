"""The console that a master or slave serves beside its replication: its settings, its start, and its threads."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import structlog

from dumpfilter.base.security.listening import Endpoint, Lack, check_listener
from dumpfilter.base.security.passwords import StoredPassword
from dumpfilter.console.auth import DEFAULT_USER
from dumpfilter.console.connection import Connection
from dumpfilter.console.port import (
    DEFAULT_DENIAL_SECONDS,
    DEFAULT_MAX_CONNECTIONS,
    ClientPort,
    ConnectionDirectory,
    Greeting,
)
from dumpfilter.console.serving_loop import ServingLoop
from dumpfilter.console.sql.commands import Executor
from dumpfilter.console.sql.grammar import Role

log = structlog.get_logger("dumpfilter.console")

_STOP_SECONDS = 10.0

_LOOPBACK = Endpoint()
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

    Parameters:
        executor: the master or slave that carries out the clients' commands.
        endpoint: the address, the certificate, and whether clients on other machines must use TLS.
        users: a password for each user name; a text is a password in the clear. None or empty: nobody can log in.
        roles: the role of each user. A user without an entry has the role ``read``. None: every user has the role
            ``all``.
        directory: the registry of connections that the process's ports share. None: one for this port alone.
        max_connections, denial_seconds: see :class:`~dumpfilter.console.port.ClientPort`.
    """

    name = title = "console"
    connection = Connection

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
    ) -> None:
        # The pool has two threads for each connection. An interrupted statement may hold its thread for a while,
        # and the client can already send the next statement.
        super().__init__(
            endpoint,
            users or {},
            ConnectionDirectory() if directory is None else directory,
            ThreadPoolExecutor(2 * max_connections, "console-statement"),
            max_connections=max_connections,
            denial_seconds=denial_seconds,
        )
        self._executor = executor
        self._roles = None if roles is None else dict(roles)

    @contextmanager
    def running(self) -> Iterator[ConsoleServer]:
        """Accept clients in a thread of the console while the ``with`` block runs, and yield the server.

        Raises OptionError if the address cannot be listened on, and OutputError if the file for the port's number
        cannot be written.
        """
        loop = ServingLoop("console")
        loop.start()
        try:
            with self.serving(loop):
                log.info("console.listening", host=self.endpoint.host, port=self.port)
                yield self
        finally:
            loop.end(_STOP_SECONDS)

    @property
    def listed(self) -> dict[int, Any]:
        """All connections of the process, which a client may list (SHOW PROCESSLIST) and end (KILL), by number."""
        return self.directory

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


@contextmanager
def serving(
    endpoint: ConsoleEndpoint,
    executor: Executor,
    users: Mapping[str, StoredPassword],
    roles: Mapping[str, Role],
    directory: ConnectionDirectory,
) -> Iterator[ConsoleServer]:
    """Serve a console (a port for MySQL clients) as long as the ``with`` block runs, and yield its server.

    The arguments are those of :class:`ConsoleServer`. Raises OptionError if the address cannot be used, and OutputError
    if the file for the port's number cannot be written.
    """
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
    with ConsoleServer(executor, endpoint, users, roles=roles, directory=directory).running() as server:
        sys.setswitchinterval(_SWITCH_SECONDS)
        # The objects of the started program stay. The garbage collector, which stops all threads, need not visit them
        # each time when a statement has made many objects.
        gc.freeze()
        yield server
