"""The facts about a binlog set by which lint judges a filter: names, and the events that make or need tables."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from dumpfilter.binlog.query import TableName
from dumpfilter.index.subjects import Subject, TableSubject
from dumpfilter.lint.findings import Evidence
from dumpfilter.statement import StatementKind
from dumpfilter.statement.mentions import Change


@dataclass(frozen=True)
class Trigger:
    """A trigger that a CREATE TRIGGER statement defines: its name, its table, and the tables that its body changes."""

    name: TableName
    table: TableName
    fired_by: tuple[Change, ...]
    """The changes of rows that fire the trigger."""
    writes: tuple[tuple[TableName, Change], ...]
    """The tables that the trigger changes, with the ways of change."""
    calls: tuple[TableName, ...] = ()
    """The names before an opening parenthesis in the body, of which some may be stored routines."""


@dataclass(frozen=True)
class Routine:
    """A stored function or procedure that a statement defines: its name, and what its body changes and calls."""

    name: TableName
    writes: tuple[tuple[TableName, Change], ...]
    calls: tuple[TableName, ...]


@dataclass(frozen=True)
class View:
    """The tables of a view. A change of the view changes tables of its FROM clause. Subqueries only read theirs."""

    changes: tuple[TableName, ...]
    reads: tuple[TableName, ...]


@dataclass(frozen=True)
class Effects:
    """The tables and views that a statement makes, removes, renames and needs. Names are as in the text."""

    makes: tuple[TableName, ...] = ()
    removes: tuple[TableName, ...] = ()
    renames: tuple[tuple[TableName, TableName], ...] = ()
    alters: bool = False
    """Whether the statement changes the columns or keys of the tables that it updates."""
    reads: tuple[TableName, ...] = ()
    """The tables that the statement reads and does not change. They must exist on the replica, too."""
    parents: tuple[TableName, ...] = ()
    """The tables that foreign keys of the statement refer to."""
    conditional: bool = False
    """Whether the statement has IF EXISTS, IF NOT EXISTS or OR REPLACE, so that it fails less often."""
    temporary: bool = False
    """Whether the tables that the statement makes or removes are temporary."""
    trigger: Trigger | None = None
    drops_trigger: TableName | None = None
    """The name of the trigger that the statement removes."""
    replaces: bool = False
    """Whether the statement adds rows, and changes those with the same keys.

    INSERT … ON DUPLICATE KEY UPDATE and LOAD DATA … REPLACE do so. The kind of a REPLACE tells enough.
    """
    view: View | None = None
    """The tables of the view that the statement makes."""
    routine: Routine | None = None
    drops_routine: TableName | None = None
    """The name of the stored function or procedure that the statement removes."""
    calls: tuple[TableName, ...] = ()
    """The names before an opening parenthesis, of which some may be stored functions."""

    @property
    def changes_definitions(self) -> bool:
        """Whether the statement makes, removes, renames or alters a table, or makes a trigger."""
        return bool(self.makes or self.removes or self.renames or self.alters or self.trigger)


NO_EFFECTS = Effects()


@dataclass(frozen=True)
class SetEvent:
    """An event of the set that lint looks at: the first event of a subject, or a change of definitions.

    A subject is the table or statement about which a filter decides. After each change of a table's definition the
    next event of each subject with this table is listed again.
    """

    subject: Subject
    evidence: Evidence | None = None
    """The place and the text of the event. None when only the subjects of the set are known."""
    effects: Effects = NO_EFFECTS
    session: int = 0
    """The session's id on the server that ran the statement. Temporary tables belong to it."""


@dataclass
class SetKnowledge:
    """The facts about a binlog set by which lint judges any number of filters."""

    events: list[SetEvent] = field(default_factory=list)
    """The events that lint looks at, in the order of the set."""
    databases: dict[str, SetEvent] = field(default_factory=dict)
    """The databases that events name or that statements have as current database, with their first event."""
    tables: dict[tuple[str, str], SetEvent] = field(default_factory=dict)
    """The tables and views that events name, as database and name, with their first event."""
    xa_transactions: list[tuple[tuple[Subject, ...], Evidence | None]] = field(default_factory=list)
    """The different lists of subjects that XA transactions of the set have."""
    is_ordered: bool = True
    """Whether the events have their order and their effects. Without these, tables cannot be followed."""
    is_whole: bool = True
    """Whether all events of the set were seen. If false, a name that is missing here may still be in the set."""

    def name(self, event: SetEvent) -> None:
        """Add the names of an event to the databases and tables of the set."""
        subject = event.subject
        if isinstance(subject, TableSubject):
            self._name(subject.database, subject.table, event)
            return
        current = subject.current_database
        for database in (current, subject.database, *(subject.updated_databases or ())):
            if database:
                self.databases.setdefault(database, event)
        if subject.kind is StatementKind.ACCOUNT:
            return
        effects = event.effects
        for names in (subject.updated or ()) or (subject.involved,):
            for table in names:
                self._name(table.database or current, table.table, event)
        for table in (*effects.makes, *(new for _, new in effects.renames)):
            self._name(table.database or current, table.table, event)

    def _name(self, database: str | None, table: str, event: SetEvent) -> None:
        if database:
            self.databases.setdefault(database, event)
            self.tables.setdefault((database, table), event)


def knowledge_of(subjects: Iterable[Subject], *, is_whole: bool = True) -> SetKnowledge:
    """Return the knowledge that the subjects of a set give: names and statements, without places and order."""
    found = SetKnowledge(is_ordered=False, is_whole=is_whole)
    for subject in subjects:
        event = SetEvent(subject)
        found.events.append(event)
        found.name(event)
    return found
