"""A cursor over the tokens of a statement, with the few moves that reading its head takes."""

from __future__ import annotations

from collections.abc import Iterator

from dumpfilter.binlog.query import TableName
from dumpfilter.statement.lexer import Token, tokens

END = Token("end", "")
_MOST_TOKENS = 100_000
"""A statement's shape is not read further: what then is not known is not told, and takes no time."""


class TokenReader:
    """One token of look-ahead; it ends early in a text that is very long (:attr:`cut`)."""

    def __init__(self, text: str, *, mariadb: bool = False) -> None:
        self._tokens: Iterator[Token] = tokens(text, mariadb=mariadb)
        self._left = _MOST_TOKENS
        self.next = END
        self.advance()

    def advance(self) -> Token:
        """Take the next token."""
        taken = self.next
        self.next = next(self._tokens, END) if self._left else END
        self._left -= self._left > 0
        return taken

    @property
    def cut(self) -> bool:
        """Whether there may be more than was read."""
        return not self._left

    @property
    def at_end(self) -> bool:
        """Whether nothing follows."""
        return self.next is END

    def sees(self, *words: str) -> bool:
        """Whether the next token is one of these keywords or symbols."""
        return self.next.keyword in words or (self.next.kind == "symbol" and self.next.text in words)

    def accept(self, *words: str) -> str:
        """Take the next token if it is one of these keywords or symbols; its spelling, or empty."""
        if self.sees(*words):
            return self.advance().text.upper()
        return ""

    def accept_all(self, *words: str) -> None:
        """Take as many of these as follow, in any order."""
        while self.accept(*words):
            pass

    def skip_to(self, *words: str) -> str:
        """Pass over everything up to one of these words, outside parentheses, and take it."""
        depth = 0
        while not self.at_end:
            if depth == 0:
                found = self.accept(*words)
                if found:
                    return found
            if self.next.kind == "symbol":
                depth += {"(": 1, ")": -1}.get(self.next.text, 0)
            self.advance()
        return ""

    def skip_parentheses(self) -> None:
        """Pass over a group whose opening parenthesis has been taken."""
        depth = 1
        while depth and not self.at_end:
            if self.next.kind == "symbol":
                depth += {"(": 1, ")": -1}.get(self.next.text, 0)
            self.advance()

    def exists(self) -> bool:
        """Take IF EXISTS or IF NOT EXISTS; whether it was there."""
        if self.accept("IF"):
            self.accept("NOT")
            return bool(self.accept("EXISTS"))
        return False

    def name(self) -> TableName | None:
        """``db.object`` or ``object``; None when no name stands here."""
        if not self.next.is_name:
            return None
        first = self.advance().text
        if self.accept("."):
            if not self.next.is_name:
                return None
            return TableName(first, self.advance().text)
        return TableName(None, first)

    def names(self, most: int = 0) -> tuple[TableName, ...] | None:
        """A list of names with commas between, ``most`` at the most (0: as many as there are)."""
        found = []
        while True:
            name = self.name()
            if name is None:
                return None
            found.append(name)
            if len(found) == most or not self.accept(","):
                return tuple(found)
