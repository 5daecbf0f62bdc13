"""Each trap has its warning, and the cured filter has none.

The bounded search for a misspelled name finds what difflib's ratio finds.
"""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dumpfilter.analyse.lint.findings import Code
from dumpfilter.analyse.lint.knowledge import knowledge_of
from dumpfilter.analyse.lint.linting import closest, lint
from dumpfilter.binlog.format import Family, NameRules
from dumpfilter.filter.effective import EffectiveFilter
from dumpfilter.filter.filter import Filter
from dumpfilter.filter.rules import Rule
from dumpfilter.index.subjects import TableSubject
from tests.analyse.lint.made import codes, knowledge
from tests.strategies import rules as made_rules

SHOP = ("rows of shop.orders", "rows of shop.items", "rows of hr.emp")
NO_TABLE = (
    "hr: CREATE DATABASE shop",
    "hr: CREATE FUNCTION f() RETURNS INT RETURN 1",
)
"""Statements on no table, which misspelled table rules let pass."""
MADE_IN_HR = (
    "shop: CREATE TABLE shop.a (i INT)",
    "hr: CREATE TABLE shop.t (i INT)",
    "rows of shop.t",
    "rows of shop.a",
)
MAKE = (": CREATE DATABASE shop", ": CREATE DATABASE hr", "shop: CREATE TABLE a (i INT)")
TRIGGER = (
    "shop: CREATE TABLE orders (i INT)",
    "logs: CREATE TABLE audit (i INT)",
    "shop: CREATE TRIGGER tr AFTER INSERT ON shop.orders FOR EACH ROW INSERT INTO logs.audit VALUES (NEW.i)",
    "shop: INSERT INTO orders VALUES (1)",
    "rows of logs.audit",
)

CHILD = "shop: CREATE TABLE c (i INT, FOREIGN KEY (i) REFERENCES p (i))"


