"""The tables of rows events: what a Table_map event and its optional metadata tell about a table's columns.

Sources: ``Optional_metadata_fields`` in MySQL's ``libs/mysql/binlog/event/rows_event.cpp``, and
``Table_map_log_event::Optional_metadata_fields`` in MariaDB's ``sql/log_event.cc``.
"""

from __future__ import annotations

import enum
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, replace

from dumpfilter.base.errors import BinlogCorrupt
from dumpfilter.base.printable import printable
from dumpfilter.binlog import row_image as T
from dumpfilter.binlog.format import Family
from dumpfilter.binlog.rows_events import Cursor, TableMap

_WHAT = "Table_map"


class _Field(enum.IntEnum):
    """The fields of the optional metadata (``Optional_metadata_field_type``)."""

    SIGNEDNESS = 1
    DEFAULT_CHARSET = 2
    COLUMN_CHARSET = 3
    COLUMN_NAME = 4
    SET_STR_VALUE = 5
    ENUM_STR_VALUE = 6
    GEOMETRY_TYPE = 7
    SIMPLE_PRIMARY_KEY = 8
    PRIMARY_KEY_WITH_PREFIX = 9
    ENUM_AND_SET_DEFAULT_CHARSET = 10
    ENUM_AND_SET_COLUMN_CHARSET = 11
    COLUMN_VISIBILITY = 12
    VECTOR_DIMENSIONALITY = 13


NUMBERS = frozenset({T.TINY, T.SHORT, T.INT24, T.LONG, T.LONGLONG, T.NEWDECIMAL, T.FLOAT, T.DOUBLE})
"""The types of columns for which the binlog tells whether they are UNSIGNED (``is_numeric_type``)."""

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
"""The types of columns with a character set (``is_character_type``). Binary columns have the set ``binary``."""


@dataclass(frozen=True, slots=True)
class Column:
    """A column of a table, as the binlog describes it."""

    name: str
    """The column's name; ``@1``, ``@2`` and so on when the binlog does not tell names."""
    type: int
    """The column's type (``MYSQL_TYPE_*``). ENUM, SET and CHAR are told apart."""
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
    """The most dimensions of a VECTOR; None when the binlog does not tell."""
    visible: bool = True
    """Whether ``SELECT *`` shows the column."""


@dataclass(frozen=True, slots=True)
class Table:
    """A table as a Table_map event describes it."""

    database: str
    name: str
    columns: tuple[Column, ...]
    primary_key: tuple[int, ...] = ()
    """The numbers of the primary key's columns, from 0 on; empty when the binlog does not tell."""
    has_names: bool = False
    """Whether the binlog tells the columns' names (``binlog_row_metadata=FULL``)."""


def describe_table(table: TableMap, family: Family) -> Table:
    """Return the table that a Table_map event of a server of ``family`` describes.

    Raises BinlogCorrupt when the columns' types, metadata and optional metadata do not fit together.
    """
    readers = _MARIADB_READERS if family == "mariadb" else _READERS
    # The plan checks the types and their metadata.
    T.ColumnPlan.from_table_map(table)
    described = Table(table.database, table.table, tuple(_columns(table)))
    for field, value in _fields(table.optional):
        reader = Cursor(value, _WHAT)
        described = readers[field](described, reader)
        if reader.left:
            name = printable(f"{table.database}.{table.table}")
            raise BinlogCorrupt(
                f"the Table_map event of {name}: {reader.left} bytes too many in the metadata {field.name}"
            )
    return described


def char_length(metadata: int) -> int:
    """Return the length of a CHAR or BINARY column, bytes, from its metadata.

    The server stores bits 8 and 9 of the length inverted in bits 4 and 5 of the real type.

    >>> char_length(65029), char_length(52988)
    (5, 1020)
    """
    return ((metadata >> 8 << 4 & 0x300) ^ 0x300) | (metadata & 0xFF)


def bit_count(column: Column) -> int:
    """Return the number of bits of a BIT column."""
    return 8 * (column.metadata >> 8) + (column.metadata & 0xFF)


def _columns(table: TableMap) -> Iterator[Column]:
    at = 0
    for number, kind in enumerate(table.column_types):
        width = T.metadata_width(kind, table.metadata[at : at + 1])
        raw = table.metadata[at : at + width]
        at += width
        nullable = bool(table.null_bitmap[number >> 3] >> (number & 7) & 1)
        if kind in (T.STRING, T.NEWDECIMAL):
            metadata = int.from_bytes(raw, "big")
        else:
            metadata = int.from_bytes(raw, "little")
        if kind == T.STRING and raw[0] in (T.ENUM, T.SET):
            kind = raw[0]
        yield Column(f"@{number + 1}", kind, metadata, nullable)


def _fields(optional: bytes) -> Iterator[tuple[_Field, bytes]]:
    reader = Cursor(optional, _WHAT)
    while reader.left:
        kind = reader.integer(1, "the type of a metadata field")
        value = reader.take(reader.packed("the length of a metadata field"), "a metadata field")
        # A later server may write fields that are not known here, as the servers' own readers expect.
        if kind in _Field._value2member_map_:
            yield _Field(kind), value


def _numbers_of(table: Table, types: frozenset[int]) -> list[int]:
    return [number for number, column in enumerate(table.columns) if column.type in types]


def _changed(
    table: Table, numbers: Sequence[int], change: Callable[[int, Column], Column]
) -> tuple[Column, ...]:
    columns = list(table.columns)
    for k, number in enumerate(numbers):
        columns[number] = change(k, columns[number])
    return tuple(columns)


def _bit(bits: bytes, k: int) -> bool:
    """Return bit k of a bitmap whose first bit is the most significant bit of the first byte."""
    return bool(bits[k >> 3] << (k & 7) & 0x80)


