"""The lexer, which splits a statement's text into tokens as MySQL 9.7 does (manual, "Lexical Structure", "Comments").

The console and the parser of binlogged statements share this lexer, and the cursor over its tokens
(:class:`TokenReader`). A :class:`Dialect` holds the rules that differ.

The lexer is lazy: the text after the last requested token may be anything. The time is linear in the text, because the
patterns never backtrack.
"""

from __future__ import annotations

import enum
import re
from collections.abc import Iterator
from typing import NamedTuple

from dumpfilter.binlog.format import Family
from dumpfilter.binlog.query import TableName


class TokenKind(enum.Enum):
    """The kinds of tokens in an SQL text, such as word, string or number."""

    WORD = "word"
    """A token that is an identifier without quotes, or a keyword."""
    NAME = "name"
    """A word directly after a name and a point, as ``t`` in ``db.t``.

    Such a word is a name even if it is spelled like a keyword or a number.
    """
    QUOTED = "quoted"
    """A token that is an identifier in backticks."""
    STRING = "string"
    """A text in single or double quotes. With sql_mode ANSI_QUOTES, a parser treats a text in double quotes as a name.
    """
    INTEGER = "integer"
    DECIMAL = "decimal"
    """A number with a point and without an exponent."""
    FLOAT = "float"
    """A number with an exponent."""
    HEX = "hex"
    """A hexadecimal number such as ``0x10``."""
    SYMBOL = "symbol"
    """A token of no other kind: a single character such as ``(``, a comparison operator such as ``<=``, or the letter
    before the quote in ``x'61'`` and ``b'01'``.
    """
    BAD = "bad"
    """The rest of a statement's text after a quote or comment that is opened and never closed."""
    END = "end"
    """The token after the last one, which marks the end of the text."""


class Token(NamedTuple):
    """One token of an SQL text (a word, name, string, number or symbol), with its offsets in the text."""

    kind: TokenKind
    value: str
    """The token's text. The quotes around a string or name are left out."""
    start: int
    end: int
    word: str = ""
    """The token's text in upper case, for comparison with keywords.

    The text is empty for any token that is not an ASCII word without quotes.
    """

    @property
    def is_name(self) -> bool:
        """Whether the token can be an identifier. A string counts, too, because text in double quotes is an identifier
        with ANSI_QUOTES.
        """
        return self.kind in _NAME_KINDS


_make_token = tuple.__new__
"""A function that makes a Token from the class and a tuple of all fields. The function takes half the time of
``Token(…)``.
"""


class Dialect(NamedTuple):
    """The rules of SQL's lexer that differ between statements in a binlog and statements that clients send to this
    project's console (MySQL's client protocol).
    """

    marks: re.Pattern[str]
    """The pattern of the marks ``/*!NNNNN`` and ``*/`` around code that only some servers execute. The lexer skips the
    marks alone, and any ``*/`` outside quotes, since such comments can be nested. It skips other comments as a whole.

    In a binlog each version comment is code: the server that wrote the binlog turned those that it did not execute into
    plain comments.
    """
    undo_escapes: bool
    r"""Whether backslash escapes such as ``\n`` in a string are replaced in the token's value. If False, they stay.

    A name in double quotes has no such escapes.
    """


# MySQL takes the sixth digit of a version for the comment's text unless white space follows it. One match takes several
# marks, so that a text of only marks costs little time.
_MYSQL_MARKS = r"(?:/\*! )++|(?:/\*!)++(?:[0-9]{5}(?:[0-9](?=[ \t-\r]))?)?|(?:\*/ )++|(?:\*/)++"
CLIENT = Dialect(re.compile(rf"(?!/\*!99)(?:{_MYSQL_MARKS})"), undo_escapes=True)
"""The dialect of the statements that clients send to this project's console. A version comment for a version from 99000
on, which no server has, is skipped.
"""

