"""A plain second implementation of the classic filter by the manual (WL#2516, "current semantics"), for comparison.

Facts that only recordings of servers tell are in :class:`Names` (how names compare) and :func:`database_statement`.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from itertools import combinations

from dumpfilter.binlog.statement.statement import Statement, StatementKind
from dumpfilter.filter.collation import NameCollation, weight
from dumpfilter.filter.rules import Rule, RuleKind


def naive_match(pattern: Sequence[object], name: Sequence[object]) -> bool:
    """Match a wild pattern by its definition. Elements are ("any",), ("one",) or ("is", character)."""
    if not pattern:
        return not name
    head, rest = pattern[0], pattern[1:]
    if head == ("any",):
        return any(naive_match(rest, name[k:]) for k in range(len(name) + 1))
    if not name:
        return False
    return (head == ("one",) or head == ("is", name[0])) and naive_match(rest, name[1:])


def parse_pattern(text: Sequence[str]) -> list[tuple[str, ...]]:
    """Return the elements of a pattern with ``%``, ``_`` and backslash."""
    made: list[tuple[str, ...]] = []
    k = 0
    while k < len(text):
        if text[k] == "\\" and k + 1 < len(text):
            made.append(("is", text[k + 1]))
            k += 1
        elif text[k] == "%":
            made.append(("any",))
        elif text[k] == "_":
            made.append(("one",))
        else:
            made.append(("is", text[k]))
        k += 1
    return made


def likely_tables(values: Sequence[str]) -> set[str]:
    """Return names of tables on which rules with these values may differ: what each value can end in, and one more."""
    ends = {"another"}
    for value in values:
        text = "".join(
            rest[0] if rest else {"any": "", "one": "x"}[kind] for kind, *rest in parse_pattern(value)
        )
        ends |= {text[begin:] for begin in range(len(text))}
    return ends


@dataclass(frozen=True)
class Names:
    """The comparison of names of one server."""

    family: str = "mysql"
    lower: bool = False
    collation: NameCollation = NameCollation.GENERAL_CI

    def _weights(self, name: str) -> list[str]:
        return [weight(c, self.collation) for c in name]

    def _lower(self, name: str) -> str:
        return "".join(c.lower() if len(c.lower()) == 1 else c for c in name)

    def databases(self, name: str, rule: str) -> bool:
        if self.family == "mariadb":
            return (name.lower() if self.lower else name) == rule
        return name == rule or (self.lower and self._lower(name) == self._lower(rule))

    def tables(self, name: str, rule: str) -> bool:
        if self.family == "mariadb":
            old = self.collation is NameCollation.GENERAL_CI
            return (
                not old
                or len(name.encode("utf-8", "surrogateescape"))
                == len(rule.encode("utf-8", "surrogateescape"))
            ) and self._weights(name) == self._weights(rule)
        return self.databases(name, rule)

    def wild(self, name: str, rule: str) -> bool:
        if self.family == "mariadb":
            pattern = [
                (e[0], weight(e[1], self.collation)) if e[0] == "is" else e for e in parse_pattern(rule)
            ]
            return naive_match(pattern, self._weights(name))
        if self.lower:
            return naive_match(parse_pattern(self._lower(rule)), self._lower(name))
        units = [bytes([b]).decode("latin-1") for b in rule.encode("utf-8", "surrogateescape")]
        bytes_of_name = [bytes([b]).decode("latin-1") for b in name.encode("utf-8", "surrogateescape")]
        return naive_match(parse_pattern(units), bytes_of_name)


class PlainFilter:
    """The classic filter, by the manual's steps."""

    def __init__(self, rules: Sequence[Rule], names: Names) -> None:
        self.names = names
        self.of = {kind: [rule.value for rule in rules if rule.kind is kind] for kind in RuleKind}
        self.table_rules = any(
            self.of[kind]
            for kind in (
                RuleKind.DO_TABLE,
                RuleKind.IGNORE_TABLE,
                RuleKind.WILD_DO_TABLE,
                RuleKind.WILD_IGNORE_TABLE,
            )
        )

    def rewrite(self, database: str) -> str:
        for value in self.of[RuleKind.REWRITE_DB]:
            source, target = value.split("->")
            if self.names.databases(database, source):
                return target.split()[0] if self.names.family == "mariadb" else target
        return database

    def db_ok(self, database: str | None) -> bool:
        name = database or ""
        if self.of[RuleKind.DO_DB]:
            return any(self.names.databases(name, rule) for rule in self.of[RuleKind.DO_DB])
        return not any(self.names.databases(name, rule) for rule in self.of[RuleKind.IGNORE_DB])

    def _first_rule(self, name: str) -> bool | None:
        for kind, compare, answer in (
            (RuleKind.DO_TABLE, self.names.tables, True),
            (RuleKind.IGNORE_TABLE, self.names.tables, False),
            (RuleKind.WILD_DO_TABLE, self.names.wild, True),
            (RuleKind.WILD_IGNORE_TABLE, self.names.wild, False),
        ):
            for rule in self.of[kind]:
                if compare(name, rule):
                    return answer
        return None

    def tables_ok(self, tables: Sequence[tuple[str, str]]) -> bool:
        for database, table in tables:
            answer = self._first_rule(f"{database}.{table}")
            if answer is not None:
                return answer
        if not tables:
            return False
        return not (self.of[RuleKind.DO_TABLE] or self.of[RuleKind.WILD_DO_TABLE])

    def db_ok_with_wild_table(self, database: str) -> bool:
        for kind, answer in ((RuleKind.WILD_DO_TABLE, True), (RuleKind.WILD_IGNORE_TABLE, False)):
            if any(self.names.wild(f"{database}.", rule) for rule in self.of[kind]):
                return answer
        return not self.of[RuleKind.WILD_DO_TABLE]

    def rows(self, database: str, table: str) -> bool:
        """Tell whether row events of a table pass, given by its name on the master."""
        database = self.rewrite(database)
        return self.db_ok(database) and (not self.table_rules or self.tables_ok([(database, table)]))

    def statement(self, statement: Statement) -> bool | None:
        """Tell whether a statement passes. None when the answer depends on tables that are not known."""
        current = statement.current_database
        if not self.db_ok(None if current is None else self.rewrite(current)):
            return False
        if statement.kind.is_database:
            return database_statement(self, statement)
        if not self.table_rules:
            return True
        trigger = statement.dropped_trigger
        if trigger is not None:
            database = self._database_of(trigger.database, current)
            values = [value for of_kind in self.of.values() for value in of_kind]
            if not any(self.tables_ok([(database, table)]) for table in likely_tables(values)):
                return False  # the server finds the trigger's table, which is one of its database
        if statement.updated is None:
            # any subset of the involved tables may be updated
            names = [(self._database_of(db, current), self.as_parsed(t)) for db, t in statement.involved]
            if statement.kind is StatementKind.ACCOUNT and names and self.tables_ok(names[-1:]):
                return True  # SET DEFAULT ROLE changes the last table
            subsets = [c for n in range(1, len(names) + 1) for c in combinations(names, n)]
            answers = {self.tables_ok(subset) for subset in subsets}
            return answers.pop() if len(answers) == 1 else None
        for number, tables in enumerate(statement.updated):
            if not self.tables_ok([(self._database_of(db, current), self.as_parsed(t)) for db, t in tables]):
                # a server asks about the grant tables second, and may fail on the first table before
                return None if number and statement.looks_first else False
        return True

    def as_parsed(self, name: str) -> str:
        """Return a name as the server's parser reads it. MySQL's parser knows no characters beyond three bytes."""
        if self.names.family != "mysql":
            return name
        return "".join("?" if ord(c) > 0xFFFF else c for c in name)

    def _database_of(self, written: str | None, current: str | None) -> str:
        if written is not None:
            return self.as_parsed(written)
        return "" if current is None else self.rewrite(current)


def database_statement(rules: PlainFilter, statement: Statement) -> bool:
    """Tell whether CREATE, ALTER or DROP DATABASE passes once its current database passes, as recorded from servers."""
    has_db_rules = bool(rules.of[RuleKind.DO_DB] or rules.of[RuleKind.IGNORE_DB])
    if rules.names.family == "mysql":
        name = statement.database if statement.database is not None else statement.current_database or ""
        name = rules.rewrite(rules.as_parsed(name))
        return rules.db_ok(name) if has_db_rules else rules.db_ok_with_wild_table(name)
    if statement.database is None:
        name = rules.rewrite(statement.current_database or "")
    else:
        name = statement.database
    return rules.db_ok(name) and rules.db_ok_with_wild_table(name)
