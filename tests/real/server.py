"""Real MariaDB and MySQL servers on loopback, as sources and as replicas, which tests stop, kill and start again.

MariaDB is the installed one. MySQL is looked for below the directory that ``DUMPFILTER_MYSQL_ROOT`` names: the root of
a file system with ``usr/sbin/mysqld``, into which the server is started with chroot. ``/`` is this file system.
"""

from __future__ import annotations

import itertools
import os
import shutil
import signal
import socket
import subprocess
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pymysql

from dumpfilter.testbed.servers import free_port
from tests.mariadb import USER, install

MYSQL_ROOT = Path(os.environ["DUMPFILTER_MYSQL_ROOT"]) if os.environ.get("DUMPFILTER_MYSQL_ROOT") else None
"""The file system with MySQL, or None where only MariaDB can be asked."""

REPLICATION_USER = "repl"
REPLICATION_PASSWORD = "repl-secret"
"""The account with which replicas log in to a real source."""

START_TIMEOUT = 240.0
STOP_TIMEOUT = 120.0
"""Longest waits for a server, seconds. They are generous, because the machine may be busy with other tests."""

_OWN = frozenset({"mysql", "sys", "information_schema", "performance_schema", "test"})
_HIDDEN = ", ".join(f"'{name}'" for name in sorted(_OWN))

State = dict[str, dict[str, dict[str, Any]]]
"""By database and table: the number of rows and the table's checksum, in the form of an oracle.json."""

GONE = (2003, 2006, 2013, 2055)
"""Errors of the client: no server, server gone, connection lost."""


class Died(Exception):
    """A server that ended though nobody stopped it."""


@dataclass(frozen=True)
class Place:
    """A file of the source and a position in that file."""

    file: str
    position: int

    def __str__(self) -> str:
        return f"{self.file}:{self.position}"


@dataclass(frozen=True)
class ReplicaStatus:
    """SHOW REPLICA STATUS in the words of both families."""

    io_running: str
    """Yes, No, or a word for connecting."""
    sql_running: bool
    read: Place
    executed: Place
    io_error: tuple[int, str]
    sql_error: tuple[int, str]
    retrieved: str
    """``Retrieved_Gtid_Set`` of MySQL, ``Gtid_IO_Pos`` of MariaDB."""
    behind: str
    raw: dict[str, Any]


def ports_from(first: int) -> Callable[[], int]:
    """Return a function that gives a free port at each call: any, or one of the hundred from ``first`` on."""
    if not first:
        return free_port
    numbers = itertools.cycle(range(first, first + 100))

    def next_port() -> int:
        for number in numbers:
            with socket.socket() as probe:
                probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
                try:
                    probe.bind(("127.0.0.1", number))
                except OSError:
                    continue
                return number
        raise AssertionError("unreachable")

    return next_port


