"""The entry point of lint: the warnings about a filter for a given binlog set."""

from __future__ import annotations

from collections.abc import Iterator
from functools import cache

from dumpfilter.analyse.lint.findings import Code, FilterWarning, Item, Level, few, joined
from dumpfilter.analyse.lint.knowledge import SetEvent, SetKnowledge
from dumpfilter.analyse.lint.replica import ReplicaWalk
from dumpfilter.analyse.lint.rules import decisions_of, merged_tables, names_of, odd_names, void_rules
from dumpfilter.filter import Decision, Filter, ReplicationFilter
from dumpfilter.filter.base import FilterAround
from dumpfilter.index.subjects import Subject


def lint(rule_filter: ReplicationFilter, knowledge: SetKnowledge) -> list[FilterWarning]:
    """Return the warnings about a filter, for the binlog set that ``knowledge`` describes. Notes come last.

    >>> from dumpfilter.filter import Filter
    >>> from dumpfilter.analyse.lint.knowledge import knowledge_of
    >>> from dumpfilter.index.subjects import TableSubject
    >>> known = knowledge_of([TableSubject("shop", "orders"), TableSubject("hr", "emp")])
    >>> for warning in lint(Filter.from_options(["--replicate-do-db=shop,hr", "--replicate-do-db=shop"]), known):
    ...     print(warning)
    comma: --replicate-do-db=shop,hr: no database 'shop,hr' in this set: a comma does not separate names, \
but belongs to the name. Did you mean --replicate-do-db=shop --replicate-do-db=hr?
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


def dropped_xa(rule_filter: ReplicationFilter, knowledge: SetKnowledge) -> Iterator[Item]:
    """Yield a fault for each XA transaction of which the filter drops all changes."""
    if rule_filter.names.family == "mysql":
        stop = "stops with error 3898"
    else:
        # Seen with MariaDB 10.11: the replica writes its empty XA COMMIT under the GTID of the XA PREPARE.
        stop = "stops with error 1950 if it has gtid_strict_mode and log_slave_updates"
    for subjects, evidence in knowledge.xa_transactions:
        if subjects and not any(rule_filter.verdict(subject).passes for subject in subjects):
            yield Item(
                Code.XA_DROPPED,
                few(rule_filter.rules),
                "the filter drops all changes of an XA transaction. A replica that reads everything and filters for "
                f"itself {stop}",
                "Nothing is to do behind dumpfilter, which does not send such a transaction",
                events=(SetEvent(subjects[0], evidence),),
            )


class RememberingFilter(FilterAround):
    """A filter that caches the decisions of another filter, because lint needs each decision several times."""

    def __init__(self, inner: ReplicationFilter) -> None:
        super().__init__(inner)
        self._decide = cache(inner.decide)

    def decide(self, subject: Subject) -> Decision:
        return self._decide(subject)