@pytest.mark.parametrize(
    ("code", "events", "wrong", "right"),
    [
        ("comma", SHOP, "do-db=shop,hr", "do-db=shop do-db=hr"),
        ("comma", SHOP, "do-table=shop.orders,shop.items", "do-table=shop.orders do-table=shop.items"),
        ("quotes", SHOP, "ignore-db=`hr`", "ignore-db=hr"),
        ("quotes", SHOP, "ignore-db=hr;", "ignore-db=hr"),
        ("case", SHOP, "ignore-db=HR", "ignore-db=hr"),
        ("case", SHOP, "wild-ignore-table=HR.%", "wild-ignore-table=hr.%"),
        ("wildcard", SHOP, "ignore-table=hr.%", "wild-ignore-table=hr.%"),
        ("wildcard", SHOP, "ignore-db=h%", "wild-ignore-table=h%.%"),
        ("wildcard", SHOP, "wild-ignore-table=hr.*", "wild-ignore-table=hr.%"),
        ("escape", ("rows of a_b.t", "rows of shop.t"), r"ignore-db=a\_b", "ignore-db=a_b"),
        ("wrong-kind", SHOP, "ignore-db=hr.emp", "ignore-table=hr.emp"),
        ("wrong-kind", SHOP, "ignore-db=hr.%", "wild-ignore-table=hr.%"),
        ("renamed", SHOP, "rewrite-db=shop->store do-db=shop", "rewrite-db=shop->store do-db=store"),
        ("misspelled", SHOP, "ignore-table=shop.order", "ignore-table=shop.orders"),
        ("no-match", SHOP, "ignore-db=scratch", "ignore-db=hr"),
        ("nothing-passes", SHOP, "do-db=elsewhere", "do-db=shop"),
        ("nothing-passes", (*NO_TABLE, *SHOP), "do-table=shop.nope", "do-table=shop.orders"),
        ("nothing-passes", (*NO_TABLE, *SHOP), "wild-do-table=shpo.%", "wild-do-table=shop.%"),
        ("nothing-passes", NO_TABLE, "do-db=elsewhere", "do-table=shop.nope"),
        ("nothing-passes", ("hr: CREATE USER u", *SHOP), "do-table=shop.nope", "do-table=mysql.user"),
        ("merged", ("rows of a.t", "rows of b.t"), "rewrite-db=a->b", "rewrite-db=a->c"),
        ("underscore", ("rows of a_b.t", "rows of axb.t"), "wild-do-table=a_b.%", r"wild-do-table=a\_b.%"),
        ("not-asked", SHOP, "do-db=shop ignore-db=hr", "do-db=shop"),
        ("not-asked", SHOP, "wild-do-table=shop.% wild-ignore-table=shop.i%", "wild-do-table=shop.%"),
        ("not-asked", SHOP, "wild-do-table=shop.% wild-ignore-table=shop.i%", "wild-ignore-table=shop.i%"),
        ("not-asked", SHOP, "ignore-table=hr.emp wild-do-table=hr.e% do-db=hr do-db=shop", "do-db=shop"),
        (
            "blocked",
            SHOP,
            "do-db=shop do-table=hr.emp do-table=shop.orders",
            "do-db=shop do-table=shop.orders",
        ),
        ("missing-table", MADE_IN_HR, "do-db=shop", "wild-do-table=shop.%"),
        ("missing-table", MADE_IN_HR, "ignore-db=hr", "wild-ignore-table=hr.%"),
        (
            "missing-table",
            (": CREATE TABLE shop.t (i INT)", "rows of shop.t"),
            "do-db=shop",
            "wild-do-table=shop.%",
        ),
        (
            "missing-table",
            ("shop: CREATE TABLE shop.t (i INT)", "rows of shop.t"),
            "rewrite-db=shop->store",
            "wild-do-table=shop.%",
        ),
        (
            "missing-table",
            ("shop: CREATE TABLE t (i INT)", "shop: INSERT INTO shop.t VALUES (1)"),
            "rewrite-db=shop->store",
            "do-db=shop",
        ),
        (
            "missing-table",
            ("shop: CREATE TABLE a (i INT)", "shop: CREATE TABLE b LIKE a", "rows of shop.b"),
            "ignore-table=shop.a",
            "ignore-table=shop.a ignore-table=shop.b ",
        ),
        (
            "missing-table",
            ("shop: CREATE TABLE a (i INT)", "shop: CREATE VIEW v AS SELECT * FROM a", "rows of shop.b"),
            "ignore-table=shop.a",
            "wild-do-table=shop.b",
        ),
        (
            "missing-table",
            ("shop: CREATE TABLE a (i INT)", "shop: DROP TABLE a, b", "rows of shop.b"),
            "do-table=shop.b ignore-table=shop.x",
            "do-table=shop.b do-table=shop.a",
        ),
        (
            "temporary-table",
            ("shop: CREATE TEMPORARY TABLE tmp (i INT)", "shop: INSERT INTO t SELECT * FROM tmp"),
            "do-table=shop.t",
            "do-db=shop",
        ),
        (
            "temporary-table",
            (
                "shop: CREATE TEMPORARY TABLE t (i INT)",
                "hr: DROP TABLE shop.t",
                "shop: CREATE TEMPORARY TABLE t (j INT)",
            ),
            "do-db=shop",
            "wild-do-table=shop.%",
        ),
        (
            "temporary-table",
            (
                "shop: INSERT INTO t VALUES (1)",
                "hr: CREATE TEMPORARY TABLE shop.t (i INT)",
                "shop: DELETE FROM t",
            ),
            "do-db=shop",
            "wild-do-table=shop.%",
        ),
        (
            "temporary-table",
            (
                "shop: CREATE TABLE t (i INT)",
                "shop: CREATE TEMPORARY TABLE t (j INT)",
                "hr: DROP TEMPORARY TABLE shop.t",
                "shop: INSERT INTO t VALUES (1)",
            ),
            "ignore-db=hr",
            "wild-ignore-table=hr.%",
        ),
        (
            "temporary-table",
            ("hr: CREATE TEMPORARY TABLE shop.t (i INT)", "shop: INSERT INTO t VALUES (1)"),
            "rewrite-db=shop->hr",
            "rewrite-db=logs->hr",
        ),
        (
            "temporary-table",
            (
                "shop: CREATE TABLE shop.t (i INT)",
                "shop: CREATE TEMPORARY TABLE shop.t (j INT, k INT)",
                "shop: DROP TEMPORARY TABLE t",
                "shop: INSERT INTO shop.t VALUES (1)",
            ),
            "rewrite-db=shop->hr",
            "rewrite-db=logs->hr",
        ),
        (
            "left-table",
            (
                "shop: CREATE TABLE shop.t (i INT)",
                "shop: CREATE TEMPORARY TABLE shop.t (i INT)",
                "shop: DROP TEMPORARY TABLE t",
                "shop: DROP TABLE shop.t",
                "shop: CREATE TABLE shop.t (i INT)",
            ),
            "rewrite-db=shop->hr",
            "rewrite-db=logs->hr",
        ),
        (
            "missing-database",
            (
                ": CREATE DATABASE hr",
                "hr: CREATE TEMPORARY TABLE shop.d (i INT)",
                "hr: ALTER TABLE shop.d RENAME TO d",
            ),
            "wild-ignore-table=hr.%",
            "wild-ignore-table=hr._%",
        ),
        (
            "left-object",
            ("shop: CREATE EVENT shop.e", "shop: DROP EVENT e", "shop: CREATE EVENT shop.e"),
            "rewrite-db=shop->hr",
            "rewrite-db=logs->hr",
        ),
        (
            "schema-drift",
            (
                "shop: CREATE TABLE shop.t (i INT)",
                "shop: DROP TABLE IF EXISTS t",
                "shop: CREATE TABLE t (i INT, j INT)",
                "shop: INSERT INTO shop.t VALUES (1, 2)",
            ),
            "rewrite-db=shop->hr",
            "rewrite-db=logs->hr",
        ),
        *(
            ("foreign-key", (CHILD, "shop: INSERT INTO p VALUES (1)", change), wrong, "ignore-table=shop.c")
            for wrong in ("ignore-table=shop.p", "do-table=shop.c")
            for change in ("shop: INSERT INTO c VALUES (1)", "shop: UPDATE c SET i = 1")
        ),
        ("lost-statement", ("hr: LOAD DATA INFILE 'f' INTO TABLE shop.t",), "do-db=shop", "do-table=shop.t"),
        (
            "unwanted-statement",
            ("shop: LOAD DATA INFILE 'f' INTO TABLE hr.t",),
            "ignore-db=hr",
            "wild-ignore-table=hr.%",
        ),
        (
            "missing-database",
            ("shop: CREATE DATABASE shop", "shop: CREATE TABLE orders (i INT)", "rows of shop.orders"),
            "wild-do-table=shop.orders%",
            "wild-do-table=shop.%",
        ),
        (
            "left-table",
            ("shop: CREATE TABLE t (i INT)", "hr: DROP TABLE shop.t", "shop: CREATE TABLE t (j INT)"),
            "do-db=shop",
            "wild-do-table=shop.%",
        ),
        (
            "schema-drift",
            ("rows of shop.t", "hr: ALTER TABLE shop.t ADD COLUMN j INT", "rows of shop.t"),
            "do-db=shop",
            "wild-do-table=shop.%",
        ),
        (
            "schema-drift",
            ("hr: CREATE INDEX x ON shop.t (i)", "shop: ALTER TABLE p EXCHANGE PARTITION p0 WITH TABLE t"),
            "do-db=shop",
            "wild-do-table=shop.%",
        ),
        (
            "schema-drift",
            (
                "shop: CREATE INDEX x ON t (i)",
                "shop: CREATE TABLE u LIKE t",
                "shop: ALTER TABLE p EXCHANGE PARTITION p0 WITH TABLE u",
            ),
            "ignore-table=shop.t",
            "ignore-table=hr.t",
        ),
        (
            "lost-statement",
            ("hr: UPDATE shop.t SET i = 1", "rows of shop.t"),
            "do-db=shop",
            "wild-do-table=shop.%",
        ),
        (
            "lost-statement",
            ("shop: UPDATE shop.t SET i = 1", "rows of shop.t", "shop: DELETE t, l FROM t JOIN hr.l"),
            "wild-ignore-table=hr.%",
            "wild-do-table=shop.% wild-do-table=hr.%",
        ),
        (
            "unwanted-statement",
            ("shop: UPDATE hr.e SET i = 1", "rows of shop.t"),
            "do-db=shop",
            "wild-do-table=shop.%",
        ),
        (
            "reads-dropped",
            ("shop: INSERT INTO t SELECT * FROM logs.a", "rows of logs.a"),
            "wild-ignore-table=logs.%",
            "do-db=shop do-db=logs",
        ),
        *(
            ("missing-database", (*MAKE, needs, "rows of shop.t"), wrong, right)
            for needs in (
                ": CREATE PROCEDURE hr.p() SELECT 1",
                "hr: CREATE FUNCTION f() RETURNS INT RETURN 1",
                ": CREATE EVENT hr.e ON SCHEDULE EVERY 1 DAY DO SELECT 1",
                "shop: ALTER TABLE a RENAME TO hr.a",
            )
            for wrong, right in (
                ("wild-ignore-table=hr.%", "wild-ignore-table=hr._%"),
                ("wild-do-table=shop.%", "wild-do-table=shop.% wild-do-table=hr."),
            )
        ),
        (
            "missing-database",
            (*MAKE, "shop: RENAME TABLE a TO hr.a", "rows of shop.t"),
            "wild-do-table=shop.%",
            "wild-do-table=shop.% wild-do-table=hr.",
        ),
        (
            "missing-object",
            ("hr: CREATE PROCEDURE shop.p() SELECT 1", "shop: DROP PROCEDURE p", "rows of shop.t"),
            "do-db=shop",
            "wild-do-table=shop.%",
        ),
        (
            "missing-object",
            ("hr: CREATE USER u", "shop: GRANT SELECT ON shop.* TO u", "rows of shop.t"),
            "ignore-db=hr",
            "wild-ignore-table=hr.%",
        ),
        (
            "left-object",
            ("shop: CREATE EVENT e DO SELECT 1", "hr: DROP EVENT shop.e", "shop: CREATE EVENT e DO SELECT 2"),
            "ignore-db=hr",
            "wild-ignore-table=hr.%",
        ),
        (
            "foreign-key",
            (
                "shop: CREATE TABLE p (i INT PRIMARY KEY)",
                "shop: CREATE TABLE c (i INT, FOREIGN KEY (i) REFERENCES p (i))",
                "hr: DROP TABLE shop.c",
                "shop: DROP TABLE p",
            ),
            "ignore-db=hr",
            "wild-ignore-table=hr.%",
        ),
        (
            "foreign-key",
            (
                "shop: CREATE TABLE c (i INT, FOREIGN KEY (i) REFERENCES p (i))",
                "rows of shop.p",
                "rows of shop.c",
            ),
            "ignore-table=shop.p",
            "ignore-table=shop.p ignore-table=shop.c ",
        ),
        (
            "schema-drift",
            (
                "shop: CREATE TABLE hr.a (i INT)",
                "rows of hr.a",
                "shop: RENAME TABLE hr.a TO shop.a",
                "rows of shop.a",
            ),
            "do-db=shop",
            "do-db=shop do-db=hr",
        ),
        ("trigger", TRIGGER, "wild-ignore-table=logs.%", "ignore-db=hr"),
        ("trigger", TRIGGER, "wild-do-table=logs.%", "wild-do-table=logs.% wild-do-table=shop.%"),
        (
            "foreign-key",
            (
                "shop: CREATE TABLE parent (i INT PRIMARY KEY)",
                "shop: CREATE TABLE child (i INT, FOREIGN KEY (i) REFERENCES parent (i))",
            ),
            "ignore-table=shop.parent",
            "ignore-table=shop.parent ignore-table=shop.child",
        ),
    ],
)
def test_each_trap_has_its_warning(code: str, events: tuple[str, ...], wrong: str, right: str) -> None:
    known = knowledge(*events)
    assert code in codes(known, *wrong.split())
    assert code not in codes(known, *right.split())


