"""The tables that a statement reads but does not update, and all tables that the text of a row-based statement names.

A server's filter does not look at tables that are only read. The extended Query event (WL#40) lists them. An imposed
filter must know every table that a text names.
"""

from __future__ import annotations

from dataclasses import dataclass

from dumpfilter.binlog.format import Family
from dumpfilter.binlog.query import TableName
from dumpfilter.binlog.statement.mentions import read_mentions
from dumpfilter.binlog.statement.shape import read_text, statement_shape
from dumpfilter.binlog.statement.statement import StatementKind

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
