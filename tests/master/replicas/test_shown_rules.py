"""The rules of a replica's own filter, from the texts in which MySQL and MariaDB show them."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dumpfilter.base.errors import OptionError
from dumpfilter.binlog.format import NameRules
from dumpfilter.filter.channels import ConfiguredBy, Setting
from dumpfilter.filter.compare import Beyond, passes_beyond
from dumpfilter.filter.filter import Filter
from dumpfilter.filter.rules import Rule, RuleKind, make_rule
from dumpfilter.master.replica_filters import MOST_PIECES, read_rules

MYSQL = NameRules("mysql")
NAMES = st.text("ab,", min_size=1, max_size=4)
KINDS = [kind for kind in RuleKind if kind is not RuleKind.REWRITE_DB]


def shown(rules: list[Rule]) -> dict[RuleKind, str]:
    """Return the texts in which MySQL shows rules."""
    return {
        kind: Setting(
            kind,
            tuple(rule for rule in rules if rule.kind is kind),
            ConfiguredBy.STARTUP_OPTIONS,
            datetime.now(UTC),
        ).rule_text
        for kind in RuleKind
    }


@given(st.lists(st.tuples(st.sampled_from(KINDS), NAMES, NAMES), max_size=5))
def test_what_is_surely_dropped_the_replica_drops(given: list[tuple[RuleKind, str, str]]) -> None:
    rules = [
        make_rule(kind, database if kind in (RuleKind.DO_DB, RuleKind.IGNORE_DB) else f"{database}.{table}")
        for kind, database, table in given
    ]
    read = read_rules(shown(rules), commas_separate=False, names=MYSQL)
    # No name ends with a space.
    impossible = [rule for rule in read.sure.rules if rule.value.endswith(" ")]
    for names in (NameRules("mysql"), NameRules("mariadb")):
        own, sure = Filter([*rules, *impossible], names=names), Filter(read.sure.rules, names=names)
        assert passes_beyond(own, sure).beyond is Beyond.NOTHING
    assert bool(read.doubts) == any("," in text for text in shown(rules).values())


@given(
    st.lists(st.tuples(st.sampled_from(KINDS), st.sampled_from("abc"), st.sampled_from("xyz")), max_size=5)
)
def test_without_commas_in_names_they_are_exact(given: list[tuple[RuleKind, str, str]]) -> None:
    rules = [
        make_rule(kind, database if kind in (RuleKind.DO_DB, RuleKind.IGNORE_DB) else f"{database}.{table}")
        for kind, database, table in given
    ]
    read = read_rules(shown(rules), commas_separate=True, names=MYSQL)
    assert set(read.sure.rules) == set(read.likely.rules) == set(rules)
    assert not read.doubts


def test_one_rule_or_two() -> None:
    read = read_rules(
        {RuleKind.IGNORE_DB: "a,b", RuleKind.DO_TABLE: "s.x,s.y"}, commas_separate=False, names=MYSQL
    )
    assert list(map(str, read.sure.rules)) == [
        "--replicate-ignore-db=a,b ",
        "--replicate-do-table=s.x",
        "--replicate-do-table=s.x,s.y",
        "--replicate-do-table=s.y",
    ]
    assert list(map(str, read.likely.rules)) == [
        "--replicate-ignore-db=a",
        "--replicate-ignore-db=b",
        "--replicate-do-table=s.x",
        "--replicate-do-table=s.y",
    ]
    assert read.doubts == ("REPLICATE_IGNORE_DB=a,b", "REPLICATE_DO_TABLE=s.x,s.y")
    assert read.not_dropped == ("REPLICATE_IGNORE_DB=a,b",)


@pytest.mark.parametrize("text", ["(a,b),(c,d)", "a->b,c->d"])
def test_rewrite_rules_of_both_servers(text: str) -> None:
    read = read_rules({RuleKind.REWRITE_DB: text}, commas_separate=False, names=MYSQL)
    assert [rule.pair for rule in read.sure.rules] == [("a", "b"), ("c", "d")]
    assert read.sure.rules == read.likely.rules


@pytest.mark.parametrize("text", ["(a,b,c)", "(a,(b)", "(a,b)(c,d)", "(a,b),", "a->b,c", "a->b->c", "a"])
def test_a_rewrite_rule_must_be_sure(text: str) -> None:
    with pytest.raises(OptionError, match="can be read in several ways"):
        read_rules({RuleKind.REWRITE_DB: text}, commas_separate=True, names=MYSQL)


def test_many_rules_need_the_operators_word() -> None:
    text = ",".join(f"d{n}" for n in range(MOST_PIECES + 1))
    with pytest.raises(OptionError, match="commas_separate = true"):
        read_rules({RuleKind.DO_DB: text}, commas_separate=False, names=MYSQL)
    assert (
        len(read_rules({RuleKind.DO_DB: text}, commas_separate=True, names=MYSQL).sure.rules)
        == MOST_PIECES + 1
    )


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        (",".join("a" * 10_001), "more than 10000 rules"),
        ("a" * 1025, "a rule of more than 1024 characters"),
        ("a" * (1 << 20) + "b", "more than 1048576 characters"),
    ],
    ids=["rules", "rule", "text"],
)
def test_more_rules_than_a_filter_may_have_are_an_error(text: str, reason: str) -> None:
    for commas_separate in (True, False):
        with pytest.raises(OptionError, match=reason):
            read_rules({RuleKind.IGNORE_DB: text}, commas_separate=commas_separate, names=MYSQL)