@pytest.mark.parametrize(
    ("error", "events", "rules"),
    [
        (
            1,
            ("hr: CREATE DATABASE hr", "shop: CREATE TABLE hr.t (i INT) PARTITION BY HASH (i)"),
            ["ignore-db=hr"],
        ),
        (
            7,
            (
                *("shop: CREATE DATABASE shop", "hr: CREATE TABLE t (i INT) ENGINE=MyISAM"),
                "hr: ALTER TABLE t RENAME TO shop.t",
            ),
            ["wild-ignore-table=shop.%", "do-db=hr"],
        ),
        (
            1146,
            (":CREATE SEQUENCE hr.s", "shop: ALTER TABLE t ADD COLUMN w INT DEFAULT NEXTVAL(hr.s)"),
            ["ignore-table=hr.s"],
        ),
        (
            1146,
            (
                *(
                    "hr: CREATE TABLE u (i INT)",
                    "shop: CREATE TABLE t (i INT) PARTITION BY RANGE (i) (PARTITION p)",
                ),
                "shop: ALTER TABLE t CONVERT TABLE hr.u TO PARTITION q VALUES LESS THAN (9)",
            ),
            ["ignore-db=hr"],
        ),
        (
            1305,
            ("k: CREATE DATABASE k", "shop: CREATE PACKAGE k.p AS PROCEDURE q; END", "hr: DROP PACKAGE k.p"),
            ["ignore-db=shop"],
        ),
        (
            1305,
            (
                "hr: CREATE PACKAGE hr.k AS PROCEDURE p; END",
                "hr: CREATE PACKAGE BODY k AS PROCEDURE p AS BEGIN NULL; END; END",
            ),
            ["rewrite-db=hr->shop"],
        ),
        (
            1305,
            (
                "hr: CREATE PACKAGE k AS PROCEDURE p; END",
                *(
                    "shop: CREATE PACKAGE BODY hr.k AS PROCEDURE p AS BEGIN NULL; END; END",
                    "hr: DROP PACKAGE BODY k",
                ),
            ),
            ["ignore-db=shop"],
        ),
        (
            1304,
            (
                *("shop: CREATE PACKAGE k AS PROCEDURE p; END", "hr: CREATE PACKAGE k AS PROCEDURE p; END"),
                "shop: CREATE PACKAGE BODY k AS PROCEDURE p AS BEGIN NULL; END; END",
                "hr: DROP PACKAGE k",
            ),
            ["rewrite-db=hr->shop"],
        ),
        (
            1049,
            (
                *(":CREATE DATABASE logs", ":DROP DATABASE logs"),
                "shop: CREATE FUNCTION f() RETURNS INT RETURN 1",
            ),
            ["rewrite-db=shop->logs"],
        ),
        (
            1050,
            ("shop: CREATE VIEW v AS SELECT 1", "hr: CREATE VIEW v AS SELECT 1"),
            ["rewrite-db=hr->shop"],
        ),
        (
            1051,
            (
                *("shop: CREATE VIEW v AS SELECT 1", "hr: CREATE VIEW w AS SELECT 1", "hr: DROP VIEW w"),
                *("hr: CREATE VIEW v AS SELECT 1", "hr: DROP VIEW v", "shop: DROP VIEW v"),
            ),
            ["rewrite-db=hr->shop"],
        ),
        (
            1451,
            (
                "shop: CREATE TABLE t (i INT PRIMARY KEY)",
                "shop: CREATE TABLE c (i INT, FOREIGN KEY (i) REFERENCES t (i))",
                *("hr: DROP TABLE shop.c", "hr: DROP TABLE shop.t"),
                "shop: CREATE TABLE t (i INT PRIMARY KEY)",
            ),
            ["ignore-db=hr"],
        ),
        (
            1066,
            ("shop: CREATE TABLE a (i INT)", "shop: DROP TABLE IF EXISTS hr.a, a"),
            ["rewrite-db=shop->hr"],
        ),
        (
            1066,
            ("hr: CREATE TABLE a (i INT)", "shop: CREATE TABLE a LIKE hr.a"),
            ["rewrite-db=shop->hr"],
        ),
    ],
)
def test_the_errors_at_which_a_mariadb_replica_stops(
    error: int, events: tuple[str, ...], rules: list[str]
) -> None:
    known = knowledge(*events, family="mariadb")
    rule_filter = Filter.from_options([f"--replicate-{rule}" for rule in rules], names=NameRules("mariadb"))
    assert error in {one for warning in lint(rule_filter, known) for one in warning.errors}


