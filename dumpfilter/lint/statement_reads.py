"""The statements whose effect on a replica depends on tables that the filter drops.

A statement runs again on the replica. Its triggers and stored functions run there, too, and its subqueries read the
replica's tables. Rows
depend on nothing else, so that only statements are looked at.
"""

from __future__ import annotations

from collections.abc import Iterator

from dumpfilter.filter import ReplicationFilter, RuleKind, Verdict
from dumpfilter.index.subjects import TableSubject
from dumpfilter.lint.findings import Code
from dumpfilter.lint.items import Item, few
from dumpfilter.lint.knowledge import Routine, SetEvent, SetKnowledge
from dumpfilter.lint.reasons import rules_of
from dumpfilter.lint.stored_code import FIRING, StoredCode
from dumpfilter.lint.stored_code import Code as Stored
from dumpfilter.lint.views import Views, resolved
from dumpfilter.statement import Statement, StatementKind

K = StatementKind
Name = tuple[str, str]

_COPYING = FIRING | {K.CREATE_TABLE_SELECT}


def statements_that_depend(rule_filter: ReplicationFilter, knowledge: SetKnowledge) -> Iterator[Item]:
    """Yield the statements that pass and read a table whose rows are dropped, and those whose stored code changes one.

    Stored code is a trigger or a stored function.
    """
    if not rule_filter.is_on or not knowledge.is_ordered:
        return
    views = Views()
    stored = StoredCode(views)
    temporary: set[Name] = set()
    for event in knowledge.events:
        statement = event.subject
        if isinstance(statement, TableSubject):
            continue
        if event.effects.temporary:
            temporary.update(resolved(table, statement) for table in event.effects.makes)
        views.follow(event)
        stored.follow(event, statement)
        for chain in stored.run_by(event, statement):
            yield from _run(rule_filter, event, statement, chain, views)
        passes = rule_filter.decide_statement(statement).verdict is Verdict.EXECUTE
        if statement.kind in _COPYING and passes:
            yield from _reads(rule_filter, event, statement, temporary, views)


def _reads(
    rule_filter: ReplicationFilter,
    event: SetEvent,
    statement: Statement,
    temporary: set[Name],
    views: Views,
) -> Iterator[Item]:
    named = (resolved(table, statement) for table in event.effects.reads)
    tables = dict.fromkeys(table for name in named if name not in temporary for table in views.read(name))
    for name in tables:
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


def _run(
    rule_filter: ReplicationFilter,
    event: SetEvent,
    statement: Statement,
    chain: tuple[Stored, ...],
    views: Views,
) -> Iterator[Item]:
    """Yield the faults of the last code of a chain, which a statement runs through the code before it."""
    passes = rule_filter.decide_statement(statement).verdict
    if passes is Verdict.UNDECIDED:
        return
    absent = next(
        (one for one in chain if not rule_filter.decide_statement(one.statement).verdict.passes), None
    )
    runs = passes.passes and absent is None
    for name in chain[-1].changed(views):
        alone = rule_filter.decide_rows(*name)
        if alone.verdict.passes == runs:
            continue
        if runs:
            rules = rules_of(rule_filter, alone)
        elif absent is not None and passes.passes:
            rules = rules_of(rule_filter, rule_filter.decide_statement(absent.statement))
        else:
            rules = few(rule for rule in rule_filter.rules if rule.kind is not RuleKind.REWRITE_DB)
        yield Item(
            Code.ROUTINE if isinstance(chain[-1].made, Routine) else Code.TRIGGER,
            rules,
            _what(chain, absent if passes.passes else None, runs=runs),
            "Give both tables the same rule, or use binlog_format=ROW on the source",
            ".".join(name),
            (*(one.event for one in chain), event),
        )


def _what(chain: tuple[Stored, ...], absent: Stored | None, *, runs: bool) -> str:
    """Return the fault of a chain's last code. ``absent`` is the code that a statement which passes needs."""
    is_routine = isinstance(chain[-1].made, Routine)
    runs_code = "calls a stored function" if is_routine else "fires a trigger"
    of_code = "function's" if is_routine else "trigger's"
    if runs:
        return (
            f"a statement that passes {runs_code} on the replica, which changes {{names}}. The filter drops this "
            "table. The replica changes the table all the same, or stops with error 1146"
        )
    if absent is None:
        return (
            f"a statement that is dropped {runs_code}, which changes {{names}}. The filter lets this table pass. "
            f"The binlog has the statement, and no rows of the {of_code} changes, so that the replica lacks them"
        )
    if isinstance(absent.made, Routine):
        return (
            f"a statement that passes {runs_code}, which changes {{names}}. The filter lets this table pass, and "
            "drops a CREATE FUNCTION or CREATE PROCEDURE. A replica without it stops with error 1305"
        )
    return (
        f"a statement that passes {runs_code}, which changes {{names}}. The filter lets this table pass, and "
        f"drops the CREATE TRIGGER. The replica lacks the trigger, and the {of_code} changes"
    )
