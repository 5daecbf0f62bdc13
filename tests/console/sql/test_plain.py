"""Plain values: literals, variables and calls that need no SQL engine."""

from __future__ import annotations

import pytest

from dumpfilter.console.sql.plain import Item, Kind, Plain, plain_select, plain_value


@pytest.mark.parametrize(
    ("text", "found"),
    [
        ("7", Plain(Kind.LITERAL, value=7)),
        ("-7", Plain(Kind.LITERAL, value=-7)),
        ("'it''s'", Plain(Kind.LITERAL, value="it's")),
        ("NULL", Plain(Kind.LITERAL)),
        ("@a", None),
        ("@@Version", Plain(Kind.SYSTEM_VARIABLE, "version")),
        ("@@session.x", Plain(Kind.SYSTEM_VARIABLE, "x")),
        ("f('a', -2)", Plain(Kind.CALL, "f", arguments=("a", -2))),
        ("- 'a'", None),
        ("1.5", None),
        ("9" * 19, None),
        ("1 + 1", None),
        ("(1)", None),
        ("f(1", None),
        ("f(1 2)", None),
        ("f(g(1))", None),
        ("'a' 'b'", None),
        ("'open", None),
        ("@@", None),
        ("", None),
    ],
)
def test_values(text: str, found: Plain | None) -> None:
    assert plain_value(text) == found


@pytest.mark.parametrize(
    ("text", "item"),
    [
        ("/* JDBC */ SELECT 1;", Item(Plain(Kind.LITERAL, value=1), "1")),
        ("SELECT @@GLOBAL.x ", Item(Plain(Kind.SYSTEM_VARIABLE, "x"), "@@GLOBAL.x")),
        ("SELECT @@b AS `c d`", Item(Plain(Kind.SYSTEM_VARIABLE, "b"), "c d")),
        ("SELECT now() as t LIMIT 1;", Item(Plain(Kind.CALL, "now"), "t")),
    ],
)
def test_an_item_has_the_name_that_a_server_gives_it(text: str, item: Item) -> None:
    assert plain_select(text) == item


@pytest.mark.parametrize(
    "text",
    [
        "SELECT",
        "SELECT 1 FROM t",
        "SELECT 1,",
        "SELECT 1, 2",
        "SELECT 1 LIMIT 0",
        "SELECT 1 AS",
        "SELECT 1 AS from",
        "SELECT 1; SELECT 2",
        "SELECT a",
        "SELECT *",
        "SELECT 1 WHERE 0",
        "SET @a=1",
        "SELECT " + "1," * 1000 + "1",
        "",
    ],
)
def test_other_statements(text: str) -> None:
    assert plain_select(text) is None
