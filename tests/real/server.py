"""Real MariaDB and MySQL servers on loopback, as sources and as replicas, which tests stop, kill and start again.

MariaDB is the installed one. MySQL is looked for below the directory that ``DUMPFILTER_MYSQL_ROOT`` names: the root of
a file system with ``usr/sbin/mysqld``, which runs with the libraries there. ``/`` is this file system.
"""

from __future__ import annotations

import itertools
import os
import shutil
import socket
import subprocess
import time
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NamedTuple

import pymysql
from pymysql.cursors import Cursor

from dumpfilter.base.waiting import until
from dumpfilter.binlog.format import Family
from dumpfilter.filter.rules import Rule, RuleKind, ValueForm, parse_option
from dumpfilter.testbed.servers.server import (
    ADDRESS,
    Process,
    Program,
    Server,
    Spawn,
    find_program,
    free_port,
)
from dumpfilter.testbed.servers.sql import Account, SourceAddress, identifier, quoted, status_rows
from dumpfilter.testbed.values import Place
from tests.mariadb import USER, spawn_bound

MYSQL_ROOT = Path(os.environ["DUMPFILTER_MYSQL_ROOT"]) if os.environ.get("DUMPFILTER_MYSQL_ROOT") else None
"""The file system with MySQL, or None where only MariaDB can be asked."""

REPLICATION_USER = "repl"
REPLICATION_PASSWORD = "repl-secret"
"""The account with which replicas log in to a real source."""

START_TIMEOUT = 240.0
"""The longest wait for a server, seconds. It is generous, because the machine may be busy with other tests."""

_OWN = frozenset({"mysql", "sys", "information_schema", "performance_schema", "test"})
_HIDDEN = ", ".join(f"'{name}'" for name in sorted(_OWN))

State = dict[str, dict[str, dict[str, Any]]]
"""By database and table: the number of rows and the table's checksum, in the form of an oracle.json."""

GONE = (2003, 2006, 2013, 2055)
"""Errors of the client: no server, server gone, connection lost."""

_BY_PLACE: Mapping[Family, str] = {
    "mariadb": "MASTER_USE_GTID=no, MASTER_LOG_FILE={}, MASTER_LOG_POS={}",
    "mysql": "SOURCE_AUTO_POSITION=0, SOURCE_LOG_FILE={}, SOURCE_LOG_POS={}",
}
"""By family, the settings with which a replica begins at a position of the source's binlog."""

_OPTIONS: Mapping[Family, tuple[str, ...]] = {
    "mariadb": (
        *("--skip-slave-start", "--gtid-strict-mode=ON", "--local-infile=1"),
        *("--innodb-buffer-pool-size=32M", "--innodb-log-file-size=32M"),
    ),
    "mysql": (
        *("--skip-replica-start", "--local-infile=1", "--log-error-verbosity=3"),
        *("--innodb-buffer-pool-size=64M", "--innodb-redo-log-capacity=64M"),
    ),
}
_FORGET: Mapping[Family, tuple[str, ...]] = {
    "mariadb": ("RESET MASTER", "SET GLOBAL gtid_slave_pos = ''"),
    "mysql": ("RESET BINARY LOGS AND GTIDS",),
}
"""The statements that make a server's replication and binlogs as new."""

_MADE_USERS = (
    "user NOT LIKE 'mysql.%' AND user NOT LIKE 'mariadb.%' "
    f"AND user NOT IN ('root', '{REPLICATION_USER}', 'PUBLIC') AND host <> ''"
)
"""The condition for the accounts that a workload has made."""


class ReplicaStatus(NamedTuple):
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
                    probe.bind((ADDRESS, number))
                except OSError:
                    continue
                return number
        raise AssertionError("unreachable")

    return next_port