@pytest.mark.parametrize(
    "statement", ["ALTER TABLE shop.t ANALYZE PARTITION p0", "DROP TABLE IF EXISTS shop.t"]
)
def test_statements_that_need_no_table_stop_no_replica(statement: str) -> None:
    known = knowledge("shop: CREATE TABLE t (i INT)", f"hr: {statement}")
    rule_filter = Filter.from_options(["--replicate-ignore-db=shop"])
    assert Code.MISSING_TABLE not in {one.code for one in lint(rule_filter, known)}


def test_table_rules_drop_alter_sequence() -> None:
    known = knowledge("shop: CREATE SEQUENCE s", "shop: ALTER SEQUENCE s INCREMENT 2", family="mariadb")
    rule_filter = Filter.from_options(["--replicate-ignore-table=hr.t"], names=NameRules("mariadb"))
    (warning,) = (one for one in lint(rule_filter, known) if one.code is Code.LOST_STATEMENT)
    assert "Run the statement on the replica by hand" in str(warning)


def test_a_partition_is_exchanged_with_a_table_of_the_same_rewritten_name() -> None:
    exchange = "shop: ALTER TABLE logs.t EXCHANGE PARTITION p WITH TABLE t"
    known = knowledge("logs: CREATE TABLE t (i INT)", "shop: CREATE TABLE t (i INT)", exchange)
    found = lint(Filter.from_options(["--replicate-rewrite-db=shop->logs"]), known)
    assert 1066 in {error for one in found for error in one.errors}


def test_a_grant_is_revoked_by_another_spelling() -> None:
    grants = "hr: GRANT SELECT ON `shop`.`t` TO u", "shop: REVOKE SELECT ON t FROM u"
    known = knowledge("shop: CREATE USER u", "shop: CREATE TABLE t (i INT)", *grants)
    found = lint(Filter.from_options(["--replicate-ignore-db=hr"]), known)
    assert [one.code for one in found if one.errors] == [Code.MISSING_OBJECT]


@pytest.mark.parametrize(
    ("family", "error", "granted", "used"),
    [
        ("mysql", 1147, "SELECT ON shop.t TO u", ("RENAME USER u TO w", "REVOKE SELECT ON t FROM w")),
        ("mariadb", 1147, "SELECT ON shop.t TO PUBLIC", ("REVOKE SELECT ON t FROM PUBLIC",)),
        ("mariadb", 1959, "r TO u", ("SET DEFAULT ROLE 'r' FOR 'u'@'%'",)),
        ("mysql", 3530, "r TO u", ("SET DEFAULT ROLE r TO u",)),
        ("mysql", 3530, "r TO u", ("ALTER USER u DEFAULT ROLE r",)),
        ("mariadb", 1962, "r TO u", ("REVOKE r FROM u",)),
        ("mysql", 1141, "PROXY ON u TO w", ("REVOKE PROXY ON u FROM w",)),
    ],
)
def test_a_statement_needs_a_right_that_a_replica_lacks(
    family: Family, error: int, granted: str, used: tuple[str, ...]
) -> None:
    """A real replica stopped with each of these errors."""
    made = "shop: CREATE USER u", "shop: CREATE ROLE r", "shop: CREATE TABLE t (i INT)"
    passing = [f"shop: {statement}" for statement in used]
    known = knowledge(*made, f"hr: GRANT {granted}", *passing, family=family)
    found = lint(Filter.from_options(["--replicate-ignore-db=hr"], names=NameRules(family)), known)
    (warning,) = (one for one in found if one.errors)
    assert warning.code is Code.MISSING_OBJECT
    assert error in warning.errors
    assert "TableName" not in str(warning)


@pytest.mark.parametrize("change", ["ALTER TABLE t UNION=(hr.a)", "INSERT INTO t VALUES (1)"])
def test_only_a_merge_table_has_tables_behind_it(change: str) -> None:
    """A real replica ran the statements."""
    made = "hr: CREATE TABLE a (i INT)", "shop: CREATE TABLE t (i INT)", "shop: ALTER TABLE t UNION=(hr.a)"
    known = knowledge(*made, f"shop: {change}")
    assert not [one for one in lint(Filter.from_options(["--replicate-ignore-db=hr"]), known) if one.errors]


def test_a_missing_table_is_renamed_if_it_exists() -> None:
    """A real replica stopped with error 1146."""
    made = "shop: CREATE TABLE t (i INT)", "shop: RENAME TABLE IF EXISTS t TO u", "rows of shop.u"
    known = knowledge(*made, family="mariadb")
    found = lint(Filter.from_options(["--replicate-do-table=shop.u"], names=NameRules("mariadb")), known)
    assert [one.code for one in found if 1146 in one.errors] == [Code.MISSING_TABLE]


def test_mysql_revokes_a_role_that_is_not_granted() -> None:
    """A real replica ran the REVOKE."""
    known = knowledge(
        "shop: CREATE USER u", "shop: CREATE ROLE r", "hr: GRANT r TO u", "shop: REVOKE r FROM u"
    )
    assert not [one for one in lint(Filter.from_options(["--replicate-ignore-db=hr"]), known) if one.errors]


