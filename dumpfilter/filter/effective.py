"""The effective filter: DO, IGNORE and REWRITE of what a statement has an effect on (WL#2516, "new semantics").

It never asks for the current database, only for the databases and tables that are changed. docs/filters.md tells
what the worklog leaves open and how it is decided here.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Sequence
from itertools import chain

from dumpfilter.binlog.format import NameRules
from dumpfilter.filter.base import ReplicationFilter
from dumpfilter.filter.collation import Collation, as_parsed, collation_of
from dumpfilter.filter.decision import Decision, Step, Verdict
from dumpfilter.filter.rules import (
    BaseRuleKind,
    EffectiveRuleKind,
    FilterSemantics,
    Rule,
    parse_clause,
    parse_option,
    rewrite_literals,
    split_expression,
    unique,
)
from dumpfilter.filter.wild import WildSet
from dumpfilter.statement import Statement, StatementKind, TableName

_SEPARATOR = "\0"
"""Stands for the dot between database and table where patterns are matched: no name holds it, so that a ``%`` of one
side never reaches over into the other."""
_WILDCARD = re.compile(r"(?:\\.|[^\\%_])*[%_]", re.DOTALL)
_ESCAPED = re.compile(r"\\(.)", re.DOTALL)
_UNTOLD_TABLES = StatementKind.SELECT
"""SELECT and DO are logged for the functions in them, which change tables that the text does not name."""


class EffectiveFilter(ReplicationFilter):
    """An immutable set of DO, IGNORE and REWRITE rules; a changed filter is a new object.

    Parameters:
        rules: in any order; it does not matter, except that of several rewrites that match the first wins.
        lower_case_table_names: the slave's setting: 0 compares names as they are, 1 and 2 without case.
        family: whose way to compare names (that of its wild rules), where MySQL and MariaDB differ.
        names: the collation of MariaDB's wild rules, which is the server version's.

    Raises OptionError for rules of another kind.
    """

    def __init__(
        self,
        rules: Iterable[Rule] = (),
        *,
        names: NameRules = NameRules(),
    ) -> None:
        self.rules = unique(rules)
        self.names = names
        collation = collation_of(names)
        of: dict[BaseRuleKind, list[Rule]] = {kind: [] for kind in EffectiveRuleKind}
        for rule in self.rules:
            FilterSemantics.EFFECTIVE.check(rule.kind)
            of[rule.kind].append(rule)
        self._do = _Expressions(of[EffectiveRuleKind.DO], collation)
        self._ignore = _Expressions(of[EffectiveRuleKind.IGNORE], collation)
        self._rewrites = [_Rewrite(*rule.pair, collation) for rule in of[EffectiveRuleKind.REWRITE]]

    @classmethod
    def from_options(
        cls,
        options: Sequence[str],
        *,
        names: NameRules = NameRules(),
    ) -> EffectiveFilter:
        """A filter from ``--do=db1.%`` or ``DO='db1.%'`` and their kin; OptionError names the first bad one.

        >>> rules = EffectiveFilter.from_options(["DO='abc.%'", "IGNORE='%.EFG'", "--ignore=%.%"])
        >>> rules.rows_ok("abc", "EFG"), rules.rows_ok("xyz", "t")
        (True, False)
        """
        return cls(
            [
                parse_option(option, FilterSemantics.EFFECTIVE)
                if option.startswith("-")
                else parse_clause(option)
                for option in options
            ],
            names=names,
        )

    @property
    def is_on(self) -> bool:
        """Whether there is an IGNORE rule: DO makes exceptions from them, REWRITE drops nothing."""
        return bool(self._ignore)

    def rewrite_db(self, database: str) -> str:
        """The name on the slave of a statement's current database: by the first whole-database rewrite
        (``db1.%->db2.%``) that matches; a text's tables cannot be renamed one by one."""
        names = (rewrite.database(database) for rewrite in self._rewrites if rewrite.whole_database)
        return next((name for name in names if name is not None), database)

    def rewrite_table(self, database: str, table: str) -> tuple[str, str]:
        names = (rewrite.names(database, table) for rewrite in self._rewrites)
        return next((name for name in names if name is not None), (database, table))

    def decide_rows(self, database: str, table: str) -> Decision:
        return self._decide(*self.rewrite_table(database, table))

    def decide_statement(self, statement: Statement) -> Decision:
        """A statement is written when in each of its lists at least one table is written: what is wanted of it
        is never lost, at the price of changes that are not wanted. Row events have each its own table.
        """
        if not self.rules:
            return Decision(Verdict.EXECUTE, Step.NO_RULES)
        current = statement.current_database or ""
        if statement.kind.is_database:
            return self._decide_database(current if statement.database is None else statement.database)
        if statement.updated is None or statement.kind is _UNTOLD_TABLES:
            involved = [self._decide_named(name, current) for name in statement.involved]
            if involved and len({decision.verdict for decision in involved}) == 1:
                return involved[0]  # whichever of them it updates
            if self.is_on:
                return Decision(Verdict.UNDECIDED, Step.UNKNOWN_TABLES)
            return Decision(Verdict.EXECUTE, Step.EFFECTIVE_NEITHER)  # or DO: without IGNORE it is the same
        if statement.kind in (StatementKind.ROUTINE, StatementKind.EVENT):
            return _written_if_any(self._decide_database(name) for name in statement.updated_databases or ())
        decisions = [
            _written_if_any(self._decide_named(name, current) for name in names)
            for names in statement.updated
        ]
        ignored = (decision for decision in decisions if not decision.verdict.passes)
        return next(chain(ignored, decisions), _NOTHING)

    def hits_rows(self, database: str, table: str) -> tuple[BaseRuleKind, ...]:
        """The kind of the rule that decides, after REWRITE when the table is renamed."""
        hits = super().hits_rows(database, table)
        renamed = any(rewrite.names(database, table) is not None for rewrite in self._rewrites)
        return (EffectiveRuleKind.REWRITE, *hits) if renamed else hits

    def hits_statement(self, statement: Statement) -> tuple[BaseRuleKind, ...]:
        """The kind of the rule that decides, after REWRITE when the current database is renamed."""
        hits = super().hits_statement(statement)
        current = statement.current_database
        renamed = current is not None and self.rewrite_db(current) != current
        return (EffectiveRuleKind.REWRITE, *hits) if renamed else hits

    def _decide_named(self, name: TableName, current: str) -> Decision:
        """A table by its name in a statement's text."""
        database = current if name.database is None else as_parsed(name.database, self.names.family)
        return self._decide(*self.rewrite_table(database, as_parsed(name.table, self.names.family)))

    def _decide_database(self, name: str) -> Decision:
        """A whole database: ``db.``, with no table after the dot."""
        return self._decide(self.rewrite_db(as_parsed(name, self.names.family)), "")

    def _decide(self, database: str, table: str) -> Decision:
        """The worklog's three steps, of an effective (rewritten) name."""
        name = f"{database}.{table}"
        if not self.rules:
            return Decision(Verdict.EXECUTE, Step.NO_RULES, None, name)
        if (rule := self._do.first(database, table)) is not None:
            return Decision(Verdict.EXECUTE, Step.EFFECTIVE_DO, rule, name)
        if (rule := self._ignore.first(database, table)) is not None:
            return Decision(Verdict.IGNORE, Step.EFFECTIVE_IGNORE, rule, name)
        return Decision(Verdict.EXECUTE, Step.EFFECTIVE_NEITHER, None, name)


