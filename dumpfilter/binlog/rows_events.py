"""Decoders of Table_map events, and of the part of rows events before the rows.

In every function, ``body`` is an event without its common header (19 bytes) and without its checksum. The rows
themselves are found by :mod:`dumpfilter.binlog.row_image` and :mod:`dumpfilter.binlog.row_walk`.

Sources: ``Table_map_event`` and ``Rows_event`` in MySQL's ``libs/mysql/binlog/event/rows_event.cpp``,
``Old_rows_log_event`` in ``sql/log_event_old.cc`` (MySQL 5.1 to 5.7, MariaDB), MariaDB's
``sql/log_event.cc``.
"""

from __future__ import annotations

from dataclasses import dataclass

import numpy as np

from dumpfilter.base.compiler.arrays import Bytes, Int64s
from dumpfilter.base.errors import BinlogCorrupt
from dumpfilter.binlog.cursor import Cursor, decode_name, encode_name, packed_integer
from dumpfilter.binlog.events import (
    ROWS,
    ROWS_V2,
    STMT_END_F,
    EventType,
    RowsKind,
    by_number,
    event_name,
    numbers_at,
)

TABLE_ID_LENGTH = 6
"""The length of the table id, with which a Table_map event and a rows event begin, bytes."""
FLAGS_LENGTH = 2
"""The length of the flags, which follow the table id, bytes."""

MAX_NAME_BYTES = 64 * 3
"""The length of the longest name of a database or table, bytes: 64 characters (``NAME_LEN``)."""
MAX_COLUMNS = 4096
"""The most columns of a table (``MAX_FIELDS``)."""

_DUMMY_IDS = frozenset({0xFFFFFF, 0xFFFFFFFF, 0xFFFFFFFFFFFF})
"""The table ids (all bits set) of dummy rows events, which have no table and no rows and only end a statement.

Server versions differ in the number of bits that they set.
"""


@dataclass(frozen=True, slots=True)
class TableMap:
    """The content of a Table_map event, which describes the table of the rows events with the same table id.

    Names are decoded from utf-8. Other bytes are kept by surrogateescape.
    """

    table_id: int
    flags: int
    database: str
    table: str
    column_types: bytes
    """The type of each column of the table, one byte for each (``MYSQL_TYPE_*``)."""
    metadata: bytes
    """The metadata of all columns, one after the other, such as the length of a VARCHAR.

    A column's type tells how many bytes its metadata take.
    """
    null_bitmap: bytes
    """The columns that may be NULL: a bitmap with one bit for each column, from the least significant bit on.

    The bit of a column that may be NULL is set.
    """
    optional: bytes = b""
    """The undecoded optional metadata, such as column names and signedness."""


