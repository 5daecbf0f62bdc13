"""A cursor over the tokens of a statement, with the moves that parsers need."""

from __future__ import annotations

from dumpfilter.binlog.query import TableName
from dumpfilter.statement.tokens import CLIENT, Dialect, Lexer, Token, TokenKind

MOST_TOKENS = 100_000
"""The most tokens that the parser of binlogged statements reads, to bound its time."""

_DEPTH = {"(": 1, ")": -1}
# names of the module, since the access to an enum's member costs one look-up more
_END, _BAD, _SYMBOL = TokenKind.END, TokenKind.BAD, TokenKind.SYMBOL


class TokenReader:
    """A cursor with one token of look-ahead."""

    def __init__(self, text: str, *, dialect: Dialect = CLIENT, most: int | None = None) -> None:
        """Read at most ``most`` tokens, or all of them."""
        self.text = text
        self._lexer = Lexer(text, dialect=dialect)
        self._left = -1 if most is None else most - 1
        self.token = self._lexer.next()
        """The next token."""

    def advance(self) -> Token:
        """Take the next token."""
        taken = self.token
        if self._left:
            self._left -= 1
            self.token = self._lexer.next()
        else:
            self.token = Token(TokenKind.END, "", len(self.text), len(self.text))
        return taken

    @property
    def cut(self) -> bool:
        """Whether the reader has stopped after the most tokens, so that the statement may have more."""
        return not self._left

    @property
    def at_end(self) -> bool:
        """Whether no token is left. The rest of a text after an unclosed quote or comment is no token."""
        kind = self.token.kind
        return kind is _END or kind is _BAD

    def sees(self, *words: str) -> bool:
        """Tell whether the next token is one of these keywords or symbols."""
        token = self.token
        return token.word in words or (token.kind is _SYMBOL and token.value in words)

    def accept(self, *words: str) -> str:
        """Take and return the next token if it is one of these keywords or symbols. Otherwise return ""."""
        if not self.sees(*words):
            return ""
        token = self.advance()
        return token.word or token.value

    def accept_all(self, *words: str) -> None:
        """Take any number of these keywords and symbols, in any order."""
        while self.accept(*words):
            pass

    def skip_to(self, *words: str) -> str:
        """Skip to the first of these words outside parentheses. Take and return the word, or return "" without one."""
        depth = 0
        while not self.at_end:
            token = self.advance()
            if token.kind is _SYMBOL:
                if depth == 0 and token.value in words:
                    return token.value
                depth += _DEPTH.get(token.value, 0)
            elif depth == 0 and token.word in words:
                return token.word
        return ""

    def skip(self) -> int:
        """Skip one token. Return 1 for an opening parenthesis, -1 for a closing parenthesis, and else 0."""
        token = self.advance()
        return _DEPTH.get(token.value, 0) if token.kind is _SYMBOL else 0

    def skip_parentheses(self) -> None:
        """Skip to the end of a group whose opening parenthesis is already taken."""
        depth = 1
        advance = self.advance
        while depth and not self.at_end:
            token = advance()
            if token.kind is _SYMBOL:
                depth += _DEPTH.get(token.value, 0)

    def exists(self) -> bool:
        """Take IF EXISTS or IF NOT EXISTS, and tell whether it was there."""
        if self.accept("IF"):
            self.accept("NOT")
            return bool(self.accept("EXISTS"))
        return False

    def name(self) -> TableName | None:
        """Take a name ``db.object`` or ``object`` and return it. Return None when the next token is no name."""
        if not self.token.is_name:
            return None
        first = self.advance().value
        if self.accept("."):
            if not self.token.is_name:
                return None
            return TableName(first, self.advance().value)
        return TableName(None, first)

    def names(self, most: int = 0) -> tuple[TableName, ...] | None:
        """Take a list of names with commas between them, at most ``most`` of them (0: any number).

        Return None when the next tokens are no such list.
        """
        found = []
        while True:
            name = self.name()
            if name is None:
                return None
            found.append(name)
            if len(found) == most or not self.accept(","):
                return tuple(found)
