"""The tables and functions that a statement names, found by the words before them.

The scanner reads any statement, also the body of a trigger or a routine, which a parser of single statements does not
understand. A table's name stands behind FROM, JOIN, INTO, UPDATE, TABLE or REFERENCES, or behind a comma in such a
list. The scanner takes time linear in the text.
"""

from __future__ import annotations

import enum
import functools
from dataclasses import dataclass

from dumpfilter.binlog.format import Family
from dumpfilter.binlog.query import TableName
from dumpfilter.binlog.statement.reader import MOST_TOKENS
from dumpfilter.binlog.statement.references import AFTER_NAME
from dumpfilter.binlog.statement.tokens import BINLOG, Lexer, Token, TokenKind


class Change(enum.Enum):
    """The way in which a statement changes the rows of a table. A trigger is for one of them."""

    INSERT = "INSERT"
    UPDATE = "UPDATE"
    DELETE = "DELETE"


@dataclass(frozen=True)
class Mentions:
    """The names in a statement's text. A name without a database is in the current database."""

    tables: tuple[TableName, ...] = ()
    """The tables, views and sequences that the text names, each once."""
    writes: tuple[tuple[TableName, Change], ...] = ()
    """The tables whose rows the text may change, with the ways of change."""
    functions: tuple[TableName, ...] = ()
    """The names before an opening parenthesis, of which some may be stored functions."""
    parents: tuple[TableName, ...] = ()
    """The tables behind REFERENCES, to which foreign keys refer."""
    changed: tuple[tuple[TableName, Change], ...] = ()
    """``writes`` without the tables of an UPDATE that its SET clause surely leaves out.

    For such a table a server opens the triggers for UPDATE, too, but changes no row.
    """
    sequences: tuple[TableName, ...] = ()
    """The tables behind NEXT VALUE FOR, or in functions such as NEXTVAL."""


NO_MENTIONS = Mentions()

_QUERY = frozenset({"SELECT", "WITH", "VALUES", "TABLE"})
_END_OF_LIST = frozenset(
    {"WHERE", "SET", "GROUP", "HAVING", "ORDER", "LIMIT", "UNION", "EXCEPT", "INTERSECT", "SELECT", "WINDOW"}
    | {"VALUES", "VALUE", "RETURNING", "DO", "THEN", "PROCEDURE", "INTO", "LOCK", "FOR", "END"}
)
_NOT_A_VERB_AFTER = frozenset({"ON", "KEY", "BEFORE", "AFTER", "OR", "CREATE", "GRANT", "REVOKE"})
_MODIFIERS = frozenset({"LOW_PRIORITY", "DELAYED", "HIGH_PRIORITY", "IGNORE", "QUICK", "HISTORY"})
_BEFORE_NAME = frozenset({"LATERAL", "ONLY", "IF", "NOT", "EXISTS"})
_END_OF_ASSIGNMENTS = frozenset({"WHERE", "ORDER", "LIMIT", "RETURNING"})
_SEQUENCE_FUNCTIONS = frozenset({"NEXTVAL", "LASTVAL", "SETVAL"})
_SYMBOL, _END, _BAD = TokenKind.SYMBOL, TokenKind.END, TokenKind.BAD


def mentions(text: str, family: Family = "mysql") -> Mentions:
    """Return the tables and functions that a statement names.

    >>> mentions("INSERT INTO t SELECT f(a.x) FROM a, d.b WHERE x IN (SELECT y FROM c)").tables
    (TableName(database=None, table='t'), TableName(database=None, table='a'), TableName(database='d', table='b'), \
TableName(database=None, table='c'))
    >>> mentions("DELETE FROM t WHERE TRIM(BOTH ' ' FROM x) = ''").writes
    ((TableName(database=None, table='t'), <Change.DELETE: 'DELETE'>),)
    """
    return _Scanner(text, family).mentions()


remembered_mentions = functools.lru_cache(4096)(mentions)
""":func:`mentions` with a cache, for the shapes of statements."""


class _Level:
    """One level of parentheses: whether a table's name comes next, and which change the current list of tables is for.

    In a level that holds no query, such as the arguments of TRIM(… FROM …), the word FROM begins no list.
    """

    __slots__ = ("change", "expects", "in_list", "is_query", "maybe_cte")

    def __init__(self, *, is_query: bool, expects: bool = False, change: Change | None = None) -> None:
        self.is_query = is_query
        self.expects = expects
        self.in_list = expects
        self.change = change
        self.maybe_cte = ""
        """The name that may be a common table expression, if AS and a parenthesis follow."""


class _Update:
    """An UPDATE statement that is being read: its tables, and the qualifiers of the columns that it sets."""

    def __init__(self, level: _Level) -> None:
        self.level = level
        self.tables: list[tuple[str, TableName]] = []
        """The tables in the list before SET, with the names that stand for them in the statement, in lower case."""
        self.is_assigning = False
        self.expects = False
        """Whether the column of an assignment comes next."""
        self.is_sure = True
        """Whether all assignments so far have a qualifier."""
        self.qualifiers: set[str] = set()

    def changed(self) -> list[TableName]:
        """Return the tables whose rows the statement may change."""
        shown = [name for name, _ in self.tables]
        known = self.is_sure and self.qualifiers and all(shown.count(name) == 1 for name in self.qualifiers)
        return [table for name, table in self.tables if not known or name in self.qualifiers]


