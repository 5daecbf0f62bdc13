"""A real MariaDB server on a free loopback port, for tests."""

from __future__ import annotations

import contextlib
import functools
import getpass
import os
import re
import shutil
import subprocess
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import pymysql
from pymysql.constants import CLIENT

from dumpfilter.testbed.servers.server import Process, find_program, free_port, make_data
from tests.binlog_tools import local_load_directory

USER = getpass.getuser()
"""The server's system user. A plain user cannot give the data directory to another user."""


ENDS_WITH_CALLER = ("setpriv", "--pdeathsig", "KILL")
"""The beginning of a command line whose process the kernel kills when the thread ends that started the process."""


def spawn_here(command: Sequence[str]) -> Process:
    """Start a process as a child of this one. Ctrl-C in a terminal does not reach the process."""
    null = subprocess.DEVNULL
    return subprocess.Popen(command, stdin=null, stdout=null, stderr=null, start_new_session=True)


def spawn_bound(command: Sequence[str]) -> Process:
    """Start a process that ends with the calling thread, even if this process is killed."""
    return spawn_here([*ENDS_WITH_CALLER, *command])


@functools.cache
def mariadb_version() -> tuple[int, int]:
    """Return the first two numbers of the version of the MariaDB that is installed."""
    command = [shutil.which("mariadbd") or "/usr/sbin/mariadbd", "--no-defaults", "--version"]
    text = subprocess.run(command, capture_output=True, text=True, check=True).stdout
    found = re.search(r"Ver (\d+)\.(\d+)", text)
    assert found is not None, text
    return int(found[1]), int(found[2])


def install(root: Path) -> None:
    """Make the data directory ``root/d`` of a new server, and ``root/tmp`` for its temporary files."""
    # Servers that started together in a shared temporary directory have collided in their temporary tables.
    (root / "tmp").mkdir()
    make_data(find_program("mariadb"), root / "d")


class MariaDb:
    """A running server with its data in ``root/d``. ``options`` are passed to mariadbd."""

    def __init__(self, root: Path, *options: str) -> None:
        self.root = root
        self.socket = root / "s"
        install(root)
        command = [shutil.which("mariadbd") or "/usr/sbin/mariadbd", "--no-defaults", f"--datadir={root}/d"]
        command += [
            f"--socket={self.socket}",
            # Another process may take a port between its choice and the server's start.
            f"--port={free_port()}",
            "--bind-address=127.0.0.1",
            f"--user={USER}",
        ]
        command += [f"--pid-file={root}/pid", f"--log-error={root}/err.log", "--innodb-buffer-pool-size=16M"]
        command += ["--innodb-flush-log-at-trx-commit=0", "--server-id=99", *options]
        self._server = subprocess.Popen(command, env={**os.environ, "TMPDIR": str(root / "tmp")})
        deadline = time.monotonic() + 240
        while not self._answers():
            assert self._server.poll() is None, (root / "err.log").read_text()
            assert time.monotonic() < deadline, (root / "err.log").read_text()
            time.sleep(0.05)

    @property
    def client(self) -> list[str]:
        """The client's command line, which connects as root."""
        return ["mariadb", "--no-defaults", "-uroot", f"--socket={self.socket}"]

    def connect(self) -> pymysql.Connection[Any]:
        """Connect as root. Values come as texts, and a text may have several statements."""
        return pymysql.connect(
            unix_socket=str(self.socket),
            user="root",
            charset="utf8mb4",
            autocommit=True,
            client_flag=CLIENT.MULTI_STATEMENTS,
            conv={},
            ssl_disabled=True,
        )

    def _answers(self) -> bool:
        with contextlib.suppress(pymysql.Error):
            self.connect().close()
            return True
        return False

    def sql(self, text: str) -> list[list[str]]:
        """Run statements in a session of their own, and return the rows of all of them."""
        with self.connect() as connection, connection.cursor() as cursor:
            cursor.execute(text)
            rows = list(cursor.fetchall())
            while cursor.nextset():
                rows += cursor.fetchall()
        return [[_text(value) for value in row] for row in rows]

    def replay(self, files: list[Path]) -> None:
        """Run ``mariadb-binlog FILES | mariadb``. A message of either program fails the test."""
        with local_load_directory() as local_load:
            command = ["mariadb-binlog", "--no-defaults", local_load, *map(str, files)]
            read = subprocess.run(command, capture_output=True, check=True)
            assert read.stderr == b""
            done = subprocess.run(self.client, input=read.stdout, capture_output=True, check=False)
        assert done.returncode == 0, done.stderr.decode()

    def empty(self) -> None:
        """Drop all databases but the server's own."""
        own = {"mysql", "information_schema", "performance_schema", "sys"}
        names = [name for (name,) in self.sql("SHOW DATABASES") if name not in own]
        for name in names:
            self.sql(f"DROP DATABASE `{name}`")

    def close(self) -> None:
        """Stop the server."""
        self._server.terminate()
        self._server.wait(timeout=240)


def _text(value: str | bytes | None) -> str:
    if value is None:
        return "NULL"
    return value.decode() if isinstance(value, bytes) else value
