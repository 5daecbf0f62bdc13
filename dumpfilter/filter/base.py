"""The interface of all filters, the answers of a filter, and the filters that stand around or beside other filters.

A filter is a set of rules that decides which events of a binlog a slave is sent. The filter's answer is a verdict
(send, drop or undecided), with a reason and the rule that decided. The filters with rules are the classic filter
(``--replicate-*`` rules), the effective filter (DO, IGNORE and REWRITE rules), and the filter of the server that writes
the binlog (``--binlog-do-db``).

A slave's own filter may send too much when in doubt, because the slave filters again. An imposed filter, which the
master's operator sets for a slave, is set against the slave's wish, so its decisions must be certain.
:class:`BoundaryFilter` is stricter than the rules alone in two points. This filter looks at the tables that a statement
writes even where the server's rules look only at the default database. And the filter says what happens to an event
that no filter can decide about.

CHANGE MASTER TO sets the filter by the origin of transactions (:class:`OriginFilter`) with ``IGNORE_SERVER_IDS``,
``DO_DOMAIN_IDS`` and ``IGNORE_DOMAIN_IDS``. The I/O thread of a MySQL or MariaDB slave checks every event that it
receives (MySQL: ``queue_event``, MariaDB: ``Domain_id_filter``). All events of a transaction have the server id of the
first event. So dumpfilter's master checks the first event only.
"""

from __future__ import annotations

import abc
import enum
import functools
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain
from typing import ClassVar, NamedTuple, Self

from dumpfilter.base.errors import OptionError
from dumpfilter.binlog.format import DEFAULT_NAMES, NameRules
from dumpfilter.binlog.query import TableName
from dumpfilter.binlog.statement.statement import Statement, StatementKind
from dumpfilter.filter.collation import Collation, as_parsed, collation_of
from dumpfilter.filter.rules import BaseRuleKind, Rule, WildSet, check_kind, parse_option_of, unique
from dumpfilter.index.subjects import Subject, TableSubject


class Verdict(enum.Enum):
    """The answers of a filter about a table's row events or a statement: EXECUTE (send), IGNORE (drop) and UNDECIDED
    (send, because only the slave can decide).
    """

    EXECUTE = "execute"
    IGNORE = "ignore"
    UNDECIDED = "undecided"
    """The master cannot tell, for example because the tables of a statement are unknown. The slave is sent the events
    and decides. Only an imposed filter (one that the master's operator sets) can also stop the dump at such events
    (:class:`OnUndecided`).
    """

    @property
    def passes(self) -> bool:
        """Whether the master sends the events: true for EXECUTE and UNDECIDED, false for IGNORE."""
        return self is not Verdict.IGNORE