class _Scanner:
    def __init__(self, text: str, family: Family) -> None:
        self._lexer = Lexer(text, dialect=BINLOG[family])
        self._left = MOST_TOKENS
        self._token = self._lexer.next()
        self._before = ""
        self._levels = [_Level(is_query=True)]
        self._deleting = False
        self._of_set_statement = False
        self._loading = False
        self._tables: dict[TableName, None] = {}
        self._writes: dict[tuple[TableName, Change], None] = {}
        self._changed: dict[tuple[TableName, Change], None] = {}
        self._update: _Update | None = None
        self._functions: dict[TableName, None] = {}
        self._parents: dict[TableName, None] = {}
        self._sequences: dict[TableName, None] = {}
        self._ctes: set[str] = set()

    def mentions(self) -> Mentions:
        while self._left and self._token.kind not in (_END, _BAD):
            self._step()
        self._finish_update(is_whole=self._token.kind is _END)
        return Mentions(
            tuple(name for name in self._tables if not self._is_cte(name)),
            tuple(write for write in self._writes if not self._is_cte(write[0])),
            tuple(self._functions),
            tuple(self._parents),
            tuple(write for write in self._changed if not self._is_cte(write[0])),
            tuple(self._sequences),
        )

    def _is_cte(self, name: TableName) -> bool:
        return name.database is None and name.table.lower() in self._ctes

    def _advance(self) -> Token:
        taken = self._token
        self._left -= 1
        self._token = self._lexer.next()
        return taken

    def _step(self) -> None:
        level = self._levels[-1]
        token = self._token
        if self._update is not None and self._update.expects and self._update.level is level:
            self._assignment(self._update)
            return
        if level.expects and token.kind is not _SYMBOL:
            self._expected(level)
            return
        if token.kind is _SYMBOL:
            self._symbol(level)
        elif token.kind in (TokenKind.WORD, TokenKind.QUOTED):
            self._word(level)
        else:
            self._before = ""
            self._advance()

    def _expected(self, level: _Level) -> None:
        # A table's name is next, perhaps behind words such as LATERAL or IF EXISTS.
        if self._token.word in _BEFORE_NAME or self._token.word in _MODIFIERS:
            self._advance()
            return
        if self._token.word in _END_OF_LIST:
            level.expects = level.in_list = False
            return
        level.expects = False
        name = self._name()
        if name is None or (self._token.value == "(" and name.table.upper() == "JSON_TABLE"):
            return
        if name.database is None and name.table.upper() == "DUAL":
            return
        self._tables[name] = None
        if level.change is Change.UPDATE and self._update is not None and not self._update.is_assigning:
            self._writes[name, Change.UPDATE] = None
            self._update.tables.append((self._alias(name).lower(), name))
        elif level.change is not None:
            self._write(name, level.change)
        if not level.in_list:
            level.change = None

    def _write(self, name: TableName, change: Change) -> None:
        self._writes[name, change] = self._changed[name, change] = None

    def _alias(self, name: TableName) -> str:
        if self._token.word == "AS":
            self._advance()
        elif self._token.word in AFTER_NAME:
            return name.table
        return self._advance().value if self._token.is_name else name.table

    def _assignment(self, update: _Update) -> None:
        update.expects = False
        names = []
        while self._token.is_name:
            names.append(self._advance().value)
            if self._token.kind is not _SYMBOL or self._token.value != ".":
                break
            self._advance()
        self._before = ""
        if len(names) < 2 or self._token.kind is not _SYMBOL or self._token.value[0] not in "=:":
            update.is_sure = False
        else:
            update.qualifiers.add(names[-2].lower())

    def _finish_update(self, *, is_whole: bool) -> None:
        if self._update is not None:
            self._update.is_sure &= is_whole
            self._changed |= {(table, Change.UPDATE): None for table in self._update.changed()}
            self._update = None

    def _name(self) -> TableName | None:
        if not self._token.is_name:
            self._advance()
            return None
        first = self._advance()
        self._before = ""
        if self._token.kind is not _SYMBOL or self._token.value != ".":
            return TableName(None, first.value)
        self._advance()
        if not self._token.is_name:
            return None
        return TableName(first.value, self._advance().value)

    def _sequence(self) -> None:
        if (sequence := self._name()) is not None:
            self._tables[sequence] = self._sequences[sequence] = None

    def _symbol(self, level: _Level) -> None:
        value = self._advance().value
        if value == "(":
            is_query = self._token.word in _QUERY or (level.expects and self._token.value == "(")
            joined = level.expects and self._token.word not in _QUERY
            self._levels.append(_Level(is_query=is_query or joined, expects=joined, change=level.change))
            level.expects = False
        elif value == ")":
            if len(self._levels) > 1:
                self._levels.pop()
        elif value == "," and level.in_list:
            level.expects = True
        elif value == "," and self._update is not None and self._update.level is level:
            self._update.expects = self._update.is_assigning
        elif value == ";":
            self._finish_update(is_whole=True)
            self._levels = [_Level(is_query=True)]
        self._before = ""

    def _word(self, level: _Level) -> None:
        before = self._before
        word = self._token.word
        if word == "FOR" and before in ("INDEX", "KEY"):
            # USE INDEX FOR JOIN (…): these words neither end nor begin a list of tables.
            self._advance()
            while self._token.word in ("JOIN", "ORDER", "GROUP", "BY"):
                self._advance()
        elif word == "FROM" and before == "SYSTEM_TIME":
            self._advance()  # FOR SYSTEM_TIME FROM … TO …
        elif word in ("FROM", "JOIN", "STRAIGHT_JOIN"):
            self._advance()
            if word != "FROM" or level.is_query:
                self._begin_list(level, Change.DELETE if word == "FROM" and self._deleting else level.change)
                if word == "FROM":
                    self._deleting = False
        elif word == "STATEMENT" and before == "SET":
            # MariaDB's SET STATEMENT … FOR makes settings for the statement that follows FOR.
            self._of_set_statement = True
            self._advance()
        elif word == "USING":
            self._advance()
            level.expects = level.in_list = level.in_list and self._token.value != "("
        elif word == "UPDATE" and before == "FOR" and not self._of_set_statement:
            self._advance()  # SELECT … FOR UPDATE
        elif word in ("UPDATE", "DELETE", "INSERT", "REPLACE") and before not in _NOT_A_VERB_AFTER:
            self._verb(level, word)
        elif word == "UPDATE" and before == "KEY":
            # INSERT … ON DUPLICATE KEY UPDATE also updates rows, for which the table's triggers for UPDATE exist.
            self._advance()
            # Assignments follow, so that a comma no longer separates the tables of a query's FROM clause.
            level.in_list = False
            for name, change in list(self._writes):
                if change is Change.INSERT:
                    self._write(name, Change.UPDATE)
        elif word == "LOAD" and before in ("", "FOR"):
            self._advance()
            self._loading = True
        elif word == "TABLE":
            self._advance()
            level.expects = self._token.is_name
            if self._loading:
                # LOAD DATA fires the table's triggers for INSERT.
                level.change = Change.INSERT
                self._loading = False
        elif word == "TRUNCATE":
            self._advance()
            level.expects = self._token.kind is not _SYMBOL and self._token.word != "TABLE"
        elif word == "REFERENCES":
            self._advance()
            if (parent := self._name()) is not None:
                self._parents[parent] = None
        elif word == "VALUE" and before in ("NEXT", "PREVIOUS"):
            self._advance()
            if self._token.word == "FOR":
                self._advance()
                self._sequence()
        else:
            self._other(level, word)
            return
        self._before = word

    def _begin_list(self, level: _Level, change: Change | None) -> None:
        level.expects = level.in_list = True
        level.change = change

    def _verb(self, level: _Level, word: str) -> None:
        self._advance()
        if word in ("INSERT", "REPLACE") and self._token.kind is _SYMBOL and self._token.value == "(":
            return  # INSERT(…) and REPLACE(…) are functions.
        self._deleting = word == "DELETE"
        self._finish_update(is_whole=False)
        if word == "UPDATE":
            self._update = _Update(level)
            self._begin_list(level, Change.UPDATE)
        elif word != "DELETE":
            while self._token.word in _MODIFIERS or self._token.word in ("INTO", "TABLE"):
                self._advance()
            name = self._name()
            if name is not None:
                self._tables[name] = None
                self._write(name, Change.INSERT)
                if word == "REPLACE":
                    self._write(name, Change.DELETE)

    def _other(self, level: _Level, word: str) -> None:
        if word in _END_OF_LIST:
            level.expects = level.in_list = False
            level.change = None
        if self._update is not None and self._update.level is level:
            if word == "SET" and not self._update.is_assigning:
                self._update.is_assigning = self._update.expects = True
            elif word in _END_OF_ASSIGNMENTS:
                self._finish_update(is_whole=True)
        if word == "AS" and level.maybe_cte:
            self._advance()
            if self._token.kind is _SYMBOL and self._token.value == "(":
                self._ctes.add(level.maybe_cte)
            level.maybe_cte = ""
            return
        before = self._before
        name = self._name()
        self._before = word
        level.maybe_cte = ""
        if name is None:
            return
        if self._token.kind is _SYMBOL and self._token.value == "(":
            self._functions[name] = None
            if name.table.upper() in _SEQUENCE_FUNCTIONS:
                self._advance()
                self._levels.append(_Level(is_query=False))
                self._sequence()
            elif before in ("WITH", "RECURSIVE", ""):
                level.maybe_cte = name.table.lower()
        elif self._token.word == "AS" and before in ("WITH", "RECURSIVE", ""):
            level.maybe_cte = name.table.lower()
