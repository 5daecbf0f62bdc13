"""The triggers and stored routines that statements of a set have made, and which of them a statement runs."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterator
from dataclasses import dataclass

from dumpfilter.binlog.query import TableName
from dumpfilter.lint.knowledge import Routine, SetEvent, Trigger
from dumpfilter.lint.views import Views, resolved
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

FIRING = frozenset(_FIRES)
"""The kinds of statement that may fire triggers."""


@dataclass(frozen=True)
class Code:
    """A trigger or stored routine of the source, with the event that made it."""

    event: SetEvent
    statement: Statement
    made: Trigger | Routine

    @property
    def name(self) -> Name:
        """The database and the name of the trigger or routine."""
        return resolved(self.made.name, self.statement)

    def resolved(self, table: TableName) -> Name:
        """Return the table that a name in the body means. A name without a database is in the database of the body."""
        own = self.made.table if isinstance(self.made, Trigger) else self.made.name
        return table.database or own.database or self.statement.current_database or "", table.table

    def changed(self, views: Views) -> list[Name]:
        """Return the tables that the body changes, each once, behind views, too."""
        tables = (table for one, _ in self.made.writes for table in views.changed(self.resolved(one)))
        return list(dict.fromkeys(tables))


class StoredCode:
    """The triggers by table, and the stored routines by name, that statements of the set have made."""

    def __init__(self, views: Views) -> None:
        self._views = views
        self._of_table: dict[Name, list[Code]] = {}
        self._routines: dict[Name, Code] = {}

    def follow(self, event: SetEvent, statement: Statement) -> None:
        """Note the code that a statement makes, removes, or moves with its table."""
        effects = event.effects
        if effects.trigger is not None:
            self._drop(resolved(effects.trigger.name, statement))
            known = Code(event, statement, effects.trigger)
            self._of_table.setdefault(resolved(effects.trigger.table, statement), []).append(known)
        if effects.drops_trigger is not None:
            self._drop(resolved(effects.drops_trigger, statement))
        if effects.routine is not None:
            known = Code(event, statement, effects.routine)
            self._routines[_as_routine(known.name)] = known
        if effects.drops_routine is not None:
            self._routines.pop(_as_routine(resolved(effects.drops_routine, statement)), None)
        if not effects.temporary:
            for table in effects.removes:
                self._of_table.pop(resolved(table, statement), None)
        for old, new in effects.renames:
            moved = self._of_table.pop(resolved(old, statement), None)
            if moved is not None:
                self._of_table[resolved(new, statement)] = moved
        if statement.kind is K.DROP_DATABASE:
            for names in (self._of_table, self._routines):
                for name in [name for name in names if name[0] == statement.database]:
                    del names[name]

    def run_by(self, event: SetEvent, statement: Statement) -> Iterator[tuple[Code, ...]]:
        """Yield the code that a statement runs, and the code that this code's changes and calls run in turn.

        Each comes behind the code through which the statement runs it.
        """
        changes = set(_FIRES.get(statement.kind, ()))
        if event.effects.replaces and statement.kind in _FIRES_MORE:
            changes.add(_FIRES_MORE[statement.kind])
        tables = [resolved(each, statement) for tables in statement.updated or () for each in tables]
        met: set[int] = set()
        waiting: deque[tuple[Code, tuple[Code, ...]]] = deque()

        def fire(table: Name, change: Change, before: tuple[Code, ...]) -> None:
            for behind in self._views.changed(table):
                for known in self._of_table.get(behind, ()):
                    assert isinstance(known.made, Trigger)
                    if change in known.made.fired_by:
                        waiting.append((known, before))

        def call(name: Name, before: tuple[Code, ...]) -> None:
            known = self._routines.get(_as_routine(name))
            if known is not None:
                waiting.append((known, before))

        for table in tables:
            for change in Change:
                if change in changes:
                    fire(table, change, ())
        for name in event.effects.calls:
            call(resolved(name, statement), ())
        while waiting:
            known, before = waiting.popleft()
            if id(known) in met:
                continue
            met.add(id(known))
            chain = (*before, known)
            yield chain
            for written, way in known.made.writes:
                fire(known.resolved(written), way, chain)
            for name in known.made.calls:
                call(known.resolved(name), chain)

    def _drop(self, name: Name) -> None:
        for table, known in self._of_table.items():
            self._of_table[table] = [each for each in known if each.name != name]


def _as_routine(name: Name) -> Name:
    """Return the one spelling of a routine's name, which servers compare without case."""
    return name[0], name[1].lower()