class RealServer:
    """A server with its data in a directory of its own. The subclasses know the words of their family."""

    family: str
    change: str
    """The statement with which a replica is told its source, up to the options."""
    source: str
    replica: str
    """The words for the two roles in statements."""
    gtids: str
    """The expression for a replica's GTID set."""
    log_status: str
    forget: str
    """Statements that make a server's replication and binlogs as new."""

    def __init__(self, directory: Path, server_id: int, *options: str, port: int = 0) -> None:
        self.directory = directory
        self.server_id = server_id
        self.options = options
        self.port = port or free_port()
        self._process: subprocess.Popen[bytes] | None = None
        self._connection: Any = None

    # -- processes

    @property
    def data(self) -> Path:
        """The data directory, which holds the binlogs ``bin.000001`` and on."""
        return self.directory / "d"

    @property
    def pid(self) -> int:
        """The number of the server's process."""
        assert self._process is not None
        return self._process.pid

    def command(self) -> list[str]:
        """Return the server's command line."""
        raise NotImplementedError

    def environment(self) -> dict[str, str] | None:
        """Return the environment of the server's process, or None for that of this process."""
        return None

    def start(self) -> None:
        """Start the server and wait until it answers."""
        self._process = subprocess.Popen(
            self.command(),
            env=self.environment(),
            stdout=subprocess.DEVNULL,
            stderr=subprocess.DEVNULL,
        )
        deadline = time.monotonic() + START_TIMEOUT
        while True:
            try:
                self.sql("SELECT 1")
                return
            except (pymysql.Error, OSError):
                self._forget_connection()
            if self._process.poll() is not None or time.monotonic() > deadline:
                raise Died(f"{self.directory.name} did not start:\n{self.log()[-3000:]}")
            time.sleep(0.05)

    def stop(self, number: int = signal.SIGTERM) -> None:
        """Stop the server and wait for its end. SIGKILL cuts it off."""
        self._forget_connection()
        if self._process is not None and self._process.poll() is None:
            self._process.send_signal(number)
            try:
                self._process.wait(STOP_TIMEOUT)
            except subprocess.TimeoutExpired:
                self._process.kill()
                self._process.wait()

    def kill(self) -> None:
        """Kill the server, as a crash does."""
        self.stop(signal.SIGKILL)

    @property
    def running(self) -> bool:
        """True while the server's process runs."""
        return self._process is not None and self._process.poll() is None

    def log(self) -> str:
        """Return the error log."""
        path = self.directory / "err.log"
        return path.read_text(errors="replace") if path.exists() else ""

    # -- statements

    def connect(self) -> Any:
        """Return a new connection of root, in which each statement is committed at once."""
        return pymysql.connect(
            unix_socket=str(self.directory / "s"),
            user="root",
            charset="utf8mb4",
            autocommit=True,
            connect_timeout=10,
            read_timeout=600,
        )

    def _forget_connection(self) -> None:
        if self._connection is not None:
            self._connection._force_close()
            self._connection = None

    def sql(self, statement: str) -> list[tuple[Any, ...]]:
        """Run one statement over a connection that is kept, and return its rows."""
        if self._connection is None:
            self._connection = self.connect()
        try:
            with self._connection.cursor() as cursor:
                cursor.execute(statement)
                return list(cursor.fetchall())
        except pymysql.err.OperationalError as error:
            if error.args[0] in GONE:
                self._forget_connection()
            raise

    def run(self, *statements: str) -> None:
        """Run statements over the connection that is kept."""
        for statement in statements:
            self.sql(statement)

    def value(self, expression: str) -> str:
        """Return the value of an expression as text, without line breaks."""
        ((value,),) = self.sql(f"SELECT {expression}")
        return str(value).replace("\n", "")

    # -- a source

    def end(self) -> Place:
        """Return the end of the newest binlog."""
        ((file, position, *_),) = self.sql(self.log_status)
        return Place(file, int(position))

    def written(self) -> str:
        """Return the GTID set of the source's binlog."""
        raise NotImplementedError

    def make_replication_user(self) -> None:
        """Make the account with which replicas log in, without a trace in the binlog."""
        name = f"'{REPLICATION_USER}'@'%'"
        self.run(
            "SET SESSION sql_log_bin = 0",
            f"CREATE USER IF NOT EXISTS {name} IDENTIFIED BY '{REPLICATION_PASSWORD}'",
            f"GRANT REPLICATION SLAVE, REPLICATION CLIENT ON *.* TO {name}",
            "SET SESSION sql_log_bin = 1",
        )

    # -- a replica

    def follow(
        self,
        port: int,
        user: str = REPLICATION_USER,
        password: str = REPLICATION_PASSWORD,
        *,
        start: Place | None = None,
        options: str = "",
    ) -> None:
        """Tell the replica its source: by GTID, or by file and position from a place on."""
        raise NotImplementedError

    def set_filter(self, rules: Sequence[str]) -> None:
        """Set the replica's own filter, and empty the kinds of rules that have none here."""
        raise NotImplementedError

    def start_replica(self, thread: str = "") -> None:
        """Start both threads of the replica, or one of them."""
        self.sql(f"START {self.replica} {thread}")

    def stop_replica(self, thread: str = "") -> None:
        """Stop both threads of the replica, or one of them."""
        self.sql(f"STOP {self.replica} {thread}")

    def status(self) -> ReplicaStatus | None:
        """Return SHOW REPLICA STATUS, or None of a server that has no source."""
        if self._connection is None:
            self._connection = self.connect()
        with self._connection.cursor(pymysql.cursors.DictCursor) as cursor:
            cursor.execute(f"SHOW {self.replica} STATUS")
            raw = cursor.fetchone()
        if raw is None:
            return None
        named = {
            key.replace("Slave", "Replica").replace("Master", "Source"): value for key, value in raw.items()
        }
        return ReplicaStatus(
            named["Replica_IO_Running"],
            named["Replica_SQL_Running"] == "Yes",
            Place(named["Source_Log_File"], int(named["Read_Source_Log_Pos"])),
            Place(named["Relay_Source_Log_File"], int(named["Exec_Source_Log_Pos"])),
            (int(named["Last_IO_Errno"]), named["Last_IO_Error"]),
            (int(named["Last_SQL_Errno"]), named["Last_SQL_Error"]),
            (named.get("Retrieved_Gtid_Set") or named.get("Gtid_IO_Pos") or "").replace("\n", ""),
            str(named["Seconds_Behind_Source"]),
            named,
        )

    def executed(self) -> str:
        """Return the replica's GTID set."""
        return self.value(self.gtids)

    def empty(self, databases: Sequence[str] = (), collation: int = 0) -> None:
        """Forget source, binlogs, GTIDs, databases and accounts. Then make these databases."""
        if self.status() is not None:
            self.stop_replica()
            self.sql(f"RESET {self.replica} ALL")
        self.run("SET SESSION sql_log_bin = 0")
        for statement in self.prepared():
            self.sql(statement)
        names = [name for (name,) in self.sql("SHOW DATABASES") if name not in _OWN]
        self.run("SET SESSION foreign_key_checks = 0", *(f"DROP DATABASE {quoted(name)}" for name in names))
        self.run("SET SESSION foreign_key_checks = 1")
        users = self.sql(
            "SELECT user, host FROM mysql.user WHERE user NOT LIKE 'mysql.%' AND user NOT LIKE 'mariadb.%' "
            f"AND user NOT IN ('root', '{REPLICATION_USER}', 'PUBLIC') AND host <> ''"
        )
        for user, host in users:
            self.sql(f"DROP USER '{user}'@'{host}'")
        if collation:
            # Row events name no character set. A table in another one than the source's refuses the recorded rows.
            self.sql(f"SET SESSION collation_server = {collation}")
        self.run(*(f"CREATE DATABASE IF NOT EXISTS {quoted(name)}" for name in databases))
        self.run(*self.forget.split("; "))
        self._forget_connection()

    def prepared(self) -> list[str]:
        """Return the statements that roll back the prepared XA transactions, whose locks would outlive a test."""
        statements = []
        for format_id, gtrid, bqual, data in self.sql("XA RECOVER"):
            name = data.encode() if isinstance(data, str) else data
            parts = name[:gtrid], name[gtrid : gtrid + bqual]
            statements.append(f"XA ROLLBACK X'{parts[0].hex()}', X'{parts[1].hex()}', {format_id}")
        return statements

    def state(self) -> State:
        """Return the number of rows and CHECKSUM TABLE of every table."""
        found: State = {name: {} for (name,) in self.sql("SHOW DATABASES") if name not in _OWN}
        tables = self.sql(
            "SELECT table_schema, table_name FROM information_schema.tables WHERE table_type = 'BASE TABLE' "
            f"AND table_schema NOT IN ({_HIDDEN}) ORDER BY 1, 2"
        )
        if not tables:
            return found
        names = [f"{quoted(database)}.{quoted(table)}" for database, table in tables]
        counted = self.sql(
            " UNION ALL ".join(f"SELECT {n}, COUNT(*) FROM {name}" for n, name in enumerate(names))
        )
        rows = {int(n): int(count) for n, count in counted}
        checksums = [str(row[-1]) for row in self.sql("CHECKSUM TABLE " + ", ".join(names))]
        for n, (database, table) in enumerate(tables):
            found[database][table] = {"rows": rows[n], "checksum": checksums[n]}
        return found

    def definitions(self) -> dict[str, str]:
        """Return SHOW CREATE TABLE of every table, and the bodies of views, triggers and routines, by name."""
        found = {}
        for database, table in self.sql(
            "SELECT table_schema, table_name FROM information_schema.tables WHERE table_schema "
            f"NOT IN ({_HIDDEN})"
        ):
            found[f"{database}.{table}"] = self.sql(f"SHOW CREATE TABLE {quoted(database)}.{quoted(table)}")[
                0
            ][1]
        for database, name, body in self.sql(
            "SELECT trigger_schema, trigger_name, action_statement FROM information_schema.triggers WHERE "
            f"trigger_schema NOT IN ({_HIDDEN})"
        ):
            found[f"{database}.{name} (trigger)"] = body
        for database, name, body in self.sql(
            "SELECT routine_schema, routine_name, routine_definition FROM information_schema.routines WHERE "
            f"routine_schema NOT IN ({_HIDDEN})"
        ):
            found[f"{database}.{name} (routine)"] = body
        return found


