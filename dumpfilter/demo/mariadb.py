"""MariaDB servers of the demonstration: their programs, a data directory made once for all, and a clean end.

The servers need no privileges and nothing of the machine's own configuration. Their files are in one directory of the
demonstration. Clients connect over a socket file there.
"""

from __future__ import annotations

import os
import re
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pymysql

from dumpfilter.demo.processes import START_TIMEOUT, end, uninterrupted
from dumpfilter.errors import DumpfilterError

OLDEST = (10, 5)
"""The oldest MariaDB with which the demonstration works."""

_SBIN = "/usr/local/sbin:/usr/sbin:/sbin"
"""The directories of Debian's daemons, which the PATH of a plain user does not name."""

_TO_INSTALL = "install MariaDB (apt-get install mariadb-server), or call make demo as root"

_SMALL = ("--innodb-log-file-size=4M", "--innodb-buffer-pool-size=16M")
"""The options that keep the servers small. The log must have the same size in all servers of one data directory."""

_FAST = ("--innodb-flush-log-at-trx-commit=0", "--sync-binlog=0")

_END_TIMEOUT = 30.0
_POLL = 0.05
_LOG_SHOWN = 2000
_MOST_STARTS = 3


class MariaDbMissing(DumpfilterError):
    """The error for a machine without a MariaDB server that the demonstration can start. The text has the cure."""


@dataclass(frozen=True)
class Programs:
    """The programs of the MariaDB that is installed."""

    server: str
    install: str
    version: str


def find_programs() -> Programs:
    """Return the programs of MariaDB. Raises MariaDbMissing."""
    server, install = _which("mariadbd"), _which("mariadb-install-db")
    if server is None or install is None:
        name = "mariadbd" if server is None else "mariadb-install-db"
        raise MariaDbMissing(f"this machine has no {name}: {_TO_INSTALL}")
    told = subprocess.run([server, "--no-defaults", "--version"], capture_output=True, text=True, check=False)
    found = re.search(r"Ver ((\d+)\.(\d+)\.\d+)-MariaDB", told.stdout)
    if found is None:
        raise MariaDbMissing(f"{server} is no MariaDB server: {_TO_INSTALL}")
    if (int(found[2]), int(found[3])) < OLDEST:
        oldest = ".".join(map(str, OLDEST))
        raise MariaDbMissing(f"{server} is MariaDB {found[1]}, and the demonstration needs {oldest} or later")
    return Programs(server, install, found[1])


def _which(program: str) -> str | None:
    return shutil.which(program) or shutil.which(program, path=_SBIN)


def make_data(programs: Programs, directory: Path) -> None:
    """Make an empty data directory, which :class:`Server` copies. Raises DumpfilterError when MariaDB cannot."""
    (directory / "tmp").mkdir(parents=True)
    code, told = _run_group(
        [
            programs.install,
            "--no-defaults",
            f"--datadir={directory / 'data'}",
            "--skip-test-db",
            "--skip-name-resolve",
            "--auth-root-authentication-method=normal",
            *_as_root(),
            *_SMALL,
        ],
        directory,
    )
    if code:
        raise DumpfilterError(f"{programs.install} failed:\n{told[-_LOG_SHOWN:]}")


def _run_group(command: list[str], directory: Path) -> tuple[int, str]:
    """Run a program that starts others, and return its exit code and output. Ctrl-C ends all of them."""
    with subprocess.Popen(
        command,
        env=_environment(directory),
        stdin=subprocess.DEVNULL,
        stdout=subprocess.PIPE,
        stderr=subprocess.STDOUT,
        start_new_session=True,
    ) as process:
        try:
            told, _ = process.communicate(timeout=START_TIMEOUT)
        except BaseException:
            os.killpg(process.pid, signal.SIGKILL)
            raise
    return process.returncode, told.decode(errors="replace")