class Step(enum.Enum):
    """The reasons for a filter's decision, such as "a do-db rule matches". The value of a member is a sentence for
    users.

    The reasons of the classic filter (``--replicate-*`` rules) are steps in the flow chart of the reference manual,
    "How Servers Evaluate Replication Filtering Rules".
    """

    NO_RULES = "There are no rules"
    DO_DB = "There are replicate-do-db rules, and the database matches one of them"
    NO_DO_DB = "There are replicate-do-db rules, and the database matches none of them"
    IGNORE_DB = "There are replicate-ignore-db rules, and the database matches one of them"
    NO_IGNORE_DB = "There are replicate-ignore-db rules, and the database matches none of them"
    DO_TABLE = "The table matches a replicate-do-table rule"
    IGNORE_TABLE = "The table matches a replicate-ignore-table rule"
    WILD_DO_TABLE = "The table matches a replicate-wild-do-table rule"
    WILD_IGNORE_TABLE = "The table matches a replicate-wild-ignore-table rule"
    NO_TABLE_MATCHED_DO = (
        "No table matches any rule, and there are replicate-do-table or replicate-wild-do-table rules"
    )
    NO_TABLE_MATCHED = (
        "No table matches any rule, and there are no replicate-do-table or replicate-wild-do-table rules"
    )
    NO_TABLE_ASKED = "The statement updates no table that the replicate-*-table rules are asked about"
    NONE_UPDATED = "The statement has tables and updates none of them"
    DB_WILD_DO = "The database, as 'db.', matches a replicate-wild-do-table rule"
    DB_WILD_IGNORE = "The database, as 'db.', matches a replicate-wild-ignore-table rule"
    DB_NO_WILD_DO = (
        "There are replicate-wild-do-table rules, and the database, as 'db.', matches none of them"
    )
    DB_NO_WILD = "The database, as 'db.', matches no replicate-wild-*-table rule"
    NO_TABLE_OF_DATABASE = (
        "The replicate-*-table rules pass no table of the trigger's database, whatever its name"
    )
    UNKNOWN_TABLES = "Which tables the statement updates cannot be told, so the slave decides"
    # The next members are the reasons of the effective filter (DO, IGNORE and REWRITE rules). They follow the "new
    # semantics" of WL#2516.
    EFFECTIVE_DO = "A DO expression matches the effective database and table"
    EFFECTIVE_IGNORE = "An IGNORE expression matches the effective database and table"
    EFFECTIVE_NEITHER = "No DO and no IGNORE expression matches the effective database and table"
    EFFECTIVE_NOTHING = "The statement has no effect on a database or a table"
    # The next members are the reasons of the filter --binlog-do-db and --binlog-ignore-db of the server that writes the
    # binlog.
    BINLOG_DO_DB = "There are binlog-do-db rules, and the database matches one of them"
    BINLOG_NO_DO_DB = "There are binlog-do-db rules, and the database matches none of them"
    BINLOG_IGNORE_DB = "There are binlog-ignore-db rules, and the database matches one of them"
    BINLOG_NO_IGNORE_DB = "There are binlog-ignore-db rules, and the database matches none of them"
    BINLOG_NO_DB = "There are binlog-*-db rules, and there is no current database"
    STATEMENT_KIND = "The kind of statement is among those asked for, or left out"
    NEVER_FILTERED = "Events of this kind are never filtered"
    # The next members are the reasons of an imposed filter that is stricter than its rules.
    WRITES_FORBIDDEN = "The statement writes only tables whose rows the imposed filter drops"
    WRITES_FORBIDDEN_TOO = "The statement writes tables whose rows the imposed filter drops, and other tables"


class Decision(NamedTuple):
    """A filter's verdict (send, drop or undecided) about a table's row events or a statement, with the reason, the rule
    that decided and the name that matched.
    """

    verdict: Verdict
    step: Step
    rule: Rule | None = None
    """The rule that decided. None when no rule matched, for example with do-db rules for other databases only."""
    name: str | None = None
    """The name that the filter compared with the rules, after rewrite rules have renamed it: a database, ``db.table``,
    or ``db.`` for a statement such as CREATE DATABASE. None if no name was compared.
    """


