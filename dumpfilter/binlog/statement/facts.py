"""The functions that parse a statement's text into facts: the kind of statement, and the tables and other objects that
it names.

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
from collections.abc import Callable
from dataclasses import dataclass, replace
from typing import TypeVar

import numpy as np

from dumpfilter.binlog.format import Family
from dumpfilter.binlog.query import QueryEvent, TableName
from dumpfilter.binlog.statement.mentions import BodyReader, mentions
from dumpfilter.binlog.statement.parse import parse_statement, read_head
from dumpfilter.binlog.statement.statement import Change, Mentions, StatementFacts, StatementKind, Thing, Verb

K = StatementKind

CHANGING_ROWS = frozenset({K.INSERT, K.REPLACE, K.UPDATE, K.DELETE, K.LOAD_DATA})
CHANGING_DATA = CHANGING_ROWS | {K.SELECT, K.TRUNCATE_TABLE}
"""The kinds of statement that define no object. They fail if a table or function is missing."""
_CHANGES = CHANGING_ROWS - {K.LOAD_DATA}
_QUERYING = _CHANGES | {K.CREATE_TABLE_SELECT, K.VIEW, K.SELECT}
_WITHOUT_BODY = frozenset({Thing.DATABASE, Thing.ACCOUNT, Thing.GRANT})

MODE_ANSI_QUOTES = 1 << 2
MODE_MSSQL = 1 << 10
MODE_NO_BACKSLASH_ESCAPES = 1 << 20
_BRACKETS = re.compile(
    r"""'(?:[^'\\]|\\.|'')*+' | "(?:[^"]|"")*+" | `(?:[^`]|``)*+` | /\*.*?\*/ | \#[^\n]* | --[ \t][^\n]*
        | \[((?:[^\]]|\]\])+)\]""",
    re.VERBOSE | re.DOTALL,
)
"""A quoted text or a comment, or a name in brackets, which is the group."""

NO_FOREIGN_KEY_CHECKS = 1 << 26
"""The bit of a Query event's ``flags2`` for a session with foreign_key_checks=0 (OPTION_NO_FOREIGN_KEY_CHECKS)."""

_REMEMBERED = 8192
LONGEST_REMEMBERED = 1 << 13
"""The length limit of a shape (a statement without literals) in the cache, characters.

Longer shapes are rare and would fill the memory.
"""

T = TypeVar("T")


def statement_shape(text: str, *, family: Family = "mysql", sql_mode: int = 0) -> str:
    """Return the shape of a statement: its text without comments, and with question marks for literals.

    The shape names the same tables as the statement.

    >>> statement_shape("INSERT INTO  t VALUES (1, 'it''s'), /* c */ (-2.5e3, NULL)")
    'INSERT INTO t VALUES (?)'
    >>> statement_shape('SELECT "a"'), statement_shape('SELECT "a"', sql_mode=MODE_ANSI_QUOTES)
    ('SELECT ?', 'SELECT "a"')
    """
    # The import loads compiled code, or compiles it, and a client of the console only reads tokens.
    from dumpfilter.binlog.statement import _shape as K

    text = without_brackets(text, family=family, sql_mode=sql_mode)
    source = np.frombuffer(text.encode("utf-8", "surrogateescape") + bytes(K.PADDING), np.uint8)
    # The output has room for one space more after the opening of each version comment.
    out = np.empty(2 * source.size + 8, np.uint8)
    end = K.shape(
        source,
        out,
        bool(sql_mode & MODE_ANSI_QUOTES),
        not sql_mode & MODE_NO_BACKSLASH_ESCAPES,
        family == "mariadb",
    )
    return out[K.PADDING : end].tobytes().decode("utf-8", "surrogateescape")


def without_brackets(text: str, *, family: Family, sql_mode: int) -> str:
    """Return a statement with backticks around each name that stands in brackets, as MariaDB's sql_mode MSSQL allows.

    In other modes the text stays as it is.

    >>> without_brackets("DELETE FROM [a]] b] WHERE c = '[d]'", family="mariadb", sql_mode=MODE_MSSQL)
    "DELETE FROM `a] b` WHERE c = '[d]'"
    """
    if family != "mariadb" or not sql_mode & MODE_MSSQL or "[" not in text:
        return text
    return _BRACKETS.sub(_in_backticks, text)


def _in_backticks(found: re.Match[str]) -> str:
    name = found[1]
    return found[0] if name is None else "`" + name.replace("]]", "]").replace("`", "``") + "`"


def read_text(text: str, *, family: Family = "mysql", sql_mode: int = 0) -> StatementFacts:
    """Parse a statement up to the names of its objects: its kind, updated tables, created and renamed objects.

    The function parses the statement's shape (the text without literals) and caches the result, so that statements that
    differ only in literals are parsed once.
    """
    return _read_head(statement_shape(text, family=family, sql_mode=sql_mode), family)


