"""Rules from options in the servers' spelling, and wild patterns, compared with their definition."""

from __future__ import annotations

import itertools
import time
from collections.abc import Callable
from pathlib import Path

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dumpfilter.base.errors import OptionError
from dumpfilter.filter.rules import (
    BaseRuleKind,
    EffectiveRuleKind,
    FilterSemantics,
    Rule,
    RuleKind,
    WildSet,
    make_rule,
    parse_option,
    unique,
)
from tests.filter.plain import naive_match, parse_pattern
from tests.support import STATUS_COLUMNS

EFFECTIVE = FilterSemantics.EFFECTIVE


@pytest.mark.parametrize("kind", RuleKind)
def test_every_kind(kind: RuleKind) -> None:
    value = "a->b" if kind is RuleKind.REWRITE_DB else "a.b"
    rule = Rule(kind, value)
    for name in (kind.value, kind.value.replace("-", "_")):
        assert parse_option(f"--{name}={value}") == rule
        assert parse_option(f"{name}={value}") == rule
    assert str(rule) == f"--{kind.value}={value}"
    assert parse_option(str(rule)) == rule


@pytest.mark.parametrize("kind", EffectiveRuleKind)
def test_every_effective_kind(kind: EffectiveRuleKind) -> None:
    value = "a.%->b.%" if kind is EffectiveRuleKind.REWRITE else "a.b"
    rule = Rule(kind, value)
    assert parse_option(f"--{kind.value}={value}", EFFECTIVE) == rule
    assert parse_option(str(rule), EFFECTIVE) == rule


@pytest.mark.parametrize("name", ["--binlog-do-db", *(f"--{kind.value}" for kind in RuleKind)])
def test_old_options_are_unknown_in_effective_semantics(name: str) -> None:
    """WL#2516 says of the classic options: they "are all removed in this WL and cause an 'unknown option' error"."""
    with pytest.raises(OptionError, match=f"unknown option '{name}' in effective filter semantics") as raised:
        parse_option(f"{name}=a.b->c.d", EFFECTIVE)
    assert "--do, --ignore, --rewrite" in str(raised.value)


@pytest.mark.parametrize("kind", EffectiveRuleKind)
def test_effective_options_are_unknown_in_classic_semantics(kind: EffectiveRuleKind) -> None:
    with pytest.raises(
        OptionError, match=f"unknown option '--{kind.value}' in classic filter semantics"
    ) as raised:
        parse_option(f"--{kind.value}=a.b")
    assert "--replicate-do-db, --replicate-ignore-db" in str(raised.value)


@pytest.mark.parametrize("name", ["--replicate-do-bd", "replicate_do_bd", "--replicate-dodb"])
def test_a_misspelt_option_names_the_one_that_was_meant(name: str) -> None:
    with pytest.raises(OptionError) as raised:
        parse_option(f"{name}=shop")
    meant = "did you mean --replicate-do-db?"
    assert str(raised.value) == f"unknown option {name!r} in classic filter semantics; {meant}"


def test_each_semantics_has_its_own_kinds() -> None:
    for semantics, own in ((FilterSemantics.CLASSIC, RuleKind), (EFFECTIVE, EffectiveRuleKind)):
        for kind in (*RuleKind, *EffectiveRuleKind):
            if isinstance(kind, own):
                semantics.check(kind)
            else:
                with pytest.raises(OptionError, match="unknown option"):
                    semantics.check(kind)


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


@pytest.mark.parametrize(
    ("option", "says"),
    [
        ("--do", "a value is missing"),
        ("--do=", "a value is missing"),
        ("--do=a\0.b", "NUL"),
        ("--do=db1", "'db1' is not in the form db_pattern.table_pattern; the dot is mandatory"),
        ("--ignore=%", "the dot is mandatory"),
        (r"--ignore=a\.b", "the dot is mandatory"),
        ("--ignore=.t", "the dot is mandatory"),
        ("--ignore=", "a value is missing"),
        ("--rewrite=a.%", "bad syntax in rewrite: missing '->'"),
        ("--rewrite=->a.%", "empty FROM"),
        ("--rewrite=a.%->", "empty TO"),
        ("--rewrite=a->b.%", "'a' is not in the form"),
        ("--rewrite=a.%->b", "'b' is not in the form"),
        ("--rewrite=a.->b.%", "an empty table"),
        ("--rewrite=a.%->b.", "an empty table"),
        ("--rewrite=%a%.t->b.t", "more than one '%' in the db of FROM"),
        ("--rewrite=a.%t%->b.t", "more than one '%' in the table of FROM"),
        ("--rewrite=a.%->%.%", "more '%' in the db of TO than of FROM"),
        ("--rewrite=a%.%->b%%.%", "more '%' in the db of TO than of FROM"),
        ("--rewrite=a.t->b.%", "more '%' in the table of TO than of FROM"),
    ],
)
def test_effective_errors(option: str, says: str) -> None:
    with pytest.raises(OptionError) as raised:
        parse_option(option, EFFECTIVE)
    assert says in str(raised.value)
    assert "\0" not in str(raised.value)
    assert raised.value.exit_code == 2


@given(st.text(alphabet="a.%_\\->' \0=", max_size=20))
def test_any_effective_value(text: str) -> None:
    for kind in EffectiveRuleKind:
        try:
            rule = parse_option(f"--{kind.value}={text}", EFFECTIVE)
        except OptionError:
            continue
        assert parse_option(str(rule), EFFECTIVE) == rule


@given(st.text(max_size=40))
def test_anything(text: str) -> None:
    for option in (text, f"--replicate-rewrite-db={text}", f"--replicate-wild-do-table={text}"):
        try:
            rule = parse_option(option)
        except OptionError:
            continue
        assert parse_option(str(rule)) == rule


