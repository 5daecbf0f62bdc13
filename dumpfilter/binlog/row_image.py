"""The layout of row images: which columns an image has, and the sizes of the columns' values. Also DECIMAL values.

A row image is a null bitmap over the columns that are *present*, and the values of the present columns that are not
NULL. A value either has a fixed number of bytes, or begins with its length in 1 to 4 bytes. The column's type and
metadata tell which of these two forms the value has (:func:`value_sizes`).

Sources: ``calc_field_size`` in ``libs/mysql/binlog/event/binary_log_funcs.cpp``, ``read_field_metadata`` in
``sql/rpl_utility.cc``, MariaDB's ``sql/rpl_utility.cc``, ``decimal_bin_size`` and ``bin2decimal`` in
``strings/decimal.cc``.

Known limit: the binlog does not tell the precision of MariaDB's old temporal types with fractions of a second
(``mysql56_temporal_format=OFF``). Row images with such values are split wrongly, as in ``mariadb-binlog``. The same
types without fractions are split correctly.
"""

from __future__ import annotations

import functools
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np

from dumpfilter.base.compiler.arrays import Bytes, Int32s, Int64s
from dumpfilter.base.errors import BinlogCorrupt
from dumpfilter.binlog.events import EventType, RowsKind
from dumpfilter.binlog.rows_events import RowsHeader, TableMap

BEFORE, AFTER = 1, 2
"""The bits that say which images a row has: the values before the change, and the values after it."""

_IMAGES = {"insert": AFTER, "delete": BEFORE, "update": BEFORE | AFTER}
_MOST_LAYOUTS = 4096
"""The largest number of layouts in the cache, for all tables together. A layout tells which columns the row images of
an event have, and the sizes of the values.
"""

# The types of columns, with the names and numbers of enum_field_types (include/field_types.h). Only MariaDB has the
# types 140 and 141.
DECIMAL, TINY, SHORT, LONG, FLOAT, DOUBLE, NULL, TIMESTAMP, LONGLONG, INT24 = range(10)
DATE, TIME, DATETIME, YEAR, NEWDATE, VARCHAR, BIT, TIMESTAMP2, DATETIME2, TIME2, TYPED_ARRAY = range(10, 21)
BLOB_COMPRESSED, VARCHAR_COMPRESSED = 140, 141
VECTOR, INVALID, BOOL, JSON, NEWDECIMAL, ENUM, SET = range(242, 249)
TINY_BLOB, MEDIUM_BLOB, LONG_BLOB, BLOB, VAR_STRING, STRING, GEOMETRY = range(249, 256)

_FIXED = {
    TINY: 1,
    YEAR: 1,
    TYPED_ARRAY: -4,  # The server stores the values of a typed array like JSON values.
    SHORT: 2,
    INT24: 3,
    LONG: 4,
    LONGLONG: 8,
    NULL: 0,
    DATE: 3,
    NEWDATE: 3,
    TIME: 3,
    TIMESTAMP: 4,
    DATETIME: 8,
}
# The size of a value of each temporal type with fractions, without the fraction of a second, bytes.
_TEMPORAL2 = {TIME2: 3, TIMESTAMP2: 4, DATETIME2: 5}
_BLOBS = frozenset({TINY_BLOB, MEDIUM_BLOB, LONG_BLOB, BLOB, BLOB_COMPRESSED, GEOMETRY, JSON, VECTOR})
_VARCHARS = frozenset({VARCHAR, VARCHAR_COMPRESSED})
_STRINGS = frozenset({STRING, ENUM, SET})


def _bad(column: int, kind: int, why: str) -> BinlogCorrupt:
    return BinlogCorrupt(f"Table_map event: column {column} of type {kind} {why}")


def metadata_width(kind: int, following: bytes = b"") -> int:
    """Return the size of a column's metadata in a Table_map event, bytes. The column's type ``kind`` decides the size.

    ``following`` is the first byte of the metadata. The byte matters only for typed arrays, whose metadata begin with
    another type.
    """
    if kind == TYPED_ARRAY:
        # The metadata of a typed array (MYSQL_TYPE_TYPED_ARRAY) are the type of its elements and the metadata of that
        # type, which has 3 bytes for VARCHAR.
        element = following[0] if following else 0
        return 1 + (3 if element == VARCHAR else metadata_width(element) if element != TYPED_ARRAY else 0)
    if kind in _BLOBS or kind in _TEMPORAL2 or kind in (FLOAT, DOUBLE):
        return 1
    if kind in _VARCHARS or kind in _STRINGS or kind in (BIT, NEWDECIMAL):
        return 2
    return 0


