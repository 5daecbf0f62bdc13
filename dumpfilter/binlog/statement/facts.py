"""The functions that parse a statement's text into facts: the kind of statement, and the tables and other objects that
it names.

:class:`BodyReader` reads a text to its end, also the body of a trigger or a routine. A table of keywords says which
function parses the tokens after a keyword. The statements in a body are parsed by the same functions as a whole
statement (:data:`~dumpfilter.binlog.statement.parse.STATEMENTS`), and FROM clauses by
:mod:`~dumpfilter.binlog.statement.reader`. The time is linear in the text.

A *shape* is a statement's text without comments and with a question mark for each literal or list of literals. White
space becomes one space. Names, keywords and version comments stay. Statements of one shape name the same tables, so
that each shape is parsed once and cached.

Other functions return the tables that a statement only reads. A replica's filter ignores these tables. A filter that
the master's operator sets for a slave must know them. Query events of the extended format (MySQL's worklog 40) also
list them. This list is called the tables info of a statement.
"""

from __future__ import annotations

import functools
import re
from collections import defaultdict
from collections.abc import Callable, Iterable, Sequence
from dataclasses import replace
from itertools import product
from typing import Any, TypeVar

import numpy as np

from dumpfilter.binlog.format import Family
from dumpfilter.binlog.query import QueryEvent, TableName
from dumpfilter.binlog.statement.parse import STATEMENTS, parse_statement, read_head
from dumpfilter.binlog.statement.reader import (
    AFTER_LIST,
    NOT_ALWAYS_RESERVED,
    QUERY,
    StatementReader,
    read_references,
    sees_alias,
)
from dumpfilter.binlog.statement.statement import (
    Change,
    Mentions,
    Names,
    StatementFacts,
    StatementKind,
    Thing,
    Verb,
)
from dumpfilter.binlog.statement.tokens import Token, TokenKind

_NOT_A_VERB_AFTER = frozenset({"ON", "KEY", "BEFORE", "AFTER", "OR", "CREATE", "GRANT", "REVOKE", "FOR"})
_ALSO_FUNCTIONS = frozenset({"INSERT", "REPLACE", "TRUNCATE"})
_SEQUENCE_FUNCTIONS = frozenset({"NEXTVAL", "LASTVAL", "SETVAL"})
_SYMBOL = TokenKind.SYMBOL


def mentions(text: str, family: Family = "mysql") -> Mentions:
    """Return the tables and functions that a statement names. ``family`` (MySQL or MariaDB) tells the syntax.

    >>> mentions("INSERT INTO t SELECT f(a.x) FROM a, d.b WHERE x IN (SELECT y FROM c)").tables
    (TableName(database=None, table='t'), TableName(database=None, table='a'), TableName(database='d', table='b'), \
TableName(database=None, table='c'))
    >>> mentions("DELETE FROM t WHERE TRIM(BOTH ' ' FROM x) = ''").changed
    ((TableName(database=None, table='t'), <Change.DELETE: 'DELETE'>),)
    """
    return BodyReader(text, family).mentions()


