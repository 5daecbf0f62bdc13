"""The clever filter (the name is from WL#40): a filter that still applies its rules when a table has been renamed.

Rules name tables, and RENAME TABLE changes a table's name. The clever filter applies the rules to a renamed table under
the table's first name. The filter drops CREATE TABLE … LIKE and CREATE TABLE … SELECT when the rules ignore the source
table. From then on the filter ignores the new table, too.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import replace

from dumpfilter.binlog.format import FormatDescription
from dumpfilter.binlog.query import QueryEvent, TableName
from dumpfilter.binlog.statement.facts import read_text, tables_read
from dumpfilter.binlog.statement.statement import Statement, StatementFacts, StatementKind, Thing
from dumpfilter.filter.base import ReplicationFilter, Step, Verdict
from dumpfilter.index.subjects import statement_of

Name = tuple[str, str]
"""A table's full name: the name of its database, and the name of the table."""


Known = Name | None
"""The first name of a table, or None for a created table whose CREATE statement the filter drops because the rules
ignore its source. The filter then also drops all later changes of the table.
"""

_CREATIONS = frozenset(
    {StatementKind.CREATE_TABLE, StatementKind.CREATE_TABLE_LIKE, StatementKind.CREATE_TABLE_SELECT}
)
_BY_TABLE = frozenset({Step.DO_TABLE, Step.IGNORE_TABLE, Step.WILD_DO_TABLE, Step.WILD_IGNORE_TABLE})
_SHOWN = 200
"""The length to which a statement is truncated in a warning, characters."""
_EVERYWHERE = frozenset({"information_schema", "performance_schema", "mysql", "sys"})
"""The databases that every server has. CREATE TABLE … SELECT from their tables works on every slave."""


