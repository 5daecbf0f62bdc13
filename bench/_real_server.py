"""Real servers of both families in directories of their own: a source that serves generated files, and a replica."""

from __future__ import annotations

import getpass
import os
import shutil
import subprocess
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any, Literal

import pymysql
from pymysql.cursors import DictCursor

from bench._common import MYSQL_ROOT, OUT
from bench._servers import free_port, place_binlogs
from dumpfilter.workload.generate import GeneratedSet

Family = Literal["mysql", "mariadb"]
FAMILIES: tuple[Family, ...] = ("mysql", "mariadb")

USER, PASSWORD = "repl", "repl"
"""The account with which a replica logs in, at the real source and behind dumpfilter."""

_SECONDS_TO_START = 120
_QUIET = {"stdout": subprocess.DEVNULL, "stderr": subprocess.DEVNULL}
_COMMON = ("--bind-address=127.0.0.1", "--innodb-buffer-pool-size=64M", "--performance-schema=OFF")
_OWN: dict[Family, tuple[str, ...]] = {
    "mysql": (
        "--mysqlx=OFF", "--secure-file-priv=", "--gtid-mode=ON", "--enforce-gtid-consistency=ON",
        "--skip-replica-start",
    ),
    "mariadb": ("--gtid-strict-mode=ON", "--skip-slave-start"),
}  # fmt: skip
REPLICA_OPTIONS = ("--sync-relay-log=0", "--sync-master-info=0", "--max-relay-log-size=1073741824")
"""Options of a replica that does not wait for the disk."""


def missing(family: Family) -> str | None:
    """Return why a family's server cannot run here and what to do, or None when it can."""
    if not shutil.which("ss"):
        return "ss, which counts the bytes of a connection, is not on PATH. Install Debian's iproute2."
    if family == "mariadb":
        installed = shutil.which("mariadbd")
        return None if installed else "mariadbd is not on PATH. Install Debian's mariadb-server."
    if os.geteuid() != 0:
        return "MySQL runs in a chroot, which needs root. Run the benchmark as root."
    if not (MYSQL_ROOT / "usr/sbin/mysqld").exists():
        return f"{MYSQL_ROOT} has no usr/sbin/mysqld. Set MYSQL_ROOT to the root of a system with MySQL."
    return None


class RealServer:
    """A running server and a connection to it as root.

    MySQL runs below ``MYSQL_ROOT``, where a path has two names: one in this process and one in the server.
    """

    def __init__(
        self, family: Family, directory: Path, server_id: int, *options: str, made: GeneratedSet | None = None
    ) -> None:
        """Start a server in ``directory`` with a new data directory. ``made`` becomes the server's binlogs."""
        self.family = family
        self.port = free_port()
        inside = "/" / directory.relative_to(MYSQL_ROOT) if family == "mysql" else directory
        self._log = directory / "error.log"
        wrap = ["chroot", str(MYSQL_ROOT)] if family == "mysql" else []
        user = f"--user={getpass.getuser()}"
        if family == "mysql":
            program = [*wrap, "/usr/sbin/mysqld", "--no-defaults", user]
            install = [*program, "--initialize-insecure", "--secure-file-priv=", f"--datadir={inside}/data"]
        else:
            program = ["mariadbd", "--no-defaults", user]
            install = ["mariadb-install-db", "--no-defaults", user, f"--datadir={inside}/data"]
            install += ["--auth-root-authentication-method=normal", "--skip-test-db"]
        subprocess.run(install, check=True, **_QUIET)  # type: ignore[call-overload]
        if made is not None:
            place_binlogs(made, directory / "data")
        command = [
            *program, f"--datadir={inside}/data", f"--socket={inside}/socket", f"--port={self.port}",
            f"--server-id={server_id}", f"--pid-file={inside}/pid", f"--log-error={inside}/error.log",
            "--log-bin=bin", "--log-slave-updates=ON", *_COMMON, *_OWN[family], *options,
        ]  # fmt: skip
        self._process = subprocess.Popen(command, **_QUIET)  # type: ignore[call-overload]
        try:
            self._connection = self._connect(directory / "socket")
        except BaseException:
            self.stop()
            raise
        self.pid = int((directory / "pid").read_text())

    def _connect(self, socket: Path) -> pymysql.Connection[DictCursor]:
        deadline = time.monotonic() + _SECONDS_TO_START
        while True:
            try:
                return pymysql.connect(
                    unix_socket=str(socket), user="root", autocommit=True, cursorclass=DictCursor
                )
            except pymysql.OperationalError:
                if self._process.poll() is not None or time.monotonic() > deadline:
                    raise SystemExit(f"a server did not start: {self._log.read_text()[-2000:]}") from None
                time.sleep(0.1)

    def rows(self, statement: str) -> list[dict[str, Any]]:
        """Run a statement and return its rows, each by the columns' names."""
        with self._connection.cursor() as cursor:
            cursor.execute(statement)
            return list(cursor.fetchall())

    def run(self, *statements: str) -> None:
        """Run statements one after the other."""
        for statement in statements:
            self.rows(statement)

    def stop(self) -> None:
        """Stop the server and wait for its end."""
        self._process.terminate()
        try:
            self._process.wait(60)
        except subprocess.TimeoutExpired:
            self._process.kill()
            self._process.wait()


@contextmanager
def directory_for(family: Family) -> Iterator[Path]:
    """Yield a new directory in which a server of the family can have its files, and remove the directory at the end."""
    parent = MYSQL_ROOT / "tmp" if family == "mysql" else OUT
    parent.mkdir(exist_ok=True, parents=True)
    directory = Path(tempfile.mkdtemp(prefix="dumpfilter-bench-", dir=parent.absolute()))
    try:
        yield directory
    finally:
        shutil.rmtree(directory, ignore_errors=True)


@contextmanager
def source(family: Family, made: GeneratedSet) -> Iterator[RealServer]:
    """Run a source that serves a generated set, with an account for replicas."""
    with directory_for(family) as directory:
        server = RealServer(family, directory, 1, made=made)
        try:
            server.run(
                "SET sql_log_bin=0",
                f"CREATE USER '{USER}'@'%' IDENTIFIED BY '{PASSWORD}'",
                f"GRANT REPLICATION SLAVE ON *.* TO '{USER}'@'%'",
            )
            yield server
        finally:
            server.stop()


@contextmanager
def replica(family: Family, *options: str) -> Iterator[RealServer]:
    """Run a replica that is attached to no source yet."""
    with directory_for(family) as directory:
        server = RealServer(family, directory, 101, *REPLICA_OPTIONS, *options)
        try:
            yield server
        finally:
            server.stop()
