"""The comparison of two classic filters: whether one filter passes something that another filter drops.

:func:`passes_beyond` makes names of databases and tables from the rules of both filters, and lets both filters decide
about events with these names. A name in a rule is used itself. A pattern gives names whose wildcards are filled with a
letter that no rule has. If all patterns are for different databases, these names are representative of all names
without dots, so that the answers are complete. Otherwise only the lists of rules can show that there is no difference.
"""

from __future__ import annotations

import enum
import functools
import string
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass
from itertools import chain, combinations, islice, product

from dumpfilter.binlog.format import NameRules
from dumpfilter.binlog.query import TableName
from dumpfilter.binlog.statement.statement import Statement, StatementKind, TableLists
from dumpfilter.filter.base import Decision, ReplicationFilter, Step, Verdict
from dumpfilter.filter.collation import characters_alike, collation_of
from dumpfilter.filter.filter import Filter
from dumpfilter.filter.rules import ANY, MANY, Rule, RuleKind, ValueForm, wild_tokens
from dumpfilter.index.subjects import Subject, TableSubject

MOST_EVENTS = 10_000
"""The limit of events that both filters decide about in a comparison, which take about a second."""
_MOST_REMEMBERED = 256
"""The number of cached results of comparisons."""
_MOST_ALIKE = 3
"""The number of other spellings of a name, equal in MariaDB's collation, with which two filters are compared."""


class Beyond(enum.Enum):
    """The answers to the question whether one filter passes an event that another filter drops."""

    NOTHING = "nothing"
    """The first filter passes no event that the second filter drops."""
    SOMETHING = "something"
    UNKNOWN = "unknown"
    """The filters cannot be compared: different semantics, too many rules, or patterns that may match common names."""


@dataclass(frozen=True)
class Difference:
    """The result of :func:`passes_beyond`: whether a filter passes events that another filter drops, with an example of
    such an event.
    """

    beyond: Beyond
    example: str = ""
    """An event that the first filter passes and the second one drops, such as ``rows of shop.orders``."""
    rule: Rule | None = None
    """The rule by which the second filter drops the example. None: the second filter drops the example because none of
    its rules keeps it.
    """


_NOTHING, _UNKNOWN = Difference(Beyond.NOTHING), Difference(Beyond.UNKNOWN)


def passes_beyond(one: ReplicationFilter, other: ReplicationFilter) -> Difference:
    """Tell whether the filter ``one`` passes rows or statements that the filter ``other`` drops, and give an example.

    The answer is UNKNOWN if one filter has classic rules (``--replicate-*``) and the other effective rules (DO, IGNORE,
    REWRITE), or if the filters compare names differently. The answer is also UNKNOWN if the tried events show no
    difference and do not represent all events.

    >>> shop = Filter.from_options(["--replicate-do-db=shop"])
    >>> both = Filter.from_options(["--replicate-do-db=shop", "--replicate-do-db=hr"])
    >>> passes_beyond(both, shop).example, passes_beyond(shop, both).beyond.value
    ("statements with the current database 'hr'", 'nothing')
    """
    if not other.is_on or (
        type(one) is type(other) and one.rules == other.rules and one.names == other.names
    ):
        return _NOTHING
    if not isinstance(one, Filter) or not isinstance(other, Filter) or one.names != other.names:
        return _UNKNOWN
    return _compared(one.rules, other.rules, one.names)


@functools.lru_cache(_MOST_REMEMBERED)
def _compared(one: tuple[Rule, ...], other: tuple[Rule, ...], names: NameRules) -> Difference:
    # A master compares the same two filters again and again, each time that it looks at a replica.
    first, second = Filter(one, names=names), Filter(other, names=names)
    if _is_narrower(first, second):
        return _NOTHING
    witnesses = _Witnesses(first, second)
    events = witnesses.events()
    for text, subject in islice(events, MOST_EVENTS):
        decision = second.decide(subject)
        if not decision.verdict.passes and first.verdict(subject).passes:
            return Difference(Beyond.SOMETHING, text, decision.rule)
    is_complete = next(events, None) is None and witnesses.are_complete
    return _NOTHING if is_complete else _UNKNOWN