BINLOG: dict[Family, Dialect] = {
    "mysql": Dialect(re.compile(_MYSQL_MARKS), undo_escapes=False),
    "mariadb": Dialect(
        re.compile(r"(?:/\*! )++|(?:/\*!)++(?:[0-9]{5,6})?|/\*M!(?:[0-9]{5,6})?|(?:\*/ )++|(?:\*/)++"),
        undo_escapes=False,
    ),
}
"""The dialects of the statements in a binlog, by the family of the server that wrote the binlog (MySQL or MariaDB)."""

_WORD_CHARACTER = r"[0-9A-Za-z_$\u0080-\U0010ffff]"
# The pattern matches a space together with the token behind it, which saves a second match. Only groups whose parts
# cannot backtrack are possessive, because Python before 3.11.5 matches other possessive groups wrongly (gh-106052).
_TOKEN = re.compile(
    rf"""[ ]?(?:
         (?P<space>   [ \t\n\v\f\r]++ | \#[^\n]*+ | --(?=[\x00-\x20\x7f]|\Z)[^\n]*+ )
       | (?P<letter>  [bBnNxX](?=') )
       | (?P<word>    [A-Za-z_$\u0080-\U0010ffff]{_WORD_CHARACTER}*+ )
       | (?P<hex>     0x[0-9A-Fa-f]++ (?!{_WORD_CHARACTER}) )
       | (?P<float>   (?: [0-9]++ (?: \.[0-9]*+ )? | \.[0-9]++ ) [eE][+-]?[0-9]++ )
       | (?P<decimal> [0-9]++ \.[0-9]*+ | \.[0-9]++ )
       | (?P<integer> [0-9]++ (?!{_WORD_CHARACTER}) )
       | (?P<digits>  {_WORD_CHARACTER}++ )
       | (?P<comment> /\* | \*/ )
       | (?P<symbol>  [=>!][=<>!] | [^0-9A-Za-z_$'"`\u0080-\U0010ffff] )
       | (?P<string>  '(?: [^'\\]++ | \\. | '' )*+' | "(?: [^"\\]++ | \\. | "" )*+" )
       | (?P<quoted>  `(?: [^`]++ | `` )*+` )
       | (?P<bad>     . ))""",
    re.VERBOSE | re.DOTALL,
)

_KINDS = {kind.value: kind for kind in TokenKind} | {
    "letter": TokenKind.SYMBOL,
    "digits": TokenKind.WORD,
}
_NAME = re.compile(rf"{_WORD_CHARACTER}++")
# _NAME_KINDS is a tuple, because a look-up in a set would call the enum's slow hash function.
_NAME_KINDS = (TokenKind.WORD, TokenKind.NAME, TokenKind.QUOTED, TokenKind.STRING)

_ESCAPES = {"0": "\0", "b": "\b", "n": "\n", "r": "\r", "t": "\t", "Z": "\x1a", "%": "\\%", "_": "\\_"}
_IN_QUOTES = {
    "'": re.compile(r"''|\\(.)", re.DOTALL),
    '"': re.compile(r'""|\\(.)', re.DOTALL),
}


