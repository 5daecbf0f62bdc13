"""A fast parser for plain values (literals, system variables, function calls with literals) and for SELECTs of one.

Replicas send such statements when they connect. Parsing takes one pass over the tokens, and stops at the first token
that is not part of a plain value.
"""

from __future__ import annotations

import enum
from typing import NamedTuple

from dumpfilter.binlog.statement.tokens import Token, TokenKind
from dumpfilter.console.sql.grammar import Cursor
from dumpfilter.console.sql.server_errors import SqlError

Value = str | int | None

_MOST_DIGITS = 18
_SCOPES = ("global", "session", "local")


class Kind(enum.Enum):
    """The kinds of plain value that the fast parser accepts: a literal, a system variable, or a call of a function with
    literals.
    """

    LITERAL = enum.auto()
    SYSTEM_VARIABLE = enum.auto()
    CALL = enum.auto()
    """A call of a function whose arguments are literals."""


class Plain(NamedTuple):
    """A plain value: a literal, a system variable, or a call of a function with literals. Clients such as replicas
    often select one when they connect.
    """

    kind: Kind
    name: str = ""
    """The name of the variable or function, in lower case."""
    value: Value = None
    """The value of a literal."""
    arguments: tuple[Value, ...] = ()


class Item(NamedTuple):
    """The one value that a simple SELECT returns, such as ``SELECT @@version``, with the name of its column."""

    plain: Plain
    column: str
    """The name of the column: the alias, or the item's text."""


def plain_value(text: str) -> Plain | None:
    """Parse a text that is one plain value: a literal, a system variable, or a call of a function with literals. Return
    None for any other text.

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


def plain_select(text: str) -> Item | None:
    """Return the value that a simple SELECT asks for: a literal, a system variable, or a function with literals.

    The result is None for any other statement.

    >>> plain_select("SELECT @@version AS v LIMIT 1").column
    'v'
    """
    cursor = _Reader(text)
    if not cursor.accept("SELECT"):
        return None
    try:
        item = cursor.item()
        if cursor.accept("LIMIT") and cursor.integer() != 1:
            return None
        cursor.end()
    except SqlError:
        return None
    return item


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
            self.expect("@")
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