def _is_narrower(one: Filter, other: Filter) -> bool:
    """Tell whether the lists of rules alone prove that ``one`` passes nothing that ``other`` drops.

    The lists prove this when every do rule of ``one`` is in ``other``, and every ignore rule of ``other`` is in
    ``one``. False means that the lists prove nothing.
    """
    for kind in RuleKind:
        mine, theirs = ([rule.value for rule in side.rules if rule.kind is kind] for side in (one, other))
        if kind.is_rewrite:
            is_narrower = mine == theirs
        elif kind in (RuleKind.DO_DB, RuleKind.DO_TABLE, RuleKind.WILD_DO_TABLE):
            is_narrower = set(mine) <= set(theirs)
        else:
            is_narrower = set(mine) >= set(theirs)
        # A filter without do rules passes what no rule names. MySQL asks no wild rules about CREATE DATABASE when there
        # are rules for databases.
        has_alike = bool(mine) == bool(theirs) or kind in (RuleKind.IGNORE_TABLE, RuleKind.WILD_IGNORE_TABLE)
        if not is_narrower or not has_alike:
            return False
    return True


_Event = tuple[str, Subject]
"""An event about which two filters may decide differently: a text that describes it, and a statement or a table (for
its rows).
"""


class _Witnesses:
    """Representative names of databases and tables for the rules of two filters, and the events with these names.

    A comparison cannot try all possible names. Instead, both filters decide about these events, and the comparison
    looks for an event that the first filter passes and the second drops.
    """

    def __init__(self, one: Filter, other: Filter) -> None:
        self._sides = one, other
        rules = tuple(dict.fromkeys((*one.rules, *other.rules)))
        wild = [rule.value for rule in rules if rule.kind.form is ValueForm.WILD_TABLE]
        used = {character.lower() for rule in rules for character in rule.value}
        free = [
            character for character in string.ascii_letters + string.digits if character.lower() not in used
        ]
        filling = free[0] if free else "a"
        pairs = [(filling, filling)]
        for rule in rules:
            if rule.kind.form is ValueForm.DATABASE:
                pairs.append((rule.value, filling))
            elif rule.kind.is_rewrite:
                pairs += [(side, filling) for side in rule.pair]
            elif rule.kind.form is ValueForm.TABLE:
                pairs.append(_split(rule.value))
            else:
                pairs += [_split(_filled(rule.value, filling * length)) for length in range(3)]
        if one.names.family == "mariadb":
            pairs += [alike for pair in pairs for alike in _alike(pair, one.names)]
        self._pairs = list(dict.fromkeys(pair for pair in pairs if all(pair)))
        self._databases = list(dict.fromkeys(database for database, _ in pairs if database))
        self._tables = list(dict.fromkeys(table for _, table in pairs if table))
        self._sources = {rule.pair[0] for rule in rules if rule.kind.is_rewrite}
        # Names that compare as equal may have other lengths in bytes, on which some of MariaDB's rules depend.
        is_plain = one.names.family == "mysql" or all(rule.value.isascii() for rule in rules)
        self.are_complete = bool(free) and is_plain and _are_apart(wild, one.names)
        """Whether the names represent all names without dots, so that two filters that agree about them agree about
        all.
        """

    def events(self) -> Iterator[_Event]:
        """Yield the events about which both filters decide in the comparison, each with a text that describes it. The
        events have all combinations of names that represent the rules' databases and tables. Events with the names of
        one rule come first.
        """
        for database in ("", *self._databases):
            text = f"statements with the current database {database!r}"
            yield text, _statement(database, updated=())
        tables = dict.fromkeys(chain(self._pairs, product(self._databases, self._tables)))
        for database, table in tables:
            yield f"rows of {database}.{table}", TableSubject(database, table)
        yield from self._statements([TableName(*pair) for pair in islice(tables, MOST_EVENTS)])

    def _statements(self, tables: Sequence[TableName]) -> Iterator[_Event]:
        """Yield statements on one or two of the ``tables``, and CREATE DATABASE statements, each with a text that
        describes it. The statements have only default databases that both compared filters pass, so that the tables
        decide.
        """
        both = [
            database
            for database in ("", *self._databases)
            if all(side.verdict(_statement(database, updated=())).passes for side in self._sides)
        ]
        renamed = [database for database in both[1:] if database in self._sources]
        for current in both[:1] + renamed:
            # A table without a database in front belongs to the current one, after the rewrite rules, or to none.
            is_other = not current or current in renamed
            own = [TableName(None, table) for table in self._tables] if is_other else []
            for updated in self._lists([*own, *tables], current):
                shown = ", ".join(f"{table.database or current}.{table.table}" for table in updated)
                yield f"statements that update {shown}", _statement(current, updated=(updated,))
            for database in self._databases:
                created = _statement(current, StatementKind.CREATE_DATABASE, database)
                yield f"CREATE DATABASE {database}", created

    def _lists(self, tables: Iterable[TableName], current: str) -> Iterator[tuple[TableName, ...]]:
        """Yield lists of one or two of the ``tables``, as a statement with the default database ``current`` may update
        them.

        Only one table stands for all tables that get the same two answers, one from each filter. A filter decides about
        a list by the first table that matches a rule, so longer lists would show no other difference.
        """
        found: dict[object, TableName] = {}
        for table in tables:
            statement = _statement(current, updated=((table,),))
            found.setdefault(tuple(_answer(side.decide(statement)) for side in self._sides), table)
        for table in found.values():
            yield (table,)
        for first, second in combinations(found.values(), 2):
            yield first, second
            yield second, first


