"""The classic replication filter: the server's class ``Rpl_filter`` with the rules of ``--replicate-*``.

The methods keep the server's names: :meth:`Filter.db_ok`, :meth:`Filter.tables_ok`,
:meth:`Filter.db_ok_with_wild_table`. The tests compare the filter with recorded answers of real servers
(tests/oracle/data). docs/filters.md describes the rules in words.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterable

from dumpfilter.binlog.format import DEFAULT_NAMES, NameRules
from dumpfilter.binlog.statement import Statement, StatementKind, TableName
from dumpfilter.filter.base import RuleFilter
from dumpfilter.filter.collation import as_parsed
from dumpfilter.filter.decision import Decision, Step, Verdict
from dumpfilter.filter.rules import BaseRuleKind, Rule, RuleKind, parse_option
from dumpfilter.filter.wild import WildSet
from dumpfilter.index.subjects import Subject, TableSubject


class Filter(RuleFilter):
    """An immutable set of ``--replicate-*`` rules. A changed filter is a new object.

    When several ``--replicate-rewrite-db`` rules have the same FROM, the first wins.
    """

    _parse = staticmethod(parse_option)

    def __init__(self, rules: Iterable[Rule] = (), *, names: NameRules = DEFAULT_NAMES) -> None:
        super().__init__(rules, names=names)
        collation, keyed = self._collation, self._keyed
        self._do_db = keyed(RuleKind.DO_DB, collation.database_rule)
        self._ignore_db = keyed(RuleKind.IGNORE_DB, collation.database_rule)
        self._do_table = keyed(RuleKind.DO_TABLE, collation.table)
        self._ignore_table = keyed(RuleKind.IGNORE_TABLE, collation.table)
        self._wild_do_rules = self._of(RuleKind.WILD_DO_TABLE)
        self._wild_ignore_rules = self._of(RuleKind.WILD_IGNORE_TABLE)
        self._wild_do, self._wild_ignore = (
            WildSet([collation.units(rule.value) for rule in rules], collation.unit)
            for rules in (self._wild_do_rules, self._wild_ignore_rules)
        )
        self._rewrite: dict[Hashable, str] = {}
        for rule in self._of(RuleKind.REWRITE_DB):
            source, target = rule.pair
            self._rewrite.setdefault(collation.database_rule(source), target)

    @property
    def is_on(self) -> bool:
        """Whether any rule could drop an event. Rewrite rules alone drop nothing."""
        return any(rule.kind is not RuleKind.REWRITE_DB for rule in self.rules)

    @property
    def table_rules_on(self) -> bool:
        """Whether there is any do-table, ignore-table, wild-do or wild-ignore rule (``Rpl_filter::is_on``)."""
        return bool(self._do_table or self._ignore_table or self._wild_do or self._wild_ignore)

    @property
    def db_rules_on(self) -> bool:
        """Whether there is a ``--replicate-do-db`` or ``--replicate-ignore-db`` rule."""
        return bool(self._do_db or self._ignore_db)

    def rewrite_db(self, database: str) -> str:
        """Return the name that a database has on the slave, after ``--replicate-rewrite-db`` rules.

        At most one rule applies: no rule renames the result again (``Rpl_filter::get_rewrite_db``).
        """
        return self._rewrite.get(self._collation.database(database), database)

    def db_ok(self, database: str | None) -> bool:
        """Tell whether the do-db and ignore-db rules pass a default database or a table's database
        (``Rpl_filter::db_ok``).

        ``database`` is the name after rewrite rules. None stands for a session without a default database, which no
        rule matches. So do-db rules drop a statement without a default database, and ignore-db rules pass it.
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
        """Tell whether the table rules pass a statement that updates the given tables (``Rpl_filter::tables_ok``).

        Each table is a pair of database and name. The first table that matches any rule decides. When no table matches,
        the statement passes unless there are do-table or wild-do-table rules.
        """
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
        if not (self._wild_do or self._wild_ignore):
            return None, None
        folded = self._collation.folded(name)
        if (number := self._wild_do.first(folded)) is not None:
            return self._wild_do_rules[number], None
        number = self._wild_ignore.first(folded)
        return None, None if number is None else self._wild_ignore_rules[number]

    def db_ok_with_wild_table(self, database: str) -> bool:
        """Tell whether the wild table rules pass CREATE, ALTER or DROP of a database.

        The rules' LIKE patterns are matched with the string ``db.``, which has no table after the dot
        (``Rpl_filter::db_ok_with_wild_table``).
        """
        return self._db_with_wild_table(database).verdict.passes

    def _db_with_wild_table(self, database: str) -> Decision:
        name = f"{database}."
        do, ignore = self._wild(name)
        if do is not None:
            return _yes(Step.DB_WILD_DO, do, name)
        if ignore is not None:
            return _no(Step.DB_WILD_IGNORE, ignore, name)
        return _no(Step.DB_NO_WILD_DO, None, name) if self._wild_do else _yes(Step.DB_NO_WILD, None, name)

    def decide(self, subject: Subject) -> Decision:
        return self.asked(subject)[-1]

    def hits(self, subject: Subject) -> tuple[BaseRuleKind, ...]:
        """Return the kinds of the rules that match one Table_map event of a table, or a statement, in the order in
        which the server evaluates the rules.

        MySQL adds 1 to the column ``replication_applier_filters.COUNTER`` of a kind for each time that the kind is in
        the result. A rewrite rule counts for each table of its database. For a statement it counts when it changes the
        default database's name, and never for CREATE and DROP DATABASE. A do-db or ignore-db rule counts once, however
        often the server evaluates the rule.
        """
        if isinstance(subject, TableSubject):
            is_rewritten = self._collation.database(subject.database) in self._rewrite
        else:
            current = subject.current_database
            is_rewritten = (
                current is not None
                and subject.kind not in (StatementKind.CREATE_DATABASE, StatementKind.DROP_DATABASE)
                and self.rewrite_db(current) != current
            )
        hits: list[BaseRuleKind] = [RuleKind.REWRITE_DB] if is_rewritten else []
        for decision in self.asked(subject):
            if decision.rule is not None and not (decision.step in _DB_STEPS and decision.rule.kind in hits):
                hits.append(decision.rule.kind)
        return tuple(hits)

    def asked(self, subject: Subject) -> list[Decision]:
        """Return the decisions that the server makes, one after another, about a table's row events or a statement.

        The server first checks the database rules, and then the table rules for each list of the statement's tables.
        The last decision is the verdict.
        """
        if isinstance(subject, TableSubject):
            database = self.rewrite_db(subject.database)
            asked = [self._db(database)]
            if asked[0].verdict.passes and self.table_rules_on:
                asked.append(self._tables([(database, subject.table)]))
            return asked
        statement = subject
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
                # Rewrite rules rename the current database, and never a database that the text names.
                decision = self._tables(self.named(table, current) for table in tables)
                if number and not decision.verdict.passes:
                    # A server checks the filter on the grant tables of a GRANT only after it has found the granted
                    # table. The master does not know whether the slave has that table. If the table is missing, the
                    # slave must report its error, so the master must not drop the GRANT.
                    decision = decision._replace(verdict=Verdict.UNDECIDED)
                asked.append(decision)
                if not decision.verdict.passes or decision.verdict is Verdict.UNDECIDED:
                    break
        return asked

    def _decide_involved(self, tables: tuple[TableName, ...], current: str | None) -> Decision:
        # The statement updates some of these tables, and its text does not tell which. When each table alone has the
        # same verdict, every combination of the tables has this verdict, too.
        decisions = [self._tables([self.named(table, current)]) for table in tables]
        if decisions and all(decision.verdict is decisions[0].verdict for decision in decisions):
            return decisions[0]
        return Decision(Verdict.UNDECIDED, Step.UNKNOWN_TABLES)

    def _ask_database(self, statement: Statement) -> list[Decision]:
        # For CREATE, ALTER and DROP DATABASE MySQL asks the do-db and ignore-db rules about the rewritten name, and the
        # wild rules only when there are no such rules. MariaDB asks the database rules and then the wild rules, about
        # the name as written (tests/oracle/data/recordings/{mysql,mariadb}-databases).
        named = statement.database
        if named is None:
            # ALTER DATABASE without a name changes the current database.
            named = self.rewrite_db(statement.current_database or "")
        elif self.names.family == "mysql":
            named = self.rewrite_db(as_parsed(named, self.names.family))
        asked = [self._db(named)]
        settled = not asked[0].verdict.passes or (self.names.family == "mysql" and self.db_rules_on)
        if not settled and (self._wild_do or self._wild_ignore):
            asked.append(self._db_with_wild_table(named))
        return asked


_DB_STEPS = frozenset({Step.DO_DB, Step.IGNORE_DB})


def _yes(step: Step, rule: Rule | None = None, name: str | None = None) -> Decision:
    return Decision(Verdict.EXECUTE, step, rule, name)


def _no(step: Step, rule: Rule | None = None, name: str | None = None) -> Decision:
    return Decision(Verdict.IGNORE, step, rule, name)