def decode_table_map(body: bytes | memoryview) -> TableMap:
    """Decode the body of a Table_map event. Raises BinlogCorrupt for a body that is too short or impossible."""
    reader = Cursor(body, "Table_map")
    table_id = reader.integer(TABLE_ID_LENGTH, "the table id")
    flags = reader.integer(FLAGS_LENGTH, "the flags")
    names = []
    for field in ("the database's name", "the table's name"):
        length = reader.packed(field)
        if length > MAX_NAME_BYTES:
            raise BinlogCorrupt(f"Table_map event: {field} has {length} bytes, more than {MAX_NAME_BYTES}")
        name = reader.take(length + 1, field)
        if name[-1] != 0:
            raise BinlogCorrupt(f"Table_map event: {field} does not end with a zero byte")
        names.append(decode_name(name[:-1]))
    columns = reader.packed("the number of columns")
    if columns > MAX_COLUMNS:
        raise BinlogCorrupt(f"Table_map event: {columns} columns")
    types = reader.take(columns, "the column types")
    length = reader.packed("the length of the metadata")
    if length > 4 * columns:
        raise BinlogCorrupt(f"Table_map event: {length} bytes of metadata for {columns} columns")
    metadata = reader.take(length, "the metadata")
    null_bitmap = reader.take((columns + 7) // 8, "the null bitmap")
    return TableMap(table_id, flags, names[0], names[1], types, metadata, null_bitmap, reader.rest())


def encode_table_map(table: TableMap) -> bytes:
    r"""Return the body of a Table_map event (the event without common header and checksum). This is the inverse of
    :func:`decode_table_map`.

    >>> t = TableMap(7, 1, "db", "t", bytes([3, 15]), b"\x50\x00", b"\x02")
    >>> decode_table_map(encode_table_map(t)) == t
    True
    """
    names = encode_name(table.database), encode_name(table.table)
    return b"".join(
        (
            table.table_id.to_bytes(TABLE_ID_LENGTH, "little"),
            table.flags.to_bytes(FLAGS_LENGTH, "little"),
            *(packed_integer(len(name)) + name + b"\0" for name in names),
            packed_integer(len(table.column_types)) + table.column_types,
            packed_integer(len(table.metadata)) + table.metadata,
            table.null_bitmap,
            table.optional,
        )
    )


@dataclass(frozen=True, slots=True)
class RowsHeader:
    """The content of a rows event before its rows: table id, flags, columns.

    A column bitmap has one bit for each column of the table. The bits of columns that are in the row image are set.
    """

    table_id: int
    flags: int
    extra: bytes
    """The extra data that rows events of version 2 may have (NDB's data, or partition ids), without their length."""
    column_count: int
    columns_before: bytes
    """The column bitmap of the before-image of an update or delete, or of an insert's only image (``m_cols``)."""
    columns_after: bytes | None
    """The column bitmap of the after-image of an update; None for inserts and deletes."""
    rows_offset: int
    """The offset of the first row in the rows event's body, bytes."""
    kind: RowsKind
    compressed: bool
    """Whether MariaDB compressed the rows. :func:`dumpfilter.binlog.compression.rows_data` uncompresses them."""
    type: int
    """The number of the rows event's type."""
    is_dummy: bool = False
    """Whether the rows event is a dummy without table and rows, which only ends a statement."""

    @property
    def statement_ends(self) -> bool:
        """Whether the rows event is the last of its statement (flag ``STMT_END_F``)."""
        return bool(self.flags & STMT_END_F)


def rows_kind(type: int) -> RowsKind:
    """Return the change (insert, update or delete) that rows events of a type make. Raises ValueError for other event
    types.

    >>> rows_kind(30), rows_kind(39), rows_kind(168)
    ('insert', 'update', 'delete')
    """
    if type not in ROWS:
        raise ValueError(f"{event_name(type)} is not a rows event")
    change = EventType(type).kind.change
    assert change is not None
    return change


def decode_rows_header(type: int, body: bytes | memoryview) -> RowsHeader:
    r"""Decode the part of a rows event's body before the rows.

    Raises BinlogCorrupt for a body that is too short or impossible, and ValueError when ``type`` is not that of a rows
    event.

    >>> h = decode_rows_header(30, bytes.fromhex("0700000000000100020001" "01" "00" "05000000"))
    >>> h.table_id, h.kind, h.column_count, h.columns_before, h.rows_offset, h.statement_ends
    (7, 'insert', 1, b'\x01', 12, True)
    """
    kind = rows_kind(type)
    reader = Cursor(body, event_name(type))
    table_id = reader.integer(TABLE_ID_LENGTH, "the table id")
    flags = reader.integer(FLAGS_LENGTH, "the flags")
    extra = b""
    if type in ROWS_V2:
        length = reader.integer(2, "the length of the extra data")
        if length < 2:  # The length of the extra data includes the 2 bytes of the length itself.
            raise BinlogCorrupt(f"{reader.what} event: extra data of {length} bytes lack their own length")
        extra = reader.take(length - 2, "the extra data")
    no_table = table_id in _DUMMY_IDS
    columns, before, after = 0, b"", None
    if reader.left or not no_table:
        columns = reader.packed("the number of columns")
        if columns > MAX_COLUMNS or (columns == 0 and not no_table):
            raise BinlogCorrupt(f"{reader.what} event: {columns} columns")
        before = reader.take((columns + 7) // 8, "the columns bitmap")
    if kind == "update":
        after = reader.take((columns + 7) // 8, "the columns bitmap (after)") if columns else before
    return RowsHeader(
        table_id=table_id,
        flags=flags,
        extra=extra,
        column_count=columns,
        columns_before=before,
        columns_after=after,
        rows_offset=reader.at,
        kind=kind,
        compressed=EventType(type).kind.compressed,
        type=int(type),
        is_dummy=no_table and reader.left == 0,
    )


_BITMAPS = by_number(lambda kind: 0 if kind.change is None else 2 if kind.change == "update" else 1)
"""The number of column bitmaps in the header of a rows event, by the number of the event type."""
_HAS_EXTRA = by_number(lambda kind: kind.version == 2) > 0
"""Whether the header of a rows event has extra data, by the number of the event type."""
_ONE_BYTE, _TWO_BYTES = 250, 252
"""The largest packed integer of one byte, and the first byte of a packed integer that has two more bytes."""


def rows_offsets(data: Bytes, body: Int64s, type: Bytes) -> Int64s:
    """Return the byte offset in ``data`` of the first row of each rows event, int64. The result is 0 for an event with
    an impossible number of columns.

    Event k has the type ``type[k]``, and its body (the event after its common header) begins at ``data[body[k]]``.
    The offset may lie after the end of the event, so the caller must check it.
    """
    at = body + TABLE_ID_LENGTH + FLAGS_LENGTH
    at += np.where(_HAS_EXTRA[type], numbers_at(data, at, 2), 0)
    columns = numbers_at(data, at, 1)
    is_wide = columns == _TWO_BYTES
    columns = np.where(is_wide, numbers_at(data, at + 1, 2), np.where(columns > _ONE_BYTE, 0, columns))
    found: Int64s = at + np.where(is_wide, 3, 1) + _BITMAPS[type] * ((columns + 7) >> 3)
    return np.where(columns, found, 0)
