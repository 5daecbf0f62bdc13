"""The slave's filter where the master's is trusted: ``FILTER_ON = 'MASTER'``."""

from __future__ import annotations

from dumpfilter.filter.base import ReplicationFilter
from dumpfilter.filter.decision import Decision, Step, Verdict
from dumpfilter.filter.rules import BaseRuleKind
from dumpfilter.statement import Statement


class TrustedRows(ReplicationFilter):
    """Another filter, but rows pass: the master always decides on those. It may have sent statements that it could
    not decide, so these are asked about again.
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
