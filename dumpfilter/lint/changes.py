"""The statements that a filter decides otherwise than the rows of the tables that they change.

Rules for databases look at the current database of a statement, and at the table's database of rows. One decision holds
for all tables of a statement. So a statement may be dropped although rows of its tables pass, and the reverse.
"""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

from dumpfilter.filter import Decision, Filter, ReplicationFilter, Step, Verdict
from dumpfilter.index.subjects import TableSubject
from dumpfilter.lint.findings import Code
from dumpfilter.lint.items import Item
from dumpfilter.lint.knowledge import SetEvent, SetKnowledge
from dumpfilter.lint.reasons import cure_of, reason_of, rules_of
from dumpfilter.lint.views import Views
from dumpfilter.statement import Statement, StatementKind

Name = tuple[str, str]

_NOT_JUDGED = frozenset({StatementKind.ACCOUNT, StatementKind.MAINTENANCE, StatementKind.FLUSH})
"""The kinds of statement that change no data of their tables. Accounts belong to no database."""

_CHANGING_ROWS = frozenset(
    {
        *(StatementKind.INSERT, StatementKind.REPLACE, StatementKind.UPDATE, StatementKind.DELETE),
        StatementKind.LOAD_DATA,
    }
)
"""The kinds of statement that change the tables behind a view. Others change the view itself."""

_BY_CURRENT_DATABASE = frozenset({Step.NO_DO_DB, Step.DO_DB, Step.IGNORE_DB, Step.NO_IGNORE_DB})
_CURE_OF_VIEWS = "Give a view the same rule as its tables, since rules look at the name of the view"


def odd_statements(
    rule_filter: ReplicationFilter, knowledge: SetKnowledge, shown: set[int], missing: set[Name]
) -> Iterator[Item]:
    """Yield the statements that are decided otherwise than the rows of their tables.

    Another warning tells already of the events with the identities ``shown``, and of the tables ``missing``.
    """
    if not rule_filter.is_on:
        return
    seen: set[Statement] = set()
    views = Views()
    for event in knowledge.events:
        statement = event.subject
        views.follow(event)
        if isinstance(statement, TableSubject) or id(event) in shown or statement in seen:
            continue
        seen.add(statement)
        if statement.kind in _NOT_JUDGED or statement.kind.is_database or event.effects.temporary:
            continue
        yield from _judged(rule_filter, event, statement, missing, views)


def _judged(
    rule_filter: ReplicationFilter, event: SetEvent, statement: Statement, missing: set[Name], views: Views
) -> Iterator[Item]:
    decision = rule_filter.decide_statement(statement)
    if decision.verdict is Verdict.UNDECIDED:
        return
    passes = decision.verdict is Verdict.EXECUTE
    changes_rows = statement.kind in _CHANGING_ROWS
    for named in _changed(statement):
        is_view = changes_rows and named in views
        for database, table in views.changed(named) if is_view else (named,):
            alone = rule_filter.decide_rows(database, table)
            if passes and (database, table) in missing:
                continue
            if alone.verdict.passes != passes:
                item = _item(rule_filter, event, statement, decision, alone, f"{database}.{table}")
                by_tables = decision.step not in _BY_CURRENT_DATABASE
                yield replace(item, cure=_CURE_OF_VIEWS) if is_view and by_tables else item


def _changed(statement: Statement) -> Iterator[tuple[str, str]]:
    current = statement.current_database
    for tables in statement.updated or ():
        for table in tables:
            database = table.database if table.database is not None else current
            if database is not None:
                yield database, table.table


def _item(
    rule_filter: ReplicationFilter,
    event: SetEvent,
    statement: Statement,
    decision: Decision,
    alone: Decision,
    name: str,
) -> Item:
    reason = reason_of(decision, statement)
    if decision.verdict is Verdict.EXECUTE:
        rules = tuple(dict.fromkeys((*rules_of(rule_filter, alone), *rules_of(rule_filter, decision))))
        return Item(
            Code.UNWANTED_STATEMENT,
            rules,
            f"a statement that changes {{names}} passes, and rows of the table are dropped. It passes because {reason}",
            cure_of(rule_filter, decision if isinstance(rule_filter, Filter) else alone),
            name,
            (event,),
        )
    return Item(
        Code.LOST_STATEMENT,
        rules_of(rule_filter, decision),
        f"a statement that changes {{names}} is dropped, and rows of the table pass. It is dropped because {reason}",
        cure_of(rule_filter, decision),
        name,
        (event,),
    )
