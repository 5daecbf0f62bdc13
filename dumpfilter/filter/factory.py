"""From semantics and rules to the filter that reads them so."""

from __future__ import annotations

from collections.abc import Iterable

from dumpfilter.filter.base import ReplicationFilter
from dumpfilter.filter.collation import Family
from dumpfilter.filter.effective import EffectiveFilter
from dumpfilter.filter.filter import Filter
from dumpfilter.filter.rules import FilterSemantics, Rule


def make_filter(
    semantics: FilterSemantics,
    rules: Iterable[Rule],
    *,
    lower_case_table_names: int = 0,
    family: Family = "mysql",
) -> ReplicationFilter:
    """A slave's filter. Raises OptionError for a rule that these semantics do not know."""
    rules = tuple(rules)
    for rule in rules:
        semantics.check(rule.kind)
    kind = EffectiveFilter if semantics is FilterSemantics.EFFECTIVE else Filter
    return kind(rules, lower_case_table_names=lower_case_table_names, family=family)
