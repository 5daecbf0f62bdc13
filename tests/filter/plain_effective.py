"""A plain second implementation of the effective filter by WL#2516 ("new semantics"), for comparison.

How names compare is :class:`tests.filter.plain.Names`' business, as for the classic filter's wild rules.
"""

from __future__ import annotations

from collections.abc import Sequence

from dumpfilter.binlog.statement.statement import Statement, StatementKind
from dumpfilter.filter.collation import weight
from dumpfilter.filter.rules import EffectiveRuleKind, Rule
from tests.filter.plain import Names, likely_tables


def at_the_dot(expression: str) -> tuple[str, str]:
    """Return the database's and the table's side, where "the dot between database and table is mandatory" (WL#2516)."""
    k = 0
    while expression[k] != ".":
        k += 2 if expression[k] == "\\" else 1
    return expression[:k], expression[k + 1 :]


def simple_pattern(text: str) -> list[str | None]:
    """Return one side of a REWRITE as characters, with None for ``%``."""
    made: list[str | None] = []
    k = 0
    while k < len(text):
        if text[k] == "\\" and k + 1 < len(text):
            k += 1
            made.append(text[k])
        else:
            made.append(None if text[k] == "%" else text[k])
        k += 1
    return made


class PlainEffectiveFilter:
    """The effective filter, by the worklog's steps. Answers are True (passes), False, or None (cannot be decided)."""

    def __init__(self, rules: Sequence[Rule], names: Names) -> None:
        self.names = names
        self.of = {kind: [r.value for r in rules if r.kind is kind] for kind in EffectiveRuleKind}
        self.any_rule = bool(rules)

    def matches(self, expression: str, database: str, table: str) -> bool:
        of_database, of_table = at_the_dot(expression)
        return self.names.wild(database, of_database) and self.names.wild(table, of_table)

    def written(self, database: str, table: str) -> bool:
        # 1. Are there any rules defined?
        if not self.any_rule:
            return True
        # 2. Is there any do expression that matches effective database and table?
        for expression in self.of[EffectiveRuleKind.DO]:
            if self.matches(expression, database, table):
                return True
        # 3. Is there any ignore expression that matches effective database and table?
        ignored = any(
            self.matches(expression, database, table) for expression in self.of[EffectiveRuleKind.IGNORE]
        )
        return not ignored

    def same(self, one: str, other: str) -> bool:
        """Tell whether two characters compare as equal."""
        if self.names.family == "mariadb":
            return weight(one, self.names.collation) == weight(other, self.names.collation)
        if self.names.lower:
            return self.names._lower(one) == self.names._lower(other)
        return one == other

    def renamed(self, name: str, source: str, target: str) -> str | None:
        """Return the new name on one side of a REWRITE's dot, by trying every part of the name for the ``%``."""
        pattern = simple_pattern(source)
        for begin in range(len(name) + 1):
            for end in range(begin, len(name) + 1):
                seen: list[str | None] = list(name)
                if None in pattern:
                    seen[begin:end] = [None]
                elif begin or end:
                    continue
                if len(seen) == len(pattern) and all(
                    (a is None and b is None) or (a is not None and b is not None and self.same(a, b))
                    for a, b in zip(seen, pattern, strict=True)
                ):
                    return "".join(name[begin:end] if c is None else c for c in simple_pattern(target))
        return None

    def rewrite_table(self, database: str, table: str) -> tuple[str, str]:
        for value in self.of[EffectiveRuleKind.REWRITE]:
            source, _, target = value.partition("->")
            (from_db, from_table), (to_db, to_table) = at_the_dot(source), at_the_dot(target)
            new_db = self.renamed(database, from_db, to_db)
            new_table = self.renamed(table, from_table, to_table)
            if new_db is not None and new_table is not None:
                return new_db, new_table
        return database, table

    def rewrite_db(self, database: str) -> str:
        for value in self.of[EffectiveRuleKind.REWRITE]:
            source, _, target = value.partition("->")
            (from_db, from_table), (to_db, to_table) = at_the_dot(source), at_the_dot(target)
            new_db = self.renamed(database, from_db, to_db)
            if from_table == "%" and to_table == "%" and new_db is not None:
                return new_db
        return database

    def rows(self, database: str, table: str) -> bool:
        """Tell whether row events of a table pass, given by its name on the master."""
        return self.written(*self.rewrite_table(database, table))

    def as_read(self, name: str) -> str:
        """Return a name in a text as the server's parser reads it."""
        return "".join("?" if ord(c) > 0xFFFF and self.names.family == "mysql" else c for c in name)

    def whole_database(self, name: str) -> bool:
        return self.written(self.rewrite_db(self.as_read(name)), "")

    def statement(self, statement: Statement) -> bool | None:
        """Tell whether a statement passes. In each list of tables one table that passes is enough."""
        current = statement.current_database or ""
        kind = statement.kind
        if kind in (
            StatementKind.CREATE_DATABASE,
            StatementKind.ALTER_DATABASE,
            StatementKind.DROP_DATABASE,
        ):
            return self.whole_database(current if statement.database is None else statement.database)
        trigger = statement.dropped_trigger
        if trigger is not None:
            database = current if trigger.database is None else self.as_read(trigger.database)
            values = [value for of_kind in self.of.values() for value in of_kind]
            if not any(self.rows(database, table) for table in likely_tables(values)):
                return False
        if statement.updated is None or kind is StatementKind.SELECT:
            return None if self.of[EffectiveRuleKind.IGNORE] else True
        if kind in (StatementKind.ROUTINE, StatementKind.EVENT):
            databases = statement.updated_databases or ()
            return not databases or any(self.whole_database(name) for name in databases)
        for names in statement.updated:
            written = []
            for name in names:
                database = current if name.database is None else self.as_read(name.database)
                written.append(self.rows(database, self.as_read(name.table)))
            if written and not any(written):
                return False
        return True
