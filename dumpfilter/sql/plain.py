"""The reading of plain values: literals, variables, and SELECTs of nothing else.

Clients and replicas send such statements when they connect. Reading takes one pass over the tokens, and stops at the
first token that is no part of a plain value.
"""

from __future__ import annotations

import enum
from collections.abc import Sequence
from itertools import islice
from typing import NamedTuple

from dumpfilter.sql.reserved import RESERVED
from dumpfilter.statement.tokens import Token, TokenKind, tokens

Value = str | int | None

_MOST_TOKENS = 1000
"""The most tokens of a plain SELECT. JDBC's drivers ask for 20 variables with 120 tokens."""
_MOST_DIGITS = 18
_SCOPES = ("global", "session", "local")


class Kind(enum.Enum):
    """The kinds of plain values."""

    LITERAL = enum.auto()
    SYSTEM_VARIABLE = enum.auto()
    USER_VARIABLE = enum.auto()
    CALL = enum.auto()
    """The call of a function, whose arguments are literals."""


class Plain(NamedTuple):
    """A plain value."""

    kind: Kind
    name: str = ""
    """The name of the variable or function, in lower case."""
    value: Value = None
    """The value of a literal."""
    arguments: tuple[Value, ...] = ()


class Item(NamedTuple):
    """One item of a plain SELECT."""

    plain: Plain
    column: str
    """The name of the column: the alias, or the item's text."""


def plain_value(words: Sequence[Token]) -> Plain | None:
    """Return the plain value that the tokens are, or None.

    >>> plain_value(list(tokens("-7"))).value
    -7
    >>> plain_value(list(tokens("@@GLOBAL.server_id"))).name
    'server_id'
    """
    reading = _Reading(words)
    found = reading.value()
    return found if reading.at_end else None


def plain_select(text: str) -> list[Item] | None:
    """Return the items of a SELECT of plain values, or None for any other statement.

    >>> [item.column for item in plain_select("SELECT @@version AS v, DATABASE() LIMIT 1")]
    ['v', 'DATABASE()']
    """
    words = list(islice(tokens(text), _MOST_TOKENS))
    while words and words[-1].value == ";" and words[-1].kind is TokenKind.SYMBOL:
        words.pop()
    if not words or words[0].word != "SELECT" or len(words) == _MOST_TOKENS:
        return None
    reading = _Reading(words[1:])
    items: list[Item] = []
    while True:
        begin = reading.at
        value = reading.value()
        if value is None:
            return None
        column: str | None = text[reading.words[begin].start : reading.words[reading.at - 1].end]
        if reading.accept("AS"):
            column = reading.alias()
        if column is None:
            return None
        items.append(Item(value, column))
        if not reading.accept(","):
            break
    if reading.accept("LIMIT") and not reading.accept("1"):
        return None
    return items if reading.at_end else None


class _Reading:
    """The reading of plain values from tokens."""

    def __init__(self, words: Sequence[Token]) -> None:
        self.words = words
        self.at = 0

    @property
    def at_end(self) -> bool:
        return self.at == len(self.words)

    def accept(self, text: str) -> bool:
        """Take the next token if it is this symbol, number or keyword."""
        if self.at_end:
            return False
        token = self.words[self.at]
        found = token.word == text or (
            token.value == text and token.kind in (TokenKind.SYMBOL, TokenKind.INTEGER)
        )
        self.at += found
        return found

    def value(self) -> Plain | None:
        if self.accept("@"):
            if not self.accept("@"):
                name = self._name()
                return None if name is None else Plain(Kind.USER_VARIABLE, name)
            name = self._name()
            if name in _SCOPES and self.accept("."):
                name = self._name()
            return None if name is None else Plain(Kind.SYSTEM_VARIABLE, name)
        if (literal := self._literal()) is not None:
            return literal
        name = self._name()
        return None if name is None or not self.accept("(") else self._call(name)

    def alias(self) -> str | None:
        if self.at_end or not self.words[self.at].is_name or self.words[self.at].word in RESERVED:
            return None
        self.at += 1
        return self.words[self.at - 1].value

    def _call(self, name: str) -> Plain | None:
        arguments: list[Value] = []
        while not self.accept(")"):
            if arguments and not self.accept(","):
                return None
            literal = self._literal()
            if literal is None:
                return None
            arguments.append(literal.value)
        return Plain(Kind.CALL, name, arguments=tuple(arguments))

    def _literal(self) -> Plain | None:
        begin = self.at
        negative = self.accept("-")
        if not self.at_end:
            token = self.words[self.at]
            self.at += 1
            if token.kind is TokenKind.INTEGER and len(token.value) <= _MOST_DIGITS:
                number = int(token.value)
                return Plain(Kind.LITERAL, value=-number if negative else number)
            if token.kind is TokenKind.STRING and not negative:
                return Plain(Kind.LITERAL, value=token.value)
            if token.word == "NULL" and not negative:
                return Plain(Kind.LITERAL)
        self.at = begin
        return None

    def _name(self) -> str | None:
        if self.at_end or self.words[self.at].kind not in (TokenKind.WORD, TokenKind.NAME):
            return None
        self.at += 1
        return self.words[self.at - 1].value.lower()
