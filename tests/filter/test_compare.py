"""The comparison of filters: whether one of them passes something that the other one drops."""

from __future__ import annotations

import time

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dumpfilter.base.errors import OptionError
from dumpfilter.binlog.format import NameCollation, NameRules
from dumpfilter.binlog.query import TableName
from dumpfilter.binlog.statement.statement import Statement, StatementKind
from dumpfilter.filter.compare import Beyond, passes_beyond
from dumpfilter.filter.effective import EffectiveFilter
from dumpfilter.filter.filter import Filter
from dumpfilter.filter.rules import Rule, RuleKind, make_rule

NAMES = [
    NameRules("mysql"),
    NameRules("mysql", lower_case_table_names=1),
    NameRules("mariadb"),
    NameRules("mariadb", NameCollation.GENERAL1400_AS_CI),
    NameRules("mariadb", lower_case_table_names=1),
]
LETTERS = "aAbé%_.\\"


def make(kind: RuleKind, value: str) -> Rule | None:
    try:
        return make_rule(kind, value)
    except OptionError:
        return None


databases = st.text("aAbé", min_size=1, max_size=2)
values = {
    RuleKind.DO_DB: databases,
    RuleKind.IGNORE_DB: databases,
    RuleKind.DO_TABLE: st.builds("{}.{}".format, databases, databases),
    RuleKind.IGNORE_TABLE: st.builds("{}.{}".format, databases, databases),
    RuleKind.WILD_DO_TABLE: st.builds(
        "{}.{}".format, st.text(LETTERS, max_size=3), st.text(LETTERS, max_size=3)
    ),
    RuleKind.WILD_IGNORE_TABLE: st.builds(
        "{}.{}".format, st.text(LETTERS, max_size=3), st.text(LETTERS, max_size=3)
    ),
    RuleKind.REWRITE_DB: st.builds("{}->{}".format, databases, databases),
}
some_rules = st.lists(
    st.sampled_from(list(RuleKind)).flatmap(lambda kind: values[kind].map(lambda value: make(kind, value))),
    max_size=4,
).map(lambda rules: [rule for rule in rules if rule is not None])
tables = st.builds(TableName, st.none() | databases, databases)
statements = st.builds(
    lambda kind, current, database, updated, involved: Statement(
        kind,
        current,
        # A statement on a database names one, or the session has a current one.
        database or (None if current else "a") if kind.is_database else None,
        updated=updated,
        involved=involved,
    ),
    st.sampled_from(
        [
            StatementKind.UPDATE,
            StatementKind.CREATE_DATABASE,
            StatementKind.ALTER_DATABASE,
            StatementKind.SELECT,
        ]
    ),
    st.none() | databases,
    st.none() | databases,
    st.none() | st.lists(st.lists(tables, min_size=1, max_size=3).map(tuple), max_size=2).map(tuple),
    st.lists(tables, max_size=2).map(tuple),
)
subjects = st.tuples(databases, databases) | statements


def verdict(rule_filter: Filter, subject: Statement | tuple[str, str]) -> bool:
    if isinstance(subject, Statement):
        return rule_filter.decide(subject).verdict.passes
    return rule_filter.rows_ok(*subject)


@given(st.sampled_from(NAMES), some_rules, some_rules, st.lists(subjects, min_size=5, max_size=30))
def test_a_difference_is_never_missed(
    names: NameRules, one: list[Rule], more: list[Rule], asked: list[Statement | tuple[str, str]]
) -> None:
    for rules in (more, one + more, one[:-1]):
        first, second = Filter(one, names=names), Filter(rules, names=names)
        found = passes_beyond(first, second)
        if any(verdict(first, subject) and not verdict(second, subject) for subject in asked):
            assert found.beyond is not Beyond.NOTHING
        assert (found.beyond is Beyond.SOMETHING) == bool(found.example)


@given(some_rules, some_rules)
def test_filters_of_ascii_names_without_wildcards_can_be_compared(one: list[Rule], other: list[Rule]) -> None:
    one, other = (
        [rule for rule in rules if rule.value.isascii() and "wild" not in rule.kind.option]
        for rules in (one, other)
    )
    for names in NAMES:
        found = passes_beyond(Filter(one, names=names), Filter(other, names=names))
        assert found.beyond is not Beyond.UNKNOWN


