"""The packets of a result: column definitions, rows in text and binary form, OK, EOF and errors."""

from __future__ import annotations

import datetime
import struct
from collections.abc import Callable, Iterator, Sequence
from typing import Any

from mysql_mimic import packets
from mysql_mimic.charset import CharacterSet
from mysql_mimic.types import Capabilities, ServerStatus, str_len, uint_len
from mysql_mimic.types import ColumnType as WireType

from dumpfilter.sql.result import Column, ColumnType, Result, as_shown
from dumpfilter.sql.server_errors import SqlError

_WIRE = {
    ColumnType.TEXT: (WireType.VAR_STRING, 0),
    ColumnType.INTEGER: (WireType.LONGLONG, 0),
    ColumnType.DOUBLE: (WireType.DOUBLE, 31),
    ColumnType.TIMESTAMP: (WireType.TIMESTAMP, 6),
}
_NOT_FIXED_DECIMALS = 31


def error(failed: SqlError, charset: CharacterSet) -> bytes:
    """Return an ERR packet with the error's number and SQLSTATE."""
    state = failed.sqlstate.encode("ascii", "replace")[:5].ljust(5, b"0")
    text = failed.message.encode(charset.codec, "replace")
    return b"\xff" + struct.pack("<H", failed.number) + b"#" + state + text


def ok(capabilities: Capabilities, status: ServerStatus, result: Result, info: bytes = b"") -> bytes:
    """Return an OK packet; ``info`` is its text."""
    packet = packets.make_ok(
        capabilities, status, affected_rows=result.affected, warnings=min(len(result.notes), 0xFFFF)
    )
    return bytes(packet) + (str_len(info) if info else b"")


def end_of_rows(capabilities: Capabilities, status: ServerStatus, result: Result) -> bytes:
    """Return the packet after the last row: OK with the header of EOF, or EOF for older clients."""
    warnings = min(len(result.notes), 0xFFFF)
    if Capabilities.CLIENT_DEPRECATE_EOF in capabilities:
        return bytes(packets.make_ok(capabilities, status, eof=True, warnings=warnings))
    return bytes(packets.make_eof(capabilities, status, warnings=warnings))


def result_set(
    capabilities: Capabilities, status: ServerStatus, result: Result, charset: CharacterSet, *, binary: bool
) -> Iterator[bytes]:
    """Yield the packets of a result with columns, in the text protocol or (prepared statements) the binary one."""
    yield uint_len(len(result.columns))
    for column in result.columns:
        yield column_definition(column, charset)
    if Capabilities.CLIENT_DEPRECATE_EOF not in capabilities:
        yield bytes(packets.make_eof(capabilities, status, warnings=min(len(result.notes), 0xFFFF)))
    encode = _binary_row if binary else _text_row
    for row in result.rows:
        yield encode(row, result.columns, charset)
    yield end_of_rows(capabilities, status, result)


def column_definition(column: Column, charset: CharacterSet) -> bytes:
    wire, decimals = _WIRE[column.type]
    text = column.type is ColumnType.TEXT
    return bytes(
        packets.make_column_definition_41(
            server_charset=charset,
            # characters that the client's character set does not have become question marks
            name=column.name.encode(charset.codec, "replace").decode(charset.codec),
            column_type=wire,
            character_set=charset if text else CharacterSet.binary,
            column_length=1 << 24 if text else 26,
            decimals=decimals,
        )
    )


def text_of(value: object) -> str:
    """Return a value as the server writes it in a text result.

    >>> text_of(1e3), text_of(0.1), text_of(True), text_of(datetime.datetime(2026, 1, 2))
    ('1000', '0.1', '1', '2026-01-02 00:00:00.000000')
    """
    if isinstance(value, bool):
        return str(int(value))
    if isinstance(value, float):
        return repr(value).removesuffix(".0")
    if isinstance(value, datetime.datetime):
        return as_shown(value)
    return str(value)


def _encoded(value: object, charset: CharacterSet) -> bytes:
    return value if isinstance(value, bytes) else text_of(value).encode(charset.codec, "replace")


def _text_row(row: Sequence[Any], columns: Sequence[Column], charset: CharacterSet) -> bytes:
    del columns
    return b"".join(b"\xfb" if value is None else str_len(_encoded(value, charset)) for value in row)


def _binary_timestamp(value: Any, charset: CharacterSet) -> bytes:
    del charset
    if isinstance(value, str):
        # the protocol has no digits for the zero timestamp
        return b"\0"
    return struct.pack(
        "<BHBBBBBI",
        11,
        *(value.year, value.month, value.day, value.hour, value.minute, value.second, value.microsecond),
    )


_BINARY: dict[ColumnType, Callable[[Any, CharacterSet], bytes]] = {
    ColumnType.TEXT: lambda value, charset: str_len(_encoded(value, charset)),
    # the column is not told as unsigned: the upper half of 64 bits wraps, as it must
    ColumnType.INTEGER: lambda value, _: struct.pack("<Q", int(value) & 0xFFFFFFFFFFFFFFFF),
    ColumnType.DOUBLE: lambda value, _: struct.pack("<d", value),
    ColumnType.TIMESTAMP: _binary_timestamp,
}


def _binary_row(row: Sequence[Any], columns: Sequence[Column], charset: CharacterSet) -> bytes:
    nulls = bytearray((len(columns) + 9) // 8)
    values = []
    for at, (value, column) in enumerate(zip(row, columns, strict=True)):
        if value is None:
            nulls[(at + 2) // 8] |= 1 << (at + 2) % 8
        else:
            values.append(_BINARY[column.type](value, charset))
    return b"\0" + bytes(nulls) + b"".join(values)