class RealMariaDb(RealServer):
    """A MariaDB server."""

    family = "mariadb"
    change = "CHANGE MASTER TO"
    source = "MASTER"
    replica = "SLAVE"
    gtids = "@@GLOBAL.gtid_slave_pos"
    log_status = "SHOW MASTER STATUS"
    forget = "RESET MASTER; SET GLOBAL gtid_slave_pos = ''"
    root: Path | None = None
    """The file system with the server, into which it is started with chroot. None: the installed server."""

    def command(self) -> list[str]:
        directory = self.directory if self.root is None else Path("/") / self.directory.relative_to(self.root)
        return [
            *([] if self.root is None else ["chroot", str(self.root)]),
            "/usr/sbin/mariadbd" if self.root else shutil.which("mariadbd") or "/usr/sbin/mariadbd",
            "--no-defaults",
            f"--user={USER}",
            f"--datadir={directory}/d",
            f"--socket={directory}/s",
            f"--port={self.port}",
            "--bind-address=127.0.0.1",
            f"--server-id={self.server_id}",
            f"--log-error={directory}/err.log",
            f"--pid-file={directory}/pid",
            "--log-bin=bin",
            "--log-slave-updates",
            "--skip-slave-start",
            "--gtid-strict-mode=ON",
            "--local-infile=1",
            "--innodb-buffer-pool-size=32M",
            "--innodb-log-file-size=32M",
            # A killed process loses nothing that it wrote to a file. Only a power cut would, and nobody cuts it here.
            "--innodb-flush-log-at-trx-commit=2",
            "--sync-binlog=0",
            *self.options,
        ]

    def environment(self) -> dict[str, str] | None:
        return None if self.root else {**os.environ, "TMPDIR": str(self.directory / "tmp")}

    def written(self) -> str:
        return self.value("@@GLOBAL.gtid_binlog_pos")

    def follow(
        self,
        port: int,
        user: str = REPLICATION_USER,
        password: str = REPLICATION_PASSWORD,
        *,
        start: Place | None = None,
        options: str = "",
    ) -> None:
        place = "MASTER_USE_GTID=slave_pos"
        if start is not None:
            place = f"MASTER_USE_GTID=no, MASTER_LOG_FILE='{start.file}', MASTER_LOG_POS={start.position}"
        self.sql(
            f"CHANGE MASTER TO MASTER_HOST='127.0.0.1', MASTER_PORT={port}, MASTER_USER='{user}', "
            f"MASTER_PASSWORD='{password}', MASTER_CONNECT_RETRY=1, {place}{options}"
        )

    def set_filter(self, rules: Sequence[str]) -> None:
        """Set the filter by system variables. They cannot hold a name with a comma."""
        for kind, values in _by_kind(rules).items():
            variable = f"replicate_{kind.replace('-', '_')}"
            text = pymysql.converters.escape_string(",".join(values))
            self.sql(f"SET GLOBAL {variable} = '{text}'")


