"""The servers' class ``Rpl_filter``: the filter of a slave, and the filter of the server that writes a binlog.

:class:`Filter` has the rules of ``--replicate-*``. The methods keep the server's names: :meth:`Filter.db_ok`,
:meth:`Filter.tables_ok`, :meth:`Filter.db_ok_with_wild_table`. The tests compare the filter with recorded answers of
real servers (tests/oracle/data). docs/filters.md describes the rules in words.

:class:`WriteFilter` has the rules of ``--binlog-do-db`` and ``--binlog-ignore-db``, which keep events out of the
binlog. This filter does what the servers' ``binlog_filter`` does with ``Rpl_filter::db_ok``
(``MYSQL_BIN_LOG::write_event``, MariaDB's ``MYSQL_BIN_LOG::write``, ``THD::decide_logging_format``). The default
database decides about a statement, and the table's database decides about row events. The named database decides about
CREATE, ALTER and DROP DATABASE, because a server logs the named database as their default database. The answers of real
servers are in tests/oracle/data/recordings/{mysql,mariadb}-write-*.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Hashable, Iterable
from dataclasses import dataclass
from typing import ClassVar

from dumpfilter.base.errors import OptionError
from dumpfilter.binlog.format import DEFAULT_NAMES, NameRules
from dumpfilter.binlog.statement.statement import Statement, StatementKind
from dumpfilter.filter.base import (
    Decision,
    KindFilter,
    ReplicationFilter,
    RuleFilter,
    Step,
    Verdict,
    WildRules,
    of_involved,
)
from dumpfilter.filter.collation import as_parsed
from dumpfilter.filter.effective import EffectiveFilter
from dumpfilter.filter.rules import (
    BaseRuleKind,
    EffectiveRuleKind,
    FilterSemantics,
    Rule,
    RuleKind,
    WriteRuleKind,
    WriteSemantics,
)
from dumpfilter.index.subjects import Subject, TableSubject


class _DatabaseFilter(RuleFilter):
    """The common base of :class:`Filter` (``--replicate-*`` rules) and :class:`WriteFilter` (``--binlog-*-db`` rules).
    It evaluates do-db and ignore-db rules as the server's class ``Rpl_filter`` does.
    """

    _DB_KINDS: ClassVar[tuple[BaseRuleKind, BaseRuleKind]]
    """The kinds of the do-db and ignore-db rules."""
    _DB_STEPS: ClassVar[tuple[Step, Step, Step, Step]]
    """The reasons for a decision: a do-db rule matches or none does, an ignore-db rule matches or none does."""

    def __init__(self, rules: Iterable[Rule], names: NameRules) -> None:
        super().__init__(rules, names=names)
        key = self._collation.database_rule
        self._do_db, self._ignore_db = (self._keyed(kind, key) for kind in self._DB_KINDS)

    def _keyed(self, kind: BaseRuleKind, key: Callable[[str], Hashable]) -> dict[Hashable, Rule]:
        # When several rules name the same database or table, the first rule must decide. A dictionary keeps the last
        # value of a key, so the rules are inserted in reversed order.
        return {key(rule.value): rule for rule in reversed(self._of(kind))}

    def _db(self, database: str | None) -> Decision:
        # As in Rpl_filter::db_ok, a server with do-db rules does not ask its ignore-db rules.
        name = database or ""
        key = self._collation.database(name)
        do, no_do, ignore, no_ignore = self._DB_STEPS
        if self._do_db:
            rule = self._do_db.get(key)
            return _yes(do, rule, name) if rule else _no(no_do, None, name)
        if self._ignore_db:
            rule = self._ignore_db.get(key)
            return _no(ignore, rule, name) if rule else _yes(no_ignore, None, name)
        return _yes(Step.NO_RULES, None, name)


class Filter(_DatabaseFilter):
    """An immutable set of ``--replicate-*`` rules, which decides what a slave is sent. A changed filter is a new
    object.

    When several ``--replicate-rewrite-db`` rules have the same FROM, the first wins.
    """

    _KINDS = RuleKind
    _PLACE = FilterSemantics.CLASSIC.place
    _DB_KINDS = (RuleKind.DO_DB, RuleKind.IGNORE_DB)
    _DB_STEPS = (Step.DO_DB, Step.NO_DO_DB, Step.IGNORE_DB, Step.NO_IGNORE_DB)

    def __init__(self, rules: Iterable[Rule] = (), *, names: NameRules = DEFAULT_NAMES) -> None:
        super().__init__(rules, names)
        collation = self._collation
        self._do_table = self._keyed(RuleKind.DO_TABLE, collation.table)
        self._ignore_table = self._keyed(RuleKind.IGNORE_TABLE, collation.table)
        self._wild_do = WildRules(self._of(RuleKind.WILD_DO_TABLE), collation)
        self._wild_ignore = WildRules(self._of(RuleKind.WILD_IGNORE_TABLE), collation)
        self._rewrite: dict[Hashable, str] = {}
        for rule in self._of(RuleKind.REWRITE_DB):
            source, target = rule.pair
            if names.family == "mariadb":
                # MariaDB reads TO up to the first space: a->x y renames to x (Rpl_filter::add_rewrite_db).
                target = re.split(r"[ \t-\r]", target, maxsplit=1)[0]
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

    def tables_ok(self, tables: Iterable[tuple[str, str]]) -> bool:
        """Tell whether the table rules pass a statement that updates the given tables (``Rpl_filter::tables_ok``).

        Each table is a pair of database and name. The first table that matches any rule decides. When no table matches,
        the statement passes unless there are do-table or wild-do-table rules. Without any table the result is False, as
        on a server.
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
        do = self._wild_do.rule(folded)
        return do, self._wild_ignore.rule(folded) if do is None else None

    def _passes_table_of(self, database: str) -> bool:
        """Tell whether the table rules may pass any table of a database. If not, they drop a DROP TRIGGER in this
        database, although the statement does not name its table.
        """
        begin = self._collation.folded(f"{database}.")
        if self._has_table_in(begin, RuleKind.DO_TABLE) or self._wild_do.may_match(begin):
            return True
        return not (self._do_table or self._wild_do or self._wild_ignore.matches_all(begin))

    def may_drop_rows_of(self, database: str) -> bool:
        begin = self._collation.folded(f"{database}.")
        if not self.db_ok(database) or self._has_table_in(begin, RuleKind.IGNORE_TABLE):
            return True
        if self._wild_do.matches_all(begin):
            return False
        return bool(self._do_table or self._wild_do) or self._wild_ignore.may_match(begin)

    def _has_table_in(self, begin: str, kind: RuleKind) -> bool:
        """Tell whether a rule of this kind names a table of a database. ``begin`` is the database's name with a dot
        after it, in which each character is replaced by its comparison key (:meth:`Collation.folded`).
        """
        return any(self._collation.folded(rule.value).startswith(begin) for rule in self._of(kind))

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

        The server first checks the database rules for the default database or the table's database. If they pass, the
        server checks the table rules for the table, or for each list of updated tables. A statement has at most one
        list, but a GRANT on a table has two: the table, and the grant tables. For CREATE, ALTER and DROP DATABASE the
        server instead checks the database rules for the named database, and then the wild rules for ``db.``. MySQL
        leaves out these wild rules if there are database rules. The last decision is the verdict.
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
            trigger = statement.dropped_trigger
            if trigger is not None and not self._passes_table_of(self.named(trigger, current)[0]):
                asked.append(_no(Step.NO_TABLE_OF_DATABASE))
            else:
                asked.append(self._decide_involved(statement, current))
        elif not statement.updated:
            asked.append(_yes(Step.NO_TABLE_ASKED))
        else:
            for number, tables in enumerate(statement.updated):
                # Rewrite rules rename the current database, and never a database that the text names.
                decision = self._tables(self.named(table, current) for table in tables)
                if number and statement.looks_first and not decision.verdict.passes:
                    # A server checks the filter on the grant tables of a GRANT only after it has found the granted
                    # table. The master does not know whether the slave has that table. If the table is missing, the
                    # slave must report its error, so the master must not drop the GRANT.
                    decision = decision._replace(verdict=Verdict.UNDECIDED)
                asked.append(decision)
                if not decision.verdict.passes or decision.verdict is Verdict.UNDECIDED:
                    break
        return asked

    def _decide_involved(self, statement: Statement, current: str | None) -> Decision:
        decisions = [self._tables([self.named(table, current)]) for table in statement.involved]
        return of_involved(statement, decisions) or Decision(Verdict.UNDECIDED, Step.UNKNOWN_TABLES)

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


