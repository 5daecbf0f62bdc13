"""The tables of rows events: what a Table_map event and its optional metadata tell about a table's columns."""

from __future__ import annotations

from dataclasses import dataclass

from dumpfilter.binlog.format import Family
from dumpfilter.binlog.rows import TableMap


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table, as the binlog describes it."""

    name: str
    """The column's name; ``@1``, ``@2`` and so on when the binlog does not tell names."""
    type: int
    """The column's type (``MYSQL_TYPE_*``). ENUM, SET and CHAR are told apart."""


@dataclass(frozen=True, slots=True)
class Table:
    """A table as a Table_map event describes it."""

    database: str
    name: str
    columns: tuple[Column, ...]


def describe_table(table: TableMap, family: Family) -> Table:
    """Return the table that a Table_map event describes.

    Raises BinlogCorrupt when the columns' types, metadata and optional metadata do not fit together.
    """
    raise NotImplementedError
