"""All tables that a statement's text names."""

from __future__ import annotations

import pytest

from dumpfilter.binlog.statement.named import tables_named
from dumpfilter.binlog.statement.shape import MODE_ANSI_QUOTES


@pytest.mark.parametrize(
    ("text", "tables"),
    [
        ("INSERT INTO shop.t VALUES (1, 'FROM hr.x')", "shop.t"),
        ("INSERT INTO t SELECT * FROM emp e JOIN hr.x USING (i)", ".t .emp hr.x"),
        ("REPLACE INTO a SET x = (SELECT 1 FROM hr.s)", ".a hr.s"),
        ("INSERT INTO a VALUES (1) ON DUPLICATE KEY UPDATE x = (SELECT 2 FROM hr.w)", ".a hr.w"),
        ("INSERT INTO a WITH c AS (SELECT * FROM hr.q) SELECT * FROM c", ".a hr.q"),
        ("UPDATE o JOIN hr.s SET o.n = 1, s.pay = 5", ".o hr.s"),
        ("UPDATE a, (SELECT * FROM hr.s) d SET a.x = d.y", ".a hr.s"),
        ("UPDATE o SET a = 1 WHERE id IN (SELECT id FROM hr.q)", ".o hr.q"),
        ("DELETE a FROM a JOIN hr.b USING (i)", ".a hr.b"),
        ("DELETE FROM a WHERE x IN (SELECT y FROM hr.z)", ".a hr.z"),
        # The tables of these statements are not told.
        ("INSERT INTO a TABLE hr.b", None),
        ("LOAD DATA INFILE 'x' INTO TABLE t SET a = (SELECT 1 FROM hr.s)", None),
        ("SELECT f(1)", None),
        ("WITH c AS (SELECT * FROM hr.s) UPDATE a JOIN c SET a.x = 1", None),
        ("FROBNICATE hr.emp", None),
        ("", None),
    ],
)
def test_tables(text: str, tables: str | None) -> None:
    found = tables_named(text)
    assert (None if found is None else " ".join(f"{n.database or ''}.{n.table}" for n in found.all)) == tables


def test_the_sql_mode_matters() -> None:
    text = 'INSERT INTO a SELECT "x" FROM b, "hr"."s"'
    assert tables_named(text) is None
    found = tables_named(text, sql_mode=MODE_ANSI_QUOTES)
    assert found is not None
    assert [name.table for name in found.all] == ["a", "b", "s"]
