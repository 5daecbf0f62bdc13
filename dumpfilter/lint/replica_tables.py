"""The tables of a replica with a filter, followed through the changes of definitions in a set.

A replica lacks a table when the filter drops its CREATE TABLE and lets its rows pass. The replica then stops with error
1146. Only tables that the set itself makes are followed. Nothing is claimed about tables that existed before.
"""

from __future__ import annotations

import enum
from collections.abc import Iterator
from dataclasses import dataclass, field

from dumpfilter.binlog.query import TableName
from dumpfilter.filter import Decision, ReplicationFilter, Verdict
from dumpfilter.index.subjects import TableSubject
from dumpfilter.lint.findings import Code
from dumpfilter.lint.items import Item, few
from dumpfilter.lint.knowledge import SetEvent, SetKnowledge
from dumpfilter.lint.reasons import cure_of, reason_of, rules_of
from dumpfilter.statement import Statement, StatementKind

Name = tuple[str, str]
"""A database and the name of a table in it."""


_HARMLESS = frozenset({StatementKind.ACCOUNT, StatementKind.MAINTENANCE, StatementKind.FLUSH})
"""The kinds of statement that do not fail on a replica without their tables."""


class _State(enum.Enum):
    ABSENT = enum.auto()
    """The replica lacks the table, since the filter dropped the statement that made it."""
    PRESENT = enum.auto()
    LEFT = enum.auto()
    """The replica still has the table, since the filter dropped the statement that removed it."""
    ALTERED = enum.auto()
    """The replica has an old definition of the table, since the filter dropped an ALTER TABLE."""


@dataclass(frozen=True)
class _Known:
    state: _State
    cause: SetEvent
    decision: Decision | None = None