class BodyReader(StatementReader):
    """A cursor over a statement that collects the names of tables and functions in its whole text, also in the body of
    a trigger or routine.
    """

    most_nested = 50
    """The limit of nesting levels. Each level takes up to nine nested calls of this class's methods, and Python's stack
    has room for a thousand.
    """

    def __init__(self, text: str, family: Family) -> None:
        super().__init__(text, family)
        self.engine = ""
        """The storage engine of the first ENGINE option outside parentheses and before a query, in capitals."""
        self.merged: Names = ()
        """The tables in parentheses after the option UNION, of which a MERGE table consists."""
        self.first_list: Names | None = None
        """The tables that stand directly in the FROM clause of the first query, outside parentheses; None before such a
        clause.
        """
        self._met_query = False
        self._last = Token(TokenKind.END, "", 0, 0)
        """The token that :meth:`advance` has returned last."""
        self._levels = [True]
        """For each level of parentheses, whether the level holds a query.

        In a level without a query, such as the arguments of TRIM(… FROM …), the word FROM begins no list.
        """
        self._found: dict[str, dict[Any, None]] = defaultdict(dict)
        """The values of the fields of :class:`Mentions`, by the names of the fields, in the order of the text."""
        self._inserted: Names = ()
        """The table of the INSERT that stands last in the part of the text that the scan has read."""
        self._is_in_cte = False
        self._is_sure = True
        """Whether the scan has found all tables for sure, in the part of the text that it has read."""

    def mentions(self) -> Mentions:
        """Parse the rest of the statement to its end. Return the tables and functions that the statement names, and
        what it does to the tables.
        """
        if self._last.word in ("TABLE", "WITH", "SELECT", "AS"):
            # The reader of the statement's head has stopped behind the first word of a query.
            _NOTES[self._last.word](self, self._last, "")
        while not self.at_end:
            self.skip()
        is_whole = self.token.kind is TokenKind.END and not self.cut and len(self._levels) == 1
        found = {name: tuple(values) for name, values in self._found.items()}
        return Mentions(**found, is_sure=self._is_sure and is_whole)

    def _note(self, field: str, *values: object) -> None:
        self._found[field] |= dict.fromkeys(values)

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
                self.ctes.append({})
            elif taken.value == ")" and len(self._levels) > 1:
                self._levels.pop()
                self.ctes.pop()
            elif taken.value == ")":
                self._is_sure = False
            elif taken.value == ";":
                self._is_sure &= len(self._levels) == 1
                self._levels, self.ctes = [True], [{}]
        return taken

    def skip(self) -> int:
        depth, before, token = len(self._levels), self._last.word, self.token
        note = _NOTES.get(token.word)
        if note is not None:
            self.advance()
            note(self, token, before)
        elif token.kind in (TokenKind.WORD, TokenKind.QUOTED, TokenKind.NAME):
            self._name_or_call()
        else:
            self.advance()
            if token.kind is _SYMBOL and token.value == "@" and self.token.is_name:
                self.advance()  # A user's variable may have any name, such as @from.
        return len(self._levels) - depth

    # The names.

    def note_table(self, name: TableName) -> None:
        if not _is_dual(name) and not self._means_cte(name):
            self._note("tables", name)

    def _means_cte(self, name: TableName) -> bool:
        return name.database is None and self.is_cte(name.table)

    def read_cte(self, name: str, *, is_recursive: bool) -> None:
        outer, was_in_cte = self.ctes, self._is_in_cte
        if is_recursive:
            self.define_cte(name, -2)
        if self.family == "mariadb" and not was_in_cte:
            # A WITH inside a subquery hides the common table expressions of the statement around it.
            self.ctes = outer[-2:]
        self._is_in_cte = True
        self.skip_parentheses()
        self._is_in_cte = was_in_cte
        self.ctes = outer[: len(self._levels)]
        self.define_cte(name)

    def note_writes(self, names: Iterable[TableName], *changes: Change) -> None:
        names = tuple(name for name in names if not self._means_cte(name))
        if Change.INSERT in changes:
            self._inserted = names
        self._note("tables", *names)
        self._note("changed", *product(names, changes))

    def note_update(self, tables: Sequence[tuple[TableName, str]]) -> None:
        named = [(alias.lower(), name) for name, alias in tables if name.database != ""]
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
        changed = (name for alias, name in named if not known or alias in qualifiers)
        self._note("changed", *((name, Change.UPDATE) for name in changed))

    # The functions for keywords. They get the keyword's token, and the word before the keyword.

    def _statement(self, begin: Token, before: str) -> None:
        if begin.word == "UPDATE" and before == "KEY":
            # ON DUPLICATE KEY UPDATE also updates the table of the preceding INSERT.
            self.note_writes(self._inserted, Change.UPDATE)
        elif not self._is_other(begin.word, before) and self.nest():
            STATEMENTS[begin.word](self, begin)
            self.unnest()

    def _is_other(self, word: str, before: str) -> bool:
        """Tell whether a word that can begin a statement (such as REPLACE) begins none here. Then the word is a
        function's name, or a part of another statement.

        ``before`` is the word before ``word`` in the text. The cursor is after ``word``.
        """
        if word == "REPLACE" and self.sees("AS", *QUERY):
            return True  # CREATE TABLE … REPLACE SELECT
        is_function = word in _ALSO_FUNCTIONS and self.sees("(")
        return is_function or (before in _NOT_A_VERB_AFTER and word != "WITH")

    def _from(self, begin: Token, before: str) -> None:
        if self._levels[-1] and before != "SYSTEM_TIME":  # FOR SYSTEM_TIME FROM … TO …
            self._list(begin, before)

    def _list(self, begin: Token, before: str) -> None:
        """Parse the tables of a FROM clause, and add them to the tables that the statement names (:meth:`mentions`
        returns these). The cursor is after the word FROM or JOIN.

        ``begin`` (the token FROM or JOIN) and ``before`` (the word before this token) are not used, but every function
        for a keyword gets them.
        """
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
            self._note("tables", sequence)
            self._note("sequences", sequence)

    def _parent(self, begin: Token, before: str) -> None:
        if (parent := self.name()) is not None:
            self._note("parents", parent)

    def _option(self, begin: Token, before: str) -> None:
        """Store the value of a table's option ENGINE in ``engine``, or the tables of the option UNION (of a MERGE
        table) in ``merged``. Options inside parentheses and in queries are ignored.

        ``begin`` is the token ENGINE or UNION. ``before`` (the word before ``begin``) is not used.
        """
        if len(self._levels) > 1 or self._met_query:
            return
        self.accept("=")
        if begin.word == "ENGINE":
            self.engine = self.engine or self.token.value.upper()
        elif self.accept("(") and not self.sees("(", *QUERY):
            self.merged = self.names() or ()

    def _query(self, begin: Token, before: str) -> None:
        """Record that a query begins at the word ``begin`` (SELECT or AS). After SELECT, the word FROM begins a list of
        tables. After a query outside parentheses, the words ENGINE and UNION are no table options. ``before`` (the word
        before ``begin``) is not used.
        """
        self._levels[-1] |= begin.word == "SELECT"
        self._met_query |= len(self._levels) == 1

    def _name_or_call(self) -> None:
        name = self.name()
        if name is None or self.token.kind is not _SYMBOL or self.token.value != "(":
            return
        self._note("functions", name)
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


