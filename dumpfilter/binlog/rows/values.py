"""The default text style of a column's values, and the conversion of single values in Python."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np

from dumpfilter.base.errors import BinlogCorrupt
from dumpfilter.binlog import row_image as T
from dumpfilter.binlog.collations import CODECS
from dumpfilter.binlog.compression import inflated
from dumpfilter.binlog.format import Family
from dumpfilter.binlog.rows.charsets import BINARY, LATIN1, charset_of, decode
from dumpfilter.binlog.rows.json_binary import changed_document, changes_expression, json_changes, json_value
from dumpfilter.binlog.rows.numbers import number_texts
from dumpfilter.binlog.rows.table import INTEGERS, Column, bit_count, char_length
from dumpfilter.binlog.rows.texts import ByteMap, Form, Style

_FLOAT_BYTES = 4
_PACKED = 0x80
"""The bit in the first byte of a compressed column's value (MariaDB) that marks compressed bytes."""
_UNWRAPPED = 0x08
"""The bit in the first byte that marks a deflate stream without zlib's header."""


_FORMS = {
    T.YEAR: Form.YEAR,
    T.TIME: Form.OLD_TIME,
    T.DATETIME: Form.OLD_DATETIME,
    T.TIMESTAMP: Form.OLD_TIMESTAMP,
    T.TIME2: Form.TIME,
    T.DATETIME2: Form.DATETIME,
    T.TIMESTAMP2: Form.TIMESTAMP,
    T.NEWDECIMAL: Form.DECIMAL,
    T.FLOAT: Form.REAL,
    T.DOUBLE: Form.REAL,
    T.GEOMETRY: Form.HEX,
}
_DASH = ord("-")


def text_style(column: Column, family: Family) -> Style:
    """Return the style (rule of conversion) by which the values of a column become plain text, in row images that map
    column names to texts.

    ``family`` is the kind of server that wrote the binlog, MySQL or MariaDB.
    """
    kind = column.type
    charset = charset_of(column.collation, family)
    if kind in INTEGERS:
        return Style(Form.UNSIGNED if column.unsigned else Form.SIGNED)
    if kind in (T.ENUM, T.SET):
        if not column.values:
            return Style(Form.UNSIGNED if kind == T.ENUM else Form.SET_BITS)
        # The names of an ENUM of binary strings are text, too, if they are UTF-8.
        labels = tuple(
            decode(value, None if charset == BINARY else charset).encode() for value in column.values
        )
        return Style(Form.ENUM if kind == T.ENUM else Form.SET, 0, labels)
    if kind == T.BIT:
        return Style(Form.BITS, bit_count(column))
    if kind in (T.DATE, T.NEWDATE):
        return Style(Form.DATE, _DASH)
    if kind in _FORMS:
        return Style(_FORMS[kind], column.metadata if _FORMS[kind] != Form.HEX else 0)
    if kind in (T.JSON, T.TYPED_ARRAY):
        return Style(Form.PENDING, 0, (), lambda data: json_value(data).json, _changes(column.name))
    if kind == T.VECTOR:
        return Style(Form.PENDING, 0, (), _vector)
    if kind in (T.VARCHAR_COMPRESSED, T.BLOB_COMPRESSED):
        return Style(Form.PENDING, 0, (), lambda data: decode(uncompressed_value(data), charset))
    if charset == BINARY:
        return Style(Form.HEX, char_length(column.metadata) if kind == T.STRING else 0)
    if charset == LATIN1:
        return Style(Form.MAPPED, ByteMap.LATIN1)
    # Bytes of an unknown character set are text if they are UTF-8. Those of a known set that Python lacks are no UTF-8.
    codec = "utf-8" if column.collation is None else CODECS.get(charset or "")
    if codec == "utf-8":
        return Style(Form.UTF8)
    return Style(Form.HEX if codec is None else Form.PENDING, 0, (), lambda data: decode(data, charset))


def _changes(name: str) -> Callable[[bytes, bytes | None], str]:
    def text(data: bytes, document: bytes | None) -> str:
        """Return the JSON text after the changes, or without a document an SQL expression that makes the changes."""
        if document is not None:
            return changed_document(document, data)
        return changes_expression(f"`{name.replace('`', '``')}`", list(json_changes(data)))

    return text


def _vector(data: bytes) -> str:
    if len(data) % _FLOAT_BYTES:
        raise BinlogCorrupt(f"a VECTOR value has {len(data)} bytes, which is no number of floats")
    return f"[{','.join(number_texts(np.frombuffer(data, '<f4')))}]"


def uncompressed_value(data: bytes) -> bytes:
    """Return the value of a compressed column of MariaDB (``COLUMN_FORMAT COMPRESSED``), given its stored bytes.

    The first byte is 0 before a plain value. Else it tells the number of bytes of the length, and the length and the
    compressed value follow. Raises BinlogCorrupt.
    """
    if not data:
        return b""
    first, width = data[0], data[0] & 7
    if first == 0:
        return data[1:]
    if not first & _PACKED or first & 0x70 or not 1 <= width <= 4 or len(data) < 1 + width:
        raise BinlogCorrupt(
            f"a compressed column's value starts with byte 0x{first:02x}, which no server writes"
        )
    return inflated(
        data[1:], width, "the data of a compressed column's value", wrapped=not first & _UNWRAPPED
    )
