"""The statements whose effect on a replica depends on tables that the filter drops.

A statement runs again on the replica. Its triggers run there, too, and its subqueries read the replica's tables. Rows
depend on nothing else, so that only statements are looked at.
"""

from __future__ import annotations

from collections.abc import Iterator

from dumpfilter.binlog.query import TableName
from dumpfilter.filter import ReplicationFilter, RuleKind, Verdict
from dumpfilter.index.subjects import TableSubject
from dumpfilter.lint.findings import Code
from dumpfilter.lint.items import Item, few
from dumpfilter.lint.knowledge import SetEvent, SetKnowledge, Trigger
from dumpfilter.lint.reasons import rules_of
from dumpfilter.statement import Statement, StatementKind

K = StatementKind
Name = tuple[str, str]

_CHANGING = frozenset({K.INSERT, K.REPLACE, K.UPDATE, K.DELETE, K.LOAD_DATA})
_COPYING = _CHANGING | {K.CREATE_TABLE_SELECT}


def statements_that_depend(rule_filter: ReplicationFilter, knowledge: SetKnowledge) -> Iterator[Item]:
    """Yield the statements that pass and read a table whose rows are dropped, and those whose trigger changes one."""
    if not rule_filter.is_on or not knowledge.is_ordered:
        return
    triggers: dict[Name, list[tuple[SetEvent, Statement, Trigger]]] = {}
    made: set[Name] = set()
    temporary: set[Name] = set()
    for event in knowledge.events:
        statement = event.subject
        if isinstance(statement, TableSubject):
            continue
        for table in event.effects.makes:
            (temporary if event.effects.temporary else made).add(_resolved(table, statement))
        trigger = event.effects.trigger
        if trigger is not None:
            triggers.setdefault(_resolved(trigger.table, statement), []).append((event, statement, trigger))
        if statement.kind in _CHANGING:
            for table in (each for tables in statement.updated or () for each in tables):
                for found in triggers.get(_resolved(table, statement), ()):
                    yield from _fired(rule_filter, event, statement, *found)
        passes = rule_filter.decide_statement(statement).verdict is Verdict.EXECUTE
        if statement.kind in _COPYING and passes:
            yield from _reads(rule_filter, event, statement, temporary)


def _reads(
    rule_filter: ReplicationFilter, event: SetEvent, statement: Statement, temporary: set[Name]
) -> Iterator[Item]:
    for table in event.effects.reads:
        name = _resolved(table, statement)
        alone = rule_filter.decide_rows(*name)
        if name in temporary or alone.verdict.passes:
            continue
        yield Item(
            Code.READS_DROPPED,
            rules_of(rule_filter, alone),
            "a statement that passes reads {names}, whose changes are dropped. The replica reads other rows, or stops "
            "with error 1146",
            "Let the tables that a statement reads pass, too, or use binlog_format=ROW on the source",
            ".".join(name),
            (event,),
        )


def _fired(
    rule_filter: ReplicationFilter,
    event: SetEvent,
    statement: Statement,
    creation: SetEvent,
    creating: Statement,
    trigger: Trigger,
) -> Iterator[Item]:
    passes = rule_filter.decide_statement(statement).verdict
    if passes is Verdict.UNDECIDED:
        return
    database = trigger.table.database or creating.current_database
    for table in trigger.writes:
        name = table.database or database or "", table.table
        alone = rule_filter.decide_rows(*name)
        if alone.verdict.passes == passes.passes:
            continue
        if passes.passes and not rule_filter.decide_statement(creating).verdict.passes:
            # The replica lacks the trigger, since the filter dropped CREATE TRIGGER.
            continue
        if passes.passes:
            what = (
                "a statement that passes fires a trigger on the replica, which changes {names}. The filter drops this "
                "table. The replica changes the table all the same, or stops with error 1146"
            )
            rules = rules_of(rule_filter, alone)
        else:
            what = (
                "only a trigger changes {names} here, and the filter drops the statements that fire the trigger. The "
                "replica lacks these changes"
            )
            rules = few(rule for rule in rule_filter.rules if rule.kind is not RuleKind.REWRITE_DB)
        yield Item(
            Code.TRIGGER,
            rules,
            what,
            "Give both tables the same rule, or use binlog_format=ROW on the source",
            ".".join(name),
            (creation, event),
        )


def _resolved(table: TableName, statement: Statement) -> Name:
    return table.database or statement.current_database or "", table.table