def _answer(decision: Decision) -> Verdict | None:
    """Return the verdict (such as EXECUTE or IGNORE) of a decision about a statement on a single table. Return None
    when no rule matches the table, so that in a longer list of tables the next table decides.
    """
    is_matched = decision.step not in (Step.NO_TABLE_MATCHED, Step.NO_TABLE_MATCHED_DO)
    return decision.verdict if is_matched else None


def _statement(
    current: str,
    kind: StatementKind = StatementKind.UPDATE,
    database: str | None = None,
    *,
    updated: TableLists = (),
) -> Statement:
    return Statement(kind, current or None, database, updated=updated)


def _split(name: str) -> tuple[str, str]:
    database, _, table = name.partition(".")
    return database, table


def _filled(pattern: str, text: str) -> str:
    """Return a name that matches a LIKE pattern. ``text`` replaces each ``%``. The first character of ``text`` (``a``
    for an empty text) replaces each ``_``.
    """
    one = text[:1] or "a"
    return "".join({ANY: one, MANY: text}.get(token, token) for token in wild_tokens(pattern))


def _alike(pair: tuple[str, str], names: NameRules) -> Iterator[tuple[str, str]]:
    """Yield other spellings of a table's name ``pair`` (database and table), with characters that are equal in
    MariaDB's collation. MariaDB treats these spellings as equal in table rules, but not in database rules.
    """
    for number in range(_MOST_ALIKE):
        database, table = (
            "".join(alike[number] if len(alike := characters_alike(c, names)) > number else c for c in name)
            for name in pair
        )
        yield database, table
        yield pair[0], table
        yield database, pair[1]


def _are_apart(patterns: Iterable[str], names: NameRules) -> bool:
    """Tell whether the LIKE patterns (for ``db.table``) are all for different databases, whose names are without
    wildcards. If so, no table matches two of the patterns.

    ``names`` has the settings by which the server compares names.
    """
    collation = collation_of(names)
    databases = []
    for pattern in dict.fromkeys(patterns):
        tokens = wild_tokens(collation.units(pattern), collation.unit)
        databases.append("".join(tokens[: tokens.index(".")]))
    is_plain = not any(wildcard in database for database in databases for wildcard in (ANY, MANY))
    return is_plain and len(set(databases)) == len(databases)
