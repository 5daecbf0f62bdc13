"""The tables info of statements: the cases of WL#40's section 4, and its general rule."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dumpfilter.binlog.query import TableName
from dumpfilter.binlog.statement.facts import form_tables_info, qualified, relative, tables_read
from dumpfilter.binlog.statement.parse import parse_statement


def names(text: str) -> tuple[TableName, ...]:
    """Return table names from words ``a`` or ``d.a``."""
    return tuple(TableName(*n.split(".")) if "." in n else TableName(None, n) for n in text.split())


def told(text: str, current: str | None = "now") -> tuple[TableName, ...] | None:
    return form_tables_info(parse_statement(text), tables_read(text), current_database=current)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        # section 4.1, statement-based
        ("CREATE TABLE t (i INT)", "t"),
        ("CREATE TEMPORARY TABLE IF NOT EXISTS t (i INT)", "t"),
        ("CREATE TABLE IF NOT EXISTS t LIKE t1", "t t1"),
        ("CREATE TEMPORARY TABLE t (LIKE t1)", "t t1"),
        ("CREATE TABLE t SELECT * FROM t1", "t t1"),
        ("CREATE TABLE t (i INT) AS SELECT a.i FROM d.t1 a JOIN t2 b USING (i)", "t d.t1 t2"),
        # section 4.2
        ("RENAME TABLE t1 TO s1, t2 TO s2", "t1 t2"),
        ("RENAME TABLE t1 TO tmp, t2 TO t1, tmp TO t2", "t1 t2"),
        ("RENAME TABLE t1 TO now.tmp, tmp TO t2", "t1"),
        ("RENAME TABLE t1 TO d.tmp, tmp TO t2", "t1 tmp"),
        ("RENAME TABLE a TO b, b TO a, a TO c", "a"),
        # the others: updated, then read, none twice
        ("INSERT INTO t SELECT * FROM t2, d.t3", "t t2 d.t3"),
        ("DROP TABLE a, d.b, now.a", "a d.b"),
        ("ALTER TABLE a RENAME TO b", "a"),
        ("DELETE a FROM a JOIN b ON a.i = b.i", "a b"),
        ("UPDATE now.t SET i = (SELECT MAX(i) FROM t)", "t"),
        ("CREATE PROCEDURE p() DELETE FROM t", ""),
        ("CREATE DATABASE d", ""),
    ],
)
def test_as_binlogged(text: str, expected: str) -> None:
    assert told(text) == names(expected)


@pytest.mark.parametrize("text", ["EXPLODE t", "INSERT INTO t SELECT )", "DROP TRIGGER r"])
def test_what_cannot_be_told_is_not_told(text: str) -> None:
    assert told(text) is None


def test_an_update_names_its_read_tables_too() -> None:
    """The event tells which of its tables are updated; the tables info names all."""
    parsed = parse_statement("UPDATE a, b SET b.i = a.i")
    assert form_tables_info(parsed, (), current_database=None) is None
    picked = type(parsed)(parsed.kind, updated=(names("b"),), listed=parsed.listed, objects=parsed.objects)
    assert form_tables_info(picked, (), current_database=None) == names("b a")


def test_a_derived_table_is_none() -> None:
    parsed = parse_statement("UPDATE a, (SELECT MAX(i) AS k FROM c) x SET a.j = k")
    assert parsed.listed is not None
    assert len(parsed.listed) == 3
    picked = type(parsed)(parsed.kind, updated=(names("a"),), listed=parsed.listed)
    assert form_tables_info(picked, (), current_database="now") == names("a c")


@pytest.mark.parametrize("current", [None, "d", "other"])
@given(st.sampled_from([None, "d", "e"]), st.text(min_size=1))
def test_names_with_and_without_the_default_database(
    current: str | None, database: str | None, table: str
) -> None:
    name = TableName(database, table)
    said = relative(name, current)
    assert said.database is None or said.database != current
    assert qualified(said, current) == qualified(name, current)


def test_no_default_database() -> None:
    assert told("INSERT INTO d.t SELECT * FROM e.t", None) == names("d.t e.t")
