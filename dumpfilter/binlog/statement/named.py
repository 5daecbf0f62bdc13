"""All tables that the text of a row-based statement names, for filters that must know every one of them."""

from __future__ import annotations

import re
from dataclasses import dataclass

from dumpfilter.binlog.format import Family
from dumpfilter.binlog.query import TableName
from dumpfilter.binlog.statement.shape import read_text, statement_shape
from dumpfilter.binlog.statement.statement import StatementKind

_QUERY = re.compile(r"\b(?:SELECT|WITH|FROM|JOIN|USING)\b", re.IGNORECASE)
"""A word without which an INSERT or REPLACE reads no table."""
_TABLE = re.compile(r"\bTABLE\b", re.IGNORECASE)
"""The word TABLE, which begins a query that the SQL parser does not understand (``INSERT INTO a TABLE b``)."""
_INSERTS = frozenset({StatementKind.INSERT, StatementKind.REPLACE})
_CHANGES = _INSERTS | {StatementKind.UPDATE, StatementKind.DELETE}


_LITERAL = "?"
"""The sign in a statement's shape for a literal. A literal in place of a name is a name in another SQL mode."""


@dataclass(frozen=True)
class NamedTables:
    """The tables that a statement's text names. A name without a database is in the session's current database."""

    written: tuple[TableName, ...]
    """The tables that the statement inserts into, deletes from or may update."""
    read: tuple[TableName, ...]

    @property
    def all(self) -> tuple[TableName, ...]:
        return tuple(dict.fromkeys((*self.written, *self.read)))


def tables_named(text: str, *, family: Family = "mysql", sql_mode: int = 0) -> NamedTables | None:
    """Return all tables that an INSERT, REPLACE, UPDATE or DELETE names; None when they cannot surely be told.

    Other statements, such as LOAD DATA or a call of a stored function, have the result None.

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
    shape = statement_shape(text, family=family, sql_mode=sql_mode)
    if _TABLE.search(shape):
        return None
    read: tuple[TableName, ...] | None = ()
    if parsed.kind not in _INSERTS or _QUERY.search(shape):
        # The shape names the same tables as the text, and the SQL parser reads it much faster.
        # This import loads sqlglot, which a master needs for imposed filters only.
        from dumpfilter.binlog.statement.reads import tables_read

        read = tables_read(shape, family=family, sql_mode=sql_mode)
    if read is None or any(_LITERAL in name for name in read):
        return None
    # A derived table (a subquery) has an empty database name here. The tables inside it are among those read.
    return NamedTables(tuple(name for name in written if name.database != ""), read)
