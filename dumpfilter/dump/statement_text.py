"""The check whether a row-based statement's text may pass the boundary of imposed filters.

Rows_query and Annotate_rows events hold the text of a statement whose rows follow. The text quotes the statement's
values and names tables that it only reads. The rows alone do not show these tables.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from itertools import product

from dumpfilter.binlog.format import Family
from dumpfilter.filter.base import ReplicationFilter
from dumpfilter.filter.collation import as_parsed
from dumpfilter.index.subjects import TableSubject
from dumpfilter.statement.named import NamedTables, tables_named
from dumpfilter.statement.shape import MODE_ANSI_QUOTES, MODE_NO_BACKSLASH_ESCAPES


def allows_text(
    text: bytes, tables: Sequence[TableSubject], filters: Iterable[ReplicationFilter], family: Family
) -> bool:
    """Tell whether each filter surely sends the rows of every table of a statement.

    ``text`` is the statement, and ``tables`` are the tables of its Table_map events. The event with the text names
    neither the session's current database nor its SQL mode. A name without a database is resolved by the table maps.
    The text must be harmless in every SQL mode.
    """
    filters = list(filters)
    if not tables or not all(_passes(filters, table.database, table.table) for table in tables):
        return False
    decoded = text.decode("utf-8", "surrogateescape")
    quotes = (0, MODE_ANSI_QUOTES) if '"' in decoded else (0,)
    escapes = (0, MODE_NO_BACKSLASH_ESCAPES) if "\\" in decoded else (0,)
    return all(
        _allows(tables_named(decoded, family=family, sql_mode=sum(modes)), tables, filters, family)
        for modes in product(quotes, escapes)
    )


def _allows(
    named: NamedTables | None,
    tables: Sequence[TableSubject],
    filters: Sequence[ReplicationFilter],
    family: Family,
) -> bool:
    if named is None:
        return False
    current = _current_database(named, tables)
    for name in named.all:
        database = current if name.database is None else as_parsed(name.database, family)
        if database is None or not _passes(filters, database, as_parsed(name.table, family)):
            return False
    return True


def _current_database(named: NamedTables, tables: Sequence[TableSubject]) -> str | None:
    """Return the session's current database; None when the table maps do not tell it surely."""
    wanted = {name.table.casefold() for name in named.written if name.database is None}
    found = {table.database for table in tables if table.table.casefold() in wanted}
    mapped = {table.table.casefold() for table in tables}
    return found.pop() if len(found) == 1 and wanted <= mapped else None


def _passes(filters: Iterable[ReplicationFilter], database: str, table: str) -> bool:
    return all(one.rows_ok(database, table) for one in filters)
