"""Filters as messages of the network contract."""

from __future__ import annotations

from typing import Literal

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dumpfilter.base.errors import OptionError
from dumpfilter.binlog.format import NameCollation, NameRules
from dumpfilter.filter.convert import family_to_proto, filter_from_proto, filter_to_proto
from dumpfilter.filter.effective import EffectiveFilter
from dumpfilter.filter.filter import Filter
from dumpfilter.filter.rules import EffectiveRuleKind, Rule, RuleKind, make_rule
from dumpfilter.v1 import dumpfilter_pb2 as pb
from tests.strategies import rules


@given(
    given_rules=rules(),
    lower_case=st.sampled_from([0, 1, 2]),
    family=st.sampled_from(["mysql", "mariadb"]),
    names=st.sampled_from(NameCollation),
)
def test_round_trip(
    given_rules: list[Rule], lower_case: int, family: Literal["mysql", "mariadb"], names: NameCollation
) -> None:
    before = Filter(given_rules, names=NameRules(family, names, lower_case))
    definition = pb.FilterDefinition.FromString(filter_to_proto(before).SerializeToString())
    after = filter_from_proto(definition)
    assert after.rules == before.rules
    assert after.names == before.names


@given(
    values=st.lists(
        st.tuples(st.sampled_from([EffectiveRuleKind.DO, EffectiveRuleKind.IGNORE]), st.sampled_from("a%_")),
        max_size=4,
    ),
    lower_case=st.sampled_from([0, 1, 2]),
    family=st.sampled_from(["mysql", "mariadb"]),
    names=st.sampled_from(NameCollation),
)
def test_effective_round_trip(
    values: list[tuple[EffectiveRuleKind, str]],
    lower_case: int,
    family: Literal["mysql", "mariadb"],
    names: NameCollation,
) -> None:
    given_rules = [make_rule(kind, f"{side}.%") for kind, side in values]
    given_rules.append(make_rule(EffectiveRuleKind.REWRITE, "a.%->b.%"))
    before = EffectiveFilter(given_rules, names=NameRules(family, names, lower_case))
    after = filter_from_proto(pb.FilterDefinition.FromString(filter_to_proto(before).SerializeToString()))
    assert isinstance(after, EffectiveFilter)
    assert after.rules == before.rules
    assert after.names == before.names
    assert filter_to_proto(after) == filter_to_proto(before)


def test_every_kind_has_a_number() -> None:
    values = {RuleKind.REWRITE_DB: "a->b", EffectiveRuleKind.REWRITE: "a.%->b.%"}
    made = [
        kind_of([Rule(kind, values.get(kind, "a.b")) for kind in kinds])
        for kind_of, kinds in ((Filter, RuleKind), (EffectiveFilter, EffectiveRuleKind))
    ]
    numbers = [rule.kind for one in made for rule in filter_to_proto(one).rules]
    assert len(set(numbers)) == len(RuleKind) + len(EffectiveRuleKind)
    assert 0 not in numbers
    assert family_to_proto("mysql") != family_to_proto("mariadb")


def test_classic_when_nothing_is_said() -> None:
    """A slave of an older release does not fill in the field ``semantics``."""
    old = pb.FilterDefinition(rules=[pb.Rule(kind=pb.REPLICATE_DO_DB, value="a")])
    assert isinstance(filter_from_proto(old), Filter)
    assert filter_to_proto(filter_from_proto(old)).semantics == pb.CLASSIC


def test_the_default_names() -> None:
    assert filter_from_proto(pb.FilterDefinition()).names.collation is NameCollation.GENERAL_CI
    for names in NameCollation:
        assert filter_from_proto(
            pb.FilterDefinition(), default=NameRules(collation=names)
        ).names == NameRules(collation=names)
    told = pb.FilterDefinition(names=pb.GENERAL_CI)
    after = filter_from_proto(told, default=NameRules(collation=NameCollation.GENERAL1400_AS_CI))
    assert after.names.collation is NameCollation.GENERAL_CI


def test_the_default_family() -> None:
    assert filter_from_proto(pb.FilterDefinition()).names.family == "mysql"
    assert filter_from_proto(pb.FilterDefinition(), default=NameRules("mariadb")).names.family == "mariadb"


@pytest.mark.parametrize(
    ("definition", "says"),
    [
        (pb.FilterDefinition(rules=[pb.Rule(value="x")]), "'x' has no known kind"),
        (pb.FilterDefinition(rules=[pb.Rule(kind=pb.REPLICATE_DO_DB)]), "a value is missing"),
        (pb.FilterDefinition(rules=[pb.Rule(kind=pb.REPLICATE_DO_TABLE, value="t")]), "replicate-do-table=t"),
        (pb.FilterDefinition(lower_case_table_names=7), "lower_case_table_names=7"),
        (pb.FilterDefinition(semantics=9), "filter semantics 9 are not known"),
        (pb.FilterDefinition(names=9), "name collation 9 is not known"),
        (
            pb.FilterDefinition(rules=[pb.Rule(kind=pb.EFFECTIVE_IGNORE, value="a.%")]),
            "unknown option '--ignore' in classic filter semantics",
        ),
        (
            pb.FilterDefinition(semantics=pb.EFFECTIVE, rules=[pb.Rule(kind=pb.REPLICATE_DO_DB, value="a")]),
            "unknown option '--replicate-do-db' in effective filter semantics",
        ),
        (
            pb.FilterDefinition(semantics=pb.EFFECTIVE, rules=[pb.Rule(kind=pb.EFFECTIVE_DO, value="a")]),
            "the dot is mandatory",
        ),
    ],
)
def test_errors(definition: pb.FilterDefinition, says: str) -> None:
    with pytest.raises(OptionError) as raised:
        filter_from_proto(definition)
    assert says in str(raised.value)