class CleverFilter:
    """A filter that decides about a renamed table by the table's first name, the name before any RENAME TABLE.

    ``rules`` is the filter that decides. The CleverFilter remembers renamed and created tables, so the caller must pass
    every statement in the binlog's order. A single RENAME TABLE may rename both replicated and ignored tables. A slave
    that lacks the ignored tables cannot execute such a statement. The filter then passes a warning text to ``warn``.
    """

    def __init__(self, rules: ReplicationFilter, *, warn: Callable[[str], None] = lambda text: None) -> None:
        self.rules = rules
        self._warn = warn
        self.where = ""
        """The binlog file and position of the next event that the caller passes. Warnings begin with this text."""
        self._known: dict[tuple[int | None, Name], Known] = {}
        """The tables that the binlog has created or renamed, by session and current name.

        The session is None for a table that is not temporary. A temporary table hides the ordinary table with its name.
        """

    def rows(self, database: str, table: str) -> Verdict:
        """Return EXECUTE (send) or IGNORE (drop) for the row events of a table. ``database`` and ``table`` are the
        names in the events. The rules are applied to the name that the table had before any RENAME TABLE.
        """
        return Verdict.EXECUTE if self._followed((database, table)) else Verdict.IGNORE

    def statement(self, query: QueryEvent, fd: FormatDescription) -> Verdict:
        """Return the verdict about a statement: send, drop, or undecided (only the slave can decide). Remember the
        tables that the statement creates, renames or drops.

        ``fd`` is the format description event of the statement's binlog file.
        """
        parsed = read_text(query.text, family=fd.family, sql_mode=query.status.sql_mode or 0)
        statement = statement_of(query, fd)
        if statement.kind is StatementKind.UNKNOWN:
            return self._ask(statement, query.thread_id)
        if parsed.kind in _CREATIONS and parsed.objects:
            return self._create(query, fd, parsed, statement)
        if parsed.renames and parsed.thing is Thing.TABLE:
            return self._rename(parsed, query)
        verdict = self._ask(statement, query.thread_id)
        if parsed.kind is StatementKind.DROP_TABLE:
            for name in parsed.objects or ():
                self._forget(self._full(name, query.db), query.thread_id, temporary_only=parsed.temporary)
        elif parsed.kind is StatementKind.DROP_DATABASE:
            dropped, _ = self.rules.names.spelled(parsed.database or "", "")
            for key in [key for key in self._known if key[0] is None and key[1][0] == dropped]:
                del self._known[key]
        return verdict

    def _create(
        self, query: QueryEvent, fd: FormatDescription, parsed: StatementFacts, statement: Statement
    ) -> Verdict:
        assert parsed.objects
        thread = query.thread_id
        made = self._full(parsed.objects[0], query.db)
        key = thread if parsed.temporary else None, made
        # CREATE TABLE IF NOT EXISTS creates nothing if the table exists, and fails on a target that lacks a source.
        exists = parsed.conditional and key in self._known
        verdict = self._ask(statement, thread) if exists else self.rules.verdict(statement)
        sources: tuple[TableName, ...] | None = parsed.sources
        if parsed.kind is StatementKind.CREATE_TABLE_SELECT:
            sources = tables_read(query.text, family=fd.family, sql_mode=query.status.sql_mode or 0)
            if sources is None and query.tables_info:
                sources = query.tables_info[1:]
        ignored = any(
            not self._followed(source, thread)
            for source in (self._full(name, query.db) for name in sources or ())
            if source[0].lower() not in _EVERYWHERE
        )
        is_lost = verdict.passes and ignored
        if not exists:
            self._known[key] = None if is_lost else made
        if is_lost:
            return Verdict.IGNORE
        return Verdict.UNDECIDED if verdict.passes and sources is None else verdict

    def _rename(self, parsed: StatementFacts, query: QueryEvent) -> Verdict:
        # RENAME TABLE passes when the rules pass any of the renamed tables. A server renames the pairs in order, so
        # that two tables can swap names: RENAME TABLE t1 TO tmp, t2 TO t1, tmp TO t2.
        thread = query.thread_id
        followed = []
        for old, new in parsed.renames:
            before, after = self._full(old, query.db), self._full(new, query.db)
            followed.append(self._followed(before, thread))
            if query.is_committed_later:
                continue
            temporary = (thread, before) in self._known
            known = self._as(before, thread)
            # A later CREATE TABLE with the old name makes another table, which the rules know under its own name.
            self._forget(before, thread, temporary_only=temporary)
            self._known[thread if temporary else None, after] = known
        if any(followed) and not all(followed) and not query.is_committed_later:
            text = query.text if len(query.text) <= _SHOWN else query.text[:_SHOWN] + "…"
            self._warn(
                f"{self.where}: this renames tables that are followed and tables that are not, and fails where the "
                f"latter are missing: {text}"
            )
        return Verdict.EXECUTE if any(followed) else Verdict.IGNORE

    def _ask(self, statement: Statement, thread: int) -> Verdict:
        if not statement.updated or not self._known:
            return self.rules.verdict(statement)
        current = statement.current_database
        lists: list[tuple[TableName, ...]] = []
        ignored = False
        for tables in statement.updated:
            names: list[TableName] = []
            for table in tables:
                full = self._full(table, statement.current_database or "")
                known = self._as(full, thread)
                if ignored := known is None:
                    break
                if known == full:
                    names.append(table)
                elif table.database is None and len(tables) == 1:
                    # The statement names a renamed table without a database. The rules must see the database of the
                    # table's first name, so this database replaces the current database.
                    current, first = known
                    names.append(TableName(None, first))
                else:
                    names.append(TableName(*known))
            if names or not ignored:
                lists.append(tuple(names))
            if ignored:
                break
        if ignored and not any(lists):
            return Verdict.IGNORE
        decision = self.rules.decide(replace(statement, current_database=current, updated=tuple(lists)))
        # The first table that matches a table rule decides about the statement. A table that the filter already ignores
        # counts as a match with an ignore rule.
        return Verdict.IGNORE if ignored and decision.step not in _BY_TABLE else decision.verdict

    def _full(self, name: TableName, current: str) -> Name:
        return self.rules.names.spelled(current if name.database is None else name.database, name.table)

    def _as(self, name: Name, thread: int | None = None) -> Known:
        return self._known.get((thread, name), self._known.get((None, name), name))

    def _followed(self, name: Name, thread: int | None = None) -> bool:
        known = self._as(self.rules.names.spelled(*name), thread)
        return known is not None and self.rules.rows_ok(*known)

    def _forget(self, name: Name, thread: int, *, temporary_only: bool) -> None:
        is_temporary = temporary_only or (thread, name) in self._known
        self._known.pop((thread if is_temporary else None, name), None)