class ReplicationFilter(abc.ABC):
    """An immutable set of rules that decides whether the events of a table, or a statement, are sent to a slave. A
    changed filter is a new object.

    A subclass implements :meth:`decide`. All other methods derive their answers from its decisions.
    """

    rules: tuple[Rule, ...]
    names: NameRules

    @functools.cached_property
    def characters(self) -> int:
        """The total length of the texts of all rules, characters. The master estimates a filter's memory by it."""
        return sum(len(rule.value) for rule in self.rules)

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

    def asked(self, subject: Subject) -> list[Decision]:
        """Return the decisions that a server makes, one after another, about a table's row events or a statement. For
        example, it first decides by database rules, and then by table rules. The last decision has the verdict.
        """
        return [self.decide(subject)]

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
        """Return the database and the table that a name in a statement means.

        ``current`` is the default database, which a name without a database gets. None means that the session has no
        default database, and the returned database is then empty. Rewrite rules are not applied. If the filter compares
        names as MySQL does, characters outside utf8mb3 become ``?``, as in MySQL's parser. For MariaDB the characters
        stay.
        """
        family = self.names.family
        database = current or "" if name.database is None else as_parsed(name.database, family)
        return database, as_parsed(name.table, family)

    def hits(self, subject: Subject) -> tuple[BaseRuleKind, ...]:
        """Return the kinds of the rules (such as replicate-do-db) that match one Table_map event of a table, or a
        statement. The caller counts a hit (a use of a rule) for each kind in the result.

        A rule is hit when the filter evaluates the rule and the name matches. MySQL counts hits in the column
        ``replication_applier_filters.COUNTER``. A kind may be in the result more than once.
        """
        rule = self.decide(subject).rule
        return () if rule is None else (rule.kind,)

    def rows_ok(self, database: str, table: str) -> bool:
        """Tell whether the filter passes the row events of a table. ``database`` and ``table`` are the names on the
        master.
        """
        return self.verdict(TableSubject(database, table)) is Verdict.EXECUTE

    def may_drop_rows_of(self, database: str) -> bool:
        """Tell whether the filter may drop the row events of any table of the database. The result is True when in
        doubt. Rewrite rules are not applied. Only filters that the master's operator sets for a slave call this method,
        and they have no rewrite rules.
        """
        return self.is_on

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
        names: the settings by which names are compared. They are the settings of the server that wrote the binlog, with
            the slave's ``lower_case_table_names``.

    Raises OptionError for a ``lower_case_table_names`` other than 0, 1 and 2, and for a rule of another enumeration.
    """

    _KINDS: ClassVar[type[BaseRuleKind]]
    _PLACE: ClassVar[str]
    """The words that follow an option's name in the error about an option that does not belong to this type of filter,
    such as "in classic filter semantics".
    """

    def __init__(self, rules: Iterable[Rule] = (), *, names: NameRules = DEFAULT_NAMES) -> None:
        self.rules = unique(rules)
        for rule in self.rules:
            check_kind(rule.kind, self._KINDS, self._PLACE)
        self.names = names
        self._collation = collation_of(names)

    @classmethod
    def from_options(cls, options: Iterable[str], *, names: NameRules = DEFAULT_NAMES) -> Self:
        """Return a filter from rules that are written as options. Raises OptionError that names the first bad option.

        >>> from dumpfilter.filter.filter import Filter
        >>> Filter.from_options(["--replicate-do-db=shop"]).rows_ok("shop", "orders")
        True
        """
        return cls([parse_option_of(option, cls._KINDS, cls._PLACE) for option in options], names=names)

    def _of(self, kind: BaseRuleKind) -> list[Rule]:
        return [rule for rule in self.rules if rule.kind is kind]


class WildRules(WildSet):
    """Rules with LIKE patterns, with an index that quickly finds the first rule that a name matches. ``pattern`` is a
    function that returns the LIKE pattern to compare, given a rule's value.
    """

    def __init__(self, rules: list[Rule], collation: Collation, pattern: Callable[[str], str] = str) -> None:
        super().__init__([collation.units(pattern(rule.value)) for rule in rules], collation.unit)
        self._rules = rules

    def rule(self, text: str) -> Rule | None:
        """Return the first rule whose LIKE pattern a name matches, or None without a match. ``text`` is the name, in
        which the caller has replaced each character by its comparison key (collation weight).
        """
        number = self.first(text)
        return None if number is None else self._rules[number]


def of_involved(statement: Statement, decisions: list[Decision]) -> Decision | None:
    """Return the decision (send or drop) about a statement of which only a list of tables is known, and not which of
    them it updates (:attr:`Statement.involved`). ``decisions`` has one decision for each table of the list. The result
    is None if the statement is undecided, because the verdicts differ or the list is empty.
    """
    if len({decision.verdict for decision in decisions}) == 1:
        return decisions[0]
    if statement.kind is StatementKind.ACCOUNT and decisions and decisions[-1].verdict.passes:
        # MariaDB's SET DEFAULT ROLE changes mysql.global_priv, the last table. If the rules pass it, a replica never
        # drops the statement.
        return decisions[-1]
    return None


class FilterAround(ReplicationFilter):
    """The base class of filters that wrap another filter (``inner``), and have its rules.

    A subclass overrides some methods, for example to decide differently about row events. All other calls go to
    ``inner``.
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

    A slave uses this filter for a channel with ``FILTER_ON = 'MASTER'``. The master has already dropped all unwanted
    row events, since row events name their table. But the master also sends statements that it cannot decide, so the
    slave evaluates its rules for each statement.
    """

    def decide(self, subject: Subject) -> Decision:
        if isinstance(subject, TableSubject):
            return Decision(Verdict.EXECUTE, Step.NO_RULES, None, f"{subject.database}.{subject.table}")
        return super().decide(subject)


ROWS = "ROWS"
"""The word that stands for row events as a value of ``--statement-kind`` and ``--ignore-statement-kind``, although row
events are no statements."""


class KindFilter(ReplicationFilter):
    """A filter that passes or drops statements by their kind, such as DROP TABLE.

    Parameters:
        only: the names of the kinds that pass (:class:`StatementKind`'s, or :data:`ROWS` for row events). Empty: all
            kinds.
        ignored: the names of the kinds that the filter drops, even if ``only`` has them.

    A statement that the parser does not understand has the kind UNKNOWN. If ``only`` names other kinds but not UNKNOWN,
    the statement may be of a wanted kind. The verdict is then UNDECIDED, and the statement passes. Raises OptionError
    for a name that does not exist.
    """

    def __init__(self, only: Iterable[str] = (), ignored: Iterable[str] = ()) -> None:
        self.rules = ()
        self.names = NameRules()
        self._only = {kind_name(name, "--statement-kind") for name in only}
        self._ignored = {kind_name(name, "--ignore-statement-kind") for name in ignored}

    @property
    def is_on(self) -> bool:
        return bool(self._only or self._ignored)

    def decide(self, subject: Subject) -> Decision:
        name = ROWS if isinstance(subject, TableSubject) else subject.kind.value
        if name in self._ignored:
            verdict = Verdict.IGNORE
        elif not self._only or name in self._only:
            verdict = Verdict.EXECUTE
        else:
            verdict = Verdict.UNDECIDED if name == StatementKind.UNKNOWN.value else Verdict.IGNORE
        return Decision(verdict, Step.STATEMENT_KIND, None, name)


class AllFilters(FilterAround):
    """A combination of several filters, such as a slave's own filter and the filters that the master's operator set for
    the slave. An event passes only if each of the filters passes the event.

    If no filter drops the event and one of them cannot decide, the verdict is UNDECIDED. The first filter is the
    slave's own. Only the first filter renames databases and counts hits (matches of rules, which MySQL shows in
    COUNTER). Events that another filter drops never reach the slave, so they count no hit.
    """

    def __init__(self, filters: Sequence[ReplicationFilter]) -> None:
        super().__init__(filters[0])
        self._filters = [one for one in filters if one.is_on]
        self._others = [one for one in filters[1:] if one.is_on]
        self.rules = tuple(rule for one in filters for rule in one.rules)

    @property
    def is_on(self) -> bool:
        return bool(self._filters)

    def decide(self, subject: Subject) -> Decision:
        found = Decision(Verdict.EXECUTE, Step.NO_RULES)
        for one in self._filters:
            decision = one.decide(subject)
            if decision.verdict is Verdict.IGNORE:
                return decision
            if found.verdict is Verdict.EXECUTE:
                found = decision
        return found

    def hits(self, subject: Subject) -> tuple[BaseRuleKind, ...]:
        return super().hits(subject) if all(one.verdict(subject).passes for one in self._others) else ()


def kind_name(name: str, option: str) -> str:
    """Return the exact name of a kind of statement, such as ``DROP TABLE``, for a name that a user wrote.

    Case does not matter, and a dash or an underscore counts as a space. Raises OptionError that names ``option`` and
    lists all kinds.

    >>> kind_name("drop-table", "--statement-kind")
    'DROP TABLE'
    """
    wanted = " ".join(name.upper().replace("-", " ").replace("_", " ").split())
    names = [kind.value for kind in StatementKind] + [ROWS]
    if wanted not in names:
        raise OptionError(f"{option}={name}: there is no such kind; there are: {', '.join(names)}")
    return wanted


K = StatementKind


class OnUndecided(enum.Enum):
    """The choices for events about which a filter cannot decide: stop the dump, drop the event, or send it. A filter
    that the master's operator sets for a slave has one of these choices.
    """

    STOP = "stop"
    """The dump stops before the event's transaction, with an error that names the event."""
    DROP = "drop"
    """The master drops the event, and counts the event as undecided."""
    SEND = "send"
    """The master sends the event, and counts the event as undecided. The slave decides by the operator's rules, which
    the master tells the slave.
    """


