"""A statement's text as tokens, cut where MySQL 9.7 cuts it (its manual, "Lexical Structure" and "Comments").

Lazy: a token is read when it is asked for, so what follows a statement's head may be anything. Linear in the
text: the patterns never go back over what they have taken.
"""

from __future__ import annotations

import enum
import re
from typing import NamedTuple

SERVER_VERSION = 90704
"""The version that ``/*!NNNNN … */`` is compared to: what it encloses is read when NNNNN is not above it."""


class TokenKind(enum.Enum):
    """What a token is."""

    WORD = "word"
    """An identifier without quotes, or a keyword."""
    NAME = "name"
    """A word that can only be a name: it stands directly behind ``name.``"""
    QUOTED = "quoted"
    """An identifier in backticks."""
    STRING = "string"
    """Text in single or double quotes."""
    INTEGER = "integer"
    DECIMAL = "decimal"
    """With a point and without an exponent."""
    FLOAT = "float"
    """With an exponent."""
    HEX = "hex"
    """``0x10``."""
    SYMBOL = "symbol"
    """One character. What nothing here takes, as well: comparisons of two, the letter of ``x'61'`` and its kin."""
    BAD = "bad"
    """An opened quote or comment that is not closed."""
    END = "end"


class Token(NamedTuple):
    """One token of a text."""

    kind: TokenKind
    value: str
    """As it is meant: without quotes, escapes undone."""
    start: int
    end: int

    @property
    def word(self) -> str:
        """The word in capitals when it stands without quotes, else nothing. Keywords are ASCII."""
        return self.value.upper() if self.kind is TokenKind.WORD and self.value.isascii() else ""


_WORD_CHARACTER = r"[0-9A-Za-z_$\u0080-\U0010ffff]"
# Not possessive as a whole: before 3.11.5, Python stays behind a part that does not match (gh-106052).
_SPACE = re.compile(
    r"""(?: [ \t\n\v\f\r]++
          | \#[^\n]*+
          | --(?=[\x00-\x20\x7f]|\Z)[^\n]*+
          | /\*(?!!)(?>.*?\*/)
        )+""",
    re.VERBOSE | re.DOTALL,
)
_CONDITIONAL = re.compile(r"/\*!([0-9]{5,6})?")
_TOKEN = re.compile(
    rf"""(?P<hex>     0x[0-9A-Fa-f]++ (?!{_WORD_CHARACTER}) )
       | (?P<float>   (?: [0-9]++ (?: \.[0-9]*+ )? | \.[0-9]++ ) [eE][+-]?[0-9]++ )
       | (?P<decimal> [0-9]++ \.[0-9]*+ | \.[0-9]++ )
       | (?P<integer> [0-9]++ (?!{_WORD_CHARACTER}) )
       | (?P<symbol>  [bBnNxX](?=') | [=>!][=<>!] | [^0-9A-Za-z_$'"`\u0080-\U0010ffff] )
       | (?P<word>    {_WORD_CHARACTER}++ )
       | (?P<string>  '(?: [^'\\]++ | \\. | '' )*+' | "(?: [^"\\]++ | \\. | "" )*+" )
       | (?P<quoted>  `(?: [^`]++ | `` )*+` )
       | (?P<bad>     . )""",
    re.VERBOSE | re.DOTALL,
)
_NAME = re.compile(rf"{_WORD_CHARACTER}++")
_ESCAPES = {"0": "\0", "b": "\b", "n": "\n", "r": "\r", "t": "\t", "Z": "\x1a", "%": "\\%", "_": "\\_"}
_IN_QUOTES = {
    "'": re.compile(r"''|\\(.)", re.DOTALL),
    '"': re.compile(r'""|\\(.)', re.DOTALL),
}


class Lexer:
    """The tokens of one text, from a position on."""

    def __init__(self, text: str, start: int = 0) -> None:
        self.text = text
        self._at = start
        self._conditional = False
        """Inside ``/*! … */``."""
        self._behind_name = self._behind_point = -1
        """Where the last name ended, and the point directly behind one."""

    def next(self) -> Token:
        """The next token; at the end END, again and again."""
        text = self.text
        unclosed = self._skip_space()
        if unclosed is not None:
            return unclosed
        at = self._at
        if at >= len(text):
            # a comment that is read and not closed is found out at the end only
            return Token(TokenKind.BAD if self._conditional else TokenKind.END, "", at, at)
        if at == self._behind_name and text[at] == ".":
            # not the point of a number, and what stands directly behind it is a name, even ``1b`` or ``select``
            self._behind_point = at + 1
            return self._cut(TokenKind.SYMBOL, at, at + 1)
        if at == self._behind_point and (name := _NAME.match(text, at)):
            return self._cut(TokenKind.NAME, at, name.end())
        match = _TOKEN.match(text, at)
        assert match is not None  # it matches any character
        assert match.lastgroup is not None
        return self._cut(TokenKind(match.lastgroup), at, match.end())

    def take(self, pattern: re.Pattern[str], start: int) -> Token | None:
        """What ``pattern`` matches at ``start`` as one WORD, for what is no token of the server; goes on behind it."""
        match = pattern.match(self.text, start)
        return None if match is None else self._cut(TokenKind.WORD, start, match.end())

    def _cut(self, kind: TokenKind, start: int, end: int) -> Token:
        self._at = end
        if kind in (TokenKind.WORD, TokenKind.NAME, TokenKind.QUOTED):
            self._behind_name = end
        value = self.text[start:end]
        if kind is TokenKind.STRING:
            value = _IN_QUOTES[value[0]].sub(_unescape, value[1:-1])
        elif kind is TokenKind.QUOTED:
            value = value[1:-1].replace("``", "`")
        return Token(kind, value, start, end)

    def _skip_space(self) -> Token | None:
        """Go over spaces and comments. The token for a comment that does not end."""
        text = self.text
        while True:
            if space := _SPACE.match(text, self._at):
                self._at = space.end()
            if self._conditional and text.startswith("*/", self._at):
                self._at += 2
                self._conditional = False
            elif begin := _CONDITIONAL.match(text, self._at):
                if begin[1] is None or int(begin[1]) <= SERVER_VERSION:
                    self._conditional = True
                    self._at = begin.end()
                elif not self._skip_conditional(begin.end()):
                    return Token(TokenKind.BAD, "", self._at, len(text))
            elif text.startswith("/*", self._at):
                return Token(TokenKind.BAD, "", self._at, len(text))
            elif space is None:
                return None

    def _skip_conditional(self, at: int) -> bool:
        """Go behind the end of a comment for a later version, in which comments may stand. Whether it ends."""
        end = self.text.find("*/", at)
        while end >= 0:
            inner = self.text.find("/*", at, end)
            if inner < 0:
                self._at = end + 2
                return True
            at, end = end + 2, self.text.find("*/", end + 2)
        return False


def _unescape(match: re.Match[str]) -> str:
    escaped: str | None = match[1]
    return match[0][0] if escaped is None else _ESCAPES.get(escaped, escaped)
