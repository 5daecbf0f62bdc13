"""The data about a binlog set with which lint checks filters, and the pass over the set that collects these data.

The data are the names of databases and tables, and the events that create or need tables.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Collection, Hashable, Iterable, Iterator
from dataclasses import dataclass, field
from itertools import chain

import numpy as np
import numpy.typing as npt
from rich.console import Console

from dumpfilter.base.byte_bar import byte_progress
from dumpfilter.base.errors import BinlogError
from dumpfilter.binlog import roles as R
from dumpfilter.binlog.gtid_sources import SourceNumbers
from dumpfilter.binlog.query import QueryEvent, TableName
from dumpfilter.binlog.statement.facts import CHANGING_DATA, statement_facts
from dumpfilter.binlog.statement.statement import (
    Statement,
    StatementFacts,
    StatementKind,
    Thing,
    Verb,
)
from dumpfilter.index.fileset import BinlogSet
from dumpfilter.index.opened import OpenedEvents
from dumpfilter.index.subjects import Subject, Subjects, TableSubject


@dataclass(frozen=True)
class Evidence:
    """An event of the binlog set that shows a fault. The field names are the names of members in the JSON output."""

    file: str
    position: int
    inside: int | None = field(default=None, kw_only=True)
    """For an event inside a compressed transaction, its byte offset in the uncompressed payload; None for other
    events.

    For an event inside a compressed transaction, ``position`` is the offset of the Transaction_payload event.
    """
    text: str
    """The statement, shortened to one line, or ``rows of DB.TABLE``."""

    def __str__(self) -> str:
        inside = "" if self.inside is None else f"+{self.inside}"
        return f"{self.file}:{self.position}{inside}: {self.text}"


NO_FACTS = StatementFacts(StatementKind.OTHER)


@dataclass(frozen=True)
class SetEvent:
    """An event with which lint checks filters: the first event of a table or statement, or a statement that changes a
    definition.

    After each change of a table's definition, the next event of the table is collected again, and so is the next event
    of each statement that names the table.
    """

    subject: Subject
    evidence: Evidence | None = None
    """The position and the text of the event. None if only the names of tables and statements are known."""
    facts: StatementFacts = NO_FACTS
    session: int = 0
    """The connection id (thread id) of the session that ran the statement, to which its temporary tables belong."""


@dataclass
class SetKnowledge:
    """The data about a binlog set with which lint can check any number of filters: events, the names of databases and
    tables, and XA transactions.
    """

    events: list[SetEvent] = field(default_factory=list)
    """The events with which lint checks filters, in binlog order."""
    databases: dict[str, SetEvent] = field(default_factory=dict)
    """The databases that events name, and the default databases of statements, each with its first event."""
    tables: dict[tuple[str, str], SetEvent] = field(default_factory=dict)
    """The tables and views that events name, as pairs of database and table, each with its first event."""
    xa_transactions: list[tuple[tuple[Subject, ...], Evidence | None]] = field(default_factory=list)
    """The distinct XA transactions of the set. Each has its subjects (tables and statements) and an example event."""
    is_ordered: bool = True
    """Whether ``events`` is in binlog order and includes definitions (statements such as CREATE TABLE). If False, lint
    does not follow definitions.
    """
    is_whole: bool = True
    """Whether all events of the set were collected. If False, a missing name may still occur in the set."""

    def name(self, event: SetEvent) -> None:
        """Record the databases and tables that ``event`` names. A name that is recorded already keeps its event."""
        subject = event.subject
        named: Iterable[tuple[str, str]] = ()
        if isinstance(subject, TableSubject):
            named = [(subject.database, subject.table)]
        else:
            for database in (subject.current_database, subject.database, *(subject.updated_databases or ())):
                if database:
                    self.databases.setdefault(database, event)
            if subject.kind is not StatementKind.ACCOUNT:
                updated = chain.from_iterable(subject.updated or (subject.involved,))
                named = _named(event, chain(updated, event.facts.makes))
        for database, table in named:
            if database:
                self.databases.setdefault(database, event)
                self.tables.setdefault((database, table), event)


def knowledge_of(subjects: Iterable[Subject], *, is_whole: bool = True) -> SetKnowledge:
    """Return the data with which lint checks filters, for a binlog set of which only the subjects (tables and
    statements) are known, without positions and order.

    ``is_whole`` tells whether ``subjects`` includes all subjects of the set.
    """
    found = SetKnowledge(is_ordered=False, is_whole=is_whole)
    for subject in subjects:
        event = SetEvent(subject)
        found.events.append(event)
        found.name(event)
    return found


MOST_EVENTS = 100_000
"""The maximum number of collected events, which bounds the memory. Later events are ignored."""

_MOST_REPEATED = 3
"""The maximum number of collected definitions with identical text, such as a nightly CREATE of one table."""

_MOST_TEXTS = 1 << 16
"""The maximum number of statement texts remembered for finding identical ones."""

_LONGEST_TEXT = 90
"""The maximum length of a statement in a warning, characters."""

_MOST_XA = 1000
"""The maximum number of collected distinct XA transactions."""

_MOST_FUNCTIONS = 1000
"""The maximum number of stored functions whose calls are searched for in statements."""

_NOT_DEFINING = CHANGING_DATA | {StatementKind.MAINTENANCE, StatementKind.FLUSH, StatementKind.SET}
"""The statement kinds that define no object. Statements of all other kinds are collected."""
_WORDS = (b"SELECT", b"JOIN", b"USING", b"TABLE", b"DUPLICATE", b"REPLACE")
"""The words of which a statement contains at least one if it reads a table that it does not change, or replaces rows.
"""


def gather(binlogs: BinlogSet, *, verify: bool = True, console: Console | None = None) -> SetKnowledge:
    """Read a binlog set once, and return the events and names with which lint checks filters.

    ``verify`` tells whether event checksums are verified. If ``console`` is a terminal, it shows a progress bar. Raises
    BinlogError if the set is damaged.

    >>> from importlib import resources
    >>> found = gather(BinlogSet.open(resources.files("dumpfilter.testbed.demo") / "recording"))
    >>> "shop" in found.databases, ("shop", "orders") in found.tables
    (True, True)
    """
    subjects, sources = Subjects(), SourceNumbers()
    made = Gatherer(subjects)
    with byte_progress(console, "reading", sum(map(binlogs.size, binlogs.names))) as advance:
        for reader, segment in binlogs.segments(subjects, sources, verify=verify):
            made.add(OpenedEvents(segment, reader.data))
            advance(segment.end - segment.start)
    return made.knowledge


class Gatherer:
    """A collector of the events of a binlog set with which lint checks filters. The caller adds the set's segments
    (consecutive events of one file), and ``knowledge`` has the collected events.

    For each table, and each statement that changes rows, only the first event is collected, and again the first one
    after each change of a table's definition. Definitions (such as CREATE TABLE) are collected each time, but at most
    three with identical text. At most :data:`MOST_EVENTS` events are collected.
    """

    def __init__(self, subjects: Subjects) -> None:
        self.knowledge = SetKnowledge()
        self._subjects = subjects
        self._kept: dict[Hashable, tuple[int, frozenset[tuple[str, str]]]] = {}
        """The events that need not be collected again. A value is the number of collected events up to this one, and
        the tables (also those that views read) and databases that the event names.

        A key is the number of a table or statement. A statement that reads tables or calls functions has a further key:
        the number with the names in its text. If it may call a function, the key also has a counter of changes to
        stored functions.
        """
        self._changed: dict[tuple[str, str], int] = {}
        """For each table (or database, with an empty name) that a collected statement defines, the number of collected
        events up to this statement.
        """
        self._views: dict[tuple[str, str], list[tuple[str, str]]] = {}
        """The tables that each view reads, for the views that the set creates."""
        self._functions: set[bytes] = set()
        """The upper-case names of the set's stored functions, for searching calls in statement texts."""
        self._function_changes = 0
        self._repeated: Counter[int] = Counter()
        self._xa: set[int] = set()

    def add(self, events: OpenedEvents) -> None:
        """Collect from the next segment (consecutive events of one file) the events with which lint checks filters.

        They are the first event of each table and statement, and definitions such as CREATE TABLE.
        """
        for row in self._interesting(events):
            self._add(row, events)

    def _interesting(self, events: OpenedEvents) -> list[int]:
        """Return the indexes in ``events`` of the events with which lint may check filters. These are all statements
        and, for each table, the first rows event after the beginning of ``events`` and after each statement.
        """
        kind, owner = (
            events.column(lambda one: one.role) & R.ROLE_MASK,
            events.column(lambda one: one.subject),
        )
        wanted: npt.NDArray[np.bool_] = (kind == R.STATEMENT) & (owner >= 0)
        rows = np.flatnonzero((owner >= 0) & (kind != R.STATEMENT))
        # A statement before a rows event may have changed the table. The first event after each statement counts.
        epoch = np.searchsorted(np.flatnonzero(wanted), rows)
        _, first = np.unique(epoch * (len(self._subjects) + 1) + owner[rows], return_index=True)
        wanted[rows[first]] = True
        return np.flatnonzero(wanted).tolist()

    def _add(self, row: int, events: OpenedEvents) -> None:
        part, number = events.part(row)
        owner = int(part.subject[number])
        if number in part.xa_ends or self._subjects.members(owner) is not None:
            self._add_xa(owner, row, events)
            return
        if len(self.knowledge.events) >= MOST_EVENTS:
            self.knowledge.is_whole = False
            return
        subject = self._subjects[owner]
        if isinstance(subject, TableSubject):
            if not self._is_known(owner):
                evidence = _evidence(events, row, f"rows of {subject.database}.{subject.table}")
                self._keep(SetEvent(subject, evidence), owner)
            return
        self._add_statement(owner, subject, row, events)

    def _add_statement(self, owner: int, subject: Statement, row: int, events: OpenedEvents) -> None:
        defines = subject.kind not in _NOT_DEFINING
        reads = subject.kind in CHANGING_DATA and _has_word(events, row, _WORDS)
        calls = subject.kind in CHANGING_DATA and _has_word(events, row, self._functions)
        if not (defines or reads or calls) and self._is_known(owner):
            return
        query = _query(events, row)
        if query is None or (defines and self._is_repeated(owner, query)):
            return
        facts = statement_facts(query, events.segment.format_description.family)
        event = SetEvent(subject, _evidence(events, row, _shown(query)), facts, query.thread_id)
        key = owner, facts.body, self._function_changes if calls else 0
        if defines:
            self._follow(event)
            self._keep(event)
        elif self._is_known(key):
            self._kept[owner] = self._kept[key]
        else:
            self._keep(event, owner, key)

    def _follow(self, event: SetEvent) -> None:
        """Record the tables, views and stored functions that a statement defines, through which later statements may
        use tables.
        """
        facts, subject = event.facts, event.subject
        is_of_database = isinstance(subject, Statement) and subject.kind.is_database
        changed = [(subject.database or "", "")] if is_of_database else _tables(event)
        self._changed |= dict.fromkeys(changed, len(self.knowledge.events) + 1)
        if facts.thing is Thing.FUNCTION:
            self._function_changes += 1
            for name in facts.names if facts.verb is Verb.CREATE else ():
                if len(self._functions) < _MOST_FUNCTIONS:
                    self._functions.add(name.table.upper().encode())
        if facts.kind is StatementKind.VIEW and facts.body.tables:
            for view in _named(event, facts.names):
                self._views[view] = list(_named(event, facts.body.tables))

    def _is_repeated(self, owner: int, query: QueryEvent) -> bool:
        """Tell whether a definition (a statement such as CREATE TABLE) with this text has already been collected
        ``_MOST_REPEATED`` times. Each call counts as another time.

        ``owner`` is the number of the definition in the register of tables and statements.
        """
        if len(self._repeated) > _MOST_TEXTS:
            self._repeated.clear()
        key = hash((owner, query.text))
        self._repeated[key] += 1
        return self._repeated[key] > _MOST_REPEATED

    def _keep(self, event: SetEvent, *keys: Hashable) -> None:
        self.knowledge.events.append(event)
        self.knowledge.name(event)
        if keys:
            tables = set().union(*map(self._behind, _tables(event)))
            names = frozenset(tables | {(database, "") for database, _ in tables})
            self._kept |= dict.fromkeys(keys, (len(self.knowledge.events), names))

    def _is_known(self, key: Hashable) -> bool:
        """Tell whether an event with this key has been collected and need not be collected again. An event must be
        collected again if a statement collected after this event defines one of the event's tables.

        ``key`` is a key of the attribute ``_kept``: the number of a table or statement, possibly with the names in the
        statement's text.
        """
        when, names = self._kept.get(key, (-1, frozenset()))
        return when >= 0 and all(self._changed.get(name, 0) <= when for name in names)

    def _behind(self, table: tuple[str, str]) -> set[tuple[str, str]]:
        """Return the name of a table or view, with the names of all tables and views that the view reads, also through
        other views.
        """
        found, waiting = {table}, [table]
        while waiting:
            inner = set(self._views.get(waiting.pop(), ())) - found
            found |= inner
            waiting += inner
        return found

    def _add_xa(self, owner: int, row: int, events: OpenedEvents) -> None:
        if owner in self._xa or len(self._xa) >= _MOST_XA:
            return
        self._xa.add(owner)
        members = self._subjects.members(owner) or (owner,)
        subjects = tuple(self._subjects[each] for each in members if self._subjects.members(each) is None)
        query = _query(events, row)
        evidence = _evidence(events, row, "" if query is None else _shown(query))
        self.knowledge.xa_transactions.append((subjects, evidence))