class RealMySql(RealServer):
    """A MySQL server of 8.4 or later. ``directory`` is below :data:`MYSQL_ROOT`."""

    family = "mysql"
    change = "CHANGE REPLICATION SOURCE TO"
    source = "SOURCE"
    replica = "REPLICA"
    gtids = "@@GLOBAL.gtid_executed"
    log_status = "SHOW BINARY LOG STATUS"
    forget = "RESET BINARY LOGS AND GTIDS"

    def command(self) -> list[str]:
        inside = _inside(self.directory)
        return [
            *_mysqld(),
            "--no-defaults",
            "--user=root",
            f"--datadir={inside}/d",
            f"--socket={inside}/s",
            f"--port={self.port}",
            "--bind-address=127.0.0.1",
            f"--server-id={self.server_id}",
            f"--log-error={inside}/err.log",
            f"--pid-file={inside}/pid",
            "--log-bin=bin",
            "--log-replica-updates=ON",
            "--skip-replica-start",
            "--local-infile=1",
            "--mysqlx=OFF",
            "--secure-file-priv=",
            "--log-error-verbosity=3",
            "--performance-schema=OFF",
            "--innodb-buffer-pool-size=64M",
            "--innodb-redo-log-capacity=64M",
            "--innodb-flush-log-at-trx-commit=2",
            "--sync-binlog=0",
            *([] if self.without_gtids else ["--gtid-mode=ON", "--enforce-gtid-consistency=ON"]),
            *self.options,
        ]

    @property
    def without_gtids(self) -> bool:
        """True when the options set a GTID mode of their own."""
        return any(option.startswith("--gtid-mode") for option in self.options)

    def written(self) -> str:
        return self.value("@@GLOBAL.gtid_executed")

    def follow(
        self,
        port: int,
        user: str = REPLICATION_USER,
        password: str = REPLICATION_PASSWORD,
        *,
        start: Place | None = None,
        options: str = "",
    ) -> None:
        place = "SOURCE_AUTO_POSITION=1"
        if start is not None:
            place = f"SOURCE_AUTO_POSITION=0, SOURCE_LOG_FILE='{start.file}', SOURCE_LOG_POS={start.position}"
        self.sql(
            f"CHANGE REPLICATION SOURCE TO SOURCE_HOST='127.0.0.1', SOURCE_PORT={port}, SOURCE_USER='{user}', "
            f"SOURCE_PASSWORD='{password}', SOURCE_CONNECT_RETRY=1, SOURCE_RETRY_COUNT=1000, "
            f"GET_SOURCE_PUBLIC_KEY=1, {place}{options}"
        )

    def set_filter(self, rules: Sequence[str]) -> None:
        settings = []
        for kind, values in _by_kind(rules).items():
            if kind == "rewrite-db":
                pairs = [value.split("->") for value in values]
                shown = [f"({quoted(pair[0].strip())}, {quoted(pair[1].strip())})" for pair in pairs]
            elif kind.startswith("wild"):
                shown = [pymysql.converters.escape_string(value).join("''") for value in values]
            elif kind.endswith("table"):
                shown = [".".join(map(quoted, value.split(".", 1))) for value in values]
            else:
                shown = [quoted(value) for value in values]
            settings.append(f"REPLICATE_{kind.upper().replace('-', '_')} = ({', '.join(shown)})")
        self.sql("CHANGE REPLICATION FILTER " + ", ".join(settings))