@pytest.mark.parametrize(
    ("code", "used"),
    [
        ("VIEW v AS SELECT i FROM t", "INSERT INTO v VALUES (1)"),
        ("VIEW v AS SELECT i FROM t", "CREATE TABLE n SELECT * FROM v"),
        ("TRIGGER tr AFTER INSERT ON t FOR EACH ROW SET @x = 1", "INSERT INTO t VALUES (1)"),
        ("FUNCTION f() RETURNS INT RETURN 1", "INSERT INTO t VALUES (f())"),
        ("SQL SECURITY INVOKER VIEW v AS SELECT i FROM t", "INSERT INTO v VALUES (1)"),
        ("FUNCTION f() RETURNS INT SQL SECURITY INVOKER RETURN 1", "INSERT INTO t VALUES (f())"),
    ],
)
@pytest.mark.parametrize("definer", ["u", "`u`@`%`", "'u'@'%'"])
def test_code_runs_with_the_rights_of_a_user_that_a_replica_lacks(code: str, used: str, definer: str) -> None:
    """Real replicas of both families stopped with error 1449, unless the code is SQL SECURITY INVOKER."""
    made = f"shop: CREATE DEFINER={definer} {code}"
    known = knowledge("shop: CREATE TABLE t (i INT)", "hr: CREATE USER u", made, f"shop: {used}")
    found = lint(Filter.from_options(["--replicate-ignore-db=hr"]), known)
    found = [one for one in found if "u@%" in one.names]
    assert [one.code for one in found] == [Code.MISSING_OBJECT] * ("INVOKER" not in code)
    assert all("1449" in one.what for one in found)
    # Only data decide whether a trigger or a function runs.
    assert all((1449 in one.errors) == code.startswith("VIEW") for one in found)


def test_the_default_role_of_a_new_user_is_missing() -> None:
    """A real replica stopped with error 3162."""
    known = knowledge("hr: CREATE ROLE r", "shop: CREATE USER u DEFAULT ROLE r")
    (warning,) = lint(Filter.from_options(["--replicate-ignore-db=hr"]), known)
    assert 3162 in warning.errors


def test_a_server_finds_a_table_twice_before_it_asks_table_rules() -> None:
    known = knowledge("shop: DROP TABLE IF EXISTS hr.a, a")
    for rule, expected in (("wild-do-table=logs.%", ["merged"]), ("ignore-db=hr", [])):
        assert [code for code in codes(known, "rewrite-db=shop->hr", rule) if code == "merged"] == expected


@pytest.mark.parametrize(
    "events",
    [
        ("hr: CREATE TABLE a (i INT)", "shop: RENAME TABLE hr.a TO a"),
        ("hr: CREATE TABLE a (i INT)", "shop: CREATE TABLE a (i INT)"),
        ("rows of hr.a", "shop: CREATE TABLE a (i INT)"),
    ],
)
def test_a_new_table_has_the_rewritten_name_of_another(events: tuple[str, ...]) -> None:
    """On a real replica the RENAME fails with 1050, though the old name is missing, too."""
    found = lint(Filter.from_options(["--replicate-rewrite-db=hr->shop"]), knowledge(*events))
    assert 1050 in {error for warning in found for error in warning.errors}
    dropped = ["--replicate-rewrite-db=hr->shop", "--replicate-ignore-table=shop.a"]
    assert not [one for one in lint(Filter.from_options(dropped), knowledge(*events)) if one.errors]


@pytest.mark.parametrize(
    "events",
    [
        ("hr: CREATE TABLE a (i INT)", "hr: CREATE TABLE shop.a (j DATE)", "rows of shop.a"),
        ("hr: CREATE TABLE a (i INT)", "hr: CREATE TABLE shop.a (j DATE)", "shop: INSERT INTO a VALUES (1)"),
        ("shop: RENAME TABLE b TO a", "hr: UPDATE a SET i = 1"),
    ],
)
def test_changes_of_two_tables_reach_one(events: tuple[str, ...]) -> None:
    rule_filter = Filter.from_options(["--replicate-rewrite-db=shop->hr"])
    found = [one for one in lint(rule_filter, knowledge(*events)) if "Changes of two tables" in one.what]
    assert [one.names for one in found] == [("hr.a",)]
    assert not [one for one in lint(rule_filter, knowledge(*events[:-1])) if one in found]


def test_a_parent_that_was_renamed_on_the_source_only_is_not_dropped() -> None:
    child = "shop: CREATE TABLE b (i INT PRIMARY KEY, FOREIGN KEY (i) REFERENCES a (i))"
    rename, drop = "hr: RENAME TABLE shop.a TO shop.moved", "hr: DROP TABLE shop.b"
    known = knowledge(*MAKE, child, rename, drop, "shop: DROP TABLE IF EXISTS moved")
    assert "foreign-key" not in codes(known, "ignore-db=hr")
    known = knowledge(*MAKE, child, drop, "shop: DROP TABLE a")
    assert "foreign-key" in codes(known, "ignore-db=hr")


def test_the_cure_of_a_moved_table_names_the_rule() -> None:
    known = knowledge(*MAKE, "shop: RENAME TABLE a TO hr.a", "rows of hr.a", "rows of hr.t")
    rules = ["--replicate-wild-ignore-table=shop.%"]
    (warning,) = (one for one in lint(Filter.from_options(rules), known) if one.code is Code.MISSING_TABLE)
    assert warning.cure.startswith("Add --replicate-ignore-table=hr.a, ")
    assert codes(known, "wild-ignore-table=shop.%", "ignore-table=hr.a") == []


