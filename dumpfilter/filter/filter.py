"""The classic replication filter: ``Rpl_filter`` with the rules of ``--replicate-*``.

The questions keep the server's names: :meth:`Filter.db_ok`, :meth:`Filter.tables_ok`,
:meth:`Filter.db_ok_with_wild_table`. Facts behind them are recorded in tests/data; docs/filters.md tells them.
"""

from __future__ import annotations

import re
from collections.abc import Hashable, Iterable, Sequence

from dumpfilter.binlog.subjects import Subject, TableSubject
from dumpfilter.errors import OptionError
from dumpfilter.filter.collation import Family, collation_of
from dumpfilter.filter.rules import Rule, RuleKind, parse_option, unique
from dumpfilter.filter.verdict import Verdict
from dumpfilter.filter.wild import WildPattern
from dumpfilter.statement import Statement

_NOT_IN_NAMES = re.compile("[\U00010000-\U0010ffff]")
"""MySQL's identifiers are utf8mb3: its parser reads each of these as a question mark."""


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
        collation = self._collation = collation_of(family, lower_case_table_names)

        def values(kind: RuleKind) -> list[str]:
            return [rule.value for rule in self.rules if rule.kind is kind]

        def patterns(kind: RuleKind) -> tuple[WildPattern, ...]:
            return tuple(WildPattern(collation.units(value), collation.unit) for value in values(kind))

        self._do_db = frozenset(map(collation.database_rule, values(RuleKind.DO_DB)))
        self._ignore_db = frozenset(map(collation.database_rule, values(RuleKind.IGNORE_DB)))
        self._do_table = frozenset(map(collation.table, values(RuleKind.DO_TABLE)))
        self._ignore_table = frozenset(map(collation.table, values(RuleKind.IGNORE_TABLE)))
        self._wild_do = patterns(RuleKind.WILD_DO_TABLE)
        self._wild_ignore = patterns(RuleKind.WILD_IGNORE_TABLE)
        self._rewrite: dict[Hashable, str] = {}
        for rule in self.rules:
            if rule.kind is RuleKind.REWRITE_DB:
                source, target = rule.pair
                self._rewrite.setdefault(collation.database_rule(source), target)

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
        """The database's name on the slave (``Rpl_filter::get_rewrite_db``); once, never in a chain."""
        return self._rewrite.get(self._collation.database(database), database)

    def db_ok(self, database: str | None) -> bool:
        """``Rpl_filter::db_ok``, of a name that is rewritten already.

        None, no database, is a name that no rule has: do-db filters it, ignore-db does not.
        """
        name = self._collation.database(database or "")
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
        if self._do_table or self._ignore_table:
            key = self._collation.table(name)
            if key in self._do_table:
                return True
            if key in self._ignore_table:
                return False
        return self._wild_decided(name)

    def _wild_decided(self, name: str) -> bool | None:
        if not (self._wild_do or self._wild_ignore):
            return None
        units = [self._collation.unit(c) for c in self._collation.units(name)]
        if any(pattern.matches_folded(units) for pattern in self._wild_do):
            return True
        if any(pattern.matches_folded(units) for pattern in self._wild_ignore):
            return False
        return None

    def db_ok_with_wild_table(self, database: str) -> bool:
        """``Rpl_filter::db_ok_with_wild_table``: ``db.`` against the wild rules."""
        decided = self._wild_decided(f"{database}.")
        return decided if decided is not None else not self._wild_do

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
            return Verdict.EXECUTE if self._db_statement_ok(statement) else Verdict.IGNORE
        # which tables it updates is not known yet
        return Verdict.UNDECIDED if self.table_rules_on else Verdict.EXECUTE

    def _db_statement_ok(self, statement: Statement) -> bool:
        """CREATE, ALTER, DROP DATABASE. The servers differ: MySQL asks the database rules or, where there are
        none, the wild rules, both about the rewritten name; MariaDB asks both, about the name as it is
        (tests/data/recordings/{mysql,mariadb}-databases)."""
        named = statement.database
        if named is None:  # ALTER DATABASE without a name
            named = self.rewrite_db(statement.current_database or "")
        elif self.family == "mysql":
            named = self.rewrite_db(_NOT_IN_NAMES.sub("?", named))
        if self.family == "mysql" and self.db_rules_on:
            return self.db_ok(named)
        return self.db_ok(named) and self.db_ok_with_wild_table(named)

    def verdict(self, subject: Subject) -> Verdict:
        """What happens to the events of a subject."""
        if isinstance(subject, TableSubject):
            return Verdict.EXECUTE if self.rows_ok(subject.database, subject.table) else Verdict.IGNORE
        return self.statement(subject)
