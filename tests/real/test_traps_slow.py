"""Each trap that lint warns of stops a real replica, or makes its data differ.

MariaDB only, unless ``DUMPFILTER_MYSQL_ROOT`` names a MySQL server.
"""

from __future__ import annotations

import time
from collections.abc import Iterator
from typing import NamedTuple

import pytest

from dumpfilter.analyse.lint.findings import Level
from dumpfilter.analyse.lint.knowledge import gather
from dumpfilter.analyse.lint.linting import lint
from dumpfilter.binlog.format import NameRules
from dumpfilter.filter.filter import Filter
from dumpfilter.index.fileset import BinlogSet
from tests.real.server import MYSQL_ROOT, RealServer, Servers

WAIT = 120.0
"""The longest wait for a replica, seconds. The machine may be busy with other tests."""


class Trap(NamedTuple):
    code: str
    rules: str
    statements: str
    errno: int
    """The error at which the replica stops; 0 for a replica whose data differ."""
    mysql_errno: int | None = None
    """The error number at which MySQL stops, if it differs."""


MAKE = "CREATE DATABASE shop; CREATE DATABASE hr; CREATE DATABASE logs; "
TABLES = (
    MAKE
    + "USE shop; CREATE TABLE t (i INT PRIMARY KEY); USE logs; CREATE TABLE a (i INT PRIMARY KEY); USE shop; "
)
STATEMENT = "SET SESSION binlog_format = 'STATEMENT'; "

TRAPS = {
    "another-current-database": Trap(
        "missing-table",
        "do-db=shop",
        MAKE + "USE hr; CREATE TABLE shop.t (i INT); INSERT INTO shop.t VALUES (1)",
        1146,
    ),
    "dropped-by-ignore-db": Trap(
        "missing-table",
        "ignore-db=hr",
        MAKE + "USE hr; CREATE TABLE shop.t (i INT); INSERT INTO shop.t VALUES (1)",
        1146,
    ),
    "like": Trap(
        "missing-table", "ignore-table=shop.t", TABLES + "CREATE TABLE u LIKE shop.t; INSERT INTO u VALUES (1)", 1146
    ),
    "view": Trap("missing-table", "ignore-table=shop.t", TABLES + "CREATE VIEW v AS SELECT * FROM t", 1146),
    "qualified-under-rewrite": Trap(
        "missing-table",
        "rewrite-db=shop->store",
        "CREATE DATABASE store; CREATE DATABASE shop; USE shop; CREATE TABLE shop.t (i INT); "
        "INSERT INTO shop.t VALUES (1)",
        1146,
    ),
    "database": Trap(
        "missing-database",
        "wild-do-table=shop.t%",
        "CREATE DATABASE shop; USE shop; CREATE TABLE t (i INT)",
        1049,
    ),
    "drop": Trap(
        "left-table",
        "do-db=shop",
        TABLES + "USE hr; DROP TABLE shop.t; USE shop; CREATE TABLE t (i INT)",
        0,
        1050,
    ),
    "alter": Trap(
        "schema-drift",
        "do-db=shop",
        TABLES + "USE hr; ALTER TABLE shop.t ADD j INT DEFAULT 1; INSERT INTO shop.t VALUES (1, 2)",
        0,
    ),
    "alter-a-type": Trap(
        "schema-drift",
        "do-db=shop",
        TABLES + "USE hr; ALTER TABLE shop.t MODIFY i VARCHAR(9); INSERT INTO shop.t VALUES ('x')",
        1677,
        13146,
    ),
    "exchange": Trap(
        "schema-drift",
        "do-db=shop",
        TABLES + "CREATE TABLE p (i INT PRIMARY KEY) PARTITION BY RANGE (i) (PARTITION p0 VALUES LESS THAN MAXVALUE); "
        "CREATE INDEX x ON p (i); USE hr; CREATE INDEX x ON shop.t (i); USE shop; "
        "ALTER TABLE p EXCHANGE PARTITION p0 WITH TABLE t",
        1736,
    ),
    "lost": Trap(
        "lost-statement", "do-db=shop", TABLES + STATEMENT + "USE hr; INSERT INTO shop.t VALUES (1)", 0
    ),
    "lost-by-another-table": Trap(
        "lost-statement",
        "wild-ignore-table=logs.%",
        TABLES + STATEMENT + "INSERT INTO t VALUES (1); INSERT INTO logs.a VALUES (1); "
        "DELETE t, a FROM shop.t t JOIN logs.a a ON t.i = a.i",
        0,
    ),
    "unwanted": Trap(
        "missing-table", "ignore-db=logs", TABLES + STATEMENT + "INSERT INTO logs.a VALUES (1)", 1146,
        1049,
    ),
    "reads": Trap(
        "missing-table",
        "wild-ignore-table=logs.%",
        TABLES + STATEMENT + "INSERT INTO t SELECT i FROM logs.a",
        1146,
        1049,
    ),
    "trigger": Trap(
        "trigger",
        "wild-ignore-table=logs.%",
        TABLES + "CREATE TRIGGER tr AFTER INSERT ON t FOR EACH ROW INSERT INTO logs.a VALUES (NEW.i); "
        + STATEMENT + "INSERT INTO t VALUES (1)",
        1146,
    ),
    "foreign-key": Trap(
        "foreign-key",
        "ignore-table=shop.t",
        TABLES + "CREATE TABLE c (i INT, FOREIGN KEY (i) REFERENCES t (i))",
        1005,
        1824,
    ),
    "merged": Trap(
        "merged",
        "rewrite-db=shop->hr",
        "CREATE DATABASE hr; USE hr; CREATE TABLE t (i INT PRIMARY KEY); INSERT INTO t VALUES (1); "
        "CREATE DATABASE shop; USE shop; CREATE TABLE IF NOT EXISTS t (i INT PRIMARY KEY); INSERT INTO t VALUES (1)",
        1062,
    ),
}  # fmt: skip


