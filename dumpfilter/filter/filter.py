"""The classic replication filter: ``Rpl_filter`` with the rules of ``--replicate-*``.

The questions keep the server's names: :meth:`Filter.db_ok`, :meth:`Filter.tables_ok`,
:meth:`Filter.db_ok_with_wild_table`. Facts behind them are recorded in tests/oracle/data; docs/filters.md tells them.
"""

from __future__ import annotations

from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence

from dumpfilter.binlog.format import NameRules
from dumpfilter.filter.base import ReplicationFilter
from dumpfilter.filter.collation import as_parsed, collation_of
from dumpfilter.filter.decision import Decision, Step, Verdict
from dumpfilter.filter.rules import BaseRuleKind, Rule, RuleKind, parse_option, unique
from dumpfilter.filter.wild import WildSet
from dumpfilter.statement import Statement, StatementKind, TableName


class Filter(ReplicationFilter):
    """An immutable set of rules; a changed filter is a new object.

    Parameters:
        rules: in any order; it does not matter, except that of several rewrites with one FROM the first wins.
        lower_case_table_names: the slave's setting: 0 compares names as they are, 1 and 2 without case.
        family: whose behaviour, where MySQL and MariaDB differ.
        names: the collation of MariaDB's table rules and wild rules, which is the server version's.
    """

    def __init__(
        self,
        rules: Iterable[Rule] = (),
        *,
        names: NameRules = NameRules(),
    ) -> None:
        self.rules = unique(rules)
        self.names = names
        collation = self._collation = collation_of(names)

        def of(kind: RuleKind) -> list[Rule]:
            return [rule for rule in self.rules if rule.kind is kind]

        def keyed(kind: RuleKind, key: Callable[[str], Hashable]) -> dict[Hashable, Rule]:
            # of rules that compare equal the first is named as the one that decided
            return {key(rule.value): rule for rule in reversed(of(kind))}

        def patterns(rules: list[Rule]) -> WildSet:
            return WildSet([collation.units(rule.value) for rule in rules], collation.unit)

        self._do_db = keyed(RuleKind.DO_DB, collation.database_rule)
        self._ignore_db = keyed(RuleKind.IGNORE_DB, collation.database_rule)
        self._do_table = keyed(RuleKind.DO_TABLE, collation.table)
        self._ignore_table = keyed(RuleKind.IGNORE_TABLE, collation.table)
        self._wild_do_rules, self._wild_ignore_rules = (
            of(RuleKind.WILD_DO_TABLE),
            of(RuleKind.WILD_IGNORE_TABLE),
        )
        self._wild_do, self._wild_ignore = patterns(self._wild_do_rules), patterns(self._wild_ignore_rules)
        self._rewrite: dict[Hashable, str] = {}
        for rule in self.rules:
            if rule.kind is RuleKind.REWRITE_DB:
                source, target = rule.pair
                self._rewrite.setdefault(collation.database_rule(source), target)

    @classmethod
    def from_options(
        cls,
        options: Sequence[str],
        *,
        names: NameRules = NameRules(),
    ) -> Filter:
        """A filter from options in the server's spelling; OptionError names the first bad one.

        >>> Filter.from_options(["--replicate-do-db=shop"]).rows_ok("shop", "orders")
        True
        """
        return cls(
            [parse_option(option) for option in options],
            names=names,
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
        return self._db(database).verdict.passes

    def _db(self, database: str | None) -> Decision:
        name = database or ""
        key = self._collation.database(name)
        if self._do_db:
            rule = self._do_db.get(key)
            return _yes(Step.DO_DB, rule, name) if rule else _no(Step.NO_DO_DB, None, name)
        if self._ignore_db:
            rule = self._ignore_db.get(key)
            return _no(Step.IGNORE_DB, rule, name) if rule else _yes(Step.NO_IGNORE_DB, None, name)
        return _yes(Step.NO_RULES, None, name)

    def tables_ok(self, tables: Iterable[tuple[str, str]]) -> bool:
        """``Rpl_filter::tables_ok``: of the updated tables, in their order, the first that a rule decides."""
        return self._tables(tables).verdict.passes

    def _tables(self, tables: Iterable[tuple[str, str]]) -> Decision:
        name = None
        for database, table in tables:
            name = f"{database}.{table}"
            decided = self._table_decided(name)
            if decided is not None:
                return decided
        if name is None:
            return _no(Step.NONE_UPDATED)
        if self._do_table or self._wild_do:
            return _no(Step.NO_TABLE_MATCHED_DO, None, name)
        return _yes(Step.NO_TABLE_MATCHED, None, name)

    def _table_decided(self, name: str) -> Decision | None:
        if self._do_table or self._ignore_table:
            key = self._collation.table(name)
            if (rule := self._do_table.get(key)) is not None:
                return _yes(Step.DO_TABLE, rule, name)
            if (rule := self._ignore_table.get(key)) is not None:
                return _no(Step.IGNORE_TABLE, rule, name)
        do, ignore = self._wild(name)
        if do is not None:
            return _yes(Step.WILD_DO_TABLE, do, name)
        return None if ignore is None else _no(Step.WILD_IGNORE_TABLE, ignore, name)

    def _wild(self, name: str) -> tuple[Rule | None, Rule | None]:
        """The wild-do rule a name matches or, when there is none, the wild-ignore rule."""
        if not (self._wild_do or self._wild_ignore):
            return None, None
        units = [self._collation.unit(c) for c in self._collation.units(name)]
        if (number := self._wild_do.first(units)) is not None:
            return self._wild_do_rules[number], None
        number = self._wild_ignore.first(units)
        return None, None if number is None else self._wild_ignore_rules[number]

    def db_ok_with_wild_table(self, database: str) -> bool:
        """``Rpl_filter::db_ok_with_wild_table``: ``db.`` against the wild rules."""
        return self._db_with_wild_table(database).verdict.passes

    def _db_with_wild_table(self, database: str) -> Decision:
        name = f"{database}."
        do, ignore = self._wild(name)
        if do is not None:
            return _yes(Step.DB_WILD_DO, do, name)
        if ignore is not None:
            return _no(Step.DB_WILD_IGNORE, ignore, name)
        return _no(Step.DB_NO_WILD_DO, None, name) if self._wild_do else _yes(Step.DB_NO_WILD, None, name)

    def decide_rows(self, database: str, table: str) -> Decision:
        return self._ask_rows(database, table)[-1]

    def decide_statement(self, statement: Statement) -> Decision:
        return self._ask_statement(statement)[-1]

    def hits_rows(self, database: str, table: str) -> tuple[BaseRuleKind, ...]:
        """Once for each Table_map event, in the order of the questions (recorded in tests/filter/data)."""
        rewritten = self._collation.database(database) in self._rewrite
        return _hits(rewritten, self._ask_rows(database, table))

    def hits_statement(self, statement: Statement) -> tuple[BaseRuleKind, ...]:
        """Here MySQL counts a rewrite only when it gives another name, and not for CREATE and DROP DATABASE; the
        database rules count once, however often they are asked (recorded in tests/filter/data)."""
        current = statement.current_database
        rewritten = (
            current is not None
            and statement.kind not in (StatementKind.CREATE_DATABASE, StatementKind.DROP_DATABASE)
            and self.rewrite_db(current) != current
        )
        return _hits(rewritten, self._ask_statement(statement))

    def _ask_rows(self, database: str, table: str) -> list[Decision]:
        """The answers to one question after the other; the last decides."""
        database = self.rewrite_db(database)
        asked = [self._db(database)]
        if asked[0].verdict.passes and self.table_rules_on:
            asked.append(self._tables([(database, table)]))
        return asked

    def _ask_statement(self, statement: Statement) -> list[Decision]:
        """The answers to one question after the other; the last decides."""
        current = None if statement.current_database is None else self.rewrite_db(statement.current_database)
        asked = [self._db(current)]
        if not asked[0].verdict.passes:
            return asked
        if statement.kind.is_database:
            return asked + self._ask_database(statement)
        if not self.table_rules_on:
            return asked
        if statement.updated is None:
            asked.append(self._decide_involved(statement.involved, current))
        elif not statement.updated:
            asked.append(_yes(Step.NO_TABLE_ASKED))
        else:
            for number, tables in enumerate(statement.updated):
                # a name in the text is not rewritten; one without a database is in the current one, which is
                decision = self._tables(self._named(tables, current))
                if number and not decision.verdict.passes:
                    # A server asks about the grant tables only once it has found the table that is granted on, and
                    # whether the slave has that is not known here: an error there must stay one.
                    decision = decision._replace(verdict=Verdict.UNDECIDED)
                asked.append(decision)
                if not decision.verdict.passes or decision.verdict is Verdict.UNDECIDED:
                    break
        return asked

    def _decide_involved(self, tables: tuple[TableName, ...], current: str | None) -> Decision:
        """Tables of which some are updated: decided when each alone would be decided alike, since then any of them
        together are."""
        decisions = [self._tables([name]) for name in self._named(tables, current)]
        if decisions and all(decision.verdict is decisions[0].verdict for decision in decisions):
            return decisions[0]
        return Decision(Verdict.UNDECIDED, Step.UNKNOWN_TABLES)

    def _named(self, tables: Iterable[TableName], current: str | None) -> Iterator[tuple[str, str]]:
        """The full names of tables in a text, where those without a database are in the current one."""
        for database, table in tables:
            yield current or "" if database is None else self._parsed(database), self._parsed(table)

    def _parsed(self, name: str) -> str:
        """A name as the server's parser reads it."""
        return as_parsed(name, self.names.family)

    def _ask_database(self, statement: Statement) -> list[Decision]:
        """CREATE, ALTER, DROP DATABASE. The servers differ: MySQL asks the database rules or, where there are
        none, the wild rules, both about the rewritten name; MariaDB asks both, about the name as it is
        (tests/oracle/data/recordings/{mysql,mariadb}-databases)."""
        named = statement.database
        if named is None:  # ALTER DATABASE without a name
            named = self.rewrite_db(statement.current_database or "")
        elif self.names.family == "mysql":
            named = self.rewrite_db(self._parsed(named))
        asked = [self._db(named)]
        settled = not asked[0].verdict.passes or (self.names.family == "mysql" and self.db_rules_on)
        if not settled and (self._wild_do or self._wild_ignore):
            asked.append(self._db_with_wild_table(named))
        return asked


def _hits(rewritten: bool, asked: Iterable[Decision]) -> tuple[BaseRuleKind, ...]:
    """The kinds of the rules that were hit; those of the database rules once."""
    hits: list[BaseRuleKind] = [RuleKind.REWRITE_DB] if rewritten else []
    for decision in asked:
        if decision.rule is not None and not (decision.step in _DB_STEPS and decision.rule.kind in hits):
            hits.append(decision.rule.kind)
    return tuple(hits)


_DB_STEPS = frozenset({Step.DO_DB, Step.IGNORE_DB})


def _yes(step: Step, rule: Rule | None = None, name: str | None = None) -> Decision:
    return Decision(Verdict.EXECUTE, step, rule, name)


def _no(step: Step, rule: Rule | None = None, name: str | None = None) -> Decision:
    return Decision(Verdict.IGNORE, step, rule, name)
