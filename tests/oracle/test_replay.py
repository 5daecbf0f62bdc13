"""A filtered set of every recorded case, replayed with the server's own tools into a real, empty server, ends with
the tables and rows of the recorded replica: ``mariadb-binlog … | mariadb`` here, and ``mysqlbinlog … | mysql`` where
$DUMPFILTER_MYSQL names a running, empty MySQL (docs/operating.md)."""

from __future__ import annotations

import os
import shlex
import subprocess
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from dumpfilter.dump.filter_set import filter_set
from dumpfilter.filter import RuleKind
from dumpfilter.index.fileset import BinlogSet
from tests.mariadb import MariaDb, mariadb_version
from tests.oracle.recordings import Recording, all_cases
from tests.oracle.test_recordings import filter_of
from tests.support import binlogs_in

MYSQL = shlex.split(os.environ.get("DUMPFILTER_MYSQL", ""))
"""The mysql client with what it needs to reach an empty server (lower_case_table_names=0)."""
MYSQLBINLOG = shlex.split(os.environ.get("DUMPFILTER_MYSQLBINLOG", ""))

NOT_AS_A_REPLICA = {
    # a MariaDB replica creates a table that is there anew (slave_ddl_exec_mode=IDEMPOTENT), a client gets an error
    "mariadb-databases-wild-do-x.t%",
    # the reader's --rewrite-db is not the replica's: it compares exactly, and rewrites no statement about a database
    "mariadb-databases-rewrite",
    "mariadb-databases-rewrite+do-y",
    "mariadb-databases-rewrite+wild-do-y",
    "mariadb-databases-rewrite+ignore-x",
    "mariadb-rewrite-databases-d2-to-c",
    "mariadb-rewrite-statement-databases-d2-to-c",
    "mariadb-lower-case-replica-only-rewrite-shop-store",
    "mariadb-lower-case-replica-only-rewrite-SHOP-store",
    # nor the database of an ALTER in two phases, which the reader prints as an event
    "mariadb118-alter-rewrite",
    "mariadb1189-alter-rewrite",
}
"""Cases whose replay by a client differs from what a replica does, whatever the filter."""

NEEDS = {"mariadb118-current": (11, 8), "mariadb1189-current": (11, 8)}
"""Recordings that only a server of that version or a later one can replay: it has the types and variables in them."""

_OWN = {"mysql", "information_schema", "performance_schema", "sys", "test"}
_HIDDEN = ", ".join(f"'{name}'" for name in sorted(_OWN))


class Server:
    """A server that recordings are replayed into."""

    def __init__(self, client: list[str], reader: list[str]) -> None:
        self.client, self.reader = client, reader

    def sql(self, text: str, *, force: bool = False) -> list[list[str]]:
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
        statements = [f"DROP DATABASE {_quoted(name)};" for name in names]
        statements += [f"DROP USER {user};" for (user,) in users]
        # rows of another character set than the recorded ones' fit in no column
        statements.append(f"SET collation_server = {collation};")
        statements += [f"CREATE DATABASE {_quoted(name)};" for name in databases]
        self.sql("\n".join(statements), force=True)

    def replay(self, files: list[Path], *options: str) -> None:
        """A replica that goes on after errors."""
        read = subprocess.run([*self.reader, *options, *map(str, files)], capture_output=True, check=True)
        subprocess.run([*self.client, "--force"], input=read.stdout, capture_output=True, check=False)

    def state(self) -> dict[str, dict[str, dict[str, Any]]]:
        """Rows and CHECKSUM TABLE of every table, by database."""
        found: dict[str, dict[str, dict[str, Any]]] = {
            name: {} for (name,) in self.sql("SHOW DATABASES") if name not in _OWN
        }
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


def _quoted(name: str) -> str:
    return "`" + name.replace("`", "``") + "`"


def replayable(name: str) -> bool:
    """Whether the MariaDB that is installed can replay the recording of that name."""
    return name not in NEEDS or NEEDS[name] <= mariadb_version()


def _cases(family: str, *, lower: bool = False) -> list[Any]:
    chosen = []
    for recording, case in all_cases():
        ended = recording.oracle["cases"][case]
        reached = ended.get("reached_the_end", ended["gtid"] == recording.oracle["gtid"])
        whole = not ended["stopped"] and reached
        if (
            replayable(recording.name)
            and recording.family == family
            and whole
            and ("lower-case" in recording.name) == lower
        ):
            name = f"{recording.name}-{case}"
            if name not in NOT_AS_A_REPLICA:
                chosen.append(pytest.param(recording, case, id=name))
    return chosen


@pytest.fixture(scope="module")
def mariadb(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    server = MariaDb(tmp_path_factory.mktemp("replay"), "--skip-log-bin")
    yield Server(server.client, ["mariadb-binlog", "--no-defaults"])
    server.close()


@pytest.fixture(scope="module")
def lower_mariadb(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    server = MariaDb(tmp_path_factory.mktemp("lower"), "--skip-log-bin", "--lower-case-table-names=1")
    yield Server(server.client, ["mariadb-binlog", "--no-defaults"])
    server.close()


def comparable(state: dict[str, dict[str, dict[str, Any]]]) -> dict[str, dict[str, dict[str, Any]]]:
    """Leave out the checksum of a table with a stored generated column, where the server computes it in another way.

    CHECKSUM TABLE of equal data differs between MariaDB 10.11.19 and 11.8.6. ``old-types.sql`` has such a table.
    """
    if mariadb_version() <= (10, 11) or "documents" not in state.get("ty", {}):
        return state
    documents = {"rows": state["ty"]["documents"]["rows"]}
    return {**state, "ty": {**state["ty"], "documents": documents}}


def check(server: Server, recording: Recording, case: str, directory: Path) -> None:
    """Filter, replay, compare."""
    rules = filter_of(recording, case)
    filter_set(BinlogSet.open(recording.path / "bin.index"), rules, directory, "bin")
    files = binlogs_in(directory)
    # as the recorder did: the databases are there, so that a filter on tables has somewhere to land
    server.empty([*recording.oracle["source"]["state"], "store", "people"], recording.collation)
    rewrites = [rule.pair for rule in rules.rules if rule.kind is RuleKind.REWRITE_DB]
    server.replay(files, *(f"--rewrite-db={source}->{target}" for source, target in rewrites))
    assert comparable(server.state()) == comparable(recording.oracle["cases"][case]["state"])


@pytest.mark.parametrize(("recording", "case"), _cases("mariadb"))
def test_mariadb(recording: Recording, case: str, mariadb: Server, tmp_path: Path) -> None:
    check(mariadb, recording, case, tmp_path)


@pytest.mark.parametrize(("recording", "case"), _cases("mariadb", lower=True))
def test_mariadb_with_lower_case_names(
    recording: Recording, case: str, lower_mariadb: Server, tmp_path: Path
) -> None:
    check(lower_mariadb, recording, case, tmp_path)


if MYSQL and MYSQLBINLOG:
    # after a statement that fails, MySQL 9.7 answers error 1105 to BINLOG with the rows of MySQL 5.7
    @pytest.mark.parametrize(
        ("recording", "case"), [one for one in _cases("mysql") if one.values[0].version >= (8, 0)]
    )
    def test_mysql(recording: Recording, case: str, tmp_path: Path) -> None:
        check(Server(MYSQL, MYSQLBINLOG), recording, case, tmp_path)