class Lexer:
    """A lexer that returns the tokens (words, names, strings, numbers, symbols) of an SQL text one by one, from the
    offset ``start`` on.
    """

    def __init__(self, text: str, start: int = 0, *, dialect: Dialect = CLIENT) -> None:
        self.text = text
        self._dialect = dialect
        self._at = start
        self._behind_name = -1
        """The offset after the last name.

        A point at this offset separates two names, as in ``db.table``, and begins no number.
        """
        self._behind_point = -1
        """The offset after the last point that is no part of a number, as in ``db.table``.

        A word at this offset is a name, never a keyword.
        """

    def next(self) -> Token:
        """Return the next token of the text. At the end of the text, every call returns a token of the kind END."""
        text = self.text
        while True:
            at = self._at
            if at == self._behind_name and text.startswith(".", at):
                self._at = self._behind_point = at + 1
                return Token(TokenKind.SYMBOL, ".", at, at + 1)
            if at == self._behind_point and (name := _NAME.match(text, at)):
                self._at = self._behind_name = name.end()
                return Token(TokenKind.NAME, name[0], at, name.end())
            match = _TOKEN.match(text, at)
            if match is None:
                return Token(TokenKind.END, "", at, at)
            group = match.lastgroup
            assert group is not None
            start, end = match.span(group)
            if group == "word" or group == "digits":
                self._at = self._behind_name = end
                word = match[group]
                # A word directly before a point and a further name is a name, as in ``INSERT ignore.t``.
                if text.startswith(".", end) and _NAME.match(text, end + 1):
                    return Token(TokenKind.NAME, word, start, end)
                return _make_token(
                    Token, (TokenKind.WORD, word, start, end, word.upper() if word.isascii() else "")
                )
            if group == "symbol":
                self._at = end
                if match[group] == ".":
                    self._behind_point = end
                return _make_token(Token, (TokenKind.SYMBOL, match[group], start, end, ""))
            if group == "space":
                self._at = end
            elif group != "comment":
                return self._cut(_KINDS[group], start, end)
            elif (token := self._comment(start, end)) is not None:
                return token

    def take(self, pattern: re.Pattern[str], start: int) -> Token | None:
        """Return the text that ``pattern`` matches at offset ``start`` as one token of the kind WORD, and continue the
        lexer after the match. Return None and do not move the lexer if the pattern does not match.

        This project's console (a server for MySQL clients) uses the method for values that are not tokens of MySQL,
        such as ``db1.%->db2.%``.
        """
        match = pattern.match(self.text, start)
        if match is None:
            return None
        self._at = self._behind_name = match.end()
        return Token(
            TokenKind.WORD, match[0], start, match.end(), match[0].upper() if match[0].isascii() else ""
        )

    def _cut(self, kind: TokenKind, start: int, end: int) -> Token:
        self._at = end
        value = self.text[start:end]
        if kind is TokenKind.STRING:
            quote, value = value[0], value[1:-1]
            if self._dialect.undo_escapes:
                value = _IN_QUOTES[quote].sub(_unescape, value)
            else:
                value = value.replace(quote * 2, quote)
        elif kind is TokenKind.QUOTED:
            self._behind_name = end
            value = value[1:-1].replace("``", "`")
        return Token(kind, value, start, end)

    def _comment(self, at: int, behind: int) -> Token | None:
        if skipped := self._dialect.marks.match(self.text, at):
            self._at = skipped.end()
            return None
        end = self.text.find("*/", behind) + 2
        if end < 2:
            return Token(TokenKind.BAD, "", at, len(self.text))
        self._at = end
        return None


def _unescape(match: re.Match[str]) -> str:
    escaped: str | None = match[1]
    return match[0][0] if escaped is None else _ESCAPES.get(escaped, escaped)


def tokens(text: str, *, dialect: Dialect = CLIENT) -> Iterator[Token]:
    """Yield the tokens of a statement's text, without the END token. An unclosed quote or comment becomes a last token
    of the kind BAD.

    ``dialect`` gives the lexer's rules: CLIENT for statements that clients send, ``BINLOG["mysql"]`` or
    ``BINLOG["mariadb"]`` for statements of a binlog.

    >>> [t.value for t in tokens("/* c */ DROP /*!40005 TEMPORARY */ TABLE `a``b`.c", dialect=BINLOG["mysql"])]
    ['DROP', 'TEMPORARY', 'TABLE', 'a`b', '.', 'c']
    >>> [t.value for t in tokens("/*!99999 a */ b /*M! c */")]
    ['b']
    >>> [t.value for t in tokens("/*!99999 a */ b /*M! c */", dialect=BINLOG["mariadb"])]
    ['a', 'b', 'c']
    """
    lexer = Lexer(text, dialect=dialect)
    while (token := lexer.next()).kind is not TokenKind.END:
        yield token
        if token.kind is TokenKind.BAD:
            return


_DEPTH = {"(": 1, ")": -1}
# These three names save time, because access to a member of an enum costs one more look-up.
_END, _BAD, _SYMBOL = TokenKind.END, TokenKind.BAD, TokenKind.SYMBOL


