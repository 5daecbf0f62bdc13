"""The slave's filter for a channel with ``FILTER_ON = 'MASTER'``, where the master filters and the slave trusts it."""

from __future__ import annotations

from dumpfilter.binlog.statement import Statement
from dumpfilter.filter.base import ReplicationFilter
from dumpfilter.filter.decision import Decision, Step, Verdict
from dumpfilter.filter.rules import BaseRuleKind


class TrustedRows(ReplicationFilter):
    """A filter that passes all row events, and asks another filter about statements.

    The master has already dropped all unwanted row events, since row events name their table. But the master also sends
    statements that it cannot decide, so the slave asks its rules about each statement.
    """

    def __init__(self, rule_filter: ReplicationFilter) -> None:
        self._filter = rule_filter
        self.rules = rule_filter.rules
        self.names = rule_filter.names

    @property
    def is_on(self) -> bool:
        return self._filter.is_on

    def decide_rows(self, database: str, table: str) -> Decision:
        return Decision(Verdict.EXECUTE, Step.NO_RULES, None, f"{database}.{table}")

    def decide_statement(self, statement: Statement) -> Decision:
        return self._filter.decide_statement(statement)

    def hits_rows(self, database: str, table: str) -> tuple[BaseRuleKind, ...]:
        return self._filter.hits_rows(database, table)

    def hits_statement(self, statement: Statement) -> tuple[BaseRuleKind, ...]:
        return self._filter.hits_statement(statement)

    def rewrite_db(self, database: str) -> str:
        return self._filter.rewrite_db(database)

    def rewrite_table(self, database: str, table: str) -> tuple[str, str]:
        return self._filter.rewrite_table(database, table)
