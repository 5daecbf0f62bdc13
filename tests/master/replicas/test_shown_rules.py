"""The rules of a replica's own filter, from the texts in which MySQL and MariaDB show them."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dumpfilter.base.errors import OptionError
from dumpfilter.binlog.format import NameRules
from dumpfilter.filter.channels import ConfiguredBy, Setting
from dumpfilter.filter.rules import Rule, RuleKind, make_rule
from dumpfilter.master.replicas.filters import read_rules

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
def test_no_rule_is_read_in_another_way(given: list[tuple[RuleKind, str, str]]) -> None:
    rules = [
        make_rule(kind, database if kind in (RuleKind.DO_DB, RuleKind.IGNORE_DB) else f"{database}.{table}")
        for kind, database, table in given
    ]
    texts = shown(rules)
    if any("," in text for text in texts.values()):
        with pytest.raises(OptionError, match=r"can be one rule or several.*commas_separate = true"):
            read_rules(texts, commas_separate=False, names=MYSQL)
    else:
        assert set(read_rules(texts, commas_separate=False, names=MYSQL).rules) == set(rules)


@given(
    st.lists(st.tuples(st.sampled_from(KINDS), st.sampled_from("abc"), st.sampled_from("xyz")), max_size=5)
)
def test_without_commas_in_names_they_are_exact(given: list[tuple[RuleKind, str, str]]) -> None:
    rules = [
        make_rule(kind, database if kind in (RuleKind.DO_DB, RuleKind.IGNORE_DB) else f"{database}.{table}")
        for kind, database, table in given
    ]
    read = read_rules(shown(rules), commas_separate=True, names=MYSQL)
    assert set(read.rules) == set(rules)


@pytest.mark.parametrize("text", ["(a,b),(c,d)", "a->b,c->d"])
def test_rewrite_rules_of_both_servers(text: str) -> None:
    read = read_rules({RuleKind.REWRITE_DB: text}, commas_separate=False, names=MYSQL)
    assert [rule.pair for rule in read.rules] == [("a", "b"), ("c", "d")]


@pytest.mark.parametrize("text", ["(a,b,c)", "(a,(b)", "(a,b)(c,d)", "(a,b),", "a->b,c", "a->b->c", "a"])
def test_a_rewrite_rule_must_be_sure(text: str) -> None:
    with pytest.raises(OptionError, match="can be read in several ways"):
        read_rules({RuleKind.REWRITE_DB: text}, commas_separate=True, names=MYSQL)


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
