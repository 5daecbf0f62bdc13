"""Which tables a statement's tables info names, and in which order (WL#40, section 4)."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from dumpfilter.binlog.query import TableName
from dumpfilter.statement.parse import StatementText
from dumpfilter.statement.statement import StatementKind

_CREATE_TABLE = frozenset(
    {StatementKind.CREATE_TABLE, StatementKind.CREATE_TABLE_LIKE, StatementKind.CREATE_TABLE_SELECT}
)


@dataclass(frozen=True)
class RowFormat:
    """Statements that ran under ``binlog_format=ROW`` and are told of *before* they are binlogged.

    What a binlog holds was binlogged already, and is told of as it stands.
    """

    is_temporary: Callable[[TableName], bool]
    """Whether a table, named as in the statement, is a temporary one of the session that ran it."""


def form_tables_info(
    parsed: StatementText,
    read: tuple[TableName, ...] | None,
    *,
    current_database: str | None,
    row_format: RowFormat | None = None,
) -> tuple[TableName, ...] | None:
    """The tables info of a statement; None when its tables cannot be told, which nobody must take for "no tables".

    - CREATE TABLE t: t. CREATE TABLE t LIKE t1: t, t1. CREATE TABLE t SELECT …: t, then what is read.
    - RENAME TABLE: the old names, but not those that an earlier pair of the same statement made.
    - Others: what a server's table rules are asked about, in its order, then what is read.

    No table is named twice. ``database`` is None for a table in the default database, however the statement wrote it.

    With ``row_format`` (section 4.1): a temporary table's CREATE is not binlogged, so it has none; CREATE …
    SELECT, and LIKE of a temporary table, are binlogged as a plain CREATE TABLE, so they have t alone.

    Parameters:
        parsed: what :func:`~dumpfilter.statement.read_text` made of the statement, ``updated`` completed with
            the event's Q_TABLE_MAP_FOR_UPDATE where there is one.
        read: what :func:`~dumpfilter.statement.reads.tables_read` tells of it.
        current_database: the event's default database; None for none.
    """
    if parsed.updated is None or read is None:
        return None
    updated = tuple(name for tables in parsed.updated for name in tables)
    if parsed.kind is StatementKind.RENAME_TABLE:
        names = _not_made_before(parsed.renames, current_database)
    elif parsed.kind in _CREATE_TABLE and row_format is not None:
        names = _binlogged_in_row_format(parsed.kind, updated, read, row_format)
    else:
        # of an UPDATE's own tables some may only be read
        names = (*updated, *(parsed.listed or ()), *read)
    # a derived table, which has no database and no name, is none
    told = (relative(name, current_database) for name in names if name.database != "")
    return tuple(dict.fromkeys(told))


def relative(name: TableName, current_database: str | None) -> TableName:
    """A table's name in a tables info: without its database when that is the default one.

    >>> relative(TableName("shop", "t"), "shop"), relative(TableName("shop", "t"), None)
    (TableName(database=None, table='t'), TableName(database='shop', table='t'))
    """
    return TableName(None, name.table) if name.database == current_database else name


def qualified(name: TableName, current_database: str | None) -> TableName:
    """The reverse of :func:`relative`, as far as there is a default database."""
    return TableName(current_database, name.table) if name.database is None else name


def _not_made_before(
    renames: tuple[tuple[TableName, TableName], ...], current_database: str | None
) -> tuple[TableName, ...]:
    """Section 4.2: the i-th old name unless it is one of the new names before it."""
    made: set[TableName] = set()
    names = []
    for old, new in renames:
        if qualified(old, current_database) not in made:
            names.append(old)
        made.add(qualified(new, current_database))
    return tuple(names)


def _binlogged_in_row_format(
    kind: StatementKind,
    created: tuple[TableName, ...],
    read: tuple[TableName, ...],
    row_format: RowFormat,
) -> tuple[TableName, ...]:
    if any(map(row_format.is_temporary, created)):
        return ()
    if kind is StatementKind.CREATE_TABLE_LIKE and not any(map(row_format.is_temporary, read)):
        return (*created, *read)
    return created
