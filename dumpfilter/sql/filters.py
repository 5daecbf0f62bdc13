"""Filter rules in statements: MySQL's REPLICATE_DO_DB = (…) and its kin, and WL#2387's and WL#2516's options."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import TypeVar

from dumpfilter.errors import OptionError
from dumpfilter.filter.rules import SLAVE_RULE_KINDS, BaseRuleKind, Rule, RuleKind, ValueForm, make_rule
from dumpfilter.sql.commands import FilterClause
from dumpfilter.sql.cursor import Cursor
from dumpfilter.sql.server_errors import (
    ER_INVALID_RPL_WILD_TABLE_FILTER_PATTERN,
    ER_TOO_LONG_IDENT,
    ER_WRONG_DB_NAME,
    ER_WRONG_TABLE_NAME,
    ER_WRONG_VALUE,
)
from dumpfilter.statement.tokens import TokenKind

_Item = TypeVar("_Item")

NAME_CHARS = 64
"""The longest name of a database or table, in characters (the server's NAME_CHAR_LEN)."""
_CLASSIC = {kind.sql_name: kind for kind in RuleKind}
_ALL = {kind.sql_name: kind for kind in SLAVE_RULE_KINDS}
_OPTION_NAME = re.compile(r"[\w-]+", re.ASCII)
# Not possessive as a whole: before 3.11.5, Python stays behind a part that does not match (gh-106052).
_BARE = re.compile(r"""(?: (?!->) [^\s,;()'"`] )+ (?: \s*+->\s*+ [^\s,;()'"`]++ )?""", re.VERBOSE)
"""A value without quotes: ``mydb``, ``127.0.0.1``, ``db1.%->db2.%``."""


def filter_clauses(cursor: Cursor) -> tuple[FilterClause, ...]:
    """Take the list of CHANGE REPLICATION FILTER (the grammar's filter_defs)."""
    clauses = [_filter_clause(cursor)]
    while cursor.accept(","):
        clauses.append(_filter_clause(cursor))
    return tuple(clauses)


def _filter_clause(cursor: Cursor) -> FilterClause:
    kind = _CLASSIC[cursor.expect(*_CLASSIC)]
    cursor.expect("=")
    return FilterClause(kind, _filter_list(cursor, kind))


def _filter_list(cursor: Cursor, kind: RuleKind) -> tuple[Rule, ...]:
    read = _READERS[kind.form]
    return tuple(_list(cursor, lambda: read(cursor, kind)))


def _list(cursor: Cursor, read: Callable[[], _Item]) -> list[_Item]:
    """Take items in parentheses with commas between them. The list can be empty."""
    cursor.expect("(")
    items = []
    if not cursor.sees(")"):
        items.append(read())
        while cursor.accept(","):
            items.append(read())
    cursor.expect(")")
    return items


def _database(cursor: Cursor, kind: RuleKind) -> Rule:
    """Take a database rule. The server also accepts the empty name, which a filter option cannot hold."""
    name = cursor.identifier()
    try:
        return make_rule(kind, name)
    except OptionError:
        raise ER_WRONG_DB_NAME(name) from None


def _table(cursor: Cursor, kind: RuleKind) -> Rule:
    database = cursor.identifier()
    cursor.expect(".")
    table = cursor.identifier()
    # the server's Table_ident checks the database only; CREATE TABLE would check the table
    if len(database) > NAME_CHARS:
        raise ER_TOO_LONG_IDENT(database)
    if not database or database.endswith(" "):
        raise ER_WRONG_DB_NAME(database)
    try:
        return make_rule(kind, f"{database}.{table}")
    except OptionError:
        raise ER_WRONG_TABLE_NAME(table) from None


def _wild(cursor: Cursor, kind: RuleKind) -> Rule:
    pattern = cursor.line_ahead()
    try:
        rule = make_rule(kind, pattern)
    except OptionError:
        # the server checks the pattern before it reads the next token
        raise ER_INVALID_RPL_WILD_TABLE_FILTER_PATTERN() from None
    cursor.advance()
    return rule


def _pair(cursor: Cursor, kind: RuleKind) -> Rule:
    """Take ``(from, to)``.

    A filter option cannot hold every pair: it splits at the first arrow, and drops spaces at both ends.
    """
    cursor.expect("(")
    source = cursor.identifier()
    cursor.expect(",")
    target = cursor.identifier()
    cursor.expect(")")
    try:
        rule = make_rule(kind, f"{source}->{target}")
    except OptionError:
        raise ER_WRONG_DB_NAME(target if source.strip() else source) from None
    for given, kept in zip((source, target), rule.pair, strict=True):
        if given != kept:
            raise ER_WRONG_DB_NAME(given)
    return rule


_READERS: dict[ValueForm, Callable[[Cursor, RuleKind], Rule]] = {
    ValueForm.DATABASE: _database,
    ValueForm.TABLE: _table,
    ValueForm.WILD_TABLE: _wild,
    ValueForm.DATABASE_PAIR: _pair,
}


class RuleOptions:
    """The rules among a statement's options, collected in clauses.

    All rules of the same kind form one clause, at the place of the first of them.
    """

    def __init__(self) -> None:
        self._rules: dict[BaseRuleKind, list[Rule]] = {}

    @property
    def clauses(self) -> tuple[FilterClause, ...]:
        """The clauses from all rules so far."""
        return tuple(FilterClause(kind, tuple(rules)) for kind, rules in self._rules.items())

    def read(self, cursor: Cursor, *, classic: bool = True) -> bool:
        """Take one option if it is a rule, and tell whether it was.

        Rules are ``REPLICATE-DO-DB='mydb'``, ``REWRITE=db1.%->db2.%``, ``IGNORE=()``. An empty string or list clears
        the kind. Without ``classic`` only effective rules are taken. Raises SqlError.
        """
        if cursor.token.kind is not TokenKind.WORD:
            return False
        name = cursor.peek(_OPTION_NAME).upper().replace("-", "_")
        kind = _ALL.get(name)
        if kind is None or (isinstance(kind, RuleKind) and not classic):
            return False
        cursor.take(_OPTION_NAME)
        cursor.expect("=")
        rules = self._rules.setdefault(kind, [])
        if cursor.sees("("):
            if isinstance(kind, RuleKind):
                rules[:] = _filter_list(cursor, kind)
            else:
                rules[:] = [_rule(kind, value) for value in _list(cursor, cursor.line)]
        elif value := bare_or_quoted(cursor):
            rules.append(_rule(kind, value))
        else:
            rules.clear()
        return True


def bare_or_quoted(cursor: Cursor) -> str:
    """Take a value in quotes, or without quotes as the worklogs write some."""
    return cursor.line() if cursor.at_string() else cursor.take(_BARE).value


def _rule(kind: BaseRuleKind, value: str) -> Rule:
    try:
        return make_rule(kind, value)
    except OptionError:
        raise ER_WRONG_VALUE(kind.option.upper(), value) from None
