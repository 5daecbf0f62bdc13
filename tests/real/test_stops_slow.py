"""Real replicas stop where lint says so, and run to the end with each rule that suggest prints.

MariaDB only, unless ``DUMPFILTER_MYSQL_ROOT`` names a MySQL server. ``python -m tests.real.stops`` asks more.
"""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from dumpfilter.analyse.lint.findings import Code
from dumpfilter.analyse.lint.knowledge import gather
from dumpfilter.analyse.lint.linting import lint
from dumpfilter.binlog.format import NameRules
from dumpfilter.filter.filter import Filter
from dumpfilter.index.fileset import BinlogSet
from tests.real.server import MYSQL_ROOT, Servers
from tests.real.stops import WRONG, End, Pair, expected, record, suggested_sets
from tests.real.texts import FAULTS, Target, judged
from tests.slave.schedules import FACTOR

SEEDS = range(2001, 2001 + 2 * FACTOR)
MAKE = (
    *("CREATE DATABASE shop", "CREATE DATABASE hr", "CREATE TABLE shop.a (id INT PRIMARY KEY)"),
    "CREATE TABLE shop.t (id INT PRIMARY KEY)",
)
NEEDS_A_DATABASE = {
    "procedure": "CREATE PROCEDURE hr.p() SELECT 1",
    "function": "CREATE FUNCTION hr.f() RETURNS INT DETERMINISTIC RETURN 1",
    "event": "CREATE EVENT hr.e ON SCHEDULE EVERY 1 DAY STARTS '2037-01-01' DO SELECT 1",
    "moved": "ALTER TABLE shop.a RENAME TO hr.a",
}
"""Statements that pass rules for tables of ``shop``, and need the database ``hr``."""


@pytest.fixture(scope="module", params=["mariadb", *(["mysql"] if MYSQL_ROOT else [])])
def pair(request: pytest.FixtureRequest, tmp_path_factory: pytest.TempPathFactory) -> Iterator[Pair]:
    with Servers(request.param, tmp_path_factory.mktemp("stops")) as servers:
        yield Pair(servers)


@pytest.mark.parametrize("seed", SEEDS)
def test_replicas_stop_where_lint_says_so(seed: int, pair: Pair, tmp_path: Path) -> None:
    assert record(pair, seed, tmp_path, sets=4, most=30)
    verdicts = list(expected(tmp_path))
    assert not [one for one in verdicts if one[1] in WRONG]
    assert not any(end.errno for end, _, _ in verdicts if end.suggested)
    texts = judged(tmp_path, Target(pair))
    assert not [one for one in texts if one[0].endswith(FAULTS)]


@pytest.mark.parametrize("rule", ["--replicate-ignore-table=hr.x", "--replicate-wild-do-table=shop.%"])
def test_a_replica_with_table_rules_alters_no_sequence(rule: str, pair: Pair) -> None:
    if pair.family != "mariadb":
        return
    pair.run_statements(
        ["CREATE DATABASE shop", "CREATE SEQUENCE shop.s", "ALTER SEQUENCE shop.s INCREMENT 5"]
    )
    end = pair.end([rule])
    assert end.has["shop.s (rows)"] != pair.source.objects()["shop.s (rows)"]
    error, objects, _ = Target(pair).run(pair.binlog, end, lower_case=False)
    assert (error, objects) == ("", end.has)


@pytest.mark.parametrize("moved", ["RENAME TABLE shop.a TO hr.a", "ALTER TABLE shop.a RENAME TO hr.a"])
def test_the_cure_of_a_moved_table(moved: str, pair: Pair) -> None:
    pair.run_statements([*MAKE, "INSERT INTO shop.a VALUES (1)", moved, "INSERT INTO hr.a VALUES (2)"])
    known = gather(BinlogSet.open([pair.binlog]))
    rules = ["--replicate-wild-ignore-table=shop.%"]
    cured = [*rules, "--replicate-ignore-table=hr.a"]
    names = NameRules(pair.family)
    (warning,) = (one for one in lint(Filter.from_options(rules, names=names), known) if one.errors)
    assert warning.code is Code.MISSING_TABLE
    assert f"Add {cured[1]}, " in warning.cure
    assert pair.end(rules).errno in warning.errors
    assert not [one for one in lint(Filter.from_options(cured, names=names), known) if one.errors]
    assert pair.end(cured).errno == 0