class TokenReader:
    """A cursor over the tokens of a statement, which can look at the next token before it consumes the token."""

    def __init__(self, text: str, *, dialect: Dialect = CLIENT, most: int | None = None) -> None:
        """Set the cursor before the first token of ``text``.

        After ``most`` tokens the cursor acts as if the text ended; None means no limit. ``dialect`` gives the lexer's
        rules: CLIENT for statements that clients send, ``BINLOG["mysql"]`` or ``BINLOG["mariadb"]`` for statements of a
        binlog.
        """
        self.text = text
        self._lexer = Lexer(text, dialect=dialect)
        self._left = -1 if most is None else most - 1
        self.token = self._lexer.next()
        """The token that the next call of :meth:`advance` consumes."""

    def advance(self) -> Token:
        """Consume the next token of the statement and return it."""
        taken = self.token
        if self._left:
            self._left -= 1
            self.token = self._lexer.next()
        else:
            self.token = Token(TokenKind.END, "", len(self.text), len(self.text))
        return taken

    @property
    def cut(self) -> bool:
        """Whether the cursor has reached its limit of tokens, so that the rest of the statement was not read."""
        return not self._left

    @property
    def at_end(self) -> bool:
        """Whether no token is left. An unclosed quote or comment counts as the end of the statement."""
        kind = self.token.kind
        return kind is _END or kind is _BAD

    def sees(self, *words: str) -> bool:
        """Tell whether the next token is one of the keywords or symbols ``words``, without consuming it."""
        token = self.token
        return token.word in words or (token.kind is _SYMBOL and token.value in words)

    def accept(self, *words: str) -> str:
        """Consume the next token and return it as text, if it is one of the keywords or symbols ``words``.

        Otherwise consume nothing and return "".
        """
        if not self.sees(*words):
            return ""
        token = self.advance()
        return token.word or token.value

    def accept_all(self, *words: str) -> None:
        """Consume tokens as long as the next token is one of the keywords or symbols ``words``."""
        while self.accept(*words):
            pass

    def skip_to(self, *words: str) -> str:
        """Consume tokens up to and including the first of ``words`` outside parentheses, and return this word.

        Return "" when the statement ends before such a word.
        """
        depth = 0
        while not self.at_end:
            if depth == 0 and (word := self.accept(*words)):
                return word
            depth += self.skip()
        return ""

    def skip(self) -> int:
        """Consume one token, and return the change of the depth of parentheses.

        The result is 1 for an opening parenthesis, -1 for a closing one and 0 for any other token.
        """
        token = self.advance()
        return _DEPTH.get(token.value, 0) if token.kind is _SYMBOL else 0

    def skip_parentheses(self) -> None:
        """Consume tokens up to the closing parenthesis of a group whose opening parenthesis is already consumed."""
        depth = 1
        while depth > 0 and not self.at_end:
            depth += self.skip()

    def accept_parentheses(self) -> bool:
        """Consume a group in parentheses if the next token opens one, and tell whether it does."""
        is_open = self.accept("(") != ""
        if is_open:
            self.skip_parentheses()
        return is_open

    def exists(self) -> bool:
        """Consume IF EXISTS or IF NOT EXISTS if the next tokens are these words. Tell whether they were."""
        if self.accept("IF"):
            self.accept("NOT")
            return bool(self.accept("EXISTS"))
        return False

    def name(self) -> TableName | None:
        """Consume a name ``db.object`` or ``object`` and return it; None when the next tokens are not a name. If only
        the part after the dot is missing, the part before the dot and the dot are consumed nevertheless.
        """
        if not self.token.is_name:
            return None
        first = self.advance().value
        if self.accept("."):
            if not self.token.is_name:
                return None
            return TableName(first, self.advance().value)
        return TableName(None, first)

    def names(self, most: int = 0) -> tuple[TableName, ...] | None:
        """Consume a list of names with commas between them and return it; None when the next tokens are not such a
        list.

        The method reads at most ``most`` names, or any number of names if ``most`` is 0.
        """
        found = []
        while True:
            name = self.name()
            if name is None:
                return None
            found.append(name)
            if len(found) == most or not self.accept(","):
                return tuple(found)
