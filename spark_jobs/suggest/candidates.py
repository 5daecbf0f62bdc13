"""The candidate rules of a search: rules for a database, for a table, and for tables with a common name prefix."""

from __future__ import annotations

import re
from collections import defaultdict
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, replace

from dumpfilter.filter.rules import EffectiveRuleKind, FilterSemantics, Rule, RuleKind, escaped, make_rule
from dumpfilter.index.subjects import TableSubject

_ESCAPE = re.compile(r"""\\(?=[ntrbs"'\\]|$)|"|\n|\r""")
"""The characters that need an escape sequence in an option file: quotes, line ends, and a backslash that would begin
a sequence.
"""

_SEQUENCES = {"\\": r"\\", '"': r"\"", "\n": r"\n", "\r": r"\r"}

_PLAIN = re.compile(r"[^#'\"\s;]*")


def option_line(rule: Rule) -> str:
    r"""Return a rule as one line of an option file such as ``my.cnf``.

    A backslash before ``_`` or ``%`` is kept, because option files have no such escape sequence.

    >>> from dumpfilter.filter.rules import parse_option
    >>> print(option_line(parse_option(r"--replicate-wild-ignore-table=shop\_01.tmp\_%")))
    replicate-wild-ignore-table=shop\_01.tmp\_%
    >>> print(option_line(parse_option("--replicate-ignore-table=shop.a #1")))
    replicate-ignore-table="shop.a #1"
    """
    value = _ESCAPE.sub(lambda match: _SEQUENCES[match[0]], rule.value)
    if _PLAIN.fullmatch(rule.value) is None:
        value = f'"{value}"'
    return f"{rule.kind.option}={value}"


SYSTEM_SCHEMAS = frozenset({"mysql", "sys", "information_schema", "performance_schema"})
"""The servers' own schemas. A replica that ignores them can lose accounts and functions."""

MOST_OF_A_KIND = 60
"""The maximum number of candidate rules of each kind. The ones with the most bytes are chosen."""

_SHORTEST_PREFIX = 2
_PREFIX = re.compile(r"_|(?<=\D)(?=\d)")
"""The positions at which a common prefix of table names can end: after an underscore, and before a number."""


@dataclass(frozen=True)
class Candidate:
    """A rule that the search for suggestions tries: it ignores the tables of a database, one table, or tables with a
    common name prefix.
    """

    database: str | None
    """The database. None for all databases."""
    table: str | None
    """The table's name, or the tables' name prefix. None for all tables of the database."""
    is_prefix: bool
    tables: frozenset[TableSubject]
    """The tables of the set that the rule would drop."""
    keeps_database: bool = False
    """Whether the rule drops the database's tables but passes CREATE DATABASE.

    Routines, events and renamed tables need the database, and table rules do not drop them.
    """

    @property
    def breadth(self) -> int:
        """A penalty for wildcards in the rule: one for each wildcard in the pattern of tables, and two for a rule about
        all databases. Of two rules with equal effect the one with the lower value is better.
        """
        of_table = (self.table is None) + self.is_prefix + self.keeps_database
        return (self.database is None) * 2 + of_table

    def rule(self, semantics: FilterSemantics) -> Rule:
        r"""Return this candidate as a filter rule. Wildcards in names are escaped.

        ``semantics`` says whether the rule is one of the servers' ``--replicate-*`` options (classic) or one of MySQL's
        worklog 2516 (effective).

        >>> print(Candidate("shop_01", "tmp_", True, frozenset()).rule(FilterSemantics.CLASSIC))
        --replicate-wild-ignore-table=shop\_01.tmp\_%
        >>> print(Candidate("shop", None, False, frozenset()).rule(FilterSemantics.CLASSIC))
        --replicate-wild-ignore-table=shop.%
        >>> print(Candidate("shop", None, False, frozenset(), keeps_database=True).rule(FilterSemantics.CLASSIC))
        --replicate-wild-ignore-table=shop._%
        >>> print(Candidate("a_b", None, False, frozenset()).rule(FilterSemantics.EFFECTIVE))
        --ignore=a\_b.%
        """
        if (
            semantics is FilterSemantics.CLASSIC
            and None not in (self.database, self.table)
            and not self.is_prefix
        ):
            return make_rule(RuleKind.IGNORE_TABLE, f"{self.database}.{self.table}")
        database = "%" if self.database is None else escaped(self.database)
        table = "%" if self.table is None else escaped(self.table) + ("%" if self.is_prefix else "")
        if semantics is FilterSemantics.EFFECTIVE:
            # The first dot without a backslash separates the two patterns of an expression.
            return make_rule(EffectiveRuleKind.IGNORE, f"{database.replace('.', chr(92) + '.')}.{table}")
        # A server compares CREATE DATABASE as a name with an empty table.
        return make_rule(
            RuleKind.WILD_IGNORE_TABLE, f"{database}.{'_' if self.keeps_database else ''}{table}"
        )


def candidates(
    weights: Mapping[TableSubject, int], kept: Iterable[TableSubject] = ()
) -> list[tuple[Candidate, int]]:
    """Return the rules that a search for suggestions tries, each with the total bytes of the tables that the rule
    ignores.

    ``weights`` has the bytes of each table. No rule ignores a table in ``kept``. Of each kind of rules, the 60 with the
    most bytes are returned.
    """
    untouchable = set(kept)
    # A LIKE pattern is about the text db.table. With a dot in a name, a pattern can match tables that nobody means.
    has_dots = any("." in table.database or "." in table.table for table in weights)
    groups: dict[tuple[str | None, str | None, bool], set[TableSubject]] = defaultdict(set)
    for table in weights:
        prefixes = [table.table[: match.end()] for match in _PREFIX.finditer(table.table)]
        prefixes = [prefix for prefix in prefixes if len(prefix) >= _SHORTEST_PREFIX]
        groups[None, table.table, False].add(table)
        for prefix in prefixes:
            groups[None, prefix, True].add(table)
        if table.database.lower() in SYSTEM_SCHEMAS or not table.database:
            # No rule for all databases may match such a table by chance.
            untouchable.add(table)
            continue
        groups[table.database, None, False].add(table)
        if "." not in table.database:
            # A server takes the text before the first dot of a rule as the database.
            groups[table.database, table.table, False].add(table)
        for prefix in prefixes:
            groups[table.database, prefix, True].add(table)
    by_kind: dict[tuple[bool, bool, bool], list[tuple[Candidate, int]]] = defaultdict(list)
    for (database, name, is_prefix), tables in groups.items():
        is_pattern = is_prefix or database is None
        if (
            untouchable & tables
            or (is_pattern and len(tables) < 2)
            or (has_dots and (is_pattern or name is None))
        ):
            continue
        weight = sum(weights[each] for each in tables)
        candidate = Candidate(database, name, is_prefix, frozenset(tables))
        by_kind[database is None, name is None, is_prefix].append((candidate, weight))
        if name is None:
            by_kind[False, True, True].append((replace(candidate, keeps_database=True), weight))
    found: list[tuple[Candidate, int]] = []
    for same_kind in by_kind.values():
        same_kind.sort(key=lambda pair: (-pair[1], str(pair[0].rule(FilterSemantics.CLASSIC))))
        found += same_kind[:MOST_OF_A_KIND]
    return found
