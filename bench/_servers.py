"""Real servers of both families: a source that serves generated files, replicas, and the servers' own programs."""

from __future__ import annotations

import os
import shutil
import subprocess
import tempfile
from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pymysql.cursors import DictCursor

from bench._common import MYSQL_ROOT, OUT
from dumpfilter.base.errors import ServerMissing
from dumpfilter.binlog.workload.generate import GeneratedSet
from dumpfilter.testbed.servers import Family, Program, Server, find_program
from dumpfilter.testbed.servers.programs import command_in
from dumpfilter.testbed.servers.server import START_TIMEOUT
from tests.mariadb import spawn_bound

_COMMON = ("--innodb-buffer-pool-size=64M", "--sync-binlog=1", "--innodb-flush-log-at-trx-commit=1")
_OWN: dict[Family, tuple[str, ...]] = {
    "mysql": ("--skip-replica-start",),
    "mariadb": ("--gtid-strict-mode=ON", "--skip-slave-start"),
}
REPLICA_OPTIONS = ("--sync-relay-log=0", "--sync-master-info=0", "--max-relay-log-size=1073741824")
"""Options of a replica that does not wait for the disk."""


def program_of(family: Family) -> Program:
    """Return the program of a family. MySQL's is below ``MYSQL_ROOT``. Raises ServerMissing."""
    return find_program(family, root=str(MYSQL_ROOT.absolute()) if family == "mysql" else "")


def missing(family: Family) -> str | None:
    """Return why a family's server cannot run here and what to do, or None when it can."""
    if not shutil.which("ss"):
        return "ss, which counts the bytes of a connection, is not on PATH. Install Debian's iproute2."
    try:
        program_of(family)
    except ServerMissing as error:
        return f"{error}; MYSQL_ROOT names the root of a system with MySQL"
    return None


class RealServer(Server):
    """A running server with a new data directory, whose rows come over one connection."""

    def start(self, timeout: float = START_TIMEOUT, *, replicates: bool = True) -> None:
        super().start(timeout, replicates=replicates)
        # The bytes of the port's clients are counted. So this connection takes the socket file, where root needs no
        # password.
        self._session = self.connect(unix_socket=str(self.socket), password="", cursorclass=DictCursor)

    def rows(self, statement: str) -> list[dict[str, Any]]:
        """Run a statement and return its rows, each by the columns' names."""
        with self._session.cursor() as cursor:
            cursor.execute(statement)
            return list(cursor.fetchall())

    def run(self, *statements: str) -> None:
        """Run statements one after the other."""
        for statement in statements:
            self.rows(statement)

    def serve(self, made: GeneratedSet) -> None:
        """Replace the binlogs of a server that has not started by generated files."""
        self.prepare()
        for old in self.data.glob("bin.*"):
            old.unlink()
        for path in made.files:
            try:
                os.link(path, self.data / path.name)
            except OSError:
                shutil.copyfile(path, self.data / path.name)
        (self.data / "bin.index").write_text("".join(f"./{path.name}\n" for path in made.files))


@contextmanager
def running(
    family: Family, server_id: int, *options: str, made: GeneratedSet | None = None
) -> Iterator[RealServer]:
    """Run a server in a new directory, and remove the directory at the end. ``made`` becomes the server's binlogs."""
    OUT.mkdir(exist_ok=True)
    options = (*_COMMON, *_OWN[family], *options)
    with tempfile.TemporaryDirectory(prefix="server-", dir=OUT.absolute()) as directory:
        place = Path(directory, "server")
        server = RealServer(
            program_of(family), place, name=family, server_id=server_id, options=options, spawn=spawn_bound
        )
        if made is not None:
            server.serve(made)
        try:
            server.start()
            yield server
        finally:
            server.stop()


@dataclass(frozen=True)
class Peer:
    """A server's own program that copies the server's binlogs."""

    name: str
    command: list[str]
    files: list[str]
    server: RealServer


def binlog_program(family: Family) -> tuple[str, list[str]]:
    """Return the name of a server's program that reads binlogs, and its command line without options."""
    if family == "mysql":
        root = MYSQL_ROOT.absolute()
        return "mysqlbinlog", [*command_in(str(root), str(root / "usr/bin/mysqlbinlog")), "--no-defaults"]
    return "mariadb-binlog", ["mariadb-binlog", "--no-defaults"]


@contextmanager
def copied(made: GeneratedSet, family: Family) -> Iterator[Peer]:
    """Run a server on a generated set of its style, and yield the server's program that copies the binlogs."""
    own = {"mysql": ["--ssl-mode=DISABLED", "--get-server-public-key"], "mariadb": ["--skip-ssl"]}
    name, command = binlog_program(family)
    with running(family, 1, made=made) as server, tempfile.TemporaryDirectory(dir=OUT) as output:
        remote = ["--read-from-remote-server", f"--host={server.host}", f"--port={server.port}", "--raw"]
        account = [f"--user={server.account.user}", f"--password={server.account.password}"]
        command += [*own[family], *remote, *account, f"--result-file={output}/"]
        yield Peer(f"{name} --raw", command, [path.name for path in made.files], server)


def run_silently(command: Sequence[str]) -> None:
    """Run a program to its end, without its output. mysqlbinlog warns of what --database does not do."""
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
