"""The interface of all filters: a set of rules that decides which events of a binlog a slave is sent.

The implementations are the classic filter (``--replicate-*`` rules), the effective filter (DO, IGNORE and REWRITE
rules), and the filter of the server that writes the binlog (``--binlog-do-db``).
"""

from __future__ import annotations

import abc

from dumpfilter.binlog.format import NameRules
from dumpfilter.binlog.statement import Statement, TableName
from dumpfilter.filter.collation import as_parsed
from dumpfilter.filter.decision import Decision, Step, Verdict
from dumpfilter.filter.rules import BaseRuleKind, Rule
from dumpfilter.index.subjects import Subject, TableSubject


class ReplicationFilter(abc.ABC):
    """An immutable set of rules that decides about tables and statements. A changed filter is a new object.

    A subclass implements the decisions about row events (by their table) and about statements. This class derives
    all other answers from these two decisions.
    """

    rules: tuple[Rule, ...]
    names: NameRules

    @property
    @abc.abstractmethod
    def is_on(self) -> bool:
        """Whether any rule could drop an event. Rewrite rules alone drop nothing."""

    @abc.abstractmethod
    def decide_rows(self, database: str, table: str) -> Decision:
        """Decide whether the slave is sent the row events of a table. ``database`` and ``table`` are the names on the
        master.

        The verdict is never UNDECIDED, since row events always name their table.
        """

    @abc.abstractmethod
    def decide_statement(self, statement: Statement) -> Decision:
        """Decide whether the slave is sent a statement.

        Callers never pass BEGIN, COMMIT, XA START and the like, since these go with their transaction.
        """

    def rewrite_db(self, database: str) -> str:
        """Return the name that a database has on the slave, after the filter's rewrite rules.

        Callers pass a statement's default database. A filter without a matching rule returns the name unchanged.
        """
        return database

    def rewrite_table(self, database: str, table: str) -> tuple[str, str]:
        """Return the database and the name that a table has on the slave, after the filter's rewrite rules. Without a
        matching rule the names are unchanged.
        """
        return self.rewrite_db(database), table

    def named(self, name: TableName, current: str | None) -> tuple[str, str]:
        """Return the database and the table that a name in a statement means, as the server's parser reads the name.

        ``current`` is the default database, to which a name without a database belongs; None: there is none.
        Rewrite rules are not applied.
        """
        family = self.names.family
        database = current or "" if name.database is None else as_parsed(name.database, family)
        return database, as_parsed(name.table, family)

    def hits_rows(self, database: str, table: str) -> tuple[BaseRuleKind, ...]:
        """Return the kinds of the rules that count a hit for one Table_map event of this table.

        A rule is hit when the filter evaluates the rule and the name matches. The column
        ``replication_applier_filters.COUNTER`` counts hits. Database and table are the names on the master. A kind may
        be in the result more than once.
        """
        return _hit(self.decide_rows(database, table))

    def hits_statement(self, statement: Statement) -> tuple[BaseRuleKind, ...]:
        """Return the kinds of the rules that count a hit for this statement. A rule is hit when the filter evaluates
        the rule and the name matches.

        A kind may be in the result more than once. The column ``replication_applier_filters.COUNTER`` counts hits.
        """
        return _hit(self.decide_statement(statement))

    def hits(self, subject: Subject) -> tuple[BaseRuleKind, ...]:
        """Return the kinds of the rules that count a hit for a table or a statement. A rule is hit when the filter
        evaluates the rule and the name matches.

        A table's hits are counted once for each of its Table_map events.
        """
        if isinstance(subject, TableSubject):
            return self.hits_rows(subject.database, subject.table)
        return self.hits_statement(subject)

    def decide(self, subject: Subject) -> Decision:
        """Decide whether the slave is sent the events of a table or a statement. The result has a verdict, its reason
        and its rule.
        """
        if isinstance(subject, TableSubject):
            return self.decide_rows(subject.database, subject.table)
        return self.decide_statement(subject)

    def rows_ok(self, database: str, table: str) -> bool:
        """Tell whether the slave is sent the row events of a table. Database and table are the names on the master."""
        return self.decide_rows(database, table).verdict is Verdict.EXECUTE

    def statement(self, statement: Statement) -> Verdict:
        """Return the verdict about a statement: send, drop, or undecided."""
        return self.decide_statement(statement).verdict

    def verdict(self, subject: Subject) -> Verdict:
        """Return the verdict about a subject (a table or a statement): send, drop, or undecided."""
        return self.decide(subject).verdict


class FilterAround(ReplicationFilter):
    """A filter that delegates to the filter ``inner``. A subclass overrides some of the decisions."""

    def __init__(self, inner: ReplicationFilter) -> None:
        self.inner = inner
        self.rules = inner.rules
        self.names = inner.names

    @property
    def is_on(self) -> bool:
        return self.inner.is_on

    def decide_rows(self, database: str, table: str) -> Decision:
        return self.inner.decide_rows(database, table)

    def decide_statement(self, statement: Statement) -> Decision:
        return self.inner.decide_statement(statement)

    def hits_rows(self, database: str, table: str) -> tuple[BaseRuleKind, ...]:
        return self.inner.hits_rows(database, table)

    def hits_statement(self, statement: Statement) -> tuple[BaseRuleKind, ...]:
        return self.inner.hits_statement(statement)

    def rewrite_db(self, database: str) -> str:
        return self.inner.rewrite_db(database)

    def rewrite_table(self, database: str, table: str) -> tuple[str, str]:
        return self.inner.rewrite_table(database, table)


class TrustedRows(FilterAround):
    """A filter that passes all row events, and leaves the decision about statements to another filter.

    It is the slave's filter for a channel with ``FILTER_ON = 'MASTER'``. The master has already dropped all unwanted
    row events, since row events name their table. But the master also sends statements that it cannot decide, so the
    slave evaluates its rules for each statement.
    """

    def decide_rows(self, database: str, table: str) -> Decision:
        return Decision(Verdict.EXECUTE, Step.NO_RULES, None, f"{database}.{table}")


def _hit(decision: Decision) -> tuple[BaseRuleKind, ...]:
    return () if decision.rule is None else (decision.rule.kind,)