@dataclass
class ReplicaTables:
    """A walk through the events of a set, with what is known of the replica's tables."""

    rule_filter: ReplicationFilter
    causes: set[int] = field(default_factory=set)
    """The identities (``id``) of the events that reported faults show."""
    missing: set[Name] = field(default_factory=set)
    """The tables that the replica lacks, as reported."""

    def __post_init__(self) -> None:
        self._tables: dict[Name, _Known] = {}
        self._temporary: dict[tuple[int, Name], _Known] = {}
        self._databases: dict[str, _Known] = {}
        self._used: set[Name] = set()
        """The tables that the source had before the set's first CREATE TABLE of them."""

    def walk(self, knowledge: SetKnowledge) -> Iterator[Item]:
        """Yield the faults: events that pass the filter and cannot work on the replica."""
        if not knowledge.is_ordered:
            return
        for event in knowledge.events:
            decision = self.rule_filter.decide(event.subject)
            if isinstance(event.subject, TableSubject):
                yield from self._rows(event, event.subject, decision)
            else:
                yield from self._statement(event, event.subject, decision)

    def _rows(self, event: SetEvent, subject: TableSubject, decision: Decision) -> Iterator[Item]:
        self._used.add((subject.database, subject.table))
        if decision.verdict.passes:
            yield from self._need(event, self._rows_of((subject.database, subject.table)))

    def _statement(self, event: SetEvent, statement: Statement, decision: Decision) -> Iterator[Item]:
        if statement.kind.is_database:
            self._database(event, statement, decision)
            return
        effects = event.effects
        if statement.kind in _HARMLESS:
            return
        if decision.verdict is Verdict.UNDECIDED:
            # The replica decides. Nothing is known of the tables from here on.
            for table in (*effects.makes, *effects.removes, *(t for pair in effects.renames for t in pair)):
                self._tables.pop(self._on_replica(table, statement), None)
        elif decision.verdict is Verdict.EXECUTE:
            yield from self._needs(event, statement)
            self._execute(event, statement)
        else:
            self._drop(event, statement, decision)
        for table in _updated(statement):
            key = event.session, self._on_replica(table, statement)
            if not effects.temporary and key not in self._temporary:
                self._used.add(_on_source(table, statement))

    def _needs(self, event: SetEvent, statement: Statement) -> Iterator[Item]:
        effects = event.effects
        made = {self._on_replica(table, statement) for table in effects.makes}
        for name in sorted(made):
            yield from self._make(event, name)
        if not (effects.removes and self._is_lenient(event)):
            renamed = {self._on_replica(new, statement) for _, new in effects.renames}
            for table in _updated(statement):
                name = self._on_replica(table, statement)
                if name not in made and name not in renamed:
                    yield from self._need(event, name)
        for table in effects.reads:
            yield from self._need(event, self._on_replica(table, statement))
        for table in effects.parents:
            yield from self._need(event, self._on_replica(table, statement), Code.FOREIGN_KEY)

    def _is_lenient(self, event: SetEvent) -> bool:
        """Tell whether a CREATE passes over a table that is there, and a DROP over one that is not.

        A replica of MariaDB does so by default (``slave_ddl_exec_mode=IDEMPOTENT``).
        """
        return event.effects.conditional or self.rule_filter.names.family == "mariadb"

    def _make(self, event: SetEvent, name: Name) -> Iterator[Item]:
        database = self._databases.pop(name[0], None)
        if database is not None and database.state is _State.ABSENT:
            yield self._item(
                Code.MISSING_DATABASE,
                database,
                event,
                f"{_verb(database)} is dropped, and statements that make tables in it pass. "
                "A replica without the database {names} stops with error 1049",
                name[0],
            )
        if event.effects.temporary:
            yield from self._make_temporary(event, name)
            return
        known = self._tables.get(name)
        if known is not None and known.state is _State.LEFT and not self._is_lenient(event):
            yield self._item(
                Code.LEFT_TABLE,
                known,
                event,
                f"{_verb(known)} is dropped, and a later statement that makes {{names}} again passes. "
                "A replica that has the old table stops with error 1050",
                ".".join(name),
            )

    def _need(self, event: SetEvent, name: Name, code: Code = Code.MISSING_TABLE) -> Iterator[Item]:
        temporary = self._temporary.get((event.session, name))
        if temporary is not None and not isinstance(event.subject, TableSubject):
            yield from self._need_temporary(event, name, temporary)
            return
        known = self._tables.get(name)
        if known is None or known.decision is None:
            return
        self._tables.pop(name, None)
        if known.state is _State.ABSENT:
            self.missing.add(name)
            yield self._item(code, known, event, _lacks(code, known, event), ".".join(name))
        elif known.state is _State.ALTERED and isinstance(event.subject, TableSubject):
            yield self._item(
                Code.SCHEMA_DRIFT,
                known,
                event,
                f"{_verb(known)} of {{names}} is dropped, and later rows pass. The replica keeps the old columns: its "
                "rows differ, or it stops with error 1677 or 13146 (another type)",
                ".".join(name),
            )

    def _make_temporary(self, event: SetEvent, name: Name) -> Iterator[Item]:
        known = self._temporary.get((event.session, name))
        if known is not None and known.state is _State.LEFT and not self._is_lenient(event):
            yield self._item(
                Code.TEMPORARY_TABLE,
                known,
                event,
                "the statement that drops the temporary table {names} is dropped, and a later statement of the session "
                "that makes it again passes. A replica that has the old table stops with error 1050",
                ".".join(name),
            )

    def _need_temporary(self, event: SetEvent, name: Name, known: _Known) -> Iterator[Item]:
        if known.decision is None or known.state is not _State.ABSENT:
            return
        del self._temporary[event.session, name]
        if self._is_there(name):
            use = (
                "a later statement of the session passes. It uses the replica's table of the same name, which is not "
                "temporary, and changes or reads other rows"
            )
        else:
            use = "a later statement of the session that needs the table passes. The replica stops with error 1146"
        yield self._item(
            Code.TEMPORARY_TABLE,
            known,
            event,
            f"the statement that makes the temporary table {{names}} is dropped, and {use}",
            ".".join(name),
        )

    def _is_there(self, name: Name) -> bool:
        """Tell whether the replica has a table of this name that is not temporary, as far as the set tells."""
        known = self._tables.get(name)
        return name in self._used if known is None else known.state is not _State.ABSENT

    def _item(self, code: Code, known: _Known, event: SetEvent, what: str, name: str) -> Item:
        assert known.decision is not None
        assert isinstance(known.cause.subject, Statement)
        if known.decision.verdict is Verdict.EXECUTE:
            return self._not_renamed(code, known, event, name)
        self.causes.update((id(known.cause), id(event)))
        reason = reason_of(known.decision, known.cause.subject)
        return Item(
            code,
            rules_of(self.rule_filter, known.decision),
            f"{what}. The statement is dropped because {reason}",
            cure_of(self.rule_filter, known.decision),
            name,
            (known.cause, event),
        )

    def _not_renamed(self, code: Code, known: _Known, event: SetEvent, name: str) -> Item:
        return Item(
            code,
            few(rule for rule in self.rule_filter.rules if rule.kind.is_rewrite),
            f"rewrite rules change the current database of {_verb(known)}, and never a database in its text. The "
            f"replica does not make {{names}}, and events that need it pass. The replica stops with error "
            f"{1049 if code is Code.MISSING_DATABASE else 1146}",
            "Make {names} on the replica by hand, or write names in statements without the database",
            name,
            (known.cause, event),
        )

    def _execute(self, event: SetEvent, statement: Statement) -> None:
        effects = event.effects
        for table in effects.makes:
            name = self._on_replica(table, statement)
            if effects.temporary:
                self._temporary[event.session, name] = _Known(_State.PRESENT, event)
                continue
            rows = self._rows_of(_on_source(table, statement))
            source = self._same(_on_source(table, statement))
            self._tables[name] = _Known(_State.PRESENT, event)
            for other in (rows, source):
                if other != name and other not in self._tables and self._is_new(event, table, statement):
                    self._tables[other] = _Known(_State.ABSENT, event, self.rule_filter.decide(statement))
        for table in effects.removes:
            name = self._on_replica(table, statement)
            if self._temporary.pop((event.session, name), None) is None:
                self._tables.pop(name, None)
        for old, new in effects.renames:
            moved = self._tables.pop(self._on_replica(old, statement), None)
            self._tables[self._on_replica(new, statement)] = moved or _Known(_State.PRESENT, event)

    def _drop(self, event: SetEvent, statement: Statement, decision: Decision) -> None:
        effects = event.effects
        for table in effects.makes:
            if effects.temporary:
                key = event.session, self._on_replica(table, statement)
                self._temporary[key] = _Known(_State.ABSENT, event, decision)
                continue
            name = self._rows_of(_on_source(table, statement))
            if name not in self._tables and self._is_new(event, table, statement):
                self._tables[name] = _Known(_State.ABSENT, event, decision)
        for table in effects.removes:
            name = self._rows_of(_on_source(table, statement))
            key = event.session, self._on_replica(table, statement)
            temporary = self._temporary.pop(key, None)
            if temporary is not None:
                if temporary.state is not _State.ABSENT:
                    self._temporary[key] = _Known(_State.LEFT, event, decision)
                continue
            known = self._tables.pop(name, None)
            if known is not None and known.state is not _State.ABSENT:
                self._tables[name] = _Known(_State.LEFT, event, decision)
        for old, new in effects.renames:
            self._left_behind(event, _on_source(old, statement), decision)
            name = self._rows_of(_on_source(new, statement))
            self._tables.setdefault(name, _Known(_State.ABSENT, event, decision))
        if effects.alters:
            for table in _updated(statement):
                name = self._rows_of(_on_source(table, statement))
                known = self._tables.get(name)
                if known is None or known.state is _State.PRESENT:
                    self._tables[name] = _Known(_State.ALTERED, event, decision)

    def _left_behind(self, event: SetEvent, source: Name, decision: Decision) -> None:
        name = self._rows_of(source)
        known = self._tables.pop(name, None)
        if known is not None and known.state is not _State.ABSENT:
            self._tables[name] = _Known(_State.LEFT, event, decision)

    def _is_new(self, event: SetEvent, table: TableName, statement: Statement) -> bool:
        """Tell whether a statement surely makes a table that the source did not have before."""
        return not (event.effects.conditional and _on_source(table, statement) in self._used)

    def _database(self, event: SetEvent, statement: Statement, decision: Decision) -> None:
        source = statement.database or statement.current_database or ""
        name, same = (self._same((each, ""))[0] for each in (self.rule_filter.rewrite_db(source), source))
        if statement.kind is StatementKind.CREATE_DATABASE:
            is_made = decision.verdict is not Verdict.IGNORE and name == same
            is_new = not (event.effects.conditional and any(source == each for each, _ in self._used))
            if not is_made and is_new:
                self._databases[name] = _Known(_State.ABSENT, event, decision)
            else:
                self._databases.pop(name, None)
        elif statement.kind is StatementKind.DROP_DATABASE and decision.verdict is not Verdict.IGNORE:
            for table in [table for table in self._tables if table[0] == name]:
                del self._tables[table]

    def _on_replica(self, table: TableName, statement: Statement) -> Name:
        """Return the table that a name in a statement's text means on the replica.

        Rewrite rules do not change a database in the text.
        """
        if table.database is not None:
            return self._same((table.database, table.table))
        return self._same((self.rule_filter.rewrite_db(statement.current_database or ""), table.table))

    def _rows_of(self, source: Name) -> Name:
        """Return the table on the replica that gets the rows of a table of the source."""
        return self._same(self.rule_filter.rewrite_table(*source))

    def _same(self, name: Name) -> Name:
        """Return one spelling for all spellings of a table's name that the replica takes for the same."""
        return spelled(self.rule_filter, name)