def _signedness(types: frozenset[int]) -> Callable[[Table, Cursor], Table]:
    def read(table: Table, reader: Cursor) -> Table:
        numbers = _numbers_of(table, types)
        bits = reader.take((len(numbers) + 7) // 8, "the signedness")

        def signed(k: int, column: Column) -> Column:
            return replace(column, unsigned=_bit(bits, k)) if column.type in NUMBERS else column

        return replace(table, columns=_changed(table, numbers, signed))

    return read


def _default_charset(types: frozenset[int]) -> Callable[[Table, Cursor], Table]:
    def read(table: Table, reader: Cursor) -> Table:
        numbers = _numbers_of(table, types)
        default = reader.packed("the default collation")
        others = {}
        while reader.left:
            k = reader.packed("a column's number")
            others[k] = reader.packed("a column's collation")
        if others and max(others) >= len(numbers):
            raise BinlogCorrupt(
                f"Table_map event: a collation for text column {max(others)} of {len(numbers)}"
            )
        return replace(
            table,
            columns=_changed(
                table, numbers, lambda k, column: replace(column, collation=others.get(k, default))
            ),
        )

    return read


def _column_charset(types: frozenset[int]) -> Callable[[Table, Cursor], Table]:
    def read(table: Table, reader: Cursor) -> Table:
        numbers = _numbers_of(table, types)
        found = [reader.packed("a column's collation") for _ in numbers]
        return replace(
            table,
            columns=_changed(table, numbers, lambda k, column: replace(column, collation=found[k])),
        )

    return read


def _column_names(table: Table, reader: Cursor) -> Table:
    found = [
        reader.take(reader.packed("the length of a column's name"), "a column's name") for _ in table.columns
    ]
    columns = _changed(
        table,
        range(len(found)),
        lambda k, column: replace(column, name=found[k].decode("utf-8", "backslashreplace")),
    )
    return replace(table, columns=columns, has_names=True)


def _names_of_values(kind: int) -> Callable[[Table, Cursor], Table]:
    def read(table: Table, reader: Cursor) -> Table:
        numbers = _numbers_of(table, frozenset({kind}))
        found = []
        for _ in numbers:
            count = reader.packed("the number of values")
            if count > reader.left:
                raise BinlogCorrupt(f"Table_map event: a column with {count} values, more than it has bytes")
            found.append(
                tuple(
                    reader.take(reader.packed("the length of a value's name"), "a value's name")
                    for _ in range(count)
                )
            )
        return replace(
            table, columns=_changed(table, numbers, lambda k, column: replace(column, values=found[k]))
        )

    return read


def _dimensions(table: Table, reader: Cursor) -> Table:
    numbers = _numbers_of(table, frozenset({T.VECTOR}))
    found = [reader.packed("the dimensions of a vector") for _ in numbers]
    return replace(
        table, columns=_changed(table, numbers, lambda k, column: replace(column, dimensions=found[k]))
    )


def _unused(table: Table, reader: Cursor) -> Table:
    # Row images do not depend on the types of geometries.
    reader.take(reader.left, "")
    return table


def _primary_key(with_prefix: bool) -> Callable[[Table, Cursor], Table]:
    def read(table: Table, reader: Cursor) -> Table:
        key = []
        while reader.left:
            key.append(reader.packed("a column of the primary key"))
            if with_prefix:
                reader.packed("the length of a prefix")
        if key and max(key) >= len(table.columns):
            raise BinlogCorrupt(
                f"Table_map event: a primary key on column {max(key)} of {len(table.columns)}"
            )
        return replace(table, primary_key=tuple(key))

    return read


def _visibility(table: Table, reader: Cursor) -> Table:
    bits = reader.take((len(table.columns) + 7) // 8, "the columns' visibility")
    return replace(
        table,
        columns=_changed(
            table,
            range(len(table.columns)),
            lambda k, column: replace(column, visible=_bit(bits, k)),
        ),
    )


_ENUMS_AND_SETS = frozenset({T.ENUM, T.SET})

_READERS: dict[_Field, Callable[[Table, Cursor], Table]] = {
    _Field.SIGNEDNESS: _signedness(NUMBERS),
    _Field.DEFAULT_CHARSET: _default_charset(TEXTS),
    _Field.COLUMN_CHARSET: _column_charset(TEXTS),
    _Field.COLUMN_NAME: _column_names,
    _Field.SET_STR_VALUE: _names_of_values(T.SET),
    _Field.ENUM_STR_VALUE: _names_of_values(T.ENUM),
    _Field.GEOMETRY_TYPE: _unused,
    _Field.SIMPLE_PRIMARY_KEY: _primary_key(with_prefix=False),
    _Field.PRIMARY_KEY_WITH_PREFIX: _primary_key(with_prefix=True),
    _Field.ENUM_AND_SET_DEFAULT_CHARSET: _default_charset(_ENUMS_AND_SETS),
    _Field.ENUM_AND_SET_COLUMN_CHARSET: _column_charset(_ENUMS_AND_SETS),
    _Field.COLUMN_VISIBILITY: _visibility,
    _Field.VECTOR_DIMENSIONALITY: _dimensions,
}

_MARIADB_TEXTS = TEXTS | {T.GEOMETRY}
_MARIADB_READERS = _READERS | {
    _Field.SIGNEDNESS: _signedness(NUMBERS | {T.YEAR}),
    _Field.DEFAULT_CHARSET: _default_charset(_MARIADB_TEXTS),
    _Field.COLUMN_CHARSET: _column_charset(_MARIADB_TEXTS),
}
"""MariaDB also counts YEAR among the numbers with a sign, and GEOMETRY among the columns with a character set."""