def _cached(read: Callable[[str, Family], T]) -> Callable[[str, Family], T]:
    """Return ``read``, a function of a shape, with a cache of its results for short shapes."""
    remembered = functools.lru_cache(_REMEMBERED)(read)
    return lambda shape, family: (remembered if len(shape) <= LONGEST_REMEMBERED else read)(shape, family)


_read_head, _read_mentions = _cached(parse_statement), _cached(mentions)


def statement_facts(query: QueryEvent, family: Family) -> StatementFacts:
    """Parse the statement of a decoded Query event completely: its kind, the objects that it changes, and all other
    tables and routines in its text.

    A statement that failed on its server did only a part of its work. For such a statement, the result has only the
    kind.
    """
    sql_mode = query.status.sql_mode or 0
    shape = statement_shape(query.text, family=family, sql_mode=sql_mode)
    head = _read_head(shape, family)
    if query.error_code:
        return StatementFacts(head.kind)
    if head.kind in CHANGING_DATA:
        return replace(head, body=_read_mentions(shape, family))
    # The shape has no strings, in which accounts have their names.
    found = read_facts(without_brackets(query.text, family=family, sql_mode=sql_mode), family)
    return replace(found, checks_foreign_keys=not (query.status.flags2 or 0) & NO_FOREIGN_KEY_CHECKS)


def read_facts(text: str, family: Family = "mysql") -> StatementFacts:
    """Parse a statement that creates, changes or removes objects, such as CREATE VIEW. The result also has the names in
    the statement's query, columns or routine body.

    >>> read_facts("CREATE VIEW shop.v AS SELECT * FROM hr.t").body.tables
    (TableName(database='hr', table='t'),)
    """
    reader = BodyReader(text, family)
    head = read_head(reader)
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
    """Return the tables that a statement reads but does not update, each once.

    The result is None when the tables cannot be determined.

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


@dataclass(frozen=True)
class NamedTables:
    """The tables that a statement's text names. A name without a database is in the session's default database."""

    written: tuple[TableName, ...]
    """The tables that the statement inserts into, deletes from or may update."""
    read: tuple[TableName, ...]

    @property
    def all(self) -> tuple[TableName, ...]:
        return tuple(dict.fromkeys((*self.written, *self.read)))


def tables_named(text: str, *, family: Family = "mysql", sql_mode: int = 0) -> NamedTables | None:
    """Return all tables that an INSERT, REPLACE, UPDATE or DELETE names. None when they cannot be determined with
    certainty.

    The result is also None for other statements, such as LOAD DATA or a call of a stored function.

    >>> tables_named("INSERT INTO shop.t SELECT pay FROM hr.salaries").all
    (TableName(database='shop', table='t'), TableName(database='hr', table='salaries'))
    >>> tables_named("SELECT f(1)") is None
    True
    """
    parsed = read_text(text, family=family, sql_mode=sql_mode)
    if parsed.kind not in _CHANGES:
        return None
    if parsed.updated is not None:
        written = tuple(name for names in parsed.updated for name in names)
    elif parsed.listed is not None and parsed.listed_whole:
        written = parsed.listed
    else:
        return None
    read = tables_read(text, family=family, sql_mode=sql_mode)
    # A derived table (a subquery) has an empty database name here. The tables inside it are among those read.
    return None if read is None else NamedTables(tuple(name for name in written if name.database != ""), read)


def form_tables_info(
    parsed: StatementFacts,
    read: tuple[TableName, ...] | None,
    *,
    current_database: str | None,
) -> tuple[TableName, ...] | None:
    """Return the tables info of a statement: the list of the tables that it names, in the order that WL#40 defines.

    None means that the tables are unknown, not that there are none. The list has these tables, each once:

    - CREATE TABLE t: t. CREATE TABLE t LIKE t1: t, t1. CREATE TABLE t SELECT …: t, then the tables that it reads.
    - RENAME TABLE: the old names, but not those that an earlier pair of the same statement made.
    - Others: the tables that a server applies its table rules to, in the server's order, then the tables that the
      statement reads.

    A table in the default database has ``database`` None, however the statement wrote its name.

    Parameters:
        parsed: the result of :func:`~dumpfilter.binlog.statement.read_text`, with ``updated`` completed from the
            event's Q_TABLE_MAP_FOR_UPDATE if there is one.
        read: the result of :func:`~dumpfilter.binlog.statement.facts.tables_read`.
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
    """Return a table's name as a tables info (a Query event's list of tables) contains it.

    A table in the default database is written without its database.

    >>> relative(TableName("shop", "t"), "shop"), relative(TableName("shop", "t"), None)
    (TableName(database=None, table='t'), TableName(database='shop', table='t'))
    """
    return TableName(None, name.table) if name.database == current_database else name


def qualified(name: TableName, current_database: str | None) -> TableName:
    """Return a table's name with a database. A name without a database gets ``current_database``. This reverses
    :func:`relative`.
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
