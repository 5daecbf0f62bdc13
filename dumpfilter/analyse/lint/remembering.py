"""A filter that remembers its decisions, since lint asks about the same tables and statements several times."""

from __future__ import annotations

from dumpfilter.binlog.statement import Statement
from dumpfilter.filter import Decision, ReplicationFilter


class RememberingFilter(ReplicationFilter):
    """A filter that asks another filter once about each table and statement."""

    def __init__(self, asked: ReplicationFilter) -> None:
        self.rules, self.names = asked.rules, asked.names
        self.asked = asked
        self._rows: dict[tuple[str, str], Decision] = {}
        self._statements: dict[Statement, Decision] = {}

    @property
    def is_on(self) -> bool:
        return self.asked.is_on

    def decide_rows(self, database: str, table: str) -> Decision:
        found = self._rows.get((database, table))
        if found is None:
            found = self._rows[database, table] = self.asked.decide_rows(database, table)
        return found

    def decide_statement(self, statement: Statement) -> Decision:
        found = self._statements.get(statement)
        if found is None:
            found = self._statements[statement] = self.asked.decide_statement(statement)
        return found

    def rewrite_db(self, database: str) -> str:
        return self.asked.rewrite_db(database)

    def rewrite_table(self, database: str, table: str) -> tuple[str, str]:
        return self.asked.rewrite_table(database, table)