_NAMES_ONLY = frozenset(
    [
        *(K.DROP_TABLE, K.TRUNCATE_TABLE, K.RENAME_TABLE, K.MAINTENANCE, K.FLUSH, K.DROP_INDEX),
        *(K.DROP_TRIGGER, K.CREATE_DATABASE, K.ALTER_DATABASE, K.DROP_DATABASE),
    ]
)
"""The kinds of statements whose texts hold names and no column values, such as DROP TABLE. A :class:`BoundaryFilter`
decides about them by its rules alone.
"""

_FORBIDS_DATABASE = frozenset(
    [Step.NO_DO_DB, Step.IGNORE_DB, Step.IGNORE_TABLE, Step.WILD_IGNORE_TABLE, Step.EFFECTIVE_IGNORE]
)
"""The reasons for a drop by which a filter forbids a whole database, with its routines.

The filter is asked about the rows of a table with an empty name in this database, and the reason of the answer is
compared with these. Other reasons, such as a missing do-table rule, forbid most tables of the database, but not its
routines.
"""


class BoundaryFilter(FilterAround):
    """A filter that the master's operator sets for a slave, so that the slave never gets the rows of some tables.

    Parameters:
        rule_filter: the rules, without rewrite rules.
        on_undecided: the treatment of events that the filter cannot decide about.
        name: the filter's name in the master's configuration, for errors.

    A table is forbidden when the rules drop its rows. The rules decide about a statement first. If a statement passes
    the rules but writes forbidden tables only, the filter drops the statement. A statement that writes forbidden and
    allowed tables is undecided, and so is a statement whose tables are unknown.

    The text of some kinds of statements, such as DROP TABLE, has names of tables but no column values. Such a text
    reveals no row, so the rules alone decide about the statement.
    """

    def __init__(
        self,
        rule_filter: ReplicationFilter,
        on_undecided: OnUndecided = OnUndecided.STOP,
        *,
        name: str = "",
    ) -> None:
        super().__init__(rule_filter)
        self.on_undecided = on_undecided
        self.name = name

    def decide(self, subject: Subject) -> Decision:
        """Decide about a table by the rules, and about a statement also by the tables that it writes. A table is
        forbidden when the rules drop its rows.

        A statement that the rules pass is dropped if it writes only forbidden tables. If it also writes other tables,
        or its tables are unknown, the verdict is UNDECIDED (the filter cannot decide), or IGNORE with OnUndecided.DROP.
        The rules alone decide about statements such as DROP TABLE, whose texts hold no column values.
        """
        if isinstance(subject, TableSubject):
            return super().decide(subject)
        decision = self._judge(subject)
        if self.on_undecided is OnUndecided.DROP and _is_open(decision, subject):
            return decision._replace(verdict=Verdict.IGNORE)
        return decision

    def is_undecided(self, subject: Subject) -> bool:
        """Tell whether the filter cannot decide about a statement, for example because its tables are unknown. The
        result for a table is always False.

        With ``on_undecided`` DROP, the verdict about such a statement is IGNORE, and the result is still True.
        """
        return not isinstance(subject, TableSubject) and _is_open(self._judge(subject), subject)

    def _judge(self, statement: Statement) -> Decision:
        decision = self.inner.decide(statement)
        tables = list(_written(statement))
        # ANALYZE TABLE … UPDATE HISTOGRAM … USING DATA quotes values of a column. It names a single table.
        names_only = statement.kind in _NAMES_ONLY and not (
            statement.kind is K.MAINTENANCE and len(tables) == 1
        )
        if not decision.verdict.passes or not self.is_on or names_only:
            return decision
        named = [self.named(name, statement.current_database) for name in tables]
        if tables:
            passes = {self.rows_ok(*table) for table in named}
        elif statement.updated is None or statement.kind in (K.ROUTINE, K.EVENT, K.SELECT):
            databases = statement.updated_databases
            if not databases and (databases is None or statement.kind is K.SELECT):
                # A stored function writes tables that the statement's text does not name.
                return Decision(Verdict.UNDECIDED, Step.UNKNOWN_TABLES)
            passes = {not self._forbids_database(name) for name in databases}
        else:
            return decision
        if passes == {False}:
            return Decision(Verdict.IGNORE, Step.WRITES_FORBIDDEN)
        used = set(statement.updated_databases or ())
        if (
            used.isdisjoint(database for database, _ in named)
            and used
            and all(map(self._forbids_database, used))
        ):
            # The event tells that the statement used forbidden databases only, and its text names tables in other
            # databases. A table of the text is then a view of a forbidden table.
            return Decision(Verdict.UNDECIDED, Step.UNKNOWN_TABLES)
        if False in passes:
            return Decision(Verdict.UNDECIDED, Step.WRITES_FORBIDDEN_TOO)
        if statement.kind is K.SELECT and any(map(self.inner.may_drop_rows_of, used)):
            # The stored function may write forbidden tables of an allowed database.
            return Decision(Verdict.UNDECIDED, Step.UNKNOWN_TABLES)
        return decision

    def _forbids_database(self, database: str) -> bool:
        rows = TableSubject(as_parsed(database, self.names.family), "")
        return self.decide(rows).step in _FORBIDS_DATABASE