def spelled(rule_filter: ReplicationFilter, name: Name) -> Name:
    """Return a table's name in lower case where the replica has lower_case_table_names, and else as it is."""
    return (name[0].lower(), name[1].lower()) if rule_filter.names.lower_case_table_names else name


def _lacks(code: Code, known: _Known, event: SetEvent) -> str:
    """Return the text of the fault that a passing event needs a table that the replica lacks."""
    if code is Code.FOREIGN_KEY:
        use = "a statement with a foreign key to the table passes. The replica stops with an error about the key"
    elif isinstance(event.subject, TableSubject):
        use = "rows of the table pass. The replica stops with error 1146 (no such table)"
    elif event.effects.removes:
        use = "a statement that drops the table passes. The replica stops with error 1051 (unknown table)"
    else:
        use = (
            "statements that need the table pass. The replica stops with error 1146 (no such table), or 1049 (no such "
            "database)"
        )
    return f"{_verb(known)} of {{names}} is dropped, and {use}"


def _on_source(table: TableName, statement: Statement) -> Name:
    return table.database or statement.current_database or "", table.table


def _updated(statement: Statement) -> Iterator[TableName]:
    """Yield the tables that a statement updates. Accounts are left out, since every server has the grant tables."""
    if statement.kind is not StatementKind.ACCOUNT:
        for tables in statement.updated or ():
            yield from tables


def _verb(known: _Known) -> str:
    assert isinstance(known.cause.subject, Statement)
    return known.cause.subject.kind.value
