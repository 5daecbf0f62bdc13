"""A cursor over a client's statement that raises a syntax error at the first token that is not expected."""

from __future__ import annotations

import re
from typing import NoReturn

from dumpfilter.sql.reserved import RESERVED
from dumpfilter.sql.server_errors import ER_WRONG_ARGUMENT_LF, syntax_error
from dumpfilter.statement.reader import TokenReader
from dumpfilter.statement.tokens import Token, TokenKind

MAX_UNSIGNED = 2**64 - 1
_MAX_DIGITS = len(str(MAX_UNSIGNED))
_MAX_HEX_DIGITS = 16
_NUMBERS = frozenset({TokenKind.INTEGER, TokenKind.DECIMAL, TokenKind.FLOAT, TokenKind.HEX})
_LEADING_DIGITS = re.compile(r"[0-9]*")


class Cursor(TokenReader):
    """A cursor over the tokens of a client's statement.

    Methods that take something raise SqlError, with ER_PARSE_ERROR at the token that stands there instead.
    """

    @property
    def at_end(self) -> bool:
        """Whether the statement ends here."""
        return self.token.kind is TokenKind.END

    def fail(self) -> NoReturn:
        """Raise the syntax error at the next token."""
        raise syntax_error(self.text, self.token.start)

    def expect(self, *words: str) -> str:
        """Take one of these keywords or symbols, and return it."""
        return self.accept(*words) or self.fail()

    def take(self, pattern: re.Pattern[str]) -> Token:
        """Take the text that ``pattern`` matches from the start of the next token on."""
        taken = self._lexer.take(pattern, self.token.start)
        if taken is None:
            self.fail()
        self.token = self._lexer.next()
        return taken

    def peek(self, pattern: re.Pattern[str]) -> str:
        """Return the text that :meth:`take` would take, or nothing."""
        match = pattern.match(self.text, self.token.start)
        return "" if match is None else match[0]

    def end(self) -> None:
        """Take the end of the statement, with or without a semicolon."""
        self.accept(";")
        if not self.at_end:
            self.fail()

    def at_string(self) -> bool:
        """Tell whether the next token is a string."""
        return self.token.kind is TokenKind.STRING

    def string(self) -> str:
        """Take a string (the grammar's TEXT_STRING_sys)."""
        if not self.at_string():
            self.fail()
        return self.advance().value

    def line(self) -> str:
        """Take a string without line feeds (TEXT_STRING_sys_nonewline). With one, raise ER_WRONG_VALUE."""
        value = self.line_ahead()
        self.advance()
        return value

    def line_ahead(self) -> str:
        """Return the string that :meth:`line` would take, and raise the same errors."""
        if not self.at_string():
            self.fail()
        value = self.token.value
        if "\n" in value:
            raise ER_WRONG_ARGUMENT_LF(value.partition("\0")[0])
        return value

    def identifier(self) -> str:
        """Take a name (the grammar's ident): a word that is not reserved, or any word in backticks."""
        token = self.token
        if token.kind not in (TokenKind.NAME, TokenKind.QUOTED) and (
            token.kind is not TokenKind.WORD or token.word in RESERVED
        ):
            self.fail()
        return self.advance().value

    def unsigned(self) -> int:
        """Take a number (the grammar's ulong_num). Only its leading digits count, and 2**64 - 1 is the largest."""
        if self.token.kind not in _NUMBERS:
            self.fail()
        return _number(self.advance())

    def position(self) -> int:
        """Take a number (the grammar's ulonglong_num): as :meth:`unsigned`, but not a hexadecimal number."""
        if self.token.kind not in _NUMBERS or self.token.kind is TokenKind.HEX:
            self.fail()
        return _number(self.advance())

    def integer(self) -> int:
        """Take an integer of at most 64 bits."""
        if self.token.kind is not TokenKind.INTEGER or not _fits(self.token.value):
            self.fail()
        return _number(self.advance())

    def real(self) -> float:
        """Take a number that may have a fraction and an exponent."""
        if self.token.kind not in _NUMBERS or self.token.kind is TokenKind.HEX:
            self.fail()
        return float(self.advance().value)


def _fits(digits: str) -> bool:
    return len(significant := digits.lstrip("0")) <= _MAX_DIGITS and int(significant or "0") <= MAX_UNSIGNED


def _number(token: Token) -> int:
    if token.kind is TokenKind.HEX:
        digits = token.value[2:].lstrip("0")
        return int(digits or "0", 16) if len(digits) <= _MAX_HEX_DIGITS else MAX_UNSIGNED
    match = _LEADING_DIGITS.match(token.value)
    assert match is not None, "the pattern matches the empty string, too"
    return int(match[0].lstrip("0") or "0") if _fits(match[0]) else MAX_UNSIGNED
