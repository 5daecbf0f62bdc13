"""The tables, functions and changes that a text mentions."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dumpfilter.binlog.query import TableName
from dumpfilter.binlog.statement.mentions import mentions
from dumpfilter.binlog.statement.statement import Change


def spelled(name: TableName) -> str:
    return name.table if name.database is None else f"{name.database}.{name.table}"


@pytest.mark.parametrize(
    ("text", "tables"),
    [
        ("INSERT INTO a (i) SELECT i FROM b WHERE i < 3", "a b"),
        ("INSERT IGNORE t SET a = 1", "t"),
        ("REPLACE INTO `w x`.`y` VALUES (1)", "w x.y"),
        ("LOAD DATA LOCAL INFILE 'x' REPLACE INTO TABLE `a` (i)", "a"),
        (
            "DELETE l FROM shop.lines l JOIN logs.audit a ON a.r = l.o, z USE INDEX (q)",
            "shop.lines logs.audit z",
        ),
        ("DELETE FROM a USING a JOIN b USING (i)", "a b"),
        ("UPDATE (SELECT MAX(i) AS k FROM d2.c) AS x, a SET a.j = 2", "d2.c a"),
        ("UPDATE t SET x = EXTRACT(YEAR FROM d), y = TRIM(BOTH 'x' FROM z)", "t"),
        ("SELECT * FROM (a, b) LEFT JOIN (c JOIN d ON c.i = d.i) ON 1 WHERE x IN (TABLE e)", "a b c d e"),
        ("SELECT * FROM t FOR UPDATE", "t"),
        ("SELECT 1 FROM DUAL", ""),
        ("SELECT j.x FROM t, JSON_TABLE(t.doc, '$[*]' COLUMNS (x INT PATH '$')) AS j", "t"),
        ("TRUNCATE t", "t"),
        ("TRUNCATE TABLE d.t", "d.t"),
        ("INSERT INTO b VALUES (NEXTVAL(s)), ((SELECT NEXT VALUE FOR d2.r))", "b s d2.r"),
        ("SET STATEMENT max_statement_time = 1 FOR INSERT INTO a VALUES (1)", "a"),
        ("SET STATEMENT max_statement_time = 1 FOR UPDATE a SET i = 1", "a"),
        ("WITH q AS (SELECT 1 FROM a), r (c) AS (SELECT * FROM b) UPDATE t JOIN q, r SET j = 1", "a b t"),
        ("INSERT INTO a SELECT * FROM b ON DUPLICATE KEY UPDATE i = 1, j = 2, k.l = 3", "a b"),
        ("SELECT * FROM a USE INDEX FOR JOIN (i), b", "a b"),
        ("SELECT * FROM a FOR SYSTEM_TIME FROM ? TO ?", "a"),
        ("UPDATE {OJ a LEFT OUTER JOIN b ON a.i = b.i} SET a.j = 1", "a b"),
        ("DELETE FROM x USING d.a AS x JOIN b", "d.a b"),
        ("SELECT STRAIGHT_JOIN a.i FROM a STRAIGHT_JOIN b", "a b"),
        ("INSERT INTO a ((SELECT i FROM b) EXCEPT SELECT i FROM c)", "a b c"),
        ("SELECT a.i FROM a JOIN b ON a.i = @for, c UNION SELECT @from, i FROM e", "a b c e"),
        ("SELECT a.i FROM a JOIN b ON a.lock = b.for, c", "a b c"),
        ("ALTER TABLE a EXCHANGE PARTITION p WITH TABLE b", "a b"),
        ("SELECT * FROM ((SELECT i FROM a) UNION (SELECT i FROM b)) AS x, c, ((SELECT 1)) y, e", "a b c e"),
        ("SELECT * FROM a WHERE i IN (SELECT i FROM b USE INDEX (i)), c", "a b"),
        (
            "CREATE PROCEDURE p() BEGIN DECLARE c CURSOR FOR WITH q AS (SELECT 1 FROM a) SELECT * FROM q; END",
            "a",
        ),
        ("CREATE TABLE c (i INT REFERENCES p (i) ON UPDATE CASCADE) SELECT * FROM z", "c z"),
    ],
)
def test_tables(text: str, tables: str) -> None:
    expected = ["w x.y"] if "w x" in tables else tables.split()
    assert [spelled(name) for name in mentions(text, "mariadb").tables] == expected


@pytest.mark.parametrize(
    ("text", "writes"),
    [
        ("INSERT INTO a SELECT * FROM b ON DUPLICATE KEY UPDATE i = 1", {("a", "INSERT"), ("a", "UPDATE")}),
        (
            "INSERT a VALUES (1); INSERT b VALUES (1) ON DUPLICATE KEY UPDATE i = 1",
            {("a", "INSERT"), ("b", "INSERT"), ("b", "UPDATE")},
        ),
        ("REPLACE a VALUES (1)", {("a", "INSERT"), ("a", "DELETE")}),
        ("UPDATE a JOIN b SET a.i = 1", {("a", "UPDATE"), ("b", "UPDATE")}),
        ("DELETE FROM a WHERE i IN (SELECT i FROM b)", {("a", "DELETE")}),
        ("DELETE x FROM d.a AS x, b", {("d.a", "DELETE")}),
        ("DELETE d.x FROM a AS x, b", {("a", "DELETE"), ("b", "DELETE")}),
        ("LOAD DATA INFILE 'x' IGNORE INTO TABLE a (i)", {("a", "INSERT")}),
        ("LOAD DATA INFILE 'x' REPLACE INTO TABLE a (i)", {("a", "INSERT"), ("a", "DELETE")}),
        ("INSERT INTO a VALUES (REPLACE(INSERT('x', 1, 1, 'y'), 'a', 'b'))", {("a", "INSERT")}),
    ],
)
def test_writes(text: str, writes: set[tuple[str, str]]) -> None:
    found = mentions(text)
    assert {(spelled(name), change.value) for name, change in found.writes} == writes
    if "JOIN" not in text:
        assert set(found.changed) == set(found.writes)


@pytest.mark.parametrize(
    ("text", "changed"),
    [
        ("UPDATE a JOIN b ON a.i = b.i SET a.i = 1", "a"),
        ("UPDATE a, b SET a.i = b.i, a.j = IF(b.i, 1, 2) WHERE b.i = 1", "a"),
        ("UPDATE a, b SET A.i = 1, b.j = 2", "a b"),
        ("UPDATE d.a AS x LEFT JOIN d2.b y USING (i) SET y.i := x.i", "d2.b"),
        ("UPDATE a, b SET d.a.i = 1, d.a.`j` = 2 ORDER BY 1", "a"),
        ("UPDATE (a, b) JOIN c SET b.i = (SELECT MAX(i) FROM e), b.j = 1", "b"),
        ("UPDATE a JOIN b SET a.i = 1; UPDATE b SET i = 2; UPDATE c JOIN e SET c.i = 1", "a b c"),
        ("UPDATE (SELECT MAX(i) AS k FROM d2.c) AS x, a, b SET a.j = 2", "a"),
        ("UPDATE a PARTITION (p) x JOIN b SET x.i = 1", "a"),
        # Without a qualifier that names one table of the list, all tables may be changed.
        ("UPDATE a JOIN b SET i = 1", "a b"),
        ("UPDATE a JOIN b SET a.i = 1, j = 2", "a b"),
        ("UPDATE a JOIN b SET z.i = 1", "a b"),
        ("UPDATE d.a JOIN d2.a SET a.i = 1", "d.a d2.a"),
        ("UPDATE a JOIN b SET a.i = 1 'open", "a b"),
        ("UPDATE a JOIN b", "a b"),
    ],
)
def test_tables_that_an_update_surely_leaves_out(text: str, changed: str) -> None:
    assert sorted(spelled(name) for name, _ in mentions(text).changed) == changed.split()


def test_a_body_of_several_statements() -> None:
    found = mentions(
        "BEGIN DECLARE v INT; SELECT COUNT(*) INTO v FROM q; IF v THEN INSERT INTO w VALUES (f(1), d.g(2)); END IF;"
        " UPDATE u SET x = 1; DELETE FROM k; END"
    )
    assert [spelled(name) for name in found.tables] == ["q", "w", "u", "k"]
    assert [change for _, change in found.writes] == [Change.INSERT, Change.UPDATE, Change.DELETE]
    assert {"f", "d.g"} <= {spelled(name) for name in found.functions}


def test_parents() -> None:
    found = mentions("CREATE TABLE c (i INT, FOREIGN KEY (i) REFERENCES d.p (i))")
    assert [spelled(name) for name in found.parents] == ["d.p"]


@pytest.mark.parametrize(
    "part",
    [
        "UPDATE x ",
        "UPDATE (",
        "SELECT * FROM (SELECT x FROM ",
        "WITH a AS (",
        "SELECT * FROM a JOIN b ON (",
        "DELETE a FROM (",
        "SELECT * FROM a USE INDEX (",
        "SELECT * FROM (SELECT 1) a (",
        "SELECT * FROM ((SELECT 1) UNION ",
    ],
)
def test_deep_nesting_is_read_to_the_end(part: str) -> None:
    text = f"INSERT INTO t SELECT {part * 1000}"

    def read(frames: int) -> TableName:
        return read(frames - 1) if frames else mentions(text).tables[0]

    # A caller may have many frames on Python's stack.
    assert read(300) == TableName(None, "t")


WORDS = st.sampled_from(
    [
        *"abc.,;()=?",
        "FROM",
        "JOIN",
        "INTO",
        "INSERT",
        "UPDATE",
        "DELETE",
        "WITH",
        "AS",
        "TABLE",
        "USING",
        "SET",
        "SELECT",
        "'x'",
    ]
)


@given(st.lists(WORDS, max_size=40))
def test_any_text_is_read_to_its_end(words: list[str]) -> None:
    found = mentions(" ".join(words))
    assert {name for name, _ in found.writes} <= set(found.tables)
    assert set(found.changed) <= set(found.writes)