@pytest.mark.parametrize(
    ("events", "rules"),
    [
        (SHOP, "do-db=shop"),
        (SHOP, "do-db=shop ignore-table=shop.items"),
        (SHOP, "wild-do-table=shop.%"),
        (SHOP, "do-table=shop.orders do-table=shop.items"),
        (SHOP, "ignore-db=hr"),
        (SHOP, "rewrite-db=shop->store do-db=store"),
        (("hr: CREATE TABLE IF NOT EXISTS shop.t (i INT)", "rows of shop.u"), "wild-do-table=shop.%"),
        (
            ("rows of shop.t", "hr: CREATE TABLE IF NOT EXISTS shop.t (i INT)", "rows of shop.t"),
            "do-db=shop ignore-db=x",
        ),
        (
            ("shop: CREATE TEMPORARY TABLE tmp (i INT)", "shop: INSERT INTO t SELECT * FROM tmp"),
            "ignore-db=hr",
        ),
        (("hr: ANALYZE TABLE shop.t", "shop: FLUSH TABLES hr.e", "rows of shop.t"), "do-db=shop"),
        (("shop: GRANT SELECT ON shop.* TO u@h", "rows of shop.t"), "do-db=shop"),
        (
            (
                *(
                    "shop: CREATE TABLE u (i INT)",
                    "shop: CREATE TABLE t (i INT) PARTITION BY RANGE (i) (PARTITION p)",
                ),
                "shop: ALTER TABLE t CONVERT TABLE u TO PARTITION q VALUES LESS THAN (9)",
                *("shop: CREATE TABLE u (i INT)", "rows of shop.u"),
            ),
            "rewrite-db=shop->store do-db=store",
        ),
        (
            (
                *("rows of shop.t", "shop: CREATE PACKAGE k AS PROCEDURE p; END"),
                "shop: CREATE PACKAGE BODY k AS PROCEDURE p AS BEGIN NULL; END; END",
                *("shop: DROP PACKAGE k", "shop: CREATE PACKAGE k AS PROCEDURE p; END"),
                *(
                    "shop: CREATE PACKAGE BODY k AS PROCEDURE p AS BEGIN NULL; END; END",
                    "shop: DROP PACKAGE BODY k",
                ),
            ),
            "rewrite-db=shop->store do-db=store",
        ),
    ],
)
def test_a_sound_filter_has_no_warning(events: tuple[str, ...], rules: str) -> None:
    quiet = {"not-asked", "no-match", "lost-statement"}
    assert set(codes(knowledge(*events), *rules.split())) <= quiet


def test_rules_beyond_the_most_comparisons_are_named(monkeypatch: pytest.MonkeyPatch) -> None:
    known = knowledge(*SHOP)
    rule_filter = Filter.from_options([f"--replicate-wild-ignore-table=x{k}.y_%" for k in range(6)])
    assert Code.NOT_COMPARED not in {each.code for each in lint(rule_filter, known)}
    monkeypatch.setattr("dumpfilter.analyse.lint.linting._MOST_COMPARISONS", 12)
    compared = [each for each in lint(rule_filter, known) if each.code is Code.NO_MATCH]
    [told] = [each for each in lint(rule_filter, known) if each.code is Code.NOT_COMPARED]
    assert len(compared) == 2
    assert str(told).endswith(
        "may be missing: --replicate-wild-ignore-table=x2.y_%, --replicate-wild-ignore-table=x3.y_%, "
        "--replicate-wild-ignore-table=x4.y_%, --replicate-wild-ignore-table=x5.y_%. Run lint with these rules alone."
    )


@pytest.mark.parametrize(("columns", "fires"), [("a.i = b.i", False), ("b.i = a.i", True), ("i = 1", True)])
def test_a_trigger_that_only_reads_a_joined_table(columns: str, fires: bool) -> None:
    made = f"shop: CREATE TRIGGER tr AFTER INSERT ON orders FOR EACH ROW UPDATE a JOIN logs.b SET {columns}"
    known = knowledge(made, "shop: INSERT INTO orders VALUES (1)", "rows of shop.orders", "rows of logs.b")
    assert ("trigger" in codes(known, "ignore-table=logs.b")) is fires


@pytest.mark.parametrize(
    ("change", "statement", "fires"),
    [
        ("INSERT", "INSERT INTO orders VALUES (1)", True),
        ("INSERT", "REPLACE INTO orders VALUES (1)", True),
        ("INSERT", "LOAD DATA INFILE 'f' INTO TABLE orders", True),
        ("INSERT", "UPDATE orders SET i = 2", False),
        ("INSERT", "DELETE FROM orders", False),
        ("UPDATE", "UPDATE orders SET i = 2", True),
        ("UPDATE", "UPDATE orders o JOIN other USING (i) SET o.i = 2", True),
        ("UPDATE", "INSERT INTO orders VALUES (1)", False),
        ("UPDATE", "INSERT INTO orders VALUES (1) ON DUPLICATE KEY UPDATE i = 2", True),
        ("UPDATE", "REPLACE INTO orders VALUES (1)", False),
        ("DELETE", "DELETE FROM orders WHERE i = 1", True),
        ("DELETE", "TRUNCATE orders", False),
        ("DELETE", "REPLACE INTO orders VALUES (1)", True),
        ("DELETE", "LOAD DATA INFILE 'f' INTO TABLE orders", False),
        ("DELETE", "LOAD DATA INFILE 'f' REPLACE INTO TABLE orders", True),
    ],
)
def test_only_statements_that_fire_a_trigger_count(change: str, statement: str, fires: bool) -> None:
    made = f"shop: CREATE TRIGGER tr AFTER {change} ON orders FOR EACH ROW INSERT INTO logs.audit VALUES (1)"
    known = knowledge(made, f"shop: {statement}", "rows of logs.audit", "rows of shop.orders")
    for rule in ("ignore-table=shop.orders", "ignore-table=logs.audit"):
        assert ("trigger" in codes(known, rule)) is fires


@pytest.mark.parametrize(
    "statement",
    [
        "shop: DROP TRIGGER tr",
        "logs: DROP TRIGGER IF EXISTS shop.tr",
        "shop: DROP TABLE orders",
        "shop: RENAME TABLE orders TO old_orders",
        ": DROP DATABASE shop",
        "shop: CREATE OR REPLACE TRIGGER tr BEFORE DELETE ON orders FOR EACH ROW DELETE FROM logs.audit",
    ],
)
def test_a_trigger_that_is_gone_is_not_fired(statement: str) -> None:
    known = knowledge(*TRIGGER[:3], statement, *TRIGGER[3:], family="mariadb")
    assert "trigger" not in codes(known, "ignore-table=logs.audit")


CHAIN = (
    *TRIGGER[:2],
    "shop: CREATE TABLE mid (i INT)",
    "shop: CREATE TRIGGER a AFTER INSERT ON orders FOR EACH ROW INSERT INTO mid VALUES (NEW.i)",
    "shop: CREATE TRIGGER b AFTER INSERT ON mid FOR EACH ROW INSERT INTO logs.audit VALUES (NEW.i)",
    "shop: CREATE TRIGGER c AFTER DELETE ON mid FOR EACH ROW INSERT INTO logs.deleted VALUES (OLD.i)",
    "shop: INSERT INTO orders VALUES (1)",
    "rows of logs.audit",
    "rows of logs.deleted",
)