K = StatementKind

CHANGING_ROWS = frozenset({K.INSERT, K.REPLACE, K.UPDATE, K.DELETE, K.LOAD_DATA})
CHANGING_DATA = CHANGING_ROWS | {K.SELECT, K.TRUNCATE_TABLE}
"""The kinds of statements that read or change rows, and define no object. Such a statement fails if a table or function
is missing.
"""
_QUERYING = (CHANGING_ROWS - {K.LOAD_DATA}) | {K.CREATE_TABLE_SELECT, K.VIEW, K.SELECT}
_WITHOUT_BODY = frozenset({Thing.DATABASE, Thing.ACCOUNT, Thing.GRANT})

_INVOKER = re.compile(r"SQL\s+SECURITY\s+INVOKER", re.IGNORECASE)

MODE_ANSI_QUOTES = 1 << 2
MODE_MSSQL = 1 << 10
MODE_NO_BACKSLASH_ESCAPES = 1 << 20
_QUOTED_NAMES = {
    escapes: re.compile(
        rf"""'(?:{of_string}|'')*+' | `(?:[^`]|``)*+` | /\*(?!M?!).*?\*/ | \#[^\n]* | --(?=[\x00-\x20\x7f])[^\n]*
            | "((?:[^"]|"")*+)" | \[((?:[^\]]|\]\])+)\]""",
        re.VERBOSE | re.DOTALL,
    )
    for escapes, of_string in ((True, r"[^'\\]|\\."), (False, "[^']"))
}
"""For backslashes that escape or do not escape: a pattern for a quoted text, a comment, or a name. Its groups capture
only a name in double quotes, and a name in brackets.
"""

NO_FOREIGN_KEY_CHECKS = 1 << 26
"""The bit of a Query event's ``flags2`` for a session with foreign_key_checks=0 (OPTION_NO_FOREIGN_KEY_CHECKS)."""

_REMEMBERED = 8192
LONGEST_REMEMBERED = 1 << 13
"""The length limit of a shape (a statement without literals) in the cache, characters.

Longer shapes are rare and would fill the memory.
"""

T = TypeVar("T")


def statement_shape(text: str, *, family: Family = "mysql", sql_mode: int = 0) -> str:
    """Return the shape of a statement: its text without comments, and with one question mark for each literal or list
    of literals.

    Statements of one shape name the same tables, so that results of parsing can be cached by shape. ``family`` (MySQL
    or MariaDB) and ``sql_mode`` belong to the server and the session that ran the statement.

    >>> statement_shape("INSERT INTO  t VALUES (1, 'it''s'), /* c */ (-2.5e3, NULL)")
    'INSERT INTO t VALUES (?)'
    >>> statement_shape('SELECT "a"'), statement_shape('SELECT "a"', sql_mode=MODE_ANSI_QUOTES)
    ('SELECT ?', 'SELECT "a"')
    """
    # The import loads compiled code, or compiles it, and a client of the console only reads tokens.
    from dumpfilter.binlog.statement import _shape as K

    text = with_backticks(text, family=family, sql_mode=sql_mode)
    source = np.frombuffer(text.encode("utf-8", "surrogatepass") + bytes(K.PADDING), np.uint8)
    # The output has room for one space more after the opening of each version comment.
    out = np.empty(2 * source.size + 8, np.uint8)
    end = K.shape(
        source,
        out,
        bool(sql_mode & MODE_ANSI_QUOTES),
        not sql_mode & MODE_NO_BACKSLASH_ESCAPES,
        family == "mariadb",
    )
    return out[K.PADDING : end].tobytes().decode("utf-8", "surrogatepass")