class WriteFilter(_DatabaseFilter):
    """An immutable set of the rules by which a server keeps events out of its own binlog, for all slaves. A changed
    filter is a new object.

    The filter decides about each event itself (the verdict is never UNDECIDED), because the rules need only the event's
    database. A comma is part of a name, so ``a,b`` is one database.

    ``semantics`` is the treatment of statements without a default database. With SERVER, MySQL logs them, and MariaDB
    compares an empty database name with the rules. With WORKLOG, neither logs them if there are rules. Raises
    OptionError for rules other than ``--binlog-do-db`` and ``--binlog-ignore-db``.
    """

    _KINDS = WriteRuleKind
    _PLACE = "of the write side"
    _DB_KINDS = (WriteRuleKind.DO_DB, WriteRuleKind.IGNORE_DB)
    _DB_STEPS = (
        Step.BINLOG_DO_DB,
        Step.BINLOG_NO_DO_DB,
        Step.BINLOG_IGNORE_DB,
        Step.BINLOG_NO_IGNORE_DB,
    )

    def __init__(
        self,
        rules: Iterable[Rule] = (),
        *,
        semantics: WriteSemantics = WriteSemantics.SERVER,
        names: NameRules = DEFAULT_NAMES,
    ) -> None:
        super().__init__(rules, names)
        self.semantics = semantics

    @property
    def is_on(self) -> bool:
        """Whether the filter could drop any event. A filter without rules drops nothing."""
        return bool(self.rules)

    def decide(self, subject: Subject) -> Decision:
        if isinstance(subject, TableSubject):
            return self._db(subject.database)
        current = subject.current_database
        if current is None and subject.kind.is_database:
            current = subject.database
        if self.is_on and current is None:
            if self.semantics is WriteSemantics.WORKLOG:
                return Decision(Verdict.IGNORE, Step.BINLOG_NO_DB)
            if self.names.family == "mysql":
                return Decision(Verdict.EXECUTE, Step.BINLOG_NO_DB)
        return self._db(current)

    def hits(self, subject: Subject) -> tuple[BaseRuleKind, ...]:
        """Return an empty tuple, since servers count hits (matches) only for a slave's rules and not for
        binlog rules.
        """
        return ()


