"""The console that a master or slave serves beside its replication: its settings, its start, and its threads."""

from __future__ import annotations

import gc
import sys
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from itertools import islice
from pathlib import Path

from dumpfilter.base.logs import logger
from dumpfilter.base.security.listening import Endpoint
from dumpfilter.base.security.passwords import StoredPassword
from dumpfilter.console.auth import DEFAULT_USER
from dumpfilter.console.connection import Connection
from dumpfilter.console.port import ClientPort, ConnectionDirectory
from dumpfilter.console.serving_loop import ServingLoop
from dumpfilter.console.sql.commands import Executor
from dumpfilter.console.sql.grammar import Role

log = logger("dumpfilter.console")

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
        unsafe = (user for user, password in users.items() if password.is_empty)
        cure = "set DUMPFILTER_CONSOLE_PASSWORD or --console-password-file"
        lacks = {f"without a password of user {user!r}": cure for user in islice(unsafe, 1)}
        self.check_protection("the console", "--host or --console-host", lacks)
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
    """The server of a console, the port on which MySQL clients query and control a master or slave."""

    connection = Connection

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


@contextmanager
def serving(
    endpoint: ConsoleEndpoint,
    executor: Executor,
    users: Mapping[str, StoredPassword],
    roles: Mapping[str, Role],
    directory: ConnectionDirectory,
) -> Iterator[ConsoleServer]:
    """Serve a console (a port for MySQL clients) as long as the ``with`` block runs, and yield its server.

    ``executor`` is the master or slave, which carries out replication commands. ``users`` and ``roles`` have the
    password and the role of each user by name. ``directory`` has the open connections of all ports of the process.
    Raises OptionError if the address cannot be used, and OutputError if the file for the port's number cannot be
    written.
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