def _has_word(events: OpenedEvents, row: int, words: Collection[bytes]) -> bool:
    """Tell whether the text of the statement with index ``row`` in ``events`` contains one of ``words``. Case is
    ignored; ``words`` must be upper-case.
    """
    if not words:
        return False
    if events.kind(row).kind.compressed:
        query = _query(events, row)
        text = b"" if query is None else query.raw.upper()
    else:
        text = events.body(row).upper()
    return any(word in text for word in words)


def _query(events: OpenedEvents, row: int) -> QueryEvent | None:
    """Return the decoded statement with index ``row`` in ``events``, or None if it cannot be decoded."""
    try:
        return events.query(row)
    except BinlogError:
        return None


def _evidence(events: OpenedEvents, row: int, text: str) -> Evidence:
    """Return the position of the event with index ``row`` in ``events``, as evidence for a warning. ``text`` describes
    the event.
    """
    part, number = events.part(row)
    inside = None if part is events.segment else int(part.offset[number])
    position = int(events.segment.offset[events.outer[row]])
    return Evidence(part.file, position, text, inside=inside)


def _tables(event: SetEvent) -> Iterator[tuple[str, str]]:
    """Yield the tables that an event names, as pairs of database and table."""
    subject = event.subject
    if isinstance(subject, TableSubject):
        yield subject.database, subject.table
        return
    yield from _named(event, (table for names in subject.updated or () for table in names))
    yield from _named(event, event.facts.tables)


def _named(event: SetEvent, names: Iterable[TableName]) -> Iterator[tuple[str, str]]:
    assert isinstance(event.subject, Statement)
    for name in names:
        yield name.database or event.subject.current_database or "", name.table


def _shown(query: QueryEvent) -> str:
    """Return a statement as one line with its default database, shortened for a warning."""
    text = query.text if not query.db else f"use `{query.db.replace('`', '``')}`; {query.text}"
    line = " ".join(text[: 4 * _LONGEST_TEXT].split())
    return line if len(line) <= _LONGEST_TEXT else f"{line[: _LONGEST_TEXT - 1]}…"
