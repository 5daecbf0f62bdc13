"""What every kind of filter offers: classic (``--replicate-*``), effective (WL#2516), the write side."""

from __future__ import annotations

import abc

from dumpfilter.binlog.format import NameRules
from dumpfilter.filter.decision import Decision, Verdict
from dumpfilter.filter.rules import BaseRuleKind, Rule
from dumpfilter.index.subjects import Subject, TableSubject
from dumpfilter.statement import Statement


class ReplicationFilter(abc.ABC):
    """An immutable set of rules; a changed filter is a new object.

    A kind of filter says how it decides rows and statements; the rest follows.
    """

    rules: tuple[Rule, ...]
    names: NameRules

    @property
    @abc.abstractmethod
    def is_on(self) -> bool:
        """Whether any rule could make a difference (rewriting alone drops nothing)."""

    @abc.abstractmethod
    def decide_rows(self, database: str, table: str) -> Decision:
        """Row events of a table, by its name on the master. Never UNDECIDED."""

    @abc.abstractmethod
    def decide_statement(self, statement: Statement) -> Decision:
        """A statement that is not a transaction's keyword."""

    def rewrite_db(self, database: str) -> str:
        """The name on the slave of a statement's current database."""
        return database

    def rewrite_table(self, database: str, table: str) -> tuple[str, str]:
        """Database and name on the slave of the table that row events are for."""
        return self.rewrite_db(database), table

    def hits_rows(self, database: str, table: str) -> tuple[BaseRuleKind, ...]:
        """The kinds of the rules that are hit when a table map, by the table's name on the master, comes to the
        applier: what ``replication_applier_filters.COUNTER`` counts (WL#7361). A kind may be there more than once."""
        return _hit(self.decide_rows(database, table))

    def hits_statement(self, statement: Statement) -> tuple[BaseRuleKind, ...]:
        """The same when a statement comes that is not a transaction's keyword."""
        return _hit(self.decide_statement(statement))

    def hits(self, subject: Subject) -> tuple[BaseRuleKind, ...]:
        """The same of a subject's table map or statement."""
        if isinstance(subject, TableSubject):
            return self.hits_rows(subject.database, subject.table)
        return self.hits_statement(subject)

    def decide(self, subject: Subject) -> Decision:
        """The events of a subject."""
        if isinstance(subject, TableSubject):
            return self.decide_rows(subject.database, subject.table)
        return self.decide_statement(subject)

    def rows_ok(self, database: str, table: str) -> bool:
        """Whether row events of a table (its name on the master) pass."""
        return self.decide_rows(database, table).verdict is Verdict.EXECUTE

    def statement(self, statement: Statement) -> Verdict:
        """What happens to a statement that is not a transaction's keyword."""
        return self.decide_statement(statement).verdict

    def verdict(self, subject: Subject) -> Verdict:
        """What happens to the events of a subject."""
        return self.decide(subject).verdict


def _hit(decision: Decision) -> tuple[BaseRuleKind, ...]:
    return () if decision.rule is None else (decision.rule.kind,)
