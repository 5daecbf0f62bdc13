"""The tables and functions that a statement names, found by the words before them.

The scanner reads any statement, also the body of a trigger or a routine, which a parser of single statements does not
understand. A table's name stands behind FROM, JOIN, INTO, UPDATE, TABLE or REFERENCES, or behind a comma in such a
list. The scanner takes time linear in the text.
"""

from __future__ import annotations

import functools

from dumpfilter.binlog.format import Family
from dumpfilter.binlog.query import TableName
from dumpfilter.binlog.statement.parse import StatementReader
from dumpfilter.binlog.statement.references import AFTER_NAME
from dumpfilter.binlog.statement.statement import Change, Mentions
from dumpfilter.binlog.statement.tokens import TokenKind

_QUERY = frozenset({"SELECT", "WITH", "VALUES", "TABLE"})
_END_OF_LIST = frozenset(
    {"WHERE", "SET", "GROUP", "HAVING", "ORDER", "LIMIT", "UNION", "EXCEPT", "INTERSECT", "SELECT", "WINDOW"}
    | {"VALUES", "VALUE", "RETURNING", "DO", "THEN", "PROCEDURE", "INTO", "LOCK", "FOR", "END"}
)
_NOT_A_VERB_AFTER = frozenset({"ON", "KEY", "BEFORE", "AFTER", "OR", "CREATE", "GRANT", "REVOKE"})
_MODIFIERS = frozenset({"LOW_PRIORITY", "DELAYED", "HIGH_PRIORITY", "IGNORE", "QUICK", "HISTORY"})
_BEFORE_NAME = frozenset({"LATERAL", "ONLY", "IF", "NOT", "EXISTS"})
_END_OF_ASSIGNMENTS = frozenset({"WHERE", "ORDER", "LIMIT", "RETURNING"})
_OF_TABLES = frozenset({"ENGINE", "UNION", "SELECT", "AS"})
"""Words before an option of a table, or before its query, behind which no option follows."""
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


remembered_mentions = functools.lru_cache(4096)(mentions)
""":func:`mentions` with a cache, for the shapes of statements."""


class _Level:
    """One level of parentheses: whether a table's name comes next, and which change the current list of tables is for.

    In a level that holds no query, such as the arguments of TRIM(… FROM …), the word FROM begins no list.
    """

    __slots__ = ("change", "expects", "in_list", "is_first", "is_query", "maybe_cte")

    def __init__(self, *, is_query: bool, expects: bool = False, change: Change | None = None) -> None:
        self.is_query = is_query
        self.expects = expects
        self.in_list = expects
        self.change = change
        self.is_first = False
        """Whether the list is that of the first FROM clause."""
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