def with_backticks(text: str, *, family: Family, sql_mode: int) -> str:
    r"""Return a statement with backticks around names that the parser would not understand otherwise.

    With MariaDB's sql_mode MSSQL, a name may stand in brackets. With ANSI_QUOTES, a name in double quotes may have a
    backslash, which the parser would take for an escape character. In other modes the text stays as it is.

    >>> with_backticks("DELETE FROM [a]] b] WHERE c = '[d]'", family="mariadb", sql_mode=MODE_MSSQL)
    "DELETE FROM `a] b` WHERE c = '[d]'"
    >>> print(with_backticks(r'DELETE FROM "a\"', family="mysql", sql_mode=MODE_ANSI_QUOTES))
    DELETE FROM `a\`
    """
    has_brackets = family == "mariadb" and sql_mode & MODE_MSSQL and "[" in text
    if not has_brackets and not (sql_mode & MODE_ANSI_QUOTES and "\\" in text and '"' in text):
        return text
    return _QUOTED_NAMES[not sql_mode & MODE_NO_BACKSLASH_ESCAPES].sub(_in_backticks, text)


def _in_backticks(found: re.Match[str]) -> str:
    in_quotes, in_brackets = found.groups()
    if in_brackets is not None:
        name = in_brackets.replace("]]", "]")
    elif in_quotes is not None:
        name = in_quotes.replace('""', '"')
    else:
        return found[0]
    return "`" + name.replace("`", "``") + "`"


def read_text(text: str, *, family: Family = "mysql", sql_mode: int = 0) -> StatementFacts:
    """Parse a statement up to the names of its objects. Return its kind, updated tables, created and renamed objects. A
    text that the parser does not understand has the kind UNKNOWN.

    The function parses the statement's shape (the text without literals) and caches the result, so that statements that
    differ only in literals are parsed once.
    """
    return _read_head(statement_shape(text, family=family, sql_mode=sql_mode), family)


def _cached(read: Callable[[str, Family], T]) -> Callable[[str, Family], T]:
    """Return the function ``read`` with a cache of its results for short shapes.

    ``read`` takes a shape (a statement's text with question marks for literals) and the server family.
    """
    remembered = functools.lru_cache(_REMEMBERED)(read)
    return lambda shape, family: (remembered if len(shape) <= LONGEST_REMEMBERED else read)(shape, family)


_read_head, _read_mentions = _cached(parse_statement), _cached(mentions)


def statement_facts(query: QueryEvent, family: Family) -> StatementFacts:
    """Parse the statement of a decoded Query event completely. Return its kind, the objects that it changes, and all
    other tables and routines in its text.

    ``family`` (MySQL or MariaDB) is the family of the server that wrote the event. A statement that failed on its
    server did only a part of its work. For such a statement, the result has only the kind.
    """
    sql_mode = query.status.sql_mode or 0
    shape = statement_shape(query.text, family=family, sql_mode=sql_mode)
    head = _read_head(shape, family)
    if query.error_code:
        return StatementFacts(head.kind)
    if head.kind in CHANGING_DATA:
        return replace(head, body=_read_mentions(shape, family))
    # The shape has no strings, in which accounts have their names.
    found = read_facts(with_backticks(query.text, family=family, sql_mode=sql_mode), family)
    return replace(found, checks_foreign_keys=not (query.status.flags2 or 0) & NO_FOREIGN_KEY_CHECKS)


def read_facts(text: str, family: Family = "mysql") -> StatementFacts:
    """Parse a statement that creates or changes objects, such as CREATE VIEW. Return the objects, and in ``body`` the
    names in the statement's query, columns or routine body.

    ``body`` stays empty for DROP and RENAME, for databases, accounts and rights, and for statements that create and
    change no object (their ``verb`` is None), such as INSERT.

    >>> read_facts("CREATE VIEW shop.v AS SELECT * FROM hr.t").body.tables
    (TableName(database='hr', table='t'),)
    """
    reader = BodyReader(text, family)
    head = read_head(reader)
    if head.definer and _INVOKER.search(text):
        head = replace(head, definer=())
    if head.verb in (None, Verb.DROP, Verb.RENAME) or head.thing in _WITHOUT_BODY:
        return head
    found = reader.mentions()
    if head.thing is Thing.TRIGGER:
        return replace(head, body=found)
    if head.kind in (K.ALTER_TABLE, K.SEQUENCE, K.CREATE_INDEX, K.DROP_INDEX) and head.verb is Verb.ALTER:
        tables = found.sequences
        found = Mentions(parents=found.parents)
    else:
        tables = (*head.sources, *(name for name in found.tables if name not in head.names))
    # Only InnoDB checks foreign keys. Other engines ignore them.
    parents = found.parents if reader.engine in ("", "INNODB") else ()
    functions = tuple(name for name in found.functions if name not in head.names)
    body = replace(found, tables=tuple(dict.fromkeys(tables)), functions=functions, parents=parents)
    if head.kind is K.VIEW:
        # A change of a view changes the tables that stand directly in the FROM clause of its query.
        first = dict.fromkeys(reader.first_list or ())
        body = replace(body, changed=tuple((name, Change.UPDATE) for name in first))
    return replace(head, body=body, merged=reader.merged if head.is_plain_table else ())


