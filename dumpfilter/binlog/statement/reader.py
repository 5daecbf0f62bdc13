"""A cursor over the tokens of a statement, with the operations that parsers need: accept a keyword, skip to a word,
read a name.
"""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Sequence

from dumpfilter.binlog.format import Family
from dumpfilter.binlog.query import TableName
from dumpfilter.binlog.statement.statement import Change
from dumpfilter.binlog.statement.tokens import BINLOG, CLIENT, Dialect, Lexer, Token, TokenKind

MOST_TOKENS = 100_000
"""The limit of tokens of one statement that the parser of binlogged statements reads, to bound its time."""

MOST_NESTED = 100
"""The limit of nesting levels that a parser follows, because each level takes a part of Python's small stack."""

_DEPTH = {"(": 1, ")": -1}
# These three names save time, because access to a member of an enum costs one more look-up.
_END, _BAD, _SYMBOL = TokenKind.END, TokenKind.BAD, TokenKind.SYMBOL


class TokenReader:
    """A cursor over the tokens of a statement, which can look at the next token before it consumes the token."""

    def __init__(self, text: str, *, dialect: Dialect = CLIENT, most: int | None = None) -> None:
        """Set the cursor before the first token of ``text``.

        After ``most`` tokens the cursor acts as if the text ended; None means no limit. ``dialect`` gives the rules
        that differ between a client's statements and statements in a binlog.
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
        """Consume IF EXISTS or IF NOT EXISTS if the next tokens are these words, and tell whether they were."""
        if self.accept("IF"):
            self.accept("NOT")
            return bool(self.accept("EXISTS"))
        return False

    def name(self) -> TableName | None:
        """Consume a name ``db.object`` or ``object`` and return it; None when the next token is not a name."""
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


class StatementReader(TokenReader):
    """The cursor over the tokens of a binlogged statement, which the parsers of statements share.

    The parsers report table names to the methods ``note_…``, which do nothing in this class. A subclass can override
    them to collect the names.
    """

    most_nested = MOST_NESTED

    def __init__(self, text: str, family: Family) -> None:
        super().__init__(text, dialect=BINLOG[family], most=MOST_TOKENS)
        self.family: Family = family
        self.ctes: list[set[str]] = [set()]
        """The names of the common table expressions that are visible here, by the level of parentheses. MySQL compares
        them as it compares tables, MariaDB without regard to case.
        """
        self._nested = 0

    def nest(self) -> bool:
        """Enter one more level of nesting (parentheses or subqueries). Return False if the limit of levels is reached,
        which protects Python's stack.

        The caller must call :meth:`unnest` at the end of the level.
        """
        if self._nested == self.most_nested:
            return False
        self._nested += 1
        return True

    def unnest(self) -> None:
        """Leave the level of nesting (parentheses or subquery) that the last successful call of :meth:`nest`
        entered.
        """
        self._nested -= 1

    def note_table(self, name: TableName) -> None:
        """Receive a table name of a FROM or UPDATE clause from the parser. The name may also be that of a common table
        expression. This class ignores it; a subclass can collect it.
        """

    def read_cte(self, name: str, *, is_recursive: bool) -> None:
        """Consume the query of the common table expression ``name``, and make the name visible to the rest of the
        statement.

        The cursor stands after the query's opening parenthesis.
        """
        self.skip_parentheses()
        self.ctes[-1].add(name)

    def is_cte(self, name: str) -> bool:
        """Tell whether a name without a database means a common table expression at this point of the statement, and no
        table.
        """
        visible = itertools.chain(*self.ctes)
        return name in visible if self.family == "mysql" else self.may_be_cte(name)

    def may_be_cte(self, name: str) -> bool:
        """Tell whether a name means a common table expression on a server that compares tables without regard to
        case.
        """
        wanted = name.lower()
        return any(cte.lower() == wanted for cte in itertools.chain(*self.ctes))

    def note_writes(self, names: Iterable[TableName], *changes: Change) -> None:
        """Receive from the parser the tables whose rows the statement may change. This class ignores the call; a
        subclass can collect the names.
        """

    def note_update(self, tables: Sequence[tuple[TableName, str]]) -> None:
        """Receive from the parser the tables of an UPDATE with their aliases. The cursor is after the word SET. This
        class ignores the call; a subclass can collect the names.
        """