@pytest.mark.parametrize(
    ("rule", "changed"),
    [
        ("ignore-table=logs.audit", "which changes logs.audit. The filter drops"),
        ("ignore-table=shop.orders", "which changes shop.mid, logs.audit. The filter lets"),
        ("ignore-table=logs.deleted", ""),
    ],
)
def test_the_triggers_that_a_trigger_fires_are_followed(rule: str, changed: str) -> None:
    """Real servers of both families did so: with ``ignore-table=logs.audit`` a replica stopped with error 1146."""
    found = [
        one
        for one in lint(Filter.from_options([f"--replicate-{rule}"]), knowledge(*CHAIN))
        if one.code is Code.TRIGGER
    ]
    assert any(changed in one.what for one in found) if changed else not found


def test_the_events_of_a_chain_of_triggers_are_shown() -> None:
    (found,) = (
        one
        for one in lint(Filter.from_options(["--replicate-ignore-table=logs.audit"]), knowledge(*CHAIN))
        if one.code is Code.TRIGGER
    )
    assert [one.text.split()[3] for one in found.evidence[:2]] == ["a", "b"]
    assert found.evidence[2].text == CHAIN[6]


def test_triggers_in_a_circle_are_followed_once() -> None:
    circle = (
        "logs: CREATE TRIGGER d AFTER INSERT ON audit FOR EACH ROW INSERT INTO shop.orders VALUES (NEW.i)"
    )
    assert "trigger" in codes(knowledge(*CHAIN[:6], circle, *CHAIN[6:]), "ignore-table=shop.mid")


def test_a_trigger_that_the_filter_keeps_from_the_replica() -> None:
    """On real replicas of both families the trigger's changes were missing."""
    lines = (
        "shop: CREATE TABLE orders (i INT)",
        "shop: CREATE TABLE sums (i INT)",
        "logs: CREATE TRIGGER shop.tr AFTER INSERT ON shop.orders FOR EACH ROW INSERT INTO shop.sums VALUES (NEW.i)",
        "shop: INSERT INTO orders VALUES (1)",
    )
    for rule in ("do-db=shop", "ignore-db=logs"):
        assert "trigger" in codes(knowledge(*lines), rule)
    assert "trigger" not in codes(knowledge(*lines), "wild-do-table=shop.%")


def test_a_trigger_follows_its_table() -> None:
    lines = (*TRIGGER[:3], "shop: RENAME TABLE orders TO sales", "shop: INSERT INTO sales VALUES (1)")
    assert "trigger" in codes(knowledge(*lines), "ignore-table=logs.audit")


def test_capitals_under_lower_case_table_names() -> None:
    names = NameRules("mariadb", lower_case_table_names=1)
    assert codes(knowledge(*SHOP), "ignore-db=HR", names=names) == ["case"]
    assert codes(knowledge(*SHOP), "ignore-db=HR", names=NameRules("mysql", lower_case_table_names=1)) == []
    assert codes(knowledge(*SHOP), "rewrite-db=shop->STORE", names=names) == ["case"]
    assert codes(knowledge(*SHOP), "rewrite-db=shop->STORE") == codes(
        knowledge(*SHOP), "rewrite-db=shop->store"
    )


def test_databases_under_lower_case_table_names() -> None:
    known = knowledge(": CREATE DATABASE SHOP", "Shop: CREATE TABLE orders (i INT)", "rows of shop.orders")
    names = NameRules("mysql", lower_case_table_names=1)
    assert codes(known, "wild-do-table=Shop.ord%", names=names) == ["missing-database"]
    assert codes(known, "wild-do-table=Shop.%", names=names) == []


def test_alike_tables_share_a_warning() -> None:
    known = knowledge(*(f"hr: UPDATE shop.t{number} SET i = 1" for number in range(9)), "rows of shop.t0")
    (warning,) = lint(Filter.from_options(["--replicate-do-db=shop"]), known)
    assert warning.code is Code.LOST_STATEMENT
    assert "shop.t0, shop.t1, shop.t2 and 6 more" in warning.what
    assert [each.position for each in warning.evidence] == [100, 101, 102]


def test_tables_of_one_wild_rule_share_a_warning() -> None:
    lines = [f"shop: CREATE TABLE tmp{number} (i INT)" for number in range(6)]
    lines += [f"shop: CREATE TABLE t{number} LIKE tmp{number}" for number in range(6)]
    found = lint(Filter.from_options(["--replicate-wild-ignore-table=shop.tmp%"]), knowledge(*lines))
    (warning,) = [one for one in found if one.code is Code.MISSING_TABLE]
    assert "shop.tmp0, shop.tmp1, shop.tmp2 and 3 more" in warning.what
    assert "matches shop.tmp%" in warning.what


def test_a_comma_comes_before_its_effect_although_the_set_has_none_of_the_names() -> None:
    assert codes(knowledge(*SHOP), "do-db=no,nobody") == ["comma", "nothing-passes"]
    assert "comma" not in codes(knowledge(*SHOP), "do-db=,")


def test_names_are_not_judged_by_a_part_of_a_set() -> None:
    known = knowledge_of([TableSubject("shop", "orders")], is_whole=False)
    assert codes(known, "do-db=shop", "do-db=hr") == []


@pytest.mark.parametrize(
    ("code", "rule"),
    [
        ("comma", "do-db=shop,hr"),
        ("quotes", "do-db='shop'"),
        ("wildcard", "do-db=shop%"),
        ("wildcard", "do-table=shop.%"),
        ("wildcard", "wild-do-table=shop.*"),
        (None, "do-db=shop"),
        (None, "wild-do-table=shop.%"),
        (None, "rewrite-db=a->b"),
    ],
)
def test_unlikely_names_need_no_set(code: str | None, rule: str) -> None:
    assert codes(knowledge_of([], is_whole=False), rule) == ([code] if code else [])


def test_effective_filters_have_no_traps_of_current_databases() -> None:
    rule_filter = EffectiveFilter.from_options(["--ignore=hr.%"])
    assert lint(rule_filter, knowledge(*MADE_IN_HR)) == []


LINES = [
    *SHOP,
    *MADE_IN_HR,
    *TRIGGER,
    ": DROP TABLE a.t, b.t",
    "a: RENAME TABLE t TO b.t",
    "b: DROP DATABASE b",
]


