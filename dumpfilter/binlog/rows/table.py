"""Descriptions of tables and their columns, from a Table_map event and its optional metadata.

Sources: ``Optional_metadata_fields`` in MySQL's ``libs/mysql/binlog/event/rows_event.cpp``, and
``Table_map_log_event::Optional_metadata_fields`` in MariaDB's ``sql/log_event.cc``.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace
from typing import Any, NamedTuple

from dumpfilter.base.errors import BinlogCorrupt
from dumpfilter.base.printable import printable
from dumpfilter.binlog import row_image as T
from dumpfilter.binlog.cursor import Cursor
from dumpfilter.binlog.format import Family
from dumpfilter.binlog.rows_events import TableMap

_WHAT = "Table_map"


NUMBERS = frozenset({T.TINY, T.SHORT, T.INT24, T.LONG, T.LONGLONG, T.YEAR, T.NEWDECIMAL, T.FLOAT, T.DOUBLE})
"""The column types for which the binlog tells whether the column is UNSIGNED (``has_signedess_information_type``)."""

INTEGERS = frozenset({T.TINY, T.SHORT, T.INT24, T.LONG, T.LONGLONG})

TEXTS = frozenset(
    {
        T.VARCHAR,
        T.VAR_STRING,
        T.STRING,
        T.TINY_BLOB,
        T.BLOB,
        T.MEDIUM_BLOB,
        T.LONG_BLOB,
        T.VECTOR,
        T.VARCHAR_COMPRESSED,
        T.BLOB_COMPRESSED,
    }
)
"""The column types that have a character set (``is_character_type``). Binary columns have the set ``binary``."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table, as the binlog describes it: type, metadata and, if the binlog has them, name and other
    properties.
    """

    name: str
    """The column's name; ``@1``, ``@2`` and so on when the binlog does not tell names."""
    type: int
    """The column's type (``MYSQL_TYPE_*``). The types ENUM and SET, which events store as STRING, stand here as
    themselves.
    """
    metadata: int
    """The type's metadata, as ``mysqlbinlog -vv`` prints them after ``meta=``: lengths, precision, decimals."""
    nullable: bool
    unsigned: bool | None = None
    """Whether a number is UNSIGNED; None when the binlog does not tell."""
    collation: int | None = None
    """The number of the column's collation; None when the binlog does not tell."""
    values: tuple[bytes, ...] = ()
    """The names of the values of an ENUM or SET, in the column's character set; empty when the binlog does not tell."""
    dimensions: int | None = None
    """The number of dimensions of a VECTOR; None when the binlog does not tell."""


@dataclass(frozen=True, slots=True)
class Table:
    """A table with its columns, as a Table_map event describes it."""

    database: str
    name: str
    columns: tuple[Column, ...]
    has_names: bool = False
    """Whether the binlog tells the columns' names (``binlog_row_metadata=FULL``)."""


def describe_table(table: TableMap, family: Family) -> Table:
    """Return the table that a Table_map event describes, with its columns. ``family`` is the kind of server that wrote
    the event, MySQL or MariaDB.

    Raises BinlogCorrupt when the columns' types, metadata and optional metadata do not fit together.
    """
    fields = _MARIADB_FIELDS if family == "mariadb" else _FIELDS
    # The result is not used here, but the call checks the types and their metadata.
    T.value_sizes(table.column_types, table.metadata)
    columns = list(_columns(table))
    has_names = False
    reader = Cursor(table.optional, _WHAT)
    while reader.left:
        kind = reader.integer(1, "the type of a metadata field")
        value = reader.sized("a metadata field")
        # A later server may write fields that are not known here, as the servers' own readers expect.
        if (known := fields.get(kind)) is None:
            continue
        numbers = [k for k, column in enumerate(columns) if known.types is None or column.type in known.types]
        content = Cursor(value, _WHAT)
        for number, one in zip(numbers, known.read(content, len(numbers)), strict=True):
            columns[number] = replace(columns[number], **{known.attribute: one})
        has_names |= known.attribute == "name"
        if content.left:
            name = printable(f"{table.database}.{table.table}")
            raise BinlogCorrupt(
                f"the Table_map event of {name}: {content.left} bytes too many in the metadata {known.name}"
            )
    return Table(table.database, table.table, tuple(columns), has_names)