_NOTHING = Decision(Verdict.EXECUTE, Step.EFFECTIVE_NOTHING)


def _written_if_any(decisions: Iterable[Decision]) -> Decision:
    """The first that writes, else the first that does not; of none: nothing is changed, so it is written."""
    made = list(decisions)
    written = (decision for decision in made if decision.verdict.passes)
    return next(chain(written, made), _NOTHING)


class _Expressions:
    """The DO or the IGNORE rules: which of them does an effective name match?

    Those of whole databases (``db1.%``) are looked up, not matched (WL#2516, notes: "separately store all ignored
    databases so that there is no need to do real matching each time").
    """

    def __init__(self, rules: Iterable[Rule], collation: Collation) -> None:
        self._collation = collation
        self._databases: dict[str, Rule] = {}
        self._matched: list[Rule] = []
        patterns = []
        for rule in rules:
            sides = split_expression(rule.value)
            assert sides is not None  # make_rule saw to it
            database, table = sides
            if table == "%" and not _WILDCARD.match(database):
                self._databases.setdefault("".join(self._folded(_ESCAPED.sub(r"\1", database))), rule)
            else:
                self._matched.append(rule)
                patterns.append(collation.units(f"{database}{_SEPARATOR}{table}"))
        self._patterns = WildSet(patterns, collation.unit)

    def __bool__(self) -> bool:
        return bool(self._databases or self._matched)

    def first(self, database: str, table: str) -> Rule | None:
        """A rule that the name matches, if any does."""
        folded = self._folded(database)
        whole = self._databases.get("".join(folded))
        if whole is not None or not self._matched:
            return whole
        number = self._patterns.first([*folded, *self._folded(f"{_SEPARATOR}{table}")])
        return None if number is None else self._matched[number]

    def _folded(self, name: str) -> list[str]:
        return [self._collation.unit(c) for c in self._collation.units(name)]


class _Rewrite:
    """One REWRITE: new names for what matches FROM."""

    def __init__(self, source: str, target: str, collation: Collation) -> None:
        of, to = split_expression(source), split_expression(target)
        assert of is not None  # make_rule saw to both
        assert to is not None
        self.database = _renamer(of[0], to[0], collation)
        self._table = _renamer(of[1], to[1], collation)
        self.whole_database = of[1] == to[1] == "%"
        """Whether it renames a database and nothing in it."""

    def names(self, database: str, table: str) -> tuple[str, str] | None:
        """The new names; None when FROM does not match."""
        new_database = self.database(database)
        if new_database is None:
            return None
        new_table = self._table(table)
        return None if new_table is None else (new_database, new_table)


def _renamer(source: str, target: str, collation: Collation) -> Callable[[str], str | None]:
    """One side of a REWRITE's dot: from a name to its new name, or to None when it does not match."""

    def folded(name: str) -> str:
        return "".join(map(collation.unit, name))  # one for each character, so that places stay the same

    head, *tails = (folded(literal) for literal in rewrite_literals(source))
    new = rewrite_literals(target)

    def renamed(name: str) -> str | None:
        seen = folded(name)
        if not tails:
            return new[0] if seen == head else None
        (tail,) = tails
        if len(seen) < len(head) + len(tail) or not (seen.startswith(head) and seen.endswith(tail)):
            return None
        return name[len(head) : len(name) - len(tail)].join(new)

    return renamed