class RealServer(Server):
    """A server of the testbed. Its statements share a connection of root, whose errors are PyMySQL's."""

    def __init__(
        self,
        program: Program,
        directory: Path,
        server_id: int,
        *options: str,
        port: int = 0,
        spawn: Spawn = spawn_bound,
    ) -> None:
        own = _OPTIONS[program.family]
        if any(option.startswith("--gtid-mode") for option in options):
            own = (*own, "--enforce-gtid-consistency=OFF")
        super().__init__(
            program,
            directory,
            name=directory.name,
            server_id=server_id,
            options=(*own, *options),
            port=port,
            spawn=spawn,
        )
        self._connection: Any = None

    # -- the process

    def _accounts(self) -> list[str]:
        self.replication = Account(REPLICATION_USER, REPLICATION_PASSWORD)
        return super()._accounts()

    def start(self, timeout: float = START_TIMEOUT, *, replicates: bool = True) -> None:
        super().start(timeout, replicates=replicates)

    def kill(self) -> None:
        self._forget_connection()
        super().kill()

    # -- statements

    def connect(self, **more: Any) -> pymysql.Connection[Any]:
        """Return a new connection of root, in which each statement is committed at once."""
        return pymysql.connect(
            unix_socket=str(self.socket),
            user="root",
            charset="utf8mb4",
            autocommit=True,
            connect_timeout=10,
            read_timeout=600,
            **more,
        )

    def _forget_connection(self) -> None:
        if self._connection is not None:
            self._connection._force_close()
            self._connection = None

    def sql(
        self,
        *statements: str,
        arguments: Any = None,
        cursorclass: type[Cursor] = Cursor,
        use_unicode: bool = True,
        **more: Any,
    ) -> list[Any]:
        if self._connection is None:
            self._connection = self.connect()
        self._connection.use_unicode = use_unicode
        rows: list[Any] = []
        try:
            for statement in statements:
                with self._connection.cursor(cursorclass) as cursor:
                    cursor.execute(statement, arguments)
                    rows = list(cursor.fetchall())
        except pymysql.err.OperationalError as error:
            if error.args[0] in GONE:
                self._forget_connection()
            raise
        return rows

    # -- a replica

    def follow(
        self,
        port: int,
        user: str = REPLICATION_USER,
        password: str = REPLICATION_PASSWORD,
        *,
        start: Place | None = None,
    ) -> None:
        """Tell the replica its source: by GTID, or by file and position from a place on."""
        address = SourceAddress(ADDRESS, port, user, password)
        self.set_source(address)
        if start is not None:
            # MySQL refuses a position beside SOURCE_AUTO_POSITION = 1.
            by_place = _BY_PLACE[self.family].format(quoted(start.file), start.position)
            self.sql(self.dialect.changed("", by_place))

    def set_filter(self, rules: Sequence[str]) -> None:
        """Set the replica's own filter, and empty the kinds of rules that have none here.

        The system variables of MariaDB cannot hold a name with a comma.
        """
        parsed = [parse_option(rule) for rule in rules]
        found = {kind: [rule for rule in parsed if rule.kind is kind] for kind in RuleKind}
        if self.family == "mysql":
            clauses = (
                f"{kind.sql_name} = ({', '.join(map(sql_value, each))})" for kind, each in found.items()
            )
            self.sql(f"CHANGE REPLICATION FILTER {', '.join(clauses)}")
            return
        for kind, each in found.items():
            text = quoted(",".join(rule.value for rule in each))
            self.sql(f"SET GLOBAL {kind.option.replace('-', '_')} = {text}")

    def status(self) -> ReplicaStatus | None:
        """Return SHOW REPLICA STATUS, or None of a server that has no source."""
        for row in status_rows(self):
            return ReplicaStatus(
                row["Replica_IO_Running"],
                row["Replica_SQL_Running"] == "Yes",
                Place(row["Source_Log_File"], int(row["Read_Source_Log_Pos"])),
                Place(row["Relay_Source_Log_File"], int(row["Exec_Source_Log_Pos"])),
                (int(row["Last_IO_Errno"]), row["Last_IO_Error"]),
                (int(row["Last_SQL_Errno"]), row["Last_SQL_Error"]),
                str(row.get("Retrieved_Gtid_Set") or row.get("Gtid_IO_Pos") or "").replace("\n", ""),
                str(row["Seconds_Behind_Source"]),
            )
        return None

    def empty(self, databases: Sequence[str] = (), collation: int = 0) -> None:
        """Forget source, binlogs, GTIDs, databases and accounts. Then make these databases."""
        if self.status() is not None:
            self.control("STOP")
            self.sql(f"{self.dialect.controlled('RESET', '')} ALL")
        self.sql("SET SESSION sql_log_bin = 0", *self.prepared())
        names = [name for (name,) in self.sql("SHOW DATABASES") if name not in _OWN]
        self.sql(
            "SET SESSION foreign_key_checks = 0", *(f"DROP DATABASE {identifier(name)}" for name in names)
        )
        self.sql("SET SESSION foreign_key_checks = 1")
        users = self.sql(f"SELECT user, host FROM mysql.user WHERE {_MADE_USERS}")
        self.sql(*(f"DROP USER '{user}'@'{host}'" for user, host in users))
        if self.family == "mariadb":
            # A role of MariaDB has no host, and DROP USER refuses it.
            roles = self.sql("SELECT user FROM mysql.user WHERE is_role = 'Y' AND user <> 'PUBLIC'")
            self.sql(*(f"DROP ROLE {identifier(role)}" for (role,) in roles))
        if collation:
            # Row events name no character set. A table in another one than the source's refuses the recorded rows.
            self.sql(f"SET SESSION collation_server = {collation}")
        self.sql(*(f"CREATE DATABASE IF NOT EXISTS {identifier(name)}" for name in databases))
        self.sql(*_FORGET[self.family])
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
        names = [f"{identifier(database)}.{identifier(table)}" for database, table in tables]
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
            f"SELECT table_schema, table_name FROM information_schema.tables WHERE table_schema NOT IN ({_HIDDEN})"
        ):
            try:
                shown = self.sql(f"SHOW CREATE TABLE {identifier(database)}.{identifier(table)}")
                found[f"{database}.{table}"] = shown[0][1]
            except pymysql.Error as error:
                # A MERGE table without its tables cannot be opened.
                found[f"{database}.{table}"] = f"error {error.args[0]}"
        for kind, body in (("trigger", "action_statement"), ("routine", "routine_definition")):
            for database, name, text in self.sql(
                f"SELECT {kind}_schema, {kind}_name, {body} FROM information_schema.{kind}s "
                f"WHERE {kind}_schema NOT IN ({_HIDDEN})"
            ):
                found[f"{database}.{name} ({kind})"] = text
        return found

    def objects(self) -> dict[str, str]:
        """Return the definition of every object, the rows of every table as a number and a checksum, and all grants.

        A table that cannot be read has the number of the error instead.
        """
        found = dict(self.definitions())
        for (database,) in self.sql("SHOW DATABASES"):
            if database not in _OWN:
                found[database] = self.sql(f"SHOW CREATE DATABASE {identifier(database)}")[0][1]
        for database, name, text in self.sql(
            "SELECT event_schema, event_name, event_definition FROM information_schema.events"
        ):
            found[f"{database}.{name} (event)"] = text
        for user, host in self.sql(f"SELECT user, host FROM mysql.user WHERE {_MADE_USERS}"):
            rows = self.sql(f"SHOW GRANTS FOR '{user}'@'{host}'")
            found[f"{user}@{host} (grants)"] = "; ".join(sorted(row[0] for row in rows))
        for database, table, kind in self.sql(
            "SELECT table_schema, table_name, table_type FROM information_schema.tables "
            f"WHERE table_schema NOT IN ({_HIDDEN})"
        ):
            name = f"{identifier(database)}.{identifier(table)}"
            if "VIEW" in kind:
                continue
            try:
                ((rows,),) = self.sql(f"SELECT COUNT(*) FROM {name}")
                ((_, checksum),) = self.sql(f"CHECKSUM TABLE {name}")
                found[f"{database}.{table} (rows)"] = f"{rows} {checksum}"
            except pymysql.Error as error:
                found[f"{database}.{table} (rows)"] = f"error {error.args[0]}"
        return found


