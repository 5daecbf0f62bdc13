"""The tables a statement reads."""

from __future__ import annotations

import pytest
from hypothesis import given

from dumpfilter.binlog.query import TableName
from dumpfilter.binlog.statement.facts import tables_read
from tests.binlog.statement.made import MadeStatement, made_statements

READS = [
    ("INSERT INTO t SELECT * FROM a JOIN d2.b USING (i)", "a d2.b"),
    ("INSERT LOW_PRIORITY IGNORE INTO t VALUES (1) ON DUPLICATE KEY UPDATE j = (SELECT MAX(j) FROM x)", "x"),
    ("INSERT INTO t SELECT REPEAT('x', 20), NOW() FROM a", "a"),
    ("INSERT INTO t TABLE d2.c LIMIT 0", "d2.c"),
    ("REPLACE INTO d2.c SELECT * FROM a UNION SELECT * FROM b", "a b"),
    ("UPDATE a SET j = 1 WHERE i IN (SELECT i FROM b)", "b"),
    ("DELETE a FROM a JOIN b ON a.i = b.i", "b"),
    ("DELETE x FROM (SELECT i FROM b) y JOIN a x ON x.i = y.i WHERE x.i = 3", "b"),
    ("CREATE TABLE t LIKE d2.s", "d2.s"),
    ("CREATE TABLE t (i INT) IGNORE SELECT i FROM a", "a"),
    ("CREATE OR REPLACE TABLE t SELECT * FROM a", "a"),
    ("CREATE TABLE t AS WITH q AS (SELECT i FROM a) SELECT * FROM q JOIN b", "a b"),
    # A common table expression may have the name of the table that it reads.
    ("INSERT INTO t WITH a AS (SELECT * FROM a) SELECT * FROM a", "a"),
    ("WITH a AS (SELECT * FROM a) UPDATE t SET j = (SELECT i FROM a)", "a"),
    ("INSERT INTO t WITH q AS (SELECT * FROM a), a AS (SELECT * FROM q) SELECT * FROM a", "a"),
    ("INSERT INTO t WITH q AS (SELECT 1), r AS (SELECT * FROM q) SELECT * FROM r", ""),
    ("INSERT INTO t WITH RECURSIVE a AS (SELECT 1 AS n UNION SELECT n + 1 FROM a) SELECT * FROM a", ""),
    ("INSERT INTO t WITH a AS (SELECT 1) SELECT * FROM (SELECT * FROM a) AS x", ""),
    ("INSERT INTO t WITH a AS (WITH b AS (SELECT * FROM a) SELECT * FROM b) SELECT * FROM a", "a"),
    ("INSERT INTO t SELECT 1 FROM d2.dual", "d2.dual"),
    ("CREATE ALGORITHM=UNDEFINED DEFINER=`r`@`h` SQL SECURITY DEFINER VIEW `v` AS SELECT * FROM b", "b"),
    ("SET STATEMENT max_statement_time = 1 FOR INSERT INTO t SELECT * FROM a", "a"),
    ("/*!50003 INSERT INTO t SELECT * FROM a */", "a"),
    ("INSERT INTO t SELECT 1 FROM DUAL", ""),
    ("INSERT INTO t VALUES (_binary 0x41, '/*! x */')", ""),
    ("CREATE TABLE t (i INT)", ""),
    ("DROP TABLE a, b", ""),
    ("GRANT SELECT ON a TO u", ""),
    ("CREATE PROCEDURE p() SELECT * FROM a", ""),
]


@pytest.mark.parametrize(("text", "read"), READS)
def test_tables_read(text: str, read: str) -> None:
    names = [TableName(*n.split(".")) if "." in n else TableName(None, n) for n in read.split()]
    found = tables_read(text, family="mariadb")
    assert found is not None
    assert sorted(found, key=str) == sorted(names, key=str)


@pytest.mark.parametrize(
    ("query", "mysql", "mariadb"),
    [
        # MySQL 9.7.4 and MariaDB 10.11.19 returned the rows of these tables.
        ("SELECT * FROM (WITH q AS (SELECT 1) SELECT * FROM q) d JOIN q", "q", "q"),
        ("SELECT * FROM q, (WITH q AS (SELECT 1) SELECT * FROM q) d", "q", "q"),
        ("WITH z AS (WITH q AS (SELECT 1) SELECT * FROM q) SELECT * FROM z JOIN q", "q", "q"),
        ("WITH c AS (SELECT * FROM q), q AS (SELECT 1) SELECT * FROM c", "q", "q"),
        ("WITH q AS (SELECT * FROM q) SELECT * FROM q", "q", "q"),
        ("WITH q AS (SELECT 1) SELECT * FROM s.q", "s.q", "s.q"),
        ("WITH Q AS (SELECT 1) SELECT * FROM q", "q", ""),
        ("WITH q AS (SELECT 1) SELECT * FROM (SELECT * FROM q) y", "", ""),
        ("WITH q AS (SELECT 1) SELECT * FROM (WITH z AS (SELECT 1) SELECT * FROM q) y", "", ""),
        ("WITH q AS (SELECT 1) SELECT * FROM (WITH z AS (SELECT * FROM q) SELECT * FROM z) y", "", "q"),
        ("WITH q AS (SELECT 1), z AS (WITH y AS (SELECT * FROM q) SELECT * FROM y) SELECT * FROM z", "", ""),
        ("SELECT * FROM a TABLESAMPLE SYSTEM (10), b", "a b", None),
        ("SELECT * FROM a x TABLESAMPLE BERNOULLI (10) JOIN b", "a b", "a b"),
        ("SELECT * FROM a TABLESAMPLE, b", None, "a b"),
        ("SELECT * FROM a QUALIFY, b", "a b", "a b"),
        ("SELECT * FROM a RETURNING, b WINDOW JOIN c EXCEPT, d", "a b c d", "a b c d"),
        ("SELECT * FROM a FULL, b", "a b", "a b"),
        ("SELECT * FROM a FOR SYSTEM_TIME AS OF NOW() - 1 x, b", "a b", "a b"),
        ("SELECT * FROM a FOR SYSTEM_TIME ALL JOIN b", "a b", "a b"),
        ("SELECT * FROM a FOR SYSTEM_TIME FROM 1 TO 2 LEFT JOIN b USING (i) FOR UPDATE", "a b", "a b"),
    ],
)
def test_the_servers_read_the_same(query: str, mysql: str | None, mariadb: str | None) -> None:
    for family, read in (("mysql", mysql), ("mariadb", mariadb)):
        found = tables_read(f"INSERT INTO t {query}", family=family)  # type: ignore[arg-type]
        shown = None if found is None else " ".join(".".join(filter(None, name)) for name in found)
        assert shown == read, family


@pytest.mark.parametrize(
    "text",
    [
        "FROBNICATE a",
        "INSERT INTO t SELECT * FROM a FROBNICATED b, hr.x",
        "INSERT INTO t SELECT * FROM a, ?",
        "INSERT INTO t SELECT )",
        "INSERT INTO t SELECT * FROM (a; SELECT 1",
        f"INSERT INTO t SELECT {'(' * 100_000}",
        f"INSERT INTO t SELECT * FROM {'(' * 200} a {')' * 200}, b",
    ],
)
def test_what_is_not_understood_is_not_told(text: str) -> None:
    assert tables_read(text) is None


@given(made_statements())
def test_any_statement(made: MadeStatement) -> None:
    read = tables_read(made.text)
    assert read is None or len(set(read)) == len(read)