@dataclass(frozen=True)
class FilterOptions:
    """The filter options of a command, such as ``--replicate-do-db``, from which the command's filters are made.

    The filters are made later, when the binlog is open. Filters compare names as the server that wrote the binlog does,
    and only the binlog tells which server that is. The constructor raises OptionError for rules that no filter accepts.
    """

    rules: tuple[Rule, ...] = ()
    """The rules of the slave, such as ``--replicate-do-db=shop``."""
    semantics: FilterSemantics = FilterSemantics.CLASSIC
    write_rules: tuple[Rule, ...] = ()
    """The rules of the server that writes the binlog, such as ``--binlog-do-db=shop``."""
    write_semantics: WriteSemantics = WriteSemantics.SERVER
    only_kinds: tuple[str, ...] = ()
    """The kinds of statement that pass, from ``--statement-kind``. Empty: all kinds."""
    ignored_kinds: tuple[str, ...] = ()
    """The kinds of statement that are dropped, from ``--ignore-statement-kind``."""
    clever: bool = False
    """Whether the rules apply to renamed tables under their first name (the clever filter)."""
    lower_case_table_names: int = 0

    def __post_init__(self) -> None:
        self.kind_filter()
        self.slave_filter(NameRules())
        self.write_filter(NameRules())

    def slave_filter(self, written_by: NameRules) -> ReplicationFilter:
        """Return the slave's filter. ``written_by`` has the settings by which the server that wrote the binlog compares
        names.

        Raises OptionError when effective rules (DO, IGNORE, REWRITE) and classic rules (``--replicate-*``) are mixed.
        """
        return make_filter(self.semantics, self.rules, names=self._names(written_by))

    def write_filter(self, written_by: NameRules) -> ReplicationFilter:
        """Return the filter by which the server that wrote the binlog kept events out of it (``--binlog-do-db`` and the
        like).

        ``written_by`` has the settings by which this server compares names. Raises OptionError for a rule that the
        semantics ``write_semantics`` do not have. For example, worklog 2516's semantics (EFFECTIVE) have no
        ``--binlog-do-db``.
        """
        return make_write_filter(self.write_semantics, self.write_rules, names=self._names(written_by))

    def kind_filter(self) -> KindFilter:
        """Return the filter of the options ``--statement-kind`` and ``--ignore-statement-kind``, which drops statements
        by their kind, such as DROP TABLE.

        Raises OptionError for a kind that does not exist.
        """
        return KindFilter(self.only_kinds, self.ignored_kinds)

    def _names(self, written_by: NameRules) -> NameRules:
        return written_by._replace(lower_case_table_names=self.lower_case_table_names)


