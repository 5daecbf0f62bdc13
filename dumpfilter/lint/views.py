"""The views that statements of a set have made, with the tables behind them.

A filter asks about the name of a view, and rows have the name of the table behind the view.
"""

from __future__ import annotations

from collections.abc import Iterator

from dumpfilter.binlog.query import TableName
from dumpfilter.lint.knowledge import SetEvent
from dumpfilter.statement import Statement, StatementKind

Name = tuple[str, str]


class Views:
    """The views that a set has made so far, and the tables that each changes and reads."""

    def __init__(self) -> None:
        self._changes: dict[Name, tuple[Name, ...]] = {}
        self._reads: dict[Name, tuple[Name, ...]] = {}

    def follow(self, event: SetEvent) -> None:
        """Note the views that an event makes, removes or renames."""
        statement, effects = event.subject, event.effects
        if not isinstance(statement, Statement):
            return
        if effects.view is not None:
            for name in (resolved(each, statement) for each in effects.makes):
                self._changes[name] = tuple(resolved(each, statement) for each in effects.view.changes)
                self._reads[name] = tuple(resolved(each, statement) for each in effects.view.reads)
        elif not self._reads or effects.temporary:
            return
        else:
            for name in (resolved(each, statement) for each in (*effects.makes, *effects.removes)):
                self._remove(name)
        for old, new in effects.renames:
            before, after = resolved(old, statement), resolved(new, statement)
            if before in self._reads:
                self._changes[after] = self._changes.pop(before)
                self._reads[after] = self._reads.pop(before)
        if statement.kind is StatementKind.DROP_DATABASE:
            for name in [name for name in self._reads if name[0] == statement.database]:
                self._remove(name)

    def _remove(self, name: Name) -> None:
        self._changes.pop(name, None)
        self._reads.pop(name, None)

    def changed(self, name: Name) -> Iterator[Name]:
        """Yield the tables that a change of this name changes: the tables behind a view, or the table itself.

        A statement changes one table of a view with several. Which one is not known from the names.
        """
        return _behind(name, self._changes)

    def read(self, name: Name) -> Iterator[Name]:
        """Yield the tables that a query of this name reads: the tables behind a view, or the table itself."""
        return _behind(name, self._reads)

    def __contains__(self, name: Name) -> bool:
        return name in self._reads


def _behind(name: Name, views: dict[Name, tuple[Name, ...]]) -> Iterator[Name]:
    met = {name}
    waiting = [name]
    while waiting:
        one = waiting.pop()
        tables = views.get(one, ())
        if not tables:
            # A view whose query is not understood counts as a table of its own name.
            yield one
        waiting += [table for table in reversed(tables) if table not in met]
        met.update(tables)


def resolved(table: TableName, statement: Statement) -> Name:
    """Return the database and the table that a name in a statement's text means."""
    return table.database or statement.current_database or "", table.table