class OtherMariaDb(RealServer):
    """A MariaDB server inside the file system ``root``, into which it is started with chroot."""

    def __init__(self, root: Path, directory: Path, server_id: int, *options: str, port: int = 0) -> None:
        self._root = root.resolve()
        program = Program("mariadb", "/usr/sbin/mariadbd", "")
        super().__init__(program, directory, server_id, *options, port=port, spawn=self._spawn_inside)

    def _inside(self, text: str) -> str:
        return text.replace(str(self._root), "", 1)

    def _spawn_inside(self, command: Sequence[str]) -> Process:
        return spawn_bound(["chroot", str(self._root), *map(self._inside, command)])

    def _make_data(self, directory: Path) -> None:
        command = ["chroot", str(self._root), "mariadb-install-db", "--no-defaults", f"--user={USER}"]
        command += [f"--datadir={self._inside(str(directory.resolve()))}"]
        command += ["--skip-test-db", "--auth-root-authentication-method=normal"]
        subprocess.run(command, check=True, capture_output=True)


def sql_value(rule: Rule) -> str:
    """Return the value of a filter rule, such as the table of an ignore rule, as the statement CHANGE REPLICATION
    FILTER spells it. The value is quoted where MySQL requires quotes.
    """
    match rule.kind.form:
        case ValueForm.DATABASE_PAIR:
            return f"({identifier(rule.pair[0])}, {identifier(rule.pair[1])})"
        case ValueForm.WILD_TABLE:
            return quoted(rule.value)
        case ValueForm.TABLE:
            return ".".join(map(identifier, rule.value.split(".", 1)))
        case _:
            return identifier(rule.value)


def as_text(value: str | bytes) -> str:
    """Return a value of a result as text. MariaDB gives some columns as bytes."""
    return value.decode() if isinstance(value, bytes) else value


class Servers:
    """Makes servers below ``directory`` and stops all of them at the end.

    ``ports`` gives each new server a port. ``mariadb_root`` is a file system with another MariaDB than the installed
    one, and ``directory`` must then be below it.
    """

    def __init__(
        self,
        family: Family,
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
        directory, port = self.directory / name, self._ports()
        server: RealServer
        if self._mariadb_root is not None:
            server = OtherMariaDb(self._mariadb_root, directory, server_id, *options, port=port)
        else:
            root = MYSQL_ROOT if self.family == "mysql" and Path("/") != MYSQL_ROOT else None
            program = find_program(self.family, root=str(root or ""))
            server = RealServer(program, directory, server_id, *options, port=port)
        shutil.rmtree(directory, ignore_errors=True)
        server.prepare()
        self._made.append(server)
        return server

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
    until(condition, time.monotonic() + seconds, lambda: AssertionError(what()), poll=0.02)