def make_filter(
    semantics: FilterSemantics,
    rules: Iterable[Rule],
    *,
    names: NameRules = DEFAULT_NAMES,
) -> ReplicationFilter:
    """Return a slave's filter with the given rules. ``names`` has the settings by which the filter compares names.

    Classic semantics take ``--replicate-*`` rules, and effective semantics take DO, IGNORE and REWRITE rules. Raises
    OptionError for a rule that does not belong to ``semantics``.
    """
    kind = EffectiveFilter if semantics is FilterSemantics.EFFECTIVE else Filter
    return kind(rules, names=names)


def make_write_filter(
    semantics: WriteSemantics,
    rules: Iterable[Rule],
    *,
    names: NameRules = DEFAULT_NAMES,
) -> ReplicationFilter:
    """Return the filter of the server that writes a binlog. The filter keeps events out of the binlog for all slaves.

    In effective semantics the rules are DO and IGNORE. REWRITE is missing, since a server renames nothing in its
    binlog. The other semantics take ``--binlog-do-db`` and ``--binlog-ignore-db``. Raises OptionError for other rules.

    >>> from dumpfilter.filter.rules import parse_option
    >>> rule = parse_option("--ignore=%_backup.table2", FilterSemantics.EFFECTIVE)
    >>> binlog = make_write_filter(WriteSemantics.EFFECTIVE, [rule])
    >>> binlog.rows_ok("shop_backup", "table2"), binlog.rows_ok("shop", "table2")
    (False, True)
    """
    rules = tuple(rules)
    if semantics is not WriteSemantics.EFFECTIVE:
        return WriteFilter(rules, semantics=semantics, names=names)
    for rule in rules:
        if not isinstance(rule.kind, EffectiveRuleKind) or not rule.kind.binlog_option:
            options = ", ".join(f"--{kind.binlog_option}" for kind in EffectiveRuleKind if kind.binlog_option)
            raise OptionError(
                f"unknown option '--{rule.kind.option}' in effective filter semantics; the binlog's are: {options}"
            )
    return EffectiveFilter(rules, names=names)