def raw_columns(types: bytes, metadata: bytes) -> list[tuple[int, bytes]]:
    """Return the type and the metadata bytes of each column in a Table_map event, in the order of the columns.

    ``types`` and ``metadata`` are the fields ``column_types`` and ``metadata`` of the :class:`TableMap`. Raises
    BinlogCorrupt when the metadata of the table are shorter or longer than the columns' types require.
    """
    at = 0
    found = []
    for column, kind in enumerate(types):
        width = metadata_width(kind, metadata[at : at + 1])
        if at + width > len(metadata) and (kind != TYPED_ARRAY or at >= len(metadata)):
            raise _bad(column, kind, "has no metadata")
        found.append((kind, metadata[at : at + width]))
        at += width
    if at != len(metadata):
        raise BinlogCorrupt(
            f"Table_map event: {len(metadata)} bytes of metadata, of which the columns use {at}"
        )
    return found


def value_sizes(types: bytes, metadata: bytes) -> tuple[int, ...]:
    r"""Return the size of the values of each column in a Table_map event, bytes. A size ``-n`` means that each value
    begins with its length in n bytes.

    ``types`` and ``metadata`` are the fields ``column_types`` and ``metadata`` of the :class:`TableMap`. Raises
    BinlogCorrupt when they do not fit together.

    >>> value_sizes(bytes([LONG, VARCHAR]), b"\xc8\0")
    (4, -1)
    """
    return tuple(_value_size(k, kind, raw) for k, (kind, raw) in enumerate(raw_columns(types, metadata)))


def _value_size(column: int, kind: int, metadata: bytes) -> int:
    fixed = _FIXED.get(kind)
    if fixed is not None:
        return fixed
    if kind in _BLOBS:
        if not 1 <= metadata[0] <= 4:
            raise _bad(column, kind, f"has a length of {metadata[0]} bytes")
        return -metadata[0]
    if kind in _VARCHARS:
        return -2 if int.from_bytes(metadata, "little") > 255 else -1
    if kind in (FLOAT, DOUBLE):
        if metadata[0] not in (4, 8):
            raise _bad(column, kind, f"has {metadata[0]} bytes")
        return metadata[0]
    if kind in _TEMPORAL2:
        if metadata[0] > 6:
            raise _bad(column, kind, f"has {metadata[0]} decimals")
        return _TEMPORAL2[kind] + (metadata[0] + 1) // 2
    if kind == NEWDECIMAL:
        precision, scale = metadata
        if not (0 < precision <= 65 and scale <= min(precision, 38)):
            raise _bad(column, kind, f"has precision {precision} and scale {scale}")
        return decimal_binary_size(precision, scale)
    if kind == BIT:
        bits, whole = metadata
        if bits > 7 or 8 * whole + bits > 64:
            raise _bad(column, kind, f"has {8 * whole + bits} bits")
        return whole + (bits > 0)
    if kind in _STRINGS:
        real, length = metadata
        if real in (ENUM, SET):
            if not 1 <= length <= 8:
                raise _bad(column, kind, f"has {length} bytes")
            return length
        # The server stores bits 8 and 9 of a CHAR's length inverted in bits 4 and 5 of the real type.
        return -2 if ((real << 4 & 0x300) ^ 0x300) + length > 255 else -1
    raise _bad(column, kind, "cannot be in a rows event")


class Layouts(NamedTuple):
    """The layouts of row images as arrays for compiled code. A layout tells which columns the before-image and
    after-image of a row have, and the sizes of the values.

    ``size`` (of values), ``document`` and ``json`` (for partial updates of JSON) and ``column`` (the caller's number)
    have one entry for each column, for all layouts one after the other. The before-image of layout k has their entries
    ``first[k] : second[k]``, and the after-image has ``second[k] : first[k + 1]``.
    """

    first: Int64s
    second: Int64s
    size: Int32s
    """The size of each column's values, bytes. A size ``-n`` means that each value begins with its length in
    n bytes.
    """
    document: Int32s
    """For each column of an after-image, the index of the same column in the before-image, which holds the JSON
    document that a partial update changes. -1 for none, and for columns of before-images.
    """
    json: Int32s
    """For each column, the number of its bit in the bitmap ``partial_bits`` of a partial update of JSON values; -1 for
    none.
    """
    images: Bytes
    """For each layout, the images that a row has: a sum of the bits BEFORE (before-image) and AFTER (after-image)."""
    partial_bytes: Int32s
    """For each layout, the size of the bitmap ``partial_bits`` in a partial update of JSON values, bytes; -1 for other
    changes.
    """
    column: Int64s
    """For each column, the number that identifies it for the caller of :func:`~dumpfilter.binlog.row_walk.find_rows`.
    The result has this number for each of the column's values.
    """


NO_LAYOUTS = Layouts(np.zeros(1, np.int64), *(np.empty(0, kind) for kind in "qiiiBiq"))
"""The arrays of a :class:`Layouts` that holds no layout yet, with which a cache begins."""