class Server:
    """A MariaDB server, which runs after :meth:`start`.

    ``directory`` must be empty and gets a copy of the data directory in ``template``. ``log`` is the file for the
    server's error log. A server with ``networked`` listens on a free port of 127.0.0.1.
    """

    def __init__(
        self,
        programs: Programs,
        template: Path,
        directory: Path,
        log: Path,
        *,
        server_id: int,
        networked: bool = False,
        options: Sequence[str] = (),
    ) -> None:
        self.data = directory / "data"
        self.log = log
        self.port = 0
        self.process: subprocess.Popen[bytes] | None = None
        self.is_ready = False
        """Whether :meth:`wait` has seen that the server answers."""
        self._directory = directory
        self._template = template
        self._socket = directory / "socket"
        self._programs = programs
        self._command = [
            programs.server,
            "--no-defaults",
            f"--datadir={self.data}",
            f"--tmpdir={directory / 'tmp'}",
            f"--socket={self._socket}",
            f"--pid-file={directory / 'pid'}",
            f"--log-error={log}",
            f"--server-id={server_id}",
            "--skip-name-resolve",
            *_as_root(),
            *_SMALL,
            *_FAST,
            *options,
        ]
        self._is_networked = networked
        self._starts = 0

    def start(self) -> None:
        """Copy the data directory and start the server. :meth:`wait` waits for it."""
        shutil.copytree(self._template / "data", self.data)
        (self._directory / "tmp").mkdir()
        self._start()

    def _start(self) -> None:
        self._starts += 1
        network = ["--skip-networking"]
        if self._is_networked:
            self.port = free_port()
            network = ["--bind-address=127.0.0.1", f"--port={self.port}"]
        # Ctrl-C in a terminal reaches the demonstration alone, which ends its servers in order.
        self.process = subprocess.Popen(
            [*self._command, *network],
            env=_environment(self._directory),
            stdin=subprocess.DEVNULL,
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
            start_new_session=True,
        )

    def wait(self) -> None:
        """Wait until the server answers. Raises DumpfilterError with the end of its error log if it never does."""
        deadline = time.monotonic() + START_TIMEOUT
        while True:
            try:
                self.connect().close()
                self.is_ready = True
                return
            except pymysql.Error as error:
                if self._has_lost_its_port():
                    self._start()
                elif self._has_ended() or time.monotonic() > deadline:
                    raise DumpfilterError(
                        f"{self._programs.server} did not start ({error}):\n{self._told()}"
                    ) from None
            time.sleep(_POLL)

    def _has_lost_its_port(self) -> bool:
        """Tell whether the server ended because another process took the free port first, and may start again."""
        return self._has_ended() and self._starts < _MOST_STARTS and "already in use" in self._told()

    def _has_ended(self) -> bool:
        return self.process is None or self.process.poll() is not None

    def _told(self) -> str:
        return self.log.read_text(errors="replace")[-_LOG_SHOWN:] if self.log.exists() else ""

    def connect(self) -> pymysql.Connection[Any]:
        """Return a connection as root."""
        return pymysql.connect(
            unix_socket=str(self._socket),
            user="root",
            autocommit=True,
            charset="utf8mb4",
            read_timeout=START_TIMEOUT,
        )

    def sql(self, *statements: str) -> list[tuple[Any, ...]]:
        """Run statements and return the rows of the last one. Raises DumpfilterError."""
        with self.connect() as connection, connection.cursor() as cursor:
            for statement in statements:
                try:
                    cursor.execute(statement)
                except pymysql.Error as error:
                    raise DumpfilterError(f"MariaDB refused a statement ({error}): {statement}") from None
            return list(cursor.fetchall())


def free_port() -> int:
    """Return the number of a port that no process listens on now."""
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        number: int = probe.getsockname()[1]
        return number


def end_servers(servers: Sequence[Server]) -> None:
    """End servers, all at once. Ctrl-C does not hurry the end, so that no server remains."""
    with uninterrupted():
        for server in servers:
            # A server that is still starting can lose the signal of a request to end.
            if server.process is not None and not server.is_ready:
                server.process.kill()
        end(*(server.process for server in servers if server.process is not None), timeout=_END_TIMEOUT)


def _as_root() -> list[str]:
    """Return the option without which a server refuses to run as root."""
    return ["--user=root"] if os.geteuid() == 0 else []


def _environment(directory: Path) -> dict[str, str]:
    return {**os.environ, "TMPDIR": str(directory / "tmp")}
