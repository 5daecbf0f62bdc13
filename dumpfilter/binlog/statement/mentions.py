"""The scanner that finds the tables and functions that a statement names, also in the body of a trigger or a routine.

:class:`BodyReader` reads a text to its end. A table of keywords says which function parses the tokens after a
keyword. The statements in a body are parsed by the same functions as a whole statement
(:data:`~dumpfilter.binlog.statement.parse.STATEMENTS`), and FROM clauses by
:mod:`~dumpfilter.binlog.statement.reader`. The time is linear in the text.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence

from dumpfilter.binlog.format import Family
from dumpfilter.binlog.query import TableName
from dumpfilter.binlog.statement.parse import STATEMENTS
from dumpfilter.binlog.statement.reader import (
    AFTER_LIST,
    NOT_ALWAYS_RESERVED,
    QUERY,
    StatementReader,
    read_references,
    sees_alias,
)
from dumpfilter.binlog.statement.statement import Change, Mentions, Names
from dumpfilter.binlog.statement.tokens import Token, TokenKind

_NOT_A_VERB_AFTER = frozenset({"ON", "KEY", "BEFORE", "AFTER", "OR", "CREATE", "GRANT", "REVOKE", "FOR"})
_ALSO_FUNCTIONS = frozenset({"INSERT", "REPLACE", "TRUNCATE"})
_SEQUENCE_FUNCTIONS = frozenset({"NEXTVAL", "LASTVAL", "SETVAL"})
_SYMBOL = TokenKind.SYMBOL


def mentions(text: str, family: Family = "mysql") -> Mentions:
    """Return the tables and functions that a statement names.

    >>> mentions("INSERT INTO t SELECT f(a.x) FROM a, d.b WHERE x IN (SELECT y FROM c)").tables
    (TableName(database=None, table='t'), TableName(database=None, table='a'), TableName(database='d', table='b'), \
TableName(database=None, table='c'))
    >>> mentions("DELETE FROM t WHERE TRIM(BOTH ' ' FROM x) = ''").writes
    ((TableName(database=None, table='t'), <Change.DELETE: 'DELETE'>),)
    """
    return BodyReader(text, family).mentions()


class BodyReader(StatementReader):
    """A cursor over a statement that collects the names of tables and functions in its text."""

    most_nested = 50
    """The limit of nesting levels. Each level takes up to nine calls here, and Python's stack has room for a thousand.
    """

    def __init__(self, text: str, family: Family) -> None:
        super().__init__(text, family)
        self.engine = ""
        """The storage engine of the first ENGINE option outside parentheses and before a query, in capitals."""
        self.merged: Names = ()
        """The tables in parentheses after the option UNION, of which a MERGE table consists."""
        self.first_list: Names | None = None
        """The tables that stand directly in the FROM clause of the first query, outside parentheses."""
        self._met_query = False
        self._last = Token(TokenKind.END, "", 0, 0)
        """The token that :meth:`advance` has returned last."""
        self._levels = [True]
        """For each level of parentheses, whether the level holds a query.

        In a level without a query, such as the arguments of TRIM(… FROM …), the word FROM begins no list.
        """
        self._tables: dict[TableName, None] = {}
        self._writes: dict[tuple[TableName, Change], None] = {}
        self._changed: dict[tuple[TableName, Change], None] = {}
        self._inserted: Names = ()
        """The table of the INSERT that the scanner has met last."""
        self._functions: dict[TableName, None] = {}
        self._parents: dict[TableName, None] = {}
        self._sequences: dict[TableName, None] = {}
        self._is_in_cte = False
        self._is_sure = True
        """Whether all tables of the text up to here were found for sure."""

    def mentions(self) -> Mentions:
        """Parse the statement to its end. Return the tables and functions that it names, by what it does to them."""
        if self._last.word in ("TABLE", "WITH", "SELECT", "AS"):
            # The reader of the statement's head has stopped behind the first word of a query.
            _NOTES[self._last.word](self, self._last, "")
        while not self.at_end:
            self.skip()
        is_whole = self.token.kind is TokenKind.END and not self.cut and len(self._levels) == 1
        return Mentions(
            tuple(self._tables),
            tuple(self._writes),
            tuple(self._functions),
            tuple(self._parents),
            tuple(self._changed),
            tuple(self._sequences),
            self._is_sure and is_whole,
        )

    def nest(self) -> bool:
        is_possible = super().nest()
        self._is_sure &= is_possible
        return is_possible

    # The moves of the cursor, which note the names that they pass.

    def advance(self) -> Token:
        taken = super().advance()
        self._last = taken
        if taken.kind is _SYMBOL:
            if taken.value == "(":
                self._levels.append(self.token.word in QUERY)
                self.ctes.append(set())
            elif taken.value == ")" and len(self._levels) > 1:
                self._levels.pop()
                self.ctes.pop()
            elif taken.value == ")":
                self._is_sure = False
            elif taken.value == ";":
                self._is_sure &= len(self._levels) == 1
                self._levels, self.ctes = [True], [set()]
        return taken

    def skip(self) -> int:
        depth, before, token = len(self._levels), self._last.word, self.token
        note = _NOTES.get(token.word)
        if note is not None:
            self.advance()
            note(self, token, before)
        elif token.kind is TokenKind.WORD or token.kind is TokenKind.QUOTED:
            self._name_or_call()
        else:
            self.advance()
            if token.kind is _SYMBOL and token.value == "@" and self.token.is_name:
                self.advance()  # A user's variable may have any name, such as @from.
        return len(self._levels) - depth

    # The names.

    def note_table(self, name: TableName) -> None:
        if not _is_dual(name) and not self._means_cte(name):
            self._tables[name] = None

    def _means_cte(self, name: TableName) -> bool:
        return name.database is None and self.is_cte(name.table)

    def read_cte(self, name: str, *, is_recursive: bool) -> None:
        outer, was_in_cte = self.ctes, self._is_in_cte
        if is_recursive:
            outer[-2].add(name)
        if self.family == "mariadb" and not was_in_cte:
            # A WITH inside a subquery hides the common table expressions of the statement around it.
            self.ctes = outer[-2:]
        self._is_in_cte = True
        self.skip_parentheses()
        self._is_in_cte = was_in_cte
        self.ctes = outer[: len(self._levels)]
        self.ctes[-1].add(name)

    def note_writes(self, names: Iterable[TableName], *changes: Change) -> None:
        names = tuple(name for name in names if not self._means_cte(name))
        if Change.INSERT in changes:
            self._inserted = names
        for name in names:
            self._tables[name] = None
            for change in changes:
                self._writes[name, change] = self._changed[name, change] = None

    def note_update(self, tables: Sequence[tuple[TableName, str]]) -> None:
        named = [(alias.lower(), name) for name, alias in tables if name.database != ""]
        self._writes |= {(name, Change.UPDATE): None for _, name in named}
        is_sure = self._last.word == "SET" or self.skip_to("SET", ";") == "SET"
        qualifiers: set[str] = set()
        stop = "," if is_sure else ""
        while stop == ",":
            parts = []
            while self.token.is_name:
                parts.append(self.advance().value)
                if not self.accept("."):
                    break
            if len(parts) < 2 or self.token.kind is not _SYMBOL or self.token.value[0] not in "=:":
                is_sure = False
            else:
                qualifiers.add(parts[-2].lower())
            stop = self.skip_to(",", "WHERE", "ORDER", "LIMIT", "RETURNING", ";")
        # Only a text that is read to its end tells all assignments.
        is_sure &= bool(stop) or (self.token.kind is TokenKind.END and not self.cut)
        shown = [alias for alias, _ in named]
        known = is_sure and qualifiers and all(shown.count(alias) == 1 for alias in qualifiers)
        self._changed |= {
            (name, Change.UPDATE): None for alias, name in named if not known or alias in qualifiers
        }

    # The functions for keywords. They get the keyword's token, and the word before the keyword.

    def _statement(self, begin: Token, before: str) -> None:
        if begin.word == "UPDATE" and before == "KEY":
            # ON DUPLICATE KEY UPDATE also updates the table of the preceding INSERT.
            self.note_writes(self._inserted, Change.UPDATE)
        elif not self._is_other(begin.word, before) and self.nest():
            STATEMENTS[begin.word](self, begin)
            self.unnest()

    def _is_other(self, word: str, before: str) -> bool:
        """Tell whether a word that can begin a statement is a function's name here, or a part of another statement."""
        if word == "REPLACE" and self.sees("AS", *QUERY):
            return True  # CREATE TABLE … REPLACE SELECT
        is_function = word in _ALSO_FUNCTIONS and self.sees("(")
        return is_function or (before in _NOT_A_VERB_AFTER and word != "WITH")

    def _from(self, begin: Token, before: str) -> None:
        if self._levels[-1] and before != "SYSTEM_TIME":  # FOR SYSTEM_TIME FROM … TO …
            self._list(begin, before)

    def _list(self, begin: Token, before: str) -> None:
        """Parse the tables of a FROM clause after the word FROM or JOIN, and record them."""
        depth = len(self._levels)
        is_first = depth == 1 and self.first_list is None
        names: list[TableName] = []
        while True:
            found = read_references(self)
            names += (name for name, _ in found.top if name.database != "" and not _is_dual(name))
            # The parser of FROM clauses stops at a query in two pairs of parentheses, or after it.
            if len(self._levels) > depth and self.nest():
                while len(self._levels) > depth and not self.at_end:
                    self.skip()
                self.unnest()
            if self._last.value == ")":
                self.accept("AS")
                if sees_alias(self):
                    self.advance()
            is_sure = self.at_end or self.sees(*AFTER_LIST)
            self.accept(*NOT_ALWAYS_RESERVED)
            if not self.accept(","):
                break
        self._is_sure &= is_sure
        if is_first:
            self.first_list = tuple(names)

    def _table(self, begin: Token, before: str) -> None:
        self.exists()
        if (name := self.name()) is not None:
            self.note_table(name)

    def _value(self, begin: Token, before: str) -> None:
        if before in ("NEXT", "PREVIOUS") and self.accept("FOR"):
            self._sequence()

    def _sequence(self) -> None:
        if (sequence := self.name()) is not None:
            self._tables[sequence] = self._sequences[sequence] = None

    def _parent(self, begin: Token, before: str) -> None:
        if (parent := self.name()) is not None:
            self._parents[parent] = None

    def _option(self, begin: Token, before: str) -> None:
        """Record the option ENGINE of a table, or the tables in its option UNION (MERGE table). Options inside
        parentheses and in queries are ignored.
        """
        if len(self._levels) > 1 or self._met_query:
            return
        self.accept("=")
        if begin.word == "ENGINE":
            self.engine = self.engine or self.token.value.upper()
        elif self.accept("(") and not self.sees("(", *QUERY):
            self.merged = self.names() or ()

    def _query(self, begin: Token, before: str) -> None:
        """Record that a query begins here, after which no table options follow and in which FROM begins a list of
        tables.
        """
        self._levels[-1] |= begin.word == "SELECT"
        self._met_query |= len(self._levels) == 1

    def _name_or_call(self) -> None:
        name = self.name()
        if name is None or self.token.kind is not _SYMBOL or self.token.value != "(":
            return
        self._functions[name] = None
        if name.table.upper() in _SEQUENCE_FUNCTIONS:
            self.advance()
            self._sequence()


def _is_dual(name: TableName) -> bool:
    return name.database is None and name.table.upper() == "DUAL"


_NOTES: dict[str, Callable[[BodyReader, Token, str], None]] = {
    "FROM": BodyReader._from,
    "JOIN": BodyReader._list,
    "TABLE": BodyReader._table,
    "VALUE": BodyReader._value,
    "REFERENCES": BodyReader._parent,
    **dict.fromkeys(("ENGINE", "UNION"), BodyReader._option),
    **dict.fromkeys(("SELECT", "AS"), BodyReader._query),
    **dict.fromkeys(
        ("INSERT", "REPLACE", "UPDATE", "DELETE", "WITH", "LOAD", "TRUNCATE", "SET"), BodyReader._statement
    ),
}
"""The functions that parse the tokens after a keyword, by the keyword. A function gets the cursor, the keyword's
token, and the word before the keyword.
"""