@pytest.mark.parametrize("needs", NEEDS_A_DATABASE)
@pytest.mark.parametrize(
    ("rules", "cured"),
    [
        (["wild-ignore-table=hr.%"], ["wild-ignore-table=hr._%"]),
        (["wild-do-table=shop.%"], ["wild-do-table=shop.%", "wild-do-table=hr."]),
    ],
    ids=["ignore", "do"],
)
def test_the_cure_of_a_missing_database(needs: str, rules: list[str], cured: list[str], pair: Pair) -> None:
    pair.run_statements([*MAKE, NEEDS_A_DATABASE[needs], "INSERT INTO shop.t VALUES (1)"])
    known = gather(BinlogSet.open([pair.binlog]))
    found, ends = [], []
    for kinds in (rules, cured):
        options = [f"--replicate-{rule}" for rule in kinds]
        warnings = lint(Filter.from_options(options, names=NameRules(pair.family)), known)
        found.append([one for one in warnings if one.errors])
        ends.append(pair.end(options).errno)
    (warning,) = found[0]
    assert warning.code is Code.MISSING_DATABASE
    assert cured[-1] in warning.cure
    assert ends[0] in warning.errors
    assert not found[1]
    assert ends[1] == 0


def test_what_suggest_prints_runs(pair: Pair) -> None:
    heavy = [f"INSERT INTO hr.big VALUES ({n}, REPEAT('x', 5000))" for n in range(20)]
    make_big = "CREATE TABLE hr.big (id INT PRIMARY KEY, v LONGTEXT)"
    pair.run_statements(
        [*MAKE, make_big, *NEEDS_A_DATABASE.values(), *heavy, "INSERT INTO shop.t VALUES (1)"]
    )
    printed = suggested_sets([pair.binlog])
    assert ["--replicate-ignore-table=hr.big"] in printed
    for rules in printed:
        assert pair.end(rules).errno == 0, rules


def test_a_text_that_makes_a_database_runs_in_strict_mode(pair: Pair) -> None:
    if pair.family != "mariadb":
        return
    # The second database is made inside a transaction.
    rows = "USE hr", "INSERT INTO shop.a VALUES (1)", "INSERT INTO shop.a VALUES (2)"
    pair.run_statements([*MAKE, "SET SESSION binlog_format = 'STATEMENT'", *rows])
    end = End(["--replicate-wild-do-table=shop.a%"], 0, 0, "")
    pair.replica.sql("SET GLOBAL gtid_strict_mode = 1")
    try:
        error, _, text = Target(pair).run(pair.binlog, end, lower_case=False, skip_gtids=False)
    finally:
        pair.replica.sql("SET GLOBAL gtid_strict_mode = 0")
    assert error == ""
    assert text.count("CREATE DATABASE IF NOT EXISTS") == 2
    assert pair.replica.binlog_gtids() == pair.source.binlog_gtids()


def test_a_text_alters_a_versioned_table_as_a_replica_does(pair: Pair) -> None:
    if pair.family != "mariadb":
        return
    versioned = "CREATE TABLE shop.v (i INT) WITH SYSTEM VERSIONING"
    keep = "SET SESSION system_versioning_alter_history = KEEP"
    pair.run_statements([*MAKE, versioned, keep, "ALTER TABLE shop.v ADD j INT"])
    end = pair.end([])
    error, objects, _ = Target(pair).run(pair.binlog, end, lower_case=False)
    assert (error, objects) == ("", end.has)
