"""The interface of all filters: classic (``--replicate-*``), effective (WL#2516) and the write side's."""

from __future__ import annotations

import abc

from dumpfilter.binlog.format import NameRules
from dumpfilter.filter.decision import Decision, Verdict
from dumpfilter.filter.rules import BaseRuleKind, Rule
from dumpfilter.index.subjects import Subject, TableSubject
from dumpfilter.statement import Statement


class ReplicationFilter(abc.ABC):
    """An immutable set of rules. A changed filter is a new object.

    A subclass decides rows and statements. All other answers follow from these two.
    """

    rules: tuple[Rule, ...]
    names: NameRules

    @property
    @abc.abstractmethod
    def is_on(self) -> bool:
        """Whether any rule could drop an event. Rewrite rules alone drop nothing."""

    @abc.abstractmethod
    def decide_rows(self, database: str, table: str) -> Decision:
        """Decide the row events of a table, given by its name on the master. The verdict is never UNDECIDED."""

    @abc.abstractmethod
    def decide_statement(self, statement: Statement) -> Decision:
        """Decide a statement. Transaction keywords (BEGIN, COMMIT, XA …) are never asked about."""

    def rewrite_db(self, database: str) -> str:
        """Return the slave's name of a statement's current database."""
        return database

    def rewrite_table(self, database: str, table: str) -> tuple[str, str]:
        """Return the slave's database and name of a table that has row events."""
        return self.rewrite_db(database), table

    def hits_rows(self, database: str, table: str) -> tuple[BaseRuleKind, ...]:
        """Return the kinds of the rules that a table map hits when the applier reads it.

        The name is the table's on the master. ``replication_applier_filters.COUNTER`` counts these hits (WL#7361). A
        kind may be there more than once.
        """
        return _hit(self.decide_rows(database, table))

    def hits_statement(self, statement: Statement) -> tuple[BaseRuleKind, ...]:
        """Return the kinds of the rules that a statement hits when the applier reads it."""
        return _hit(self.decide_statement(statement))

    def hits(self, subject: Subject) -> tuple[BaseRuleKind, ...]:
        """Return the kinds of the rules that a subject's table map or statement hits."""
        if isinstance(subject, TableSubject):
            return self.hits_rows(subject.database, subject.table)
        return self.hits_statement(subject)

    def decide(self, subject: Subject) -> Decision:
        """Decide the events of a subject."""
        if isinstance(subject, TableSubject):
            return self.decide_rows(subject.database, subject.table)
        return self.decide_statement(subject)

    def rows_ok(self, database: str, table: str) -> bool:
        """Tell whether row events of a table pass, given by its name on the master."""
        return self.decide_rows(database, table).verdict is Verdict.EXECUTE

    def statement(self, statement: Statement) -> Verdict:
        """Return the verdict about a statement."""
        return self.decide_statement(statement).verdict

    def verdict(self, subject: Subject) -> Verdict:
        """Return the verdict about a subject's events."""
        return self.decide(subject).verdict


def _hit(decision: Decision) -> tuple[BaseRuleKind, ...]:
    return () if decision.rule is None else (decision.rule.kind,)
