"""The console of a process: its address, its users, and its life beside the process's own work."""

from __future__ import annotations

import os
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field
from pathlib import Path

from dumpfilter.binlog.writer import writing
from dumpfilter.console.auth import DEFAULT_USER, check_users
from dumpfilter.console.executor import Executor
from dumpfilter.console.server import ConsoleServer
from dumpfilter.security.tls import ServerTls, TlsFiles, load_tls


@dataclass(frozen=True)
class ConsoleEndpoint:
    """The address of a console, its user, and its TLS files."""

    host: str
    port: int
    """0 takes a free port."""
    port_file: Path | None = None
    """The file that gets the port once the console answers."""
    user: str | None = None
    """The user who may log in besides configured ones. None is ``root``, when no user is configured."""
    password: str = field(default="", repr=False)
    tls: TlsFiles = field(default_factory=TlsFiles)

    def users(self, configured: Mapping[str, str] | None = None) -> dict[str, str]:
        """Return the passwords by user name. Raises OptionError for users whom the address gives no protection.

        The endpoint's own user replaces a configured user of the same name.
        """
        users = dict(configured or {})
        if self.user is not None or not users:
            users[self.user or DEFAULT_USER] = self.password
        check_users(self.host, users)
        return users

    def load_tls(self, make: Callable[[], ServerTls]) -> ServerTls:
        """Return the endpoint's certificate, or what ``make`` returns for an endpoint without one.

        Raises OptionError for files that cannot be used.
        """
        return load_tls(self.tls) if self.tls.has_certificate else make()


@contextmanager
def serving(
    endpoint: ConsoleEndpoint, executor: Executor, users: Mapping[str, str], tls: ServerTls
) -> Iterator[int]:
    """Serve the console as long as the block runs, and yield its port. Raises OptionError and OutputError."""
    server = ConsoleServer(executor, endpoint.host, endpoint.port, users, tls=tls)
    server.start()
    try:
        if endpoint.port_file is not None:
            write_port(endpoint.port_file, server.port)
        yield server.port
    finally:
        server.stop()


def write_port(path: Path, port: int) -> None:
    """Write a port to a file in one step, so that a reader who waits for the file finds the whole port."""
    beside = path.with_name(path.name + ".tmp")
    with writing(path):
        beside.write_text(f"{port}\n")
        os.replace(beside, path)
