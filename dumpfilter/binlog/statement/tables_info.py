"""The tables info of a statement: the list of its tables in a Query event of the extended format (WL#40, section 4)."""

from __future__ import annotations

from dumpfilter.binlog.query import TableName
from dumpfilter.binlog.statement.statement import StatementFacts, StatementKind


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
