"""Servers that recordings are replayed into with the servers' own programs, and the comparison of their tables."""

from __future__ import annotations

import subprocess
from pathlib import Path
from typing import Any

import pymysql

from dumpfilter.dump.set_pass import filter_set
from dumpfilter.filter.rules import RuleKind
from dumpfilter.index.fileset import BinlogSet
from tests.binlog_tools import local_load_directory
from tests.mariadb import MariaDb, mariadb_version
from tests.oracle.recordings import Recording, filter_of
from tests.support import binlogs_in

NEEDS = {"mariadb118-current": (11, 8), "mariadb1189-current": (11, 8)}
"""The oldest MariaDB that can replay a recording, for recordings with types and variables that older ones lack."""

_OWN = {"mysql", "information_schema", "performance_schema", "sys", "test"}
_HIDDEN = ", ".join(f"'{name}'" for name in sorted(_OWN))

State = dict[str, dict[str, dict[str, Any]]]
"""By database and table: the number of rows and the table's checksum."""


class Server:
    """A server that recordings are replayed into. ``client`` and ``reader`` are commands with their first arguments."""

    def __init__(self, client: list[str], reader: list[str]) -> None:
        self.client, self.reader = client, reader

    def sql(self, statement: str) -> list[list[str]]:
        """Run one statement and return its rows."""
        return self._client(statement, force=False)

    def run_all(self, statements: list[str]) -> None:
        """Run the statements and ignore their errors."""
        self._client(";\n".join(statements), force=True)

    def _client(self, text: str, *, force: bool) -> list[list[str]]:
        command = [*self.client, "-N", "-B", "-r", *(["--force"] if force else [])]
        done = subprocess.run(command, input=text.encode(), capture_output=True, check=False)
        assert force or done.returncode == 0, done.stderr.decode()
        return [line.split("\t") for line in done.stdout.decode().splitlines()]

    def empty(self, databases: list[str], collation: int) -> None:
        """Leave only these databases, with this default collation, and no accounts but root."""
        names = [name for (name,) in self.sql("SHOW DATABASES") if name not in _OWN]
        users = self.sql(
            "SELECT CONCAT(QUOTE(user), '@', QUOTE(host)) FROM mysql.user WHERE user REGEXP '^[ur][0-9]$'"
        )
        statements = [f"DROP DATABASE {_quoted(name)}" for name in names]
        statements += [f"DROP USER {user}" for (user,) in users]
        # Row events name no character set: a table in another one than the source's would refuse the recorded rows.
        statements.append(f"SET collation_server = {collation}")
        statements += [f"CREATE DATABASE {_quoted(name)}" for name in databases]
        self.run_all(statements)

    def replay(self, files: list[Path], *options: str) -> None:
        """Replay binlogs as a replica that goes on after errors. ``options`` are the reader's."""
        with local_load_directory() as local_load:
            command = [*self.reader, local_load, *options, *map(str, files)]
            read = subprocess.run(command, capture_output=True, check=True)
            subprocess.run([*self.client, "--force"], input=read.stdout, capture_output=True, check=False)

    def state(self) -> State:
        """Return the number of rows and CHECKSUM TABLE of every table."""
        found: State = {name: {} for (name,) in self.sql("SHOW DATABASES") if name not in _OWN}
        tables = self.sql(
            "SELECT table_schema, table_name FROM information_schema.tables WHERE table_type = 'BASE TABLE' "
            f"AND table_schema NOT IN ({_HIDDEN})"
        )
        if not tables:
            return found
        names = [f"{_quoted(database)}.{_quoted(table)}" for database, table in tables]
        counted = self.sql(
            " UNION ALL ".join(f"SELECT {n}, COUNT(*) FROM {name}" for n, name in enumerate(names))
        )
        rows = {int(n): int(count) for n, count in counted}
        checksums = [row[-1] for row in self.sql("CHECKSUM TABLE " + ", ".join(names))]
        for n, (database, table) in enumerate(tables):
            found[database][table] = {"rows": rows[n], "checksum": checksums[n]}
        return found


class MariaDbServer(Server):
    """A MariaDB of this process. Statements go over one connection, since a client process costs more than they do."""

    def __init__(self, server: MariaDb) -> None:
        super().__init__(server.client, ["mariadb-binlog", "--no-defaults"])
        self._connection = pymysql.connect(
            unix_socket=str(server.socket), user="root", charset="utf8mb4", autocommit=True
        )

    def sql(self, statement: str) -> list[list[str]]:
        with self._connection.cursor() as cursor:
            cursor.execute(statement)
            return [["NULL" if value is None else str(value) for value in row] for row in cursor.fetchall()]

    def run_all(self, statements: list[str]) -> None:
        for statement in statements:
            try:
                self.sql(statement)
            except pymysql.Error:
                continue


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def replayable(name: str) -> bool:
    """Tell whether the MariaDB that is installed can replay the recording of that name."""
    return name not in NEEDS or NEEDS[name] <= mariadb_version()


def comparable(state: State) -> State:
    """Leave out the checksum of a table with a stored generated column, where the server computes it in another way.

    CHECKSUM TABLE of equal data differs between MariaDB 10.11.19 and 11.8.6. ``old-types.sql`` has such a table.
    """
    if mariadb_version() <= (10, 11) or "documents" not in state.get("ty", {}):
        return state
    documents = {"rows": state["ty"]["documents"]["rows"]}
    return {**state, "ty": {**state["ty"], "documents": documents}}


def check(server: Server, recording: Recording, case: str, directory: Path) -> None:
    """Filter a recording, replay the result, and compare the tables with those of the recorded replica."""
    rules = filter_of(recording, case)
    filter_set(BinlogSet.open(recording.path / "bin.index"), rules, directory, "bin")
    files = binlogs_in(directory)
    # The recorder created these databases first, so that tables of a filter on tables have a database.
    server.empty([*recording.oracle["source"]["state"], "store", "people"], recording.collation)
    rewrites = [rule.pair for rule in rules.rules if rule.kind is RuleKind.REWRITE_DB]
    server.replay(files, *(f"--rewrite-db={source}->{target}" for source, target in rewrites))
    assert comparable(server.state()) == comparable(recording.oracle["cases"][case]["state"])