def joined_layouts(parts: Sequence[Layouts]) -> Layouts:
    """Return one Layouts with all layouts of ``parts``, in their order. A layout tells which columns a row image has,
    and the sizes of their values.

    The index of a layout grows by the number of layouts in the earlier parts.
    """
    begins = np.cumsum([0, *(part.size.size for part in parts)])
    moved = (
        part._replace(first=part.first[1:] + begin, second=part.second + begin)
        for part, begin in zip(parts, begins[:-1], strict=True)
    )
    return Layouts(*map(np.concatenate, zip(NO_LAYOUTS, *moved, strict=True)))


def row_layout(table: TableMap, rows: RowsHeader) -> Layouts:
    """Return the layout of the row images in a rows event: which columns the images have, and the sizes of the values.
    The result is a Layouts that holds this one layout.

    ``table`` is the event's table map, and ``rows`` its decoded header. Raises BinlogCorrupt for a header that does not
    fit the table map, and for a table map whose column types and metadata do not fit together.
    """
    bitmaps = rows.columns_before, rows.columns_after or b""
    return _layout(table.column_types, table.metadata, rows.type, rows.kind, rows.column_count, *bitmaps)


# Tables with equal columns share a layout.
@functools.lru_cache(_MOST_LAYOUTS)
def _layout(
    types: bytes, metadata: bytes, type: int, kind: RowsKind, column_count: int, before: bytes, after: bytes
) -> Layouts:
    if column_count != len(types):
        raise BinlogCorrupt(
            f"rows event: it has {column_count} columns, and its Table_map event has {len(types)}"
        )
    sizes, json = value_sizes(types, metadata), [k for k, kind in enumerate(types) if kind == JSON]
    images = _IMAGES[kind]
    first = _present(before, column_count)
    second = _present(after, column_count) if kind == "update" else first
    partial = (len(json) + 7) // 8 if type == EventType.PARTIAL_UPDATE_ROWS else -1
    first, second = first if images & BEFORE else (), second if images & AFTER else ()
    bits = {column: k for k, column in enumerate(json)} if partial >= 0 else {}
    place = {column: k for k, column in enumerate(first)}
    columns, nothing = [*first, *second], [-1] * len(first)
    return Layouts(
        np.array([0, len(columns)]),
        np.array([len(first)]),
        np.array([sizes[column] for column in columns], np.int32),
        np.array([*nothing, *(place.get(column, -1) for column in second)], np.int32),
        np.array([*nothing, *(bits.get(column, -1) for column in second)], np.int32),
        np.array([images], np.uint8),
        np.array([partial], np.int32),
        np.array(columns, np.int64),
    )


def _present(bitmap: bytes, columns: int) -> tuple[int, ...]:
    if len(bitmap) != (columns + 7) // 8:
        raise BinlogCorrupt(f"rows event: its bitmap has {len(bitmap)} bytes for {columns} columns")
    return tuple(k for k in range(columns) if bitmap[k >> 3] >> (k & 7) & 1)


DIGIT_BYTES = (0, 1, 1, 2, 2, 3, 3, 4, 4, 4)
"""The sizes of groups of 0 to 9 decimal digits, bytes (``dig2bytes``)."""


def decimal_binary_size(precision: int, scale: int) -> int:
    """Return the size of a DECIMAL(precision, scale) value in the servers' binary form, bytes (``decimal_bin_size``).

    On either side of the point, each group of 9 digits takes 4 bytes. The remaining digits take 1 to 4 bytes.

    >>> decimal_binary_size(10, 2), decimal_binary_size(65, 30), decimal_binary_size(9, 9)
    (5, 30, 4)
    """
    whole = precision - scale
    return 4 * (whole // 9) + DIGIT_BYTES[whole % 9] + 4 * (scale // 9) + DIGIT_BYTES[scale % 9]


def decimal_text(data: bytes, precision: int, scale: int) -> str:
    """Return the decimal digits of a DECIMAL(precision, scale) value in the servers' binary form (``bin2decimal``).

    Raises BinlogCorrupt for data of the wrong length.

    >>> decimal_text(bytes.fromhex("810dfb38d204d2"), 14, 4)
    '1234567890.1234'
    """
    if not 0 <= scale <= precision or not data or len(data) != decimal_binary_size(precision, scale):
        raise BinlogCorrupt(f"a DECIMAL({precision},{scale}) of {len(data)} bytes")
    whole = precision - scale
    sign, flip = ("", 0) if data[0] & 0x80 else ("-", 0xFF)
    plain = bytes(byte ^ flip for byte in (data[0] ^ 0x80, *data[1:]))
    at, sides = 0, []
    for groups in ((whole % 9, *[9] * (whole // 9)), (*[9] * (scale // 9), scale % 9)):
        digits = ""
        for count in filter(None, groups):
            end = at + DIGIT_BYTES[count]
            digits += f"{int.from_bytes(plain[at:end], 'big'):0{count}}"
            at = end
        sides.append(digits)
    integer, fraction = sides
    return f"{sign}{integer.lstrip('0') or '0'}{'.' if fraction else ''}{fraction}"
