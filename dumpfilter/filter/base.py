"""The interface of all filters: a set of rules that decides which events of a binlog a slave is sent.

The implementations are the classic filter (``--replicate-*`` rules), the effective filter (DO, IGNORE and REWRITE
rules), and the filter of the server that writes the binlog (``--binlog-do-db``).
"""

from __future__ import annotations

import abc
from collections.abc import Callable, Hashable, Iterable
from typing import Self

from dumpfilter.binlog.format import DEFAULT_NAMES, NameRules
from dumpfilter.binlog.statement import TableName
from dumpfilter.filter.collation import as_parsed, collation_of
from dumpfilter.filter.decision import Decision, Step, Verdict
from dumpfilter.filter.rules import BaseRuleKind, Rule, unique
from dumpfilter.index.subjects import Subject, TableSubject


class ReplicationFilter(abc.ABC):
    """An immutable set of rules that decides whether the events of a table, or a statement, are sent to a slave. A
    changed filter is a new object.

    A subclass implements :meth:`decide`. All other methods derive their answers from its decisions.
    """

    rules: tuple[Rule, ...]
    names: NameRules

    @property
    @abc.abstractmethod
    def is_on(self) -> bool:
        """Whether any rule could drop an event. Rewrite rules alone drop nothing."""

    @abc.abstractmethod
    def decide(self, subject: Subject) -> Decision:
        """Decide whether the row events of a table, or a statement, are sent to the slave.

        ``subject`` is a parsed statement, or a table with its names on the master. The verdict about a statement may be
        UNDECIDED, which means that only the slave can decide. The verdict about a table is never UNDECIDED, since row
        events always name their table. Callers never pass BEGIN, COMMIT, XA START and the like, since these events are
        sent whenever their transaction is sent.
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
        """Return the database and the table that a name in a statement means. With rules for a
        MySQL server, characters outside utf8mb3 become ``?``, as in its parser.

        ``current`` is the default database, which a name without a database gets. None means that the session has no
        default database, and the returned database is then empty. Rewrite rules are not applied.
        """
        family = self.names.family
        database = current or "" if name.database is None else as_parsed(name.database, family)
        return database, as_parsed(name.table, family)

    def hits(self, subject: Subject) -> tuple[BaseRuleKind, ...]:
        """Return the kinds of the rules (such as replicate-do-db) that match one Table_map event of a table, or a
        statement. Each is a hit to count.

        A rule is hit when the filter evaluates the rule and the name matches. MySQL counts hits in the column
        ``replication_applier_filters.COUNTER``. A kind may be in the result more than once.
        """
        rule = self.decide(subject).rule
        return () if rule is None else (rule.kind,)

    def rows_ok(self, database: str, table: str) -> bool:
        """Tell whether the filter passes the row events of a table. Database and table are the names on the master."""
        return self.verdict(TableSubject(database, table)) is Verdict.EXECUTE

    def verdict(self, subject: Subject) -> Verdict:
        """Return the verdict about the row events of a table, or about a statement: EXECUTE (send them), IGNORE (drop
        them) or UNDECIDED (send them, because only the slave can decide).
        """
        return self.decide(subject).verdict


class RuleFilter(ReplicationFilter):
    """A filter that decides by rules whose kinds are members of one enumeration, such as the kinds of the
    ``--replicate-*`` options.

    Parameters:
        rules: the rules in any order. Repetitions are removed.
        names: the settings by which names are compared: those of the server that wrote the binlog, with the slave's
            ``lower_case_table_names``.

    Raises OptionError for rules of another enumeration, and for a ``lower_case_table_names`` other than 0, 1 and 2.
    """

    def __init__(self, rules: Iterable[Rule] = (), *, names: NameRules = DEFAULT_NAMES) -> None:
        self.rules = unique(rules)
        self.names = names
        self._collation = collation_of(names)

    @staticmethod
    @abc.abstractmethod
    def _parse(option: str) -> Rule:
        """Return the rule that an option such as ``--replicate-do-db=shop`` describes. Raises OptionError."""

    @classmethod
    def from_options(cls, options: Iterable[str], *, names: NameRules = DEFAULT_NAMES) -> Self:
        """Return a filter from rules that are written as options. Raises OptionError that names the first bad option.

        >>> from dumpfilter.filter.filter import Filter
        >>> Filter.from_options(["--replicate-do-db=shop"]).rows_ok("shop", "orders")
        True
        """
        return cls([cls._parse(option) for option in options], names=names)

    def _of(self, kind: BaseRuleKind) -> list[Rule]:
        return [rule for rule in self.rules if rule.kind is kind]

    def _keyed(self, kind: BaseRuleKind, key: Callable[[str], Hashable]) -> dict[Hashable, Rule]:
        # When several rules name the same database or table, the first rule must decide. A dictionary keeps the last
        # value of a key, so the rules are inserted in reversed order.
        return {key(rule.value): rule for rule in reversed(self._of(kind))}


class FilterAround(ReplicationFilter):
    """A wrapper around another filter (``inner``), which has the same rules and makes the same decisions.

    A subclass overrides some of the decisions.
    """

    def __init__(self, inner: ReplicationFilter) -> None:
        self.inner = inner
        self.rules = inner.rules
        self.names = inner.names

    @property
    def is_on(self) -> bool:
        return self.inner.is_on

    def decide(self, subject: Subject) -> Decision:
        return self.inner.decide(subject)

    def hits(self, subject: Subject) -> tuple[BaseRuleKind, ...]:
        return self.inner.hits(subject)

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

    def decide(self, subject: Subject) -> Decision:
        if isinstance(subject, TableSubject):
            return Decision(Verdict.EXECUTE, Step.NO_RULES, None, f"{subject.database}.{subject.table}")
        return super().decide(subject)