@given(st.lists(st.sampled_from(LINES), max_size=8), made_rules())
def test_no_filter_means_no_warning_and_no_filter_fails(lines: list[str], rules: list[Rule]) -> None:
    known = knowledge(*lines)
    assert lint(Filter(), known) == []
    for warning in lint(Filter(rules), known):
        assert warning.what
        assert "{names}" not in str(warning)


VIEWS = (
    "shop: CREATE TABLE a (i INT)",
    "shop: CREATE TABLE d (i INT)",
    "shop: CREATE ALGORITHM=UNDEFINED DEFINER=`r`@`%` SQL SECURITY DEFINER VIEW `va` AS SELECT i FROM a",
    "shop: CREATE VIEW vv AS SELECT i FROM va WHERE i IN (SELECT i FROM d)",
)


@pytest.mark.parametrize("change", ["UPDATE {} SET i = 1", "INSERT INTO {} VALUES (1)", "DELETE FROM {}"])
@pytest.mark.parametrize("view", ["va", "vv"])
def test_a_change_of_a_view_changes_its_table(change: str, view: str) -> None:
    """On real replicas of both families the changes were missing."""
    known = knowledge(*VIEWS, f"shop: {change.format(view)}")
    found = [
        one
        for one in lint(Filter.from_options(["--replicate-do-table=shop.a"]), known)
        if one.code is Code.LOST_STATEMENT
    ]
    assert ["shop.a is dropped" in one.what and "view" in one.cure for one in found] == [True]
    assert codes(known, "wild-do-table=shop.%") == []
    without_tables = knowledge(*VIEWS[2:], f"shop: {change.format(view)}")
    assert codes(without_tables, "wild-do-table=shop.v%") == ["unwanted-statement"]


def test_views_that_are_gone_or_have_another_name() -> None:
    update = "shop: UPDATE va SET i = 1"
    rule = "do-table=shop.a"
    assert "lost-statement" in codes(
        knowledge(*VIEWS, "shop: RENAME TABLE va TO vw", "shop: DELETE FROM vw"), rule
    )
    assert "lost-statement" not in codes(knowledge(*VIEWS, "shop: DROP VIEW va", update), rule)
    assert "lost-statement" not in codes(knowledge(*VIEWS, ": DROP DATABASE shop", update), rule)


def test_a_statement_that_changes_one_table_of_a_joined_view() -> None:
    known = knowledge(
        *VIEWS[:2], "shop: CREATE VIEW j AS SELECT a.i FROM a JOIN d USING (i)", "shop: UPDATE j SET i = 1"
    )
    for table in ("a", "d"):
        assert "lost-statement" in codes(known, f"do-table=shop.{table}")


def test_a_query_of_a_view_reads_its_tables() -> None:
    known = knowledge(*VIEWS[2:], "shop: CREATE TABLE e (i INT)", "shop: INSERT INTO e SELECT i FROM vv")
    for table in ("a", "d"):
        assert "reads-dropped" in codes(known, f"ignore-table=shop.{table}")
    assert "reads-dropped" not in codes(known, "ignore-table=shop.b")


def test_a_change_of_a_view_fires_the_triggers_of_its_table() -> None:
    known = knowledge(
        "shop: CREATE VIEW v AS SELECT i FROM orders",
        "shop: CREATE TRIGGER tr AFTER INSERT ON shop.orders FOR EACH ROW INSERT INTO logs.audit VALUES (NEW.i)",
        "shop: INSERT INTO v VALUES (1)",
    )
    assert "trigger" in codes(known, "ignore-table=logs.audit")


FUNCTION = (
    "shop: CREATE TABLE a (i INT)",
    "shop: CREATE TABLE b (i INT)",
    "shop: CREATE DEFINER=`r`@`%` FUNCTION `Fx`(x INT) RETURNS INT BEGIN INSERT INTO b VALUES (x); RETURN 5; END",
)


@pytest.mark.parametrize(
    "call", ["INSERT INTO a VALUES (fx(3))", "DELETE FROM a WHERE i = FX(1)", "SELECT `shop`.`fx`(30)"]
)
def test_a_stored_function_changes_an_ignored_table(call: str) -> None:
    """A real replica stopped with error 1146."""
    assert codes(knowledge(*FUNCTION, f"shop: {call}"), "ignore-table=shop.b") == ["routine"]


def test_a_dropped_statement_calls_a_stored_function() -> None:
    """A real replica lacked the function's rows."""
    known = knowledge(*FUNCTION, "shop: INSERT INTO a VALUES (fx(3))")
    assert codes(known, "do-table=shop.b") == ["routine"]
    assert codes(known, "do-table=shop.b", "do-table=shop.a") == []
    gone = knowledge(*FUNCTION, "shop: DROP FUNCTION fx", "shop: INSERT INTO a VALUES (fx(3))")
    assert codes(gone, "do-table=shop.b") == []


def test_a_stored_function_that_the_filter_keeps_from_the_replica() -> None:
    lines = (*FUNCTION[:2], FUNCTION[2].replace("shop:", "hr:").replace("`Fx`", "shop.fx"))
    known = knowledge(*lines, "shop: INSERT INTO a VALUES (fx(3))")
    (warning,) = lint(Filter.from_options(["--replicate-do-db=shop"]), known)
    assert warning.code is Code.MISSING_OBJECT
    assert "1305" in warning.what


def test_functions_and_triggers_that_run_each_other() -> None:
    lines = (
        "shop: CREATE PROCEDURE p() BEGIN INSERT INTO b VALUES (1); END",
        "shop: CREATE FUNCTION f() RETURNS INT BEGIN CALL p(); CALL p(); RETURN f(); END",
        "shop: CREATE TRIGGER tr AFTER INSERT ON shop.a FOR EACH ROW SET @x = f()",
        "shop: CREATE TRIGGER tb AFTER INSERT ON shop.b FOR EACH ROW INSERT INTO c VALUES (1)",
        "shop: INSERT INTO a VALUES (1)",
    )
    assert "routine" in codes(knowledge(*lines), "ignore-table=shop.b")
    assert "trigger" in codes(knowledge(*lines), "ignore-table=shop.c")


@pytest.mark.parametrize(
    ("value", "found"),
    [
        ("shop.order", "shop.orders"),
        ("shpo.orders", "shop.orders"),
        ("hr.emp1", "hr.emp"),
        ("hr.orders", None),
        ("orders", None),
        ("x" * 100 + ".orders", None),
    ],
)
def test_each_side_of_a_dot_is_alike_by_itself(value: str, found: str | None) -> None:
    assert closest(value, ["shop.orders", "shop.ordinal", "hr.emp"]) == found
