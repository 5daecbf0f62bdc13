"""Reading a statement token by token, one ahead; what is not expected is an error at its place."""

from __future__ import annotations

import re
from typing import NoReturn

from dumpfilter.sql.lexer import Lexer, Token, TokenKind
from dumpfilter.sql.reserved import RESERVED
from dumpfilter.sql.server_errors import ER_WRONG_ARGUMENT_LF, syntax_error

MAX_UNSIGNED = 2**64 - 1
_NUMBERS = frozenset({TokenKind.INTEGER, TokenKind.DECIMAL, TokenKind.FLOAT, TokenKind.HEX})
_LEADING_DIGITS = re.compile(r"[0-9]*")


class Cursor:
    """The tokens of a statement from its start on. Methods raise SqlError: ER_PARSE_ERROR at the token in the way."""

    def __init__(self, text: str) -> None:
        self.text = text
        self._lexer = Lexer(text)
        self.token = self._lexer.next()
        """The next one."""

    def fail(self, token: Token | None = None) -> NoReturn:
        """There is no way on from the next token (or from this one)."""
        raise syntax_error(self.text, (token or self.token).start)

    def advance(self) -> Token:
        """Take the next token, whatever it is."""
        taken = self.token
        self.token = self._lexer.next()
        return taken

    def take(self, pattern: re.Pattern[str]) -> Token:
        """Take the text that ``pattern`` matches from the next token's start on."""
        taken = self._lexer.take(pattern, self.token.start)
        if taken is None:
            self.fail()
        self.token = self._lexer.next()
        return taken

    def peek(self, pattern: re.Pattern[str]) -> str:
        """What :meth:`take` would take, or nothing."""
        match = pattern.match(self.text, self.token.start)
        return "" if match is None else match[0]

    def accept(self, *words: str) -> str:
        """Take the next token if it is one of these keywords; which one, or nothing."""
        word = self.token.word
        if word not in words:
            return ""
        self.advance()
        return word

    def expect(self, *words: str) -> str:
        """Take one of these keywords."""
        return self.accept(*words) or self.fail()

    def at_symbol(self, symbol: str) -> bool:
        """Whether the next token is that character."""
        return self.token.kind is TokenKind.SYMBOL and self.token.value == symbol

    def accept_symbol(self, symbol: str) -> bool:
        """Take the next token if it is that character."""
        if not self.at_symbol(symbol):
            return False
        self.advance()
        return True

    def expect_symbol(self, symbol: str) -> None:
        """Take that character."""
        if not self.accept_symbol(symbol):
            self.fail()

    def at_end(self) -> bool:
        """Whether nothing comes any more."""
        return self.token.kind is TokenKind.END

    def end(self) -> None:
        """The statement has to end here."""
        self.accept_symbol(";")
        if not self.at_end():
            self.fail()

    def at_string(self) -> bool:
        """Whether the next token is text in quotes."""
        return self.token.kind is TokenKind.STRING

    def string(self) -> str:
        """Take a string (the grammar's TEXT_STRING_sys)."""
        if not self.at_string():
            self.fail()
        return self.advance().value

    def line(self) -> str:
        """Take a string without line feeds (TEXT_STRING_sys_nonewline). Raises SqlError too (ER_WRONG_VALUE)."""
        value = self.line_ahead()
        self.advance()
        return value

    def line_ahead(self) -> str:
        """What :meth:`line` would take, without taking it."""
        if not self.at_string():
            self.fail()
        value = self.token.value
        if "\n" in value:
            raise ER_WRONG_ARGUMENT_LF(value.partition("\0")[0])
        return value

    def identifier(self) -> str:
        """Take a name: a word that is not reserved, or one in backticks (the grammar's ident)."""
        token = self.token
        if token.kind not in (TokenKind.NAME, TokenKind.QUOTED) and (
            token.kind is not TokenKind.WORD or token.word in RESERVED
        ):
            self.fail()
        return self.advance().value

    def unsigned(self) -> int:
        """Take a number as the grammar's ulong_num: only its leading digits count, beyond 64 bits it is the largest."""
        if self.token.kind not in _NUMBERS:
            self.fail()
        return _number(self.advance())

    def position(self) -> int:
        """Take a number as ulonglong_num: like :meth:`unsigned`, but not a hexadecimal one."""
        if self.token.kind not in _NUMBERS or self.token.kind is TokenKind.HEX:
            self.fail()
        return _number(self.advance())

    def integer(self) -> int:
        """Take an integer of up to 64 bits."""
        if self.token.kind is not TokenKind.INTEGER or not _fits(self.token.value):
            self.fail()
        return _number(self.advance())

    def real(self) -> float:
        """Take a number that may have a fraction and an exponent."""
        if self.token.kind not in _NUMBERS or self.token.kind is TokenKind.HEX:
            self.fail()
        return float(self.advance().value)


def _fits(digits: str) -> bool:
    return len(significant := digits.lstrip("0")) <= 20 and int(significant or "0") <= MAX_UNSIGNED


def _number(token: Token) -> int:
    if token.kind is TokenKind.HEX:
        digits = token.value[2:].lstrip("0")
        return int(digits or "0", 16) if len(digits) <= 16 else MAX_UNSIGNED
    match = _LEADING_DIGITS.match(token.value)
    assert match is not None  # it matches the empty string
    return int(match[0].lstrip("0") or "0") if _fits(match[0]) else MAX_UNSIGNED
