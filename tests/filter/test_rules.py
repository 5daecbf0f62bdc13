"""Options in a server's spelling."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dumpfilter.errors import OptionError
from dumpfilter.filter.rules import Rule, RuleKind, make_rule, parse_option, unique


@pytest.mark.parametrize("kind", RuleKind)
def test_every_kind(kind: RuleKind) -> None:
    value = "a->b" if kind is RuleKind.REWRITE_DB else "a.b"
    rule = Rule(kind, value)
    for name in (kind.value, kind.value.replace("-", "_")):
        assert parse_option(f"--{name}={value}") == rule
        assert parse_option(f"{name}={value}") == rule
    assert str(rule) == f"--{kind.value}={value}"
    assert parse_option(str(rule)) == rule


@pytest.mark.parametrize(
    ("option", "value"),
    [
        ("--replicate-do-db=a=b", "a=b"),
        ("--replicate-do-db=a,b", "a,b"),
        ("--replicate-do-db= a ", " a "),
        ("--replicate-do-table=a.b.c", "a.b.c"),
        ("--replicate-wild-do-table=%.", "%."),
        ("--replicate-rewrite-db= shop  ->  store ", "shop->store"),
        ("--replicate-rewrite-db=a->b->c", "a->b->c"),
    ],
)
def test_values(option: str, value: str) -> None:
    assert parse_option(option).value == value


def test_pair() -> None:
    assert make_rule(RuleKind.REWRITE_DB, "a->b->c").pair == ("a", "b->c")


@pytest.mark.parametrize(
    ("option", "says"),
    [
        ("--replicate-do-db", "a value is missing"),
        ("--replicate-do-db=", "a value is missing"),
        ("--replicate-do-everything=x", "unknown option '--replicate-do-everything'"),
        ("", "unknown option"),
        ("--binlog-do-db=x", "unknown option"),
        ("--replicate-do-table=t", "db_name.table_name"),
        ("--replicate-ignore-table=t", "db_name.table_name"),
        ("--replicate-wild-do-table=%", "db_pattern.table_pattern"),
        ("--replicate-wild-ignore-table=a%", "db_pattern.table_pattern"),
        ("--replicate-rewrite-db=a", "missing '->'"),
        ("--replicate-rewrite-db=->b", "empty FROM db"),
        ("--replicate-rewrite-db= -> b", "empty FROM db"),
        ("--replicate-rewrite-db=a->", "empty TO db"),
        ("--replicate-rewrite-db=a-> ", "empty TO db"),
        ("--replicate-do-db=a\0b", "NUL"),
    ],
)
def test_errors(option: str, says: str) -> None:
    with pytest.raises(OptionError) as raised:
        parse_option(option)
    assert says in str(raised.value)
    assert "\0" not in str(raised.value)
    assert raised.value.exit_code == 2


@given(st.text(max_size=40))
def test_anything(text: str) -> None:
    for option in (text, f"--replicate-rewrite-db={text}", f"--replicate-wild-do-table={text}"):
        try:
            rule = parse_option(option)
        except OptionError:
            continue
        assert parse_option(str(rule)) == rule


def test_unique() -> None:
    a, b = make_rule(RuleKind.DO_DB, "a"), make_rule(RuleKind.DO_DB, "b")
    assert unique([b, a, b, a]) == (b, a)
