"""The tables that a statement reads but does not update, and all tables that the text of a row-based statement names.

A server's filter does not look at tables that are only read. The extended Query event (WL#40) lists them. An imposed
filter must know every table that a text names. The tables info of a statement is the list of its tables in such an
event (section 4 of WL#40).
"""

from __future__ import annotations

from dataclasses import dataclass

from dumpfilter.binlog.format import Family
from dumpfilter.binlog.query import TableName
from dumpfilter.binlog.statement.mentions import read_mentions
from dumpfilter.binlog.statement.shape import read_text, statement_shape
from dumpfilter.binlog.statement.statement import StatementFacts, StatementKind

K = StatementKind

_CHANGES = frozenset({K.INSERT, K.REPLACE, K.UPDATE, K.DELETE})
_QUERYING = _CHANGES | {K.CREATE_TABLE_SELECT, K.VIEW, K.SELECT}


def tables_read(text: str, *, family: Family = "mysql", sql_mode: int = 0) -> tuple[TableName, ...] | None:
    """Return the tables that a statement reads but does not update, each once.

    The result is None when the tables cannot be determined.

    >>> tables_read("INSERT INTO t SELECT * FROM a JOIN d2.b USING (i)")
    (TableName(database=None, table='a'), TableName(database='d2', table='b'))
    """
    parsed = read_text(text, family=family, sql_mode=sql_mode)
    if parsed.kind is K.UNKNOWN:
        return None
    if parsed.kind not in _QUERYING:
        return parsed.sources
    found = read_mentions(statement_shape(text, family=family, sql_mode=sql_mode), family)
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
        read: the result of :func:`~dumpfilter.binlog.statement.reads.tables_read`.
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
