"""Lint: the warnings about a filter, for the binlog set that the filter is meant for."""

from __future__ import annotations

from dumpfilter.analyse.lint.findings import FilterWarning, Level
from dumpfilter.analyse.lint.items import Item, joined
from dumpfilter.analyse.lint.knowledge import SetKnowledge
from dumpfilter.analyse.lint.remembering import RememberingFilter
from dumpfilter.analyse.lint.replica import ReplicaWalk
from dumpfilter.analyse.lint.rule_names import merged_tables, names_of, odd_names
from dumpfilter.analyse.lint.rule_order import decisions_of, void_rules
from dumpfilter.analyse.lint.xa import dropped_xa
from dumpfilter.filter import Filter, ReplicationFilter


def lint(rule_filter: ReplicationFilter, knowledge: SetKnowledge) -> list[FilterWarning]:
    """Return the warnings about a filter, for the set that ``knowledge`` describes. Notes come last.

    >>> from dumpfilter.filter import Filter
    >>> from dumpfilter.analyse.lint.knowledge import knowledge_of
    >>> from dumpfilter.index.subjects import TableSubject
    >>> known = knowledge_of([TableSubject("shop", "orders"), TableSubject("hr", "emp")])
    >>> for warning in lint(Filter.from_options(["--replicate-do-db=shop,hr", "--replicate-do-db=shop"]), known):
    ...     print(warning)
    comma: --replicate-do-db=shop,hr: no database 'shop,hr' in this set: a comma does not separate names. \
Did you mean --replicate-do-db=shop --replicate-do-db=hr?
    """
    items: list[Item] = []
    remembering = RememberingFilter(rule_filter)
    if isinstance(rule_filter, Filter):
        names = names_of(rule_filter, knowledge)
        decisions = decisions_of(remembering, knowledge)
        deciding = {decision.rule for decision in decisions.values()}
        items += odd_names(rule_filter, knowledge, names, deciding)
        items += merged_tables(rule_filter, knowledge)
        items += void_rules(rule_filter, knowledge, names, decisions)
    items += ReplicaWalk(remembering).walk(knowledge)
    items += dropped_xa(remembering, knowledge)
    return sorted(joined(items), key=lambda warning: warning.level is Level.NOTE)