_KINDS = (
    "do-db",
    "ignore-db",
    "do-table",
    "ignore-table",
    "wild-do-table",
    "wild-ignore-table",
    "rewrite-db",
)


def _by_kind(rules: Sequence[str]) -> dict[str, list[str]]:
    """Return the values of the options ``--replicate-KIND=VALUE``, by kind. Each kind is there."""
    found: dict[str, list[str]] = {kind: [] for kind in _KINDS}
    for rule in rules:
        kind, _, value = rule.removeprefix("--replicate-").partition("=")
        found[kind].append(value)
    return found


def install_other(root: Path, data: Path) -> None:
    """Make the data directory ``data`` of a MariaDB server inside the file system ``root``."""
    command = [
        "chroot",
        str(root),
        "mariadb-install-db",
        "--no-defaults",
        f"--datadir={data}",
        f"--user={USER}",
    ]
    command += ["--skip-test-db", "--auth-root-authentication-method=normal"]
    subprocess.run(command, check=True, capture_output=True)


def as_text(value: str | bytes) -> str:
    """Return a value of a result as text. MariaDB gives some columns as bytes."""
    return value.decode() if isinstance(value, bytes) else value


def quoted(name: str) -> str:
    """Return a name in backquotes."""
    return "`" + name.replace("`", "``") + "`"


