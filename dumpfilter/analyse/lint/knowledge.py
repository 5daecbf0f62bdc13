"""The data about a binlog set with which lint checks a filter: names, and the events that create or need tables."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass, field

from dumpfilter.binlog.statement import StatementFacts, StatementKind
from dumpfilter.index.subjects import Subject, TableSubject


@dataclass(frozen=True)
class Evidence:
    """An event of the binlog set that shows a fault. The field names are the names of members in the JSON output."""

    file: str
    position: int
    inside: int | None = field(default=None, kw_only=True)
    """For an event inside a compressed transaction, its byte offset in the uncompressed payload; None for other
    events.

    ``position`` is then the offset of the Transaction_payload event.
    """
    text: str
    """The statement, shortened to one line, or ``rows of DB.TABLE``."""

    def __str__(self) -> str:
        inside = "" if self.inside is None else f"+{self.inside}"
        return f"{self.file}:{self.position}{inside}: {self.text}"


NO_FACTS = StatementFacts(StatementKind.OTHER)


@dataclass(frozen=True)
class SetEvent:
    """An event that lint examines: the first event of a subject, or a statement that changes a definition.

    A subject is a table or statement about which a filter decides. After each change of a table's definition, the
    next event of each subject with this table is listed again.
    """

    subject: Subject
    evidence: Evidence | None = None
    """The position and the text of the event. None if only the names of tables and statements are known."""
    facts: StatementFacts = NO_FACTS
    session: int = 0
    """The connection id (thread id) of the session that ran the statement, to which its temporary tables belong."""


@dataclass
class SetKnowledge:
    """The data about a binlog set with which lint can check any number of filters."""

    events: list[SetEvent] = field(default_factory=list)
    """The events that lint examines, in binlog order."""
    databases: dict[str, SetEvent] = field(default_factory=dict)
    """The databases that events name, and the default databases of statements, each with its first event."""
    tables: dict[tuple[str, str], SetEvent] = field(default_factory=dict)
    """The tables and views that events name, as pairs of database and table, each with its first event."""
    xa_transactions: list[tuple[tuple[Subject, ...], Evidence | None]] = field(default_factory=list)
    """The distinct XA transactions of the set. Each has its subjects (tables and statements) and an example event."""
    is_ordered: bool = True
    """Whether ``events`` is in binlog order and includes definitions. If False, lint does not follow definitions."""
    is_whole: bool = True
    """Whether all events of the set were collected. If False, a missing name may still occur in the set."""

    def name(self, event: SetEvent) -> None:
        """Record the databases and tables that ``event`` names."""
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
    """Return lint's data for a set of which only the subjects (tables and statements) are known, without positions
    and order.

    ``is_whole`` tells whether ``subjects`` includes all subjects of the set.
    """
    found = SetKnowledge(is_ordered=False, is_whole=is_whole)
    for subject in subjects:
        event = SetEvent(subject)
        found.events.append(event)
        found.name(event)
    return found