def char_length(metadata: int) -> int:
    """Return the length of a CHAR or BINARY column, bytes, from its metadata in a Table_map event (a big-endian
    number).

    The high byte of the metadata is the column's real type, and the low byte has bits 0 to 7 of the length. The server
    stores bits 8 and 9 of the length inverted in bits 4 and 5 of the real type.

    >>> char_length(65029), char_length(52988)
    (5, 1020)
    """
    return ((metadata >> 8 << 4 & 0x300) ^ 0x300) | (metadata & 0xFF)


def bit_count(column: Column) -> int:
    """Return the number of bits of a BIT column."""
    return 8 * (column.metadata >> 8) + (column.metadata & 0xFF)


def _columns(table: TableMap) -> Iterator[Column]:
    for number, (kind, raw) in enumerate(T.raw_columns(table.column_types, table.metadata)):
        nullable = bool(table.null_bitmap[number >> 3] >> (number & 7) & 1)
        metadata = int.from_bytes(raw, "big" if kind in (T.STRING, T.NEWDECIMAL) else "little")
        if kind == T.STRING and raw[0] in (T.ENUM, T.SET):
            kind = raw[0]
        yield Column(f"@{number + 1}", kind, metadata, nullable)


def _signs(reader: Cursor, count: int) -> list[bool]:
    bits = reader.take((count + 7) // 8, "the signedness")
    return [bool(bits[k >> 3] << (k & 7) & 0x80) for k in range(count)]


def _collations_but_default(reader: Cursor, count: int) -> list[int]:
    default = reader.packed("the default collation")
    others = {}
    while reader.left:
        k = reader.packed("a column's number")
        others[k] = reader.packed("a column's collation")
    if others and max(others) >= count:
        raise BinlogCorrupt(f"Table_map event: a collation for text column {max(others)} of {count}")
    return [others.get(k, default) for k in range(count)]


def _collations(reader: Cursor, count: int) -> list[int]:
    return [reader.packed("a column's collation") for _ in range(count)]


def _names(reader: Cursor, count: int) -> list[str]:
    return [reader.sized("a column's name").decode("utf-8", "backslashreplace") for _ in range(count)]


def _values(reader: Cursor, count: int) -> list[tuple[bytes, ...]]:
    found = []
    for _ in range(count):
        number = reader.packed("the number of values")
        if number > reader.left:
            raise BinlogCorrupt(f"Table_map event: a column with {number} values, more than it has bytes")
        found.append(tuple(reader.sized("a value's name") for _ in range(number)))
    return found


def _dimensions(reader: Cursor, count: int) -> list[int]:
    return [reader.packed("the dimensions of a vector") for _ in range(count)]


class _Field(NamedTuple):
    """A field of a Table_map event's optional metadata. Each field gives one attribute of the columns of certain types,
    such as their names.
    """

    name: str
    types: frozenset[int] | None
    """The types of the columns for which the field has an entry; None: all types."""
    attribute: str
    read: Callable[[Cursor, int], Sequence[Any]]


_ENUMS_AND_SETS = frozenset({T.ENUM, T.SET})

_FIELDS = {
    1: _Field("SIGNEDNESS", NUMBERS, "unsigned", _signs),
    2: _Field("DEFAULT_CHARSET", TEXTS, "collation", _collations_but_default),
    3: _Field("COLUMN_CHARSET", TEXTS, "collation", _collations),
    4: _Field("COLUMN_NAME", None, "name", _names),
    5: _Field("SET_STR_VALUE", frozenset({T.SET}), "values", _values),
    6: _Field("ENUM_STR_VALUE", frozenset({T.ENUM}), "values", _values),
    10: _Field("ENUM_AND_SET_DEFAULT_CHARSET", _ENUMS_AND_SETS, "collation", _collations_but_default),
    11: _Field("ENUM_AND_SET_COLUMN_CHARSET", _ENUMS_AND_SETS, "collation", _collations),
    13: _Field("VECTOR_DIMENSIONALITY", frozenset({T.VECTOR}), "dimensions", _dimensions),
}
"""The fields of the optional metadata (``Optional_metadata_field_type``) that are needed to read values, by their
numbers.

The other fields are not needed for row images: types of geometries, primary keys, and the visibility of columns.
"""
_MARIADB_TEXTS = TEXTS | {T.GEOMETRY}
_MARIADB_FIELDS = _FIELDS | {
    2: _FIELDS[2]._replace(types=_MARIADB_TEXTS),
    3: _FIELDS[3]._replace(types=_MARIADB_TEXTS),
}
"""The needed fields of the optional metadata, by number, for MariaDB, which also counts GEOMETRY among the columns with
a character set.
"""