@pytest.mark.parametrize(
    ("one", "other", "example"),
    [
        ("", "", ""),
        ("", "do-db=shop", "statements with the current database ''"),
        ("do-db=shop", "do-db=shop do-db=hr", ""),
        ("do-db=shop do-db=hr", "do-db=shop", "statements with the current database 'hr'"),
        ("ignore-db=hr", "ignore-db=hr ignore-db=logs", "statements with the current database 'logs'"),
        ("ignore-db=hr ignore-db=logs", "ignore-db=hr", ""),
        ("ignore-table=s.t", "wild-ignore-table=s.%", "rows of s.a"),
        ("wild-ignore-table=s.%", "ignore-table=s.t", ""),
        ("wild-do-table=sho_.%", "wild-do-table=shop.%", "rows of shoa.a"),
        ("wild-do-table=%.a% wild-ignore-table=s.%", "wild-do-table=%.a% wild-do-table=%.b%", ""),
        ("wild-do-table=shop.%", "wild-do-table=shop.% do-table=hr.t wild-do-table=logs.%", ""),
        ("wild-do-table=%.a%", "wild-do-table=%.a% wild-do-table=%.b%", ""),
        ("wild-do-table=s.a% wild-do-table=s.b%", "wild-do-table=s.a%", "rows of s.b"),
        ("do-table=s.a do-table=s.b", "do-table=s.a", "rows of s.b"),
        ("do-db=b rewrite-db=a->b", "do-db=b rewrite-db=a->b", ""),
        ("do-db=b rewrite-db=a->b", "do-db=b", "statements with the current database 'a'"),
        ("do-db=b", "do-db=b rewrite-db=a->b", ""),
        ("rewrite-db=a->b ignore-db=a", "ignore-db=a", "statements with the current database 'a'"),
        # The tables of the statement are both dropped by themselves. Together the first filter passes them.
        ("do-db=s ignore-table=s.x", "do-db=s ignore-table=s.y", "rows of s.y"),
        # Rows of hr pass neither filter. A statement in shop that updates a table of hr passes the first one only.
        ("do-db=shop", "do-db=shop ignore-table=hr.t", "statements that update hr.t"),
    ],
)  # fmt: skip
def test_examples(one: str, other: str, example: str) -> None:
    first, second = (
        Filter.from_options([f"--replicate-{rule}" for rule in rules.split()]) for rules in (one, other)
    )
    found = passes_beyond(first, second)
    assert found.example == example
    assert found.beyond is (Beyond.SOMETHING if example else Beyond.NOTHING)


def test_the_rule_that_drops_the_example_is_told() -> None:
    ignoring = Filter.from_options(["--replicate-wild-ignore-table=hr.%"])
    assert passes_beyond(Filter(), ignoring).rule == ignoring.rules[0]
    assert passes_beyond(Filter(), Filter.from_options(["--replicate-do-db=shop"])).rule is None


def test_what_cannot_be_compared_is_unknown() -> None:
    shop = Filter.from_options(["--replicate-do-db=shop"])
    effective = EffectiveFilter.from_options(["--ignore=hr.%"])
    assert passes_beyond(shop, effective).beyond is Beyond.UNKNOWN
    assert passes_beyond(effective, shop).beyond is Beyond.UNKNOWN
    assert passes_beyond(effective, effective).beyond is Beyond.NOTHING
    assert passes_beyond(effective, Filter()).beyond is Beyond.NOTHING
    accent, accents = (
        Filter.from_options([f"--replicate-{rule}"], names=NameRules("mariadb"))
        for rule in ("wild-ignore-table=é.%", "ignore-table=é.t")
    )
    assert passes_beyond(accent, accents).beyond is Beyond.UNKNOWN
    # Patterns that match the same names may pass more together than the names show that are made from each of them.
    for one, other in (("shop.%", "sho_.%"), (r"a\_b.%", "a_b.%")):
        first, second = (
            Filter.from_options([f"--replicate-wild-do-table={pattern}"]) for pattern in (one, other)
        )
        assert passes_beyond(first, second).beyond is Beyond.UNKNOWN


def test_many_rules_take_little_time() -> None:
    begun = time.process_time()
    many = [f"--replicate-wild-ignore-table=%x{n}%y.%{n}%z%" for n in range(300)]
    turned = Filter.from_options(many[::-1])
    assert passes_beyond(Filter.from_options(many), turned).beyond is Beyond.NOTHING
    one, other = Filter.from_options(many), Filter.from_options([*many[:-1], "--replicate-ignore-db=x"])
    assert passes_beyond(one, other).beyond is not Beyond.NOTHING
    databases = [f"--replicate-do-db=database{n}" for n in range(1000)]
    one, other = Filter.from_options(databases), Filter.from_options(databases[1:])
    assert passes_beyond(one, other).beyond is not Beyond.NOTHING
    assert passes_beyond(other, one).beyond is not Beyond.SOMETHING
    assert time.process_time() - begun < 60
