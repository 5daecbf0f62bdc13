"""The facts about a binlog set by which lint judges a filter: names, and the events that make or need tables."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from dumpfilter.analyse.lint.findings import Evidence
from dumpfilter.binlog.statement import StatementFacts, StatementKind
from dumpfilter.index.subjects import Subject, TableSubject

NO_FACTS = StatementFacts(StatementKind.OTHER)


@dataclass(frozen=True)
class SetEvent:
    """An event of the set that lint looks at: the first event of a subject, or a change of definitions.

    A subject is the table or statement about which a filter decides. After each change of a table's definition the
    next event of each subject with this table is listed again.
    """

    subject: Subject
    evidence: Evidence | None = None
    """The place and the text of the event. None when only the subjects of the set are known."""
    facts: StatementFacts = NO_FACTS
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
        for names in (subject.updated or ()) or (subject.involved,):
            for table in names:
                self._name(table.database or current, table.table, event)
        for table in event.facts.makes:
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
