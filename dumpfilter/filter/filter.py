"""The classic replication filter: ``Rpl_filter`` with the rules of ``--replicate-*``.

The questions keep the server's names: :meth:`Filter.db_ok`, :meth:`Filter.tables_ok`,
:meth:`Filter.db_ok_with_wild_table`. Facts behind them are recorded in tests/data; docs/filters.md tells them.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Literal

from dumpfilter.binlog.subjects import Subject, TableSubject
from dumpfilter.errors import OptionError
from dumpfilter.filter.collation import general_ci
from dumpfilter.filter.rules import Rule, RuleKind, parse_option, unique
from dumpfilter.filter.verdict import Verdict
from dumpfilter.filter.wild import WildPattern
from dumpfilter.statement import Statement

Family = Literal["mysql", "mariadb"]


def _same(text: str) -> str:
    return text


def _lower(text: str) -> str:
    return text.lower()


class Filter:
    """An immutable set of rules; a changed filter is a new object.

    Parameters:
        rules: in any order; it does not matter, except that of several rewrites with one FROM the first wins.
        lower_case_table_names: the slave's setting: 0 compares names as they are, 1 and 2 without case.
        family: whose behaviour, where MySQL and MariaDB differ.
    """

    def __init__(
        self, rules: Iterable[Rule] = (), *, lower_case_table_names: int = 0, family: Family = "mysql"
    ) -> None:
        if lower_case_table_names not in (0, 1, 2):
            raise OptionError(f"lower_case_table_names={lower_case_table_names}: it is 0, 1 or 2")
        self.rules = unique(rules)
        self.lower_case_table_names = lower_case_table_names
        self.family: Family = family
        self._fold = _lower if lower_case_table_names else _same

        def names(kind: RuleKind) -> frozenset[str]:
            return frozenset(self._fold(rule.value) for rule in self.rules if rule.kind is kind)

        def patterns(kind: RuleKind) -> tuple[WildPattern, ...]:
            return tuple(WildPattern(rule.value, general_ci) for rule in self.rules if rule.kind is kind)

        self._do_db = names(RuleKind.DO_DB)
        self._ignore_db = names(RuleKind.IGNORE_DB)
        self._do_table = names(RuleKind.DO_TABLE)
        self._ignore_table = names(RuleKind.IGNORE_TABLE)
        self._wild_do = patterns(RuleKind.WILD_DO_TABLE)
        self._wild_ignore = patterns(RuleKind.WILD_IGNORE_TABLE)
        self._rewrite: dict[str, str] = {}
        for rule in self.rules:
            if rule.kind is RuleKind.REWRITE_DB:
                source, target = rule.pair
                self._rewrite.setdefault(self._fold(source), target)

    @classmethod
    def from_options(
        cls, options: Sequence[str], *, lower_case_table_names: int = 0, family: Family = "mysql"
    ) -> Filter:
        """A filter from options in the server's spelling; OptionError names the first bad one.

        >>> Filter.from_options(["--replicate-do-db=shop"]).rows_ok("shop", "orders")
        True
        """
        return cls(
            [parse_option(option) for option in options],
            lower_case_table_names=lower_case_table_names,
            family=family,
        )

    @property
    def is_on(self) -> bool:
        """Whether any rule could make a difference (rewriting alone drops nothing)."""
        return any(rule.kind is not RuleKind.REWRITE_DB for rule in self.rules)

    @property
    def table_rules_on(self) -> bool:
        """Whether there is any table rule (``Rpl_filter::is_on``)."""
        return bool(self._do_table or self._ignore_table or self._wild_do or self._wild_ignore)

    @property
    def db_rules_on(self) -> bool:
        """Whether there is a do-db or ignore-db rule."""
        return bool(self._do_db or self._ignore_db)

    def rewrite_db(self, database: str) -> str:
        """The database's name on the slave (``Rpl_filter::get_rewrite_db``)."""
        return self._rewrite.get(self._fold(database), database)

    def db_ok(self, database: str | None) -> bool:
        """``Rpl_filter::db_ok``, of a name that is rewritten already; None: no database."""
        if not self.db_rules_on or database is None:
            return True
        name = self._fold(database)
        if self._do_db:
            return name in self._do_db
        return name not in self._ignore_db

    def tables_ok(self, tables: Iterable[tuple[str, str]]) -> bool:
        """``Rpl_filter::tables_ok``: of the updated tables, in their order, the first that a rule decides."""
        some_updated = False
        for database, table in tables:
            some_updated = True
            decided = self._table_decided(f"{database}.{table}")
            if decided is not None:
                return decided
        return some_updated and not (self._do_table or self._wild_do)

    def _table_decided(self, name: str) -> bool | None:
        key = self._fold(name)
        if key in self._do_table:
            return True
        if key in self._ignore_table:
            return False
        if self._wild_do or self._wild_ignore:
            folded = [general_ci(c) for c in name]
            if any(p.matches_folded(folded) for p in self._wild_do):
                return True
            if any(p.matches_folded(folded) for p in self._wild_ignore):
                return False
        return None

    def db_ok_with_wild_table(self, database: str) -> bool:
        """``Rpl_filter::db_ok_with_wild_table``: ``db.`` against the wild rules."""
        folded = [general_ci(c) for c in f"{database}."]
        if any(p.matches_folded(folded) for p in self._wild_do):
            return True
        if any(p.matches_folded(folded) for p in self._wild_ignore):
            return False
        return not self._wild_do

    def rows_ok(self, database: str, table: str) -> bool:
        """Whether row events of a table (its name on the master) pass."""
        database = self.rewrite_db(database)
        if not self.db_ok(database):
            return False
        return not self.table_rules_on or self.tables_ok([(database, table)])

    def statement(self, statement: Statement) -> Verdict:
        """What happens to a statement that is not a transaction's keyword."""
        current = statement.current_database
        if not self.db_ok(None if current is None else self.rewrite_db(current)):
            return Verdict.IGNORE
        if statement.kind.is_database:
            database = statement.database if statement.database is not None else current
            if database is None:
                return Verdict.UNDECIDED
            return Verdict.EXECUTE if self._db_statement_ok(database) else Verdict.IGNORE
        # which tables it updates is not known yet
        return Verdict.UNDECIDED if self.table_rules_on else Verdict.EXECUTE

    def _db_statement_ok(self, database: str) -> bool:
        if self.family == "mysql" and self.db_rules_on:
            return self.db_ok(database)
        return self.db_ok(database) and self.db_ok_with_wild_table(database)

    def verdict(self, subject: Subject) -> Verdict:
        """What happens to the events of a subject."""
        if isinstance(subject, TableSubject):
            return Verdict.EXECUTE if self.rows_ok(subject.database, subject.table) else Verdict.IGNORE
        return self.statement(subject)