def test_columns_of_show_replica_status() -> None:
    assert tuple(kind.status_column for kind in RuleKind) == STATUS_COLUMNS


def test_unique() -> None:
    a, b = make_rule(RuleKind.DO_DB, "a"), make_rule(RuleKind.DO_DB, "b")
    assert unique([b, a, b, a]) == (b, a)


@pytest.mark.parametrize("kinds", [RuleKind, EffectiveRuleKind])
def test_the_documentation_lists_every_kind(kinds: type[BaseRuleKind]) -> None:
    page = (Path(__file__).parents[2] / "docs/filters.md").read_text("utf-8")
    for kind in kinds:
        row = f"| `--{kind.option}={kind.metavar}` | {kind.help} |"
        assert row in page, f"docs/filters.md needs this row: {row}"


texts = st.text(alphabet="ab.%_\\é", max_size=9)


def matches_pattern(pattern: str, name: str, fold: Callable[[str], str] = str) -> bool:
    return WildSet([pattern], fold).first(name) is not None


@pytest.mark.parametrize(
    ("pattern", "name", "matches"),
    [
        ("", "", True),
        ("", "a", False),
        ("%", "", True),
        ("%%", "abc", True),
        ("_", "", False),
        ("_", "é", True),
        ("a%.t", "a.b.t", True),
        ("%.t", "db.with.dots.t", True),
        ("%.%", "nodot", False),
        ("a_b.%", "axb.t", True),
        (r"a\_b.%", "axb.t", False),
        (r"a\_b.%", "a_b.t", True),
        (r"a\%.%", "a%.t", True),
        (r"a\%.%", "ab.t", False),
        (r"a\\.%", "a\\.t", True),
        (r"a\b.t", "ab.t", True),
        ("a.t\\", "a.t\\", True),
        ("%aab%", "aaab", True),
        ("%ab%ab", "abab", True),
        ("%ab%ab", "abb", False),
        ("ab%ba", "aba", False),
        ("%_", "a", True),
        ("%__", "a", False),
        ("_%_%_", "abc", True),
    ],
)
def test_table(pattern: str, name: str, matches: bool) -> None:
    assert matches_pattern(pattern, name) is matches


@given(pattern=texts, name=texts)
def test_against_the_definition(pattern: str, name: str) -> None:
    assert matches_pattern(pattern, name) == naive_match(parse_pattern(pattern), name)


@given(texts)
def test_escaped_names_match_themselves(name: str) -> None:
    escaped = "".join(f"\\{c}" for c in name)
    assert matches_pattern(escaped, name)
    assert not matches_pattern(escaped, name + "a")
    assert matches_pattern(escaped + "%", name + "a")


@given(pattern=texts, name=texts)
def test_folding(pattern: str, name: str) -> None:
    """Characters that ``fold`` maps to the same character match. ``fold`` never makes a wildcard."""
    assert matches_pattern(pattern, name.upper(), str.upper) == naive_match(
        parse_pattern(pattern.upper()), name.upper()
    )
    assert matches_pattern(pattern, "%" * len(name), lambda _: "%") == naive_match(
        [("is", "%") if e[0] == "is" else e for e in parse_pattern(pattern)], "%" * len(name)
    )


@pytest.mark.parametrize(
    "pattern",
    ["%" * 60, "%a" * 60, "%a" * 60 + "%b", "%_" * 60, "_%" * 60 + "b", "%aaaaaaaaab" * 20, "%" + "_" * 300],
)
def test_cost_is_bounded(pattern: str) -> None:
    began = time.process_time()
    for name in ("a" * 129, "a" * 64 + "." + "a" * 64, "a" * 400, "ab" * 200):
        matches_pattern(pattern, name)
    # Steps that multiply with each % would take hours.
    assert time.process_time() - began < 60


@given(patterns=st.lists(st.text("ab%_\\.x", max_size=6), max_size=12), name=st.text("abx._%\\", max_size=8))
def test_a_set_finds_the_first_that_matches(patterns: list[str], name: str) -> None:
    found = WildSet(patterns).first(name)
    assert found == next((n for n, p in enumerate(patterns) if matches_pattern(p, name)), None)


@given(pattern=st.text("ab%_", min_size=1, max_size=4), begin=st.text("ab", min_size=1, max_size=3))
def test_the_names_with_a_beginning_against_the_definition(pattern: str, begin: str) -> None:
    elements = parse_pattern(pattern)
    matches = {
        length: [
            naive_match(elements, begin + "".join(rest)) for rest in itertools.product("abc", repeat=length)
        ]
        for length in range(len(pattern) + 1)
    }
    assert WildSet([pattern]).may_match(begin) == any(map(any, matches.values()))
    if WildSet([pattern]).matches_all(begin):
        assert all(all(found) for length, found in matches.items() if length)


@pytest.mark.parametrize(
    ("pattern", "begin", "matches"),
    [
        ("%", "a.", True),
        ("a.%", "a.", True),
        ("a%", "a.", True),
        ("a._%", "a.", True),
        ("a.%_", "a.", True),
        ("a.%_%", "a.", True),
        ("%.%", "a.", True),
        ("a.t%", "a.", False),
        ("a.__%", "a.", False),
        ("a._", "a.", False),
        ("b.%", "a.", False),
        ("a.", "a.", False),
    ],
)
def test_a_pattern_matches_all_tables_of_a_database(pattern: str, begin: str, matches: bool) -> None:
    assert WildSet([pattern]).matches_all(begin) is matches