class Pair(NamedTuple):
    source: RealServer
    replica: RealServer

    def run(self, trap: Trap) -> int:
        """Run a trap's statements on the source, and return the error at which the replica stops, or 0."""
        source, replica = self
        source.empty()
        replica.empty()
        replica.set_filter([f"--replicate-{rule}" for rule in trap.rules.split()])
        replica.follow(source.port)
        source.sql(*(statement for statement in trap.statements.split("; ") if statement))
        replica.control("START")
        deadline = time.monotonic() + WAIT
        while time.monotonic() < deadline:
            status = replica.status()
            assert status is not None
            if status.sql_error[0]:
                return status.sql_error[0]
            if replica.applied_gtids() == source.binlog_gtids():
                return 0
            time.sleep(0.05)
        raise AssertionError(f"the replica is not done: {replica.status()}")


@pytest.fixture(scope="module", params=["mariadb", *(["mysql"] if MYSQL_ROOT else [])])
def pair(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    with Servers(request.param, tmp_path_factory.mktemp("traps")) as servers:
        source, replica = servers.new("source", 1, "--binlog-format=ROW"), servers.new("replica", 2)
        source.start()
        replica.start()
        yield Pair(source, replica)


@pytest.mark.parametrize("name", TRAPS)
def test_a_trap_is_real(name: str, pair: Pair) -> None:
    trap = TRAPS[name]
    errno = pair.run(trap)
    family = pair.source.family
    wanted = trap.mysql_errno if family == "mysql" and trap.mysql_errno is not None else trap.errno
    status = pair.replica.status()
    assert errno == wanted, status and status.sql_error
    known = gather(BinlogSet.open(pair.source.data / "bin.index"))
    rules = [f"--replicate-{rule}" for rule in trap.rules.split()]
    rule_filter = Filter.from_options(rules, names=NameRules(family))  # type: ignore[arg-type]
    codes = [warning.code.value for warning in lint(rule_filter, known) if warning.level is Level.WARNING]
    if trap.code == "left-table" and family == "mariadb":
        assert "left-table" not in codes
    else:
        assert trap.code in codes
    if not errno and trap.code != "left-table":
        state = pair.source.state()
        kept = pair.replica.state()
        assert any(kept.get("shop", {}).get(table) != found for table, found in state["shop"].items())
