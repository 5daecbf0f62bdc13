"""Real servers of both families: a source that serves generated files, replicas, and the servers' own programs."""

from __future__ import annotations

import json
import os
import shutil
import subprocess
import tempfile
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from pymysql.cursors import DictCursor

from bench._child import running_master
from bench._common import MYSQL_ROOT, OUT, Options, Report, has_mysql
from dumpfilter.base.errors import ServerMissing
from dumpfilter.binlog.workload.generate import GeneratedSet
from dumpfilter.testbed.servers import Family, Program, Server, find_program
from dumpfilter.testbed.servers.programs import command_in

FAMILIES: tuple[Family, ...] = ("mysql", "mariadb")

USER, PASSWORD = "replica", "replica"
"""The account with which a replica logs in, at the real source and behind dumpfilter."""

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

    def __init__(
        self, family: Family, directory: Path, server_id: int, *options: str, made: GeneratedSet | None = None
    ) -> None:
        """Start a server in ``directory``. ``made`` becomes the server's binlogs."""
        options = (*_COMMON, *_OWN[family], *options)
        super().__init__(program_of(family), directory, name=family, server_id=server_id, options=options)
        self.prepare()
        if made is not None:
            _place_binlogs(made, self.data)
        self.start()
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


def _place_binlogs(made: GeneratedSet, directory: Path) -> None:
    """Replace the server's binlogs by the generated files."""
    for old in directory.glob("bin.*"):
        old.unlink()
    for path in made.files:
        try:
            os.link(path, directory / path.name)
        except OSError:
            shutil.copyfile(path, directory / path.name)
    (directory / "bin.index").write_text("".join(f"./{path.name}\n" for path in made.files))


@contextmanager
def running(
    family: Family, server_id: int, *options: str, made: GeneratedSet | None = None
) -> Iterator[RealServer]:
    """Run a server in a new directory, and remove the directory at the end."""
    OUT.mkdir(exist_ok=True)
    with tempfile.TemporaryDirectory(prefix="server-", dir=OUT.absolute()) as directory:
        server = RealServer(family, Path(directory, "server"), server_id, *options, made=made)
        try:
            yield server
        finally:
            server.stop()


@contextmanager
def source(family: Family, made: GeneratedSet) -> Iterator[RealServer]:
    """Run a source that serves a generated set, with an account for replicas."""
    with running(family, 1, made=made) as server:
        server.run(
            "SET sql_log_bin=0",
            f"CREATE USER '{USER}'@'%' IDENTIFIED BY '{PASSWORD}'",
            f"GRANT REPLICATION SLAVE ON *.* TO '{USER}'@'%'",
        )
        yield server


@contextmanager
def behind(
    source: Path | str, rules: Mapping[str, Sequence[str]], *options: str
) -> Iterator[tuple[int, int, int]]:
    """Run ``dumpfilter master`` on a set or an address, with a user for each filter.

    ``rules`` are the rules of each user's replicas. Yield the replication port, the process id and the gRPC port.
    """
    with tempfile.TemporaryDirectory() as directory:
        config = Path(directory, "master.toml")
        config.touch(0o600)
        config.write_text(
            "".join(
                f'[[replica]]\nuser = "{user}"\npassword = "{PASSWORD}"\nrules = {json.dumps(list(each))}\n'
                for user, each in rules.items()
            )
        )
        ports = ("port", "replica-port")
        with running_master(source, *options, "--config", str(config), ports=ports) as (found, pid):
            yield found["replica-port"], pid, found["port"]


def in_families(options: Options, name: str, measure: Callable[[Family], Report]) -> bool:
    """Measure in each family whose server is installed, print the reports, and tell whether all targets were met."""
    met = True
    for family in (options.family,) if options.family else FAMILIES:
        reason = missing(family)
        if reason:
            print(f"\n== {name}, {family}: not measured. {reason}")
            met = met and options.family is None
        else:
            met &= measure(family).print()
    return met


@dataclass(frozen=True)
class Peer:
    """A server's own program that copies the server's binlogs."""

    name: str
    command: list[str]
    files: list[str]
    server: RealServer


def binlog_program(*, with_mysql: bool | None = None) -> tuple[str, list[str]]:
    """Return the name of a server's program that reads binlogs, and its command line without options.

    The program is MySQL's where MySQL is installed, or the one that ``with_mysql`` asks for.
    """
    if has_mysql() if with_mysql is None else with_mysql:
        root = MYSQL_ROOT.absolute()
        return "mysqlbinlog", [*command_in(str(root), str(root / "usr/bin/mysqlbinlog")), "--no-defaults"]
    return "mariadb-binlog", ["mariadb-binlog", "--no-defaults"]


@contextmanager
def copied(made: GeneratedSet, family: Family) -> Iterator[Peer]:
    """Run a server on a generated set of its style, and yield the server's program that copies the binlogs."""
    own = {"mysql": ["--ssl-mode=DISABLED", "--get-server-public-key"], "mariadb": ["--skip-ssl"]}
    name, command = binlog_program(with_mysql=family == "mysql")
    with running(family, 1, made=made) as server, tempfile.TemporaryDirectory(dir=OUT) as output:
        remote = ["--read-from-remote-server", f"--host={server.host}", f"--port={server.port}", "--raw"]
        account = [f"--user={server.account.user}", f"--password={server.account.password}"]
        command += [*own[family], *remote, *account, f"--result-file={output}/"]
        yield Peer(f"{name} --raw", command, [path.name for path in made.files], server)


def run_silently(command: Sequence[str]) -> None:
    """Run a program to its end, without its output. mysqlbinlog warns of what --database does not do."""
    subprocess.run(command, check=True, stdout=subprocess.DEVNULL, stderr=subprocess.DEVNULL)