def _is_open(decision: Decision, statement: Statement) -> bool:
    return decision.verdict is Verdict.UNDECIDED and statement.kind not in _NAMES_ONLY


def _written(statement: Statement) -> Iterator[TableName]:
    # An account statement writes grant tables, which stand in the last list. A list before it names the table to which
    # a privilege belongs.
    lists = statement.updated or ()
    return chain.from_iterable(lists[-1:] if statement.kind is K.ACCOUNT else lists)


@dataclass(frozen=True)
class OriginFilter:
    """The origin filter of a slave: the server ids and MariaDB domain ids whose transactions the slave wants.

    Parameters:
        ignore_server_ids: the servers whose transactions the slave does not want.
        do_domain_ids: the MariaDB domains that the slave wants. Empty: all domains.
        ignore_domain_ids: the MariaDB domains that the slave does not want.
        own_server_id: the slave's server id. In circular replication the slave's own transactions come back, and the
            slave does not want them. 0 (``--replicate-same-server-id``) keeps them. A binlog that the slave itself
            wrote keeps them, too, so that a slave can be rebuilt from its own binlog.

    Raises OptionError for ids out of range, and when both domain lists are given (MariaDB: error 1201).
    """

    ignore_server_ids: frozenset[int] = frozenset()
    do_domain_ids: frozenset[int] = frozenset()
    ignore_domain_ids: frozenset[int] = frozenset()
    own_server_id: int = 0

    def __post_init__(self) -> None:
        for name in ("ignore_server_ids", "do_domain_ids", "ignore_domain_ids"):
            ids = frozenset(getattr(self, name))
            object.__setattr__(self, name, ids)
            for number in ids:
                _check(name, number)
        _check("own_server_id", self.own_server_id)
        if self.do_domain_ids and self.ignore_domain_ids:
            raise OptionError(
                "DO_DOMAIN_IDS and IGNORE_DOMAIN_IDS cannot be given together: one of them must be empty"
            )

    @property
    def is_on(self) -> bool:
        """Whether the filter could drop any transaction. Without server ids and domain ids, no transaction is
        dropped.
        """
        return bool(
            self.ignore_server_ids or self.own_server_id or self.do_domain_ids or self.ignore_domain_ids
        )

    def unwanted_server_ids(self, writer: int) -> frozenset[int]:
        """Return the ids of the servers whose transactions the slave does not want from a binlog. They are the ids of
        IGNORE_SERVER_IDS and normally the slave's own id.

        ``writer`` is the id of the server that wrote the binlog, from its format description event. When the slave
        wrote the binlog itself, the slave wants its own transactions.
        """
        if self.own_server_id in (0, writer):
            return self.ignore_server_ids
        return self.ignore_server_ids | {self.own_server_id}

    def wants_domain(self, domain_id: int) -> bool:
        """Tell whether the slave wants transactions of a MariaDB domain, by its lists of domain ids."""
        if self.do_domain_ids:
            return domain_id in self.do_domain_ids
        return domain_id not in self.ignore_domain_ids

    def wants(self, server_id: int, domain_id: int | None, *, writer: int) -> bool:
        """Tell whether the slave wants a transaction, by the server and the domain that the transaction comes from.

        ``server_id`` is from the header of the transaction's first event. ``domain_id`` is None for MySQL. ``writer``
        is the id of the server that wrote the binlog. From its own binlog the slave also wants its own transactions.

        >>> OriginFilter(ignore_server_ids=frozenset({7})).wants(7, None, writer=1)
        False
        """
        if server_id in self.unwanted_server_ids(writer):
            return False
        return domain_id is None or self.wants_domain(domain_id)


def _check(name: str, number: int) -> None:
    if not 0 <= number < 1 << 32:
        raise OptionError(f"{name}: {number} is not between 0 and 4294967295")