def _mysqld() -> list[str]:
    assert MYSQL_ROOT is not None
    root = [] if Path("/") == MYSQL_ROOT else ["chroot", str(MYSQL_ROOT)]
    return [*root, "/usr/sbin/mysqld"]


def _inside(directory: Path) -> Path:
    """Return a directory's name inside MySQL's file system."""
    assert MYSQL_ROOT is not None
    return Path("/") / directory.relative_to(MYSQL_ROOT)


class Servers:
    """Makes servers from templates below ``directory`` and stops all of them at the end.

    MySQL's directory must be below :data:`MYSQL_ROOT`. ``ports`` gives each new server a port. ``mariadb_root`` is a
    file system with another MariaDB than the installed one, and ``directory`` must then be below it.
    """

    def __init__(
        self,
        family: str,
        directory: Path,
        ports: Callable[[], int] = free_port,
        *,
        mariadb_root: Path | None = None,
    ) -> None:
        self._mariadb_root = mariadb_root
        self.family = family
        self.directory = directory
        self._ports = ports
        self._made: list[RealServer] = []

    def new(self, name: str, server_id: int, *options: str) -> RealServer:
        """Return a server with empty data, which is not started."""
        kind: type[RealServer] = RealMySql if self.family == "mysql" else RealMariaDb
        server = kind(self.directory / name, server_id, *options, port=self._ports())
        if isinstance(server, RealMariaDb):
            server.root = self._mariadb_root
        shutil.rmtree(server.directory, ignore_errors=True)
        lower = [option for option in options if option.startswith("--lower-case-table-names")]
        shutil.copytree(self._template(*lower), server.directory, symlinks=True)
        self._made.append(server)
        return server

    def _template(self, *options: str) -> Path:
        """Return a directory with the data of a new server. MySQL keeps the case of names from then on."""
        template = self.directory / "-".join(["template", *(option.rpartition("=")[2] for option in options)])
        if template.exists():
            return template
        making = template.with_name(f"{template.name}.new")
        shutil.rmtree(making, ignore_errors=True)
        making.mkdir(parents=True)
        if self.family == "mysql":
            subprocess.run(
                [
                    *_mysqld(),
                    "--no-defaults",
                    "--initialize-insecure",
                    "--user=root",
                    "--secure-file-priv=",
                    *options,
                    f"--datadir={_inside(making)}/d",
                ],
                check=True,
                capture_output=True,
            )
            # A first start makes certificates and keys, which takes seconds of computing.
            first = RealMySql(making, 1, *options, port=self._ports())
            first.start()
            first.stop()
            for file in (making / "d").glob("bin.*"):
                file.unlink()
            (making / "d" / "auto.cnf").unlink()
        elif self._mariadb_root is not None:
            data = Path("/") / (making / "d").relative_to(self._mariadb_root)
            install_other(self._mariadb_root, data)
        else:
            install(making)
        making.rename(template)
        return template

    def close(self) -> None:
        """Kill all servers."""
        for server in self._made:
            server.kill()

    def __enter__(self) -> Servers:
        return self

    def __exit__(self, *_: object) -> None:
        self.close()


def wait_for(condition: Callable[[], object], what: Callable[[], object], seconds: float = 120.0) -> None:
    """Wait until a condition is true. Afterwards it is an AssertionError with the text ``what()``."""
    deadline = time.monotonic() + seconds
    while not condition():
        assert time.monotonic() < deadline, what()
        time.sleep(0.02)