def tables_read(text: str, *, family: Family = "mysql", sql_mode: int = 0) -> tuple[TableName, ...] | None:
    """Return the tables that a statement reads but does not update, each once; None when they cannot be determined.

    The result is empty for a kind of statement that has no query, such as DROP TABLE or LOAD DATA. For CREATE TABLE …
    LIKE it has the table after LIKE. ``family`` and ``sql_mode`` belong to the server and the session that ran the
    statement.

    >>> tables_read("INSERT INTO t SELECT * FROM a JOIN d2.b USING (i)")
    (TableName(database=None, table='a'), TableName(database='d2', table='b'))
    """
    shape = statement_shape(text, family=family, sql_mode=sql_mode)
    parsed = _read_head(shape, family)
    if parsed.kind is K.UNKNOWN:
        return None
    if parsed.kind not in _QUERYING:
        return parsed.sources
    found = _read_mentions(shape, family)
    updated = {name for tables in parsed.updated or (parsed.objects or (),) for name in tables}
    return tuple(name for name in found.tables if name not in updated) if found.is_sure else None


def form_tables_info(
    parsed: StatementFacts,
    read: tuple[TableName, ...] | None,
    *,
    current_database: str | None,
) -> tuple[TableName, ...] | None:
    """Return the tables info of a statement, which is the list of table names that a Query event has in WL#40's
    extended format. The list has the order that WL#40 defines.

    None means that the tables are unknown, not that there are none. The list has these tables, each once:

    - CREATE TABLE t: t. CREATE TABLE t LIKE t1: t, t1. CREATE TABLE t SELECT …: t, then the tables that it reads.
    - RENAME TABLE: the old names, without names that an earlier pair of the same statement made.
    - Others: the tables that a server applies its table rules to, in the server's order, then the tables that the
      statement reads.

    A table in the default database has ``database`` None, however the statement wrote its name.

    Parameters:
        parsed: the result of :func:`read_text`, with ``updated`` completed from the event's Q_TABLE_MAP_FOR_UPDATE if
            there is one.
        read: the result of :func:`tables_read`, which is the tables that the statement only reads.
        current_database: the event's default database; None for none.
    """
    if parsed.updated is None or read is None:
        return None
    updated = tuple(name for tables in parsed.updated for name in tables)
    if parsed.kind is StatementKind.RENAME_TABLE:
        names = _not_made_before(parsed.renames, current_database)
    else:
        # An UPDATE of several tables may only read some of them, but the tables info names all.
        names = (*updated, *(parsed.listed or ()), *read)
    # A derived table (a subquery) has an empty database name here, and the tables info does not name it.
    told = (relative(name, current_database) for name in names if name.database != "")
    return tuple(dict.fromkeys(told))


def relative(name: TableName, current_database: str | None) -> TableName:
    """Return a table's name in the form in which a tables info has it. A tables info is the list of tables in a Query
    event of WL#40's format.

    There, a table in the default database ``current_database`` stands without its database.

    >>> relative(TableName("shop", "t"), "shop"), relative(TableName("shop", "t"), None)
    (TableName(database=None, table='t'), TableName(database='shop', table='t'))
    """
    return TableName(None, name.table) if name.database == current_database else name


def qualified(name: TableName, current_database: str | None) -> TableName:
    """Return a table's name with a database. A name without a database gets the default database ``current_database``,
    or stays without a database if that is None. This reverses :func:`relative`.
    """
    return TableName(current_database, name.table) if name.database is None else name


def _not_made_before(
    renames: tuple[tuple[TableName, TableName], ...], current_database: str | None
) -> tuple[TableName, ...]:
    made: set[TableName] = set()
    names = []
    for old, new in renames:
        if qualified(old, current_database) not in made:
            names.append(old)
        made.add(qualified(new, current_database))
    return tuple(names)
