"""The statements whose effect on a replica depends on tables that the filter drops.

A statement runs again on the replica. Its triggers run there, too, and its subqueries read the replica's tables. Rows
depend on nothing else, so that only statements are looked at.
"""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

from dumpfilter.binlog.query import TableName
from dumpfilter.filter import ReplicationFilter, RuleKind, Verdict
from dumpfilter.index.subjects import TableSubject
from dumpfilter.lint.findings import Code
from dumpfilter.lint.items import Item, few
from dumpfilter.lint.knowledge import SetEvent, SetKnowledge, Trigger
from dumpfilter.lint.reasons import rules_of
from dumpfilter.statement import Statement, StatementKind
from dumpfilter.statement.mentions import Change

K = StatementKind
Name = tuple[str, str]

_FIRES = {
    K.INSERT: (Change.INSERT,),
    K.REPLACE: (Change.INSERT, Change.DELETE),
    K.UPDATE: (Change.UPDATE,),
    K.DELETE: (Change.DELETE,),
    K.LOAD_DATA: (Change.INSERT,),
}
"""The changes of rows that statements make, for which a table may have triggers. TRUNCATE fires no trigger."""

_FIRES_MORE = {K.INSERT: Change.UPDATE, K.LOAD_DATA: Change.DELETE}
"""The further changes of a statement with ON DUPLICATE KEY UPDATE, or of LOAD DATA with REPLACE."""

_COPYING = frozenset({*_FIRES, K.CREATE_TABLE_SELECT})


@dataclass(frozen=True)
class _Known:
    """A trigger of the source, with the event that made it."""

    event: SetEvent
    statement: Statement
    trigger: Trigger

    def resolved(self, table: TableName) -> Name:
        """Return the table that a name in the trigger's body means. A name without a database is in the trigger's."""
        database = self.trigger.table.database or self.statement.current_database
        return table.database or database or "", table.table

    @property
    def changed(self) -> list[Name]:
        """The tables that the trigger changes, each once."""
        return list(dict.fromkeys(self.resolved(table) for table, _ in self.trigger.writes))


class _Triggers:
    """The triggers that statements of the set have made, by table."""

    def __init__(self) -> None:
        self._of_table: dict[Name, list[_Known]] = {}

    def follow(self, event: SetEvent, statement: Statement) -> None:
        """Note the triggers that a statement makes, removes, or moves with their table."""
        effects = event.effects
        if effects.trigger is not None:
            self._drop(_resolved(effects.trigger.name, statement))
            known = _Known(event, statement, effects.trigger)
            self._of_table.setdefault(_resolved(effects.trigger.table, statement), []).append(known)
        if effects.drops_trigger is not None:
            self._drop(_resolved(effects.drops_trigger, statement))
        if not effects.temporary:
            for table in effects.removes:
                self._of_table.pop(_resolved(table, statement), None)
        for old, new in effects.renames:
            moved = self._of_table.pop(_resolved(old, statement), None)
            if moved is not None:
                self._of_table[_resolved(new, statement)] = moved
        if statement.kind is K.DROP_DATABASE:
            for name in [name for name in self._of_table if name[0] == statement.database]:
                del self._of_table[name]

    def fired_by(self, event: SetEvent, statement: Statement) -> Iterator[tuple[_Known, ...]]:
        """Yield the triggers that a statement fires, and those that the triggers' own changes fire in turn.

        Each comes behind the triggers through which the statement fires it.
        """
        changes = set(_FIRES.get(statement.kind, ()))
        if event.effects.replaces and statement.kind in _FIRES_MORE:
            changes.add(_FIRES_MORE[statement.kind])
        tables = [_resolved(each, statement) for tables in statement.updated or () for each in tables]
        met: set[int] = set()
        waiting: deque[tuple[Name, Change, tuple[_Known, ...]]] = deque(
            (table, change, ()) for table in tables for change in Change if change in changes
        )
        while waiting:
            table, change, before = waiting.popleft()
            for known in self._of_table.get(table, ()):
                if change not in known.trigger.fired_by or id(known) in met:
                    continue
                met.add(id(known))
                chain = (*before, known)
                yield chain
                waiting += [(known.resolved(name), way, chain) for name, way in known.trigger.writes]

    def _drop(self, name: Name) -> None:
        for table, known in self._of_table.items():
            self._of_table[table] = [
                each for each in known if _resolved(each.trigger.name, each.statement) != name
            ]


def statements_that_depend(rule_filter: ReplicationFilter, knowledge: SetKnowledge) -> Iterator[Item]:
    """Yield the statements that pass and read a table whose rows are dropped, and those whose trigger changes one."""
    if not rule_filter.is_on or not knowledge.is_ordered:
        return
    triggers = _Triggers()
    temporary: set[Name] = set()
    for event in knowledge.events:
        statement = event.subject
        if isinstance(statement, TableSubject):
            continue
        if event.effects.temporary:
            temporary.update(_resolved(table, statement) for table in event.effects.makes)
        triggers.follow(event, statement)
        for chain in triggers.fired_by(event, statement):
            yield from _fired(rule_filter, event, statement, chain)
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
    chain: tuple[_Known, ...],
) -> Iterator[Item]:
    """Yield the faults of the last trigger of a chain, which a statement fires through the triggers before it."""
    passes = rule_filter.decide_statement(statement).verdict
    if passes is Verdict.UNDECIDED:
        return
    absent = next(
        (one for one in chain if not rule_filter.decide_statement(one.statement).verdict.passes), None
    )
    runs = passes.passes and absent is None
    for name in chain[-1].changed:
        alone = rule_filter.decide_rows(*name)
        if alone.verdict.passes == runs:
            continue
        if runs:
            what = (
                "a statement that passes fires a trigger on the replica, which changes {names}. The filter drops this "
                "table. The replica changes the table all the same, or stops with error 1146"
            )
            rules = rules_of(rule_filter, alone)
        elif absent is not None and passes.passes:
            what = (
                "a statement that passes fires a trigger, which changes {names}. The filter lets this table pass, and "
                "drops the CREATE TRIGGER. The replica lacks the trigger, and the trigger's changes"
            )
            rules = rules_of(rule_filter, rule_filter.decide_statement(absent.statement))
        else:
            what = (
                "a statement that is dropped fires a trigger, which changes {names}. The filter lets this table pass. "
                "The binlog has the statement, and no rows of the trigger's changes, so that the replica lacks them"
            )
            rules = few(rule for rule in rule_filter.rules if rule.kind is not RuleKind.REWRITE_DB)
        yield Item(
            Code.TRIGGER,
            rules,
            what,
            "Give both tables the same rule, or use binlog_format=ROW on the source",
            ".".join(name),
            (*(one.event for one in chain), event),
        )


def _resolved(table: TableName, statement: Statement) -> Name:
    return table.database or statement.current_database or "", table.table
