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
        ("@A", Plain(Kind.USER_VARIABLE, "a")),
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


def test_items_have_the_names_that_a_server_gives_them() -> None:
    items = plain_select("/* JDBC */ SELECT 1, @@GLOBAL.x , @b AS `c d`, now() as t LIMIT 1;")
    assert items == [
        Item(Plain(Kind.LITERAL, value=1), "1"),
        Item(Plain(Kind.SYSTEM_VARIABLE, "x"), "@@GLOBAL.x"),
        Item(Plain(Kind.USER_VARIABLE, "b"), "c d"),
        Item(Plain(Kind.CALL, "now"), "t"),
    ]


@pytest.mark.parametrize(
    "text",
    [
        "SELECT",
        "SELECT 1 FROM t",
        "SELECT 1,",
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