class BodyReader(StatementReader):
    """The cursor over a statement, which notes the names in the rest of the text."""

    def __init__(self, text: str, family: Family) -> None:
        super().__init__(text, family)
        self.engine = ""
        """The first engine outside parentheses and before a query, in capitals."""
        self.merged: tuple[TableName, ...] = ()
        """The tables in parentheses behind UNION, which a MERGE table consists of."""
        self.first_list: dict[TableName, None] = {}
        """The tables that stand directly in the FROM clause of the first query, outside parentheses."""
        self._met_from = self._met_query = False
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
        """Read to the end of the text, and return the names in it."""
        kind = self.token.kind
        while kind is not TokenKind.END and kind is not TokenKind.BAD:
            level, update = self._levels[-1], self._update
            if update is not None and update.expects and update.level is level:
                self._assignment(update)
            elif kind is _SYMBOL:
                self._symbol(level)
            elif level.expects:
                self._expected(level)
            elif kind is TokenKind.WORD or kind is TokenKind.QUOTED:
                self._word(level)
            else:
                self._before = ""
                self.advance()
            kind = self.token.kind
        self._finish_update(is_whole=kind is TokenKind.END and not self.cut)
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

    def _expected(self, level: _Level) -> None:
        # A table's name is next, perhaps behind words such as LATERAL or IF EXISTS.
        if self.token.word in _BEFORE_NAME or self.token.word in _MODIFIERS:
            self.advance()
            return
        if self.token.word in _END_OF_LIST:
            level.expects = level.in_list = False
            return
        level.expects = False
        name = self._plain_name()
        if name is None or (self.sees("(") and name.table.upper() == "JSON_TABLE"):
            return
        if name.database is None and name.table.upper() == "DUAL":
            return
        self._tables[name] = None
        if level.is_first:
            self.first_list[name] = None
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
        if not self.accept("AS") and self.token.word in AFTER_NAME:
            return name.table
        return self.advance().value if self.token.is_name else name.table

    def _assignment(self, update: _Update) -> None:
        update.expects = False
        names = []
        while self.token.is_name:
            names.append(self.advance().value)
            if not self.accept("."):
                break
        self._before = ""
        if len(names) < 2 or self.token.kind is not _SYMBOL or self.token.value[0] not in "=:":
            update.is_sure = False
        else:
            update.qualifiers.add(names[-2].lower())

    def _finish_update(self, *, is_whole: bool) -> None:
        if self._update is not None:
            self._update.is_sure &= is_whole
            self._changed |= {(table, Change.UPDATE): None for table in self._update.changed()}
            self._update = None

    def _plain_name(self) -> TableName | None:
        first = self.advance()
        if not first.is_name:
            return None
        self._before = ""
        if self.token.kind is not _SYMBOL or not self.accept("."):
            return TableName(None, first.value)
        return TableName(first.value, self.advance().value) if self.token.is_name else None

    def _sequence(self) -> None:
        if (sequence := self._plain_name()) is not None:
            self._tables[sequence] = self._sequences[sequence] = None

    def _symbol(self, level: _Level) -> None:
        value = self.advance().value
        if value == "(":
            self._open(level)
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

    def _open(self, level: _Level) -> None:
        """Enter a level of parentheses."""
        begins_query = self.token.word in _QUERY
        joined = level.expects and not begins_query
        inner = _Level(is_query=begins_query or joined, expects=joined, change=level.change)
        inner.is_first = joined and level.is_first
        self._levels.append(inner)
        level.expects = False

    def _word(self, level: _Level) -> None:
        before, word = self._before, self.token.word
        if word == "FOR" and before in ("INDEX", "KEY"):
            # USE INDEX FOR JOIN (…): these words neither end nor begin a list of tables.
            self.advance()
            self.accept_all("JOIN", "ORDER", "GROUP", "BY")
        elif word == "FROM" and before == "SYSTEM_TIME":
            self.advance()  # FOR SYSTEM_TIME FROM … TO …
        elif word in ("FROM", "JOIN", "STRAIGHT_JOIN"):
            self.advance()
            if word != "FROM" or level.is_query:
                self._begin_list(level, Change.DELETE if word == "FROM" and self._deleting else level.change)
            if word == "FROM" and level.is_query:
                self._deleting = False
                level.is_first = len(self._levels) == 1 and not self._met_from
                self._met_from |= level.is_first
        elif word == "STATEMENT" and before == "SET":
            # MariaDB's SET STATEMENT … FOR makes settings for the statement that follows FOR.
            self._of_set_statement = True
            self.advance()
        elif word == "USING":
            self.advance()
            level.expects = level.in_list = level.in_list and not self.sees("(")
        elif word == "UPDATE" and before == "FOR" and not self._of_set_statement:
            self.advance()  # SELECT … FOR UPDATE
        elif word in ("UPDATE", "DELETE", "INSERT", "REPLACE") and before not in _NOT_A_VERB_AFTER:
            self._verb(level, word)
        elif word == "UPDATE" and before == "KEY":
            # INSERT … ON DUPLICATE KEY UPDATE also updates rows, for which the table's triggers for UPDATE exist.
            self.advance()
            # Assignments follow, so that a comma no longer separates the tables of a query's FROM clause.
            level.in_list = False
            for name, change in list(self._writes):
                if change is Change.INSERT:
                    self._write(name, Change.UPDATE)
        elif word == "LOAD" and before in ("", "FOR"):
            self.advance()
            self._loading = True
        elif word == "TABLE":
            self.advance()
            level.expects = self.token.is_name
            if self._loading:
                # LOAD DATA fires the table's triggers for INSERT.
                level.change = Change.INSERT
                self._loading = False
        elif word == "TRUNCATE":
            self.advance()
            level.expects = self.token.kind is not _SYMBOL and self.token.word != "TABLE"
        elif word == "REFERENCES":
            self.advance()
            if (parent := self._plain_name()) is not None:
                self._parents[parent] = None
        elif word == "VALUE" and before in ("NEXT", "PREVIOUS"):
            self.advance()
            if self.accept("FOR"):
                self._sequence()
        else:
            self._other(level, word)
            return
        self._before = word

    def _begin_list(self, level: _Level, change: Change | None) -> None:
        level.expects = level.in_list = True
        level.change = change

    def _verb(self, level: _Level, word: str) -> None:
        self.advance()
        if word in ("INSERT", "REPLACE") and self.sees("("):
            return  # INSERT(…) and REPLACE(…) are functions.
        self._deleting = word == "DELETE"
        self._finish_update(is_whole=False)
        if word == "UPDATE":
            self._update = _Update(level)
            self._begin_list(level, Change.UPDATE)
        elif word != "DELETE":
            while self.token.word in _MODIFIERS or self.token.word in ("INTO", "TABLE"):
                self.advance()
            name = self._plain_name()
            if name is not None:
                self._tables[name] = None
                self._write(name, Change.INSERT)
                if word == "REPLACE":
                    self._write(name, Change.DELETE)

    def _other(self, level: _Level, word: str) -> None:
        if word in _END_OF_LIST:
            level.expects = level.in_list = level.is_first = False
            level.change = None
        if self._update is not None and self._update.level is level:
            if word == "SET" and not self._update.is_assigning:
                self._update.is_assigning = self._update.expects = True
            elif word in _END_OF_ASSIGNMENTS:
                self._finish_update(is_whole=True)
        if word == "AS" and level.maybe_cte:
            self.advance()
            if self.sees("("):
                self._ctes.add(level.maybe_cte)
            level.maybe_cte = ""
            return
        before = self._before
        name = self._plain_name()
        self._before = word
        level.maybe_cte = ""
        if word in _OF_TABLES and len(self._levels) == 1:
            self._table_option(level, word)
        elif name is None or self.token.kind is not _SYMBOL:
            if name is not None and self.token.word == "AS" and before in ("WITH", "RECURSIVE", ""):
                level.maybe_cte = name.table.lower()
        elif self.token.value == "(":
            self._functions[name] = None
            if name.table.upper() in _SEQUENCE_FUNCTIONS:
                self.advance()
                self._levels.append(_Level(is_query=False))
                self._sequence()
            elif before in ("WITH", "RECURSIVE", ""):
                level.maybe_cte = name.table.lower()

    def _table_option(self, level: _Level, word: str) -> None:
        """Note the engine of a table, or the tables of a MERGE table. Both stand outside parentheses."""
        if word in ("SELECT", "AS"):
            self._met_query = True
        elif word == "ENGINE" and not self._met_query and not self.engine:
            self.accept("=")
            self.engine = self.token.value.upper()
        elif word == "UNION":
            self.accept("=")
            if self.accept("("):
                if self.sees("SELECT", "("):
                    self._open(level)
                else:
                    self.merged = self.names() or ()
