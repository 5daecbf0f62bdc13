"""A fast parser for plain values (literals, variables, function calls with literals) and for SELECTs of nothing else.

Clients and replicas send such statements when they connect. Parsing takes one pass over the tokens, and stops at the
first token that is not part of a plain value.
"""

from __future__ import annotations

import enum
from typing import NamedTuple

from dumpfilter.binlog.statement.tokens import Token, TokenKind
from dumpfilter.console.sql.cursor import Cursor
from dumpfilter.console.sql.server_errors import SqlError

Value = str | int | None

_MOST_ITEMS = 200
"""The limit of the items of a plain SELECT. JDBC's drivers ask for 20 variables."""
_MOST_DIGITS = 18
_SCOPES = ("global", "session", "local")


class Kind(enum.Enum):
    """The forms of a plain value."""

    LITERAL = enum.auto()
    SYSTEM_VARIABLE = enum.auto()
    USER_VARIABLE = enum.auto()
    CALL = enum.auto()
    """A call of a function whose arguments are literals."""


class Plain(NamedTuple):
    """A plain value: a literal, a variable, or a call of a function with literals."""

    kind: Kind
    name: str = ""
    """The name of the variable or function, in lower case."""
    value: Value = None
    """The value of a literal."""
    arguments: tuple[Value, ...] = ()


class Item(NamedTuple):
    """One item of the select list of a SELECT that has only plain values (literals, variables, function calls)."""

    plain: Plain
    column: str
    """The name of the column: the alias, or the item's text."""


def plain_value(text: str) -> Plain | None:
    """Parse a text that is one plain value (see :class:`Plain`). Return None for any other text.

    >>> plain_value("-7").value
    -7
    >>> plain_value("@@GLOBAL.server_id").name
    'server_id'
    """
    cursor = _Reader(text)
    try:
        value = cursor.value()
        cursor.end()
    except SqlError:
        return None
    return value


def plain_select(text: str) -> list[Item] | None:
    """Return the items of a SELECT that has only plain values, or None for any other statement.

    Plain values are literals, variables and function calls with literals.

    >>> [item.column for item in plain_select("SELECT @@version AS v, DATABASE() LIMIT 1")]
    ['v', 'DATABASE()']
    """
    cursor = _Reader(text)
    if not cursor.accept("SELECT"):
        return None
    items: list[Item] = []
    try:
        while not items or cursor.accept(","):
            items.append(cursor.item())
            if len(items) > _MOST_ITEMS:
                return None
        if cursor.accept("LIMIT") and cursor.integer() != 1:
            return None
        cursor.end()
    except SqlError:
        return None
    return items


class _Reader(Cursor):
    """A cursor that reads plain values. Its methods raise SqlError for anything else."""

    _end = 0
    """The offset of the end of the last consumed token, characters."""

    def advance(self) -> Token:
        token = super().advance()
        self._end = token.end
        return token

    def item(self) -> Item:
        begin = self.token.start
        value = self.value()
        column = self.text[begin : self._end]
        if self.accept("AS"):
            column = self.string() if self.at_string() else self.identifier()
        return Item(value, column)

    def value(self) -> Plain:
        if self.accept("@"):
            if not self.accept("@"):
                return Plain(Kind.USER_VARIABLE, self._name())
            name = self._name()
            return Plain(Kind.SYSTEM_VARIABLE, self._name() if name in _SCOPES and self.accept(".") else name)
        if self.token.kind is not TokenKind.WORD or self.sees("NULL"):
            return Plain(Kind.LITERAL, value=self._literal())
        name = self._name()
        self.expect("(")
        arguments: list[Value] = []
        while not self.accept(")"):
            if arguments:
                self.expect(",")
            arguments.append(self._literal())
        return Plain(Kind.CALL, name, arguments=tuple(arguments))

    def _literal(self) -> Value:
        if self.accept("NULL"):
            return None
        if self.at_string():
            return self.string()
        sign = -1 if self.accept("-") else 1
        if len(self.token.value) > _MOST_DIGITS:
            self.fail()
        return sign * self.integer()

    def _name(self) -> str:
        if self.token.kind not in (TokenKind.WORD, TokenKind.NAME):
            self.fail()
        return self.advance().value.lower()
