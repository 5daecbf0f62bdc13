"""The conversion of single values to text in Python code, for the types that the compiled code leaves out."""

from __future__ import annotations

import zlib
from collections.abc import Callable

import numpy as np

from dumpfilter.binlog import row_image as T
from dumpfilter.binlog.compression import MAX_UNCOMPRESSED_EVENT
from dumpfilter.binlog.format import Family
from dumpfilter.errors import BinlogCorrupt
from dumpfilter.rows.charsets import codec_of, decode
from dumpfilter.rows.json_binary import changes_expression, json_changes, json_value
from dumpfilter.rows.json_changes import changed_document
from dumpfilter.rows.numbers import number_texts
from dumpfilter.rows.table import Column

ToText = Callable[[bytes], str]

_FLOAT_BYTES = 4
_PACKED = 0x80
"""The bit of the first byte of a value that a compressed column of MariaDB stores compressed."""
_UNWRAPPED = 0x08
"""The bit for a deflate stream without zlib's header."""


def to_text(column: Column, family: Family) -> ToText:
    """Return the function that converts a column's values to text."""
    kind = column.type
    if kind in (T.JSON, T.TYPED_ARRAY):
        return lambda data: json_value(data).json
    if kind == T.VECTOR:
        return _vector
    codec = codec_of(column.collation, family)
    if kind in (T.VARCHAR_COMPRESSED, T.BLOB_COMPRESSED):
        return lambda data: decode(uncompressed_value(data), codec)
    return lambda data: decode(data, codec)


def _vector(data: bytes) -> str:
    if len(data) % _FLOAT_BYTES:
        raise BinlogCorrupt(f"a VECTOR value has {len(data)} bytes, which is no number of floats")
    return f"[{','.join(number_texts(np.frombuffer(data, '<f4')))}]"


def uncompressed_value(data: bytes) -> bytes:
    """Return the value that a compressed column of MariaDB stores (``COLUMN_FORMAT COMPRESSED``).

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
    length = int.from_bytes(data[1 : 1 + width], "big")
    if length > MAX_UNCOMPRESSED_EVENT:
        raise BinlogCorrupt(
            f"a compressed column's value announces {length} bytes, more than {MAX_UNCOMPRESSED_EVENT}"
        )
    opener = zlib.decompressobj(-zlib.MAX_WBITS if first & _UNWRAPPED else zlib.MAX_WBITS)
    try:
        value = opener.decompress(data[1 + width :], length + 1)
    except zlib.error as error:
        raise BinlogCorrupt(f"a compressed column's value cannot be opened: {error}") from error
    if len(value) != length:
        raise BinlogCorrupt(f"a compressed column's value does not have the {length} bytes that it announces")
    return value


def changed_json(name: str, data: bytes, document: bytes | None) -> str:
    """Return the JSON text of a column after the changes of a partial update.

    ``document`` is the binary JSON value before the update. Without a document, return an SQL expression that makes the
    changes.
    """
    if document is not None:
        return changed_document(document, data)
    return changes_expression(f"`{name.replace('`', '``')}`", list(json_changes(data)))
