"""The packets with which the console (a port for MySQL clients) answers a client: column definitions, rows, OK, EOF and
errors.

Rows have two forms. Plain statements get rows in the protocol's text form, and prepared statements in its binary form.
"""

from __future__ import annotations

import contextlib
import struct
from collections.abc import Callable, Iterator
from datetime import datetime
from typing import Any

from mysql_mimic import packets
from mysql_mimic.charset import CharacterSet
from mysql_mimic.results import ResultColumn
from mysql_mimic.types import Capabilities, ServerStatus, str_len, uint_len
from mysql_mimic.types import ColumnType as WireType

from dumpfilter.console.sql.result import OK, ZERO_TIMESTAMP, Column, ColumnType, Result, text_of
from dumpfilter.console.sql.server_errors import SqlError


def codec_of(charset: CharacterSet) -> str:
    """Return the name of the Python codec that encodes texts in a client's character set. MySQL's latin1 is Windows'
    code page 1252.
    """
    return "cp1252" if charset is CharacterSet.latin1 else charset.codec


def _has_ascii(charset: CharacterSet) -> bool:
    with contextlib.suppress(LookupError):
        return "A".encode(charset.codec) == b"A"
    return False


CHARACTER_SETS = {charset.name: charset for charset in CharacterSet if _has_ascii(charset)}
"""The character sets that clients can use, by name. Python knows them, and they encode ASCII letters with the bytes of
ASCII. Like a server, the console refuses other character sets, such as utf16, for statements.
"""


def _text(column: ResultColumn, value: Any) -> bytes:
    if isinstance(value, bytes):
        return value
    return text_of(value).encode(codec_of(column.character_set), "replace")


def _timestamp(column: ResultColumn, value: Any) -> bytes:
    # SELECT has read a timestamp as a text. The zero timestamp, 0000-00-00, is sent as a value of length 0.
    text = text_of(value)
    wire = ResultColumn("", WireType.TIMESTAMP)
    return b"\0" if text == ZERO_TIMESTAMP else bytes(wire.binary_encode(datetime.fromisoformat(text)))


_BINARY: dict[ColumnType, Callable[[ResultColumn, Any], bytes]] = {
    ColumnType.TEXT: lambda column, value: str_len(_text(column, value)),
    # Columns are declared signed to the client, so the client reads a value of 2**63 or more as a negative number.
    ColumnType.INTEGER: lambda _, value: struct.pack("<Q", int(value) & 0xFFFFFFFFFFFFFFFF),
    ColumnType.TIMESTAMP: _timestamp,
}
"""The functions that encode a value for a row of a prepared statement's result, by the type of the value's column.
Values of other types are encoded by the library mysql_mimic.
"""

_STATE = Capabilities.CLIENT_PROTOCOL_41, ServerStatus.SERVER_STATUS_AUTOCOMMIT
"""The protocol version and the server status in each OK and EOF packet. The status AUTOCOMMIT says that each statement
is a transaction.
"""


def error(
    failed: SqlError, charset: CharacterSet = CharacterSet.utf8mb4, *, is_greeted: bool = True
) -> bytes:
    """Return the ERR packet of the client protocol for the error ``failed``.

    The error's text is encoded in ``charset``, the client's character set. Characters outside it become question marks.
    ``is_greeted`` is false for a client that has not received the server's first packet. Such a client expects no
    SQLSTATE.
    """
    state = b"#" + failed.sqlstate.encode("ascii", "replace")[:5].ljust(5, b"0") if is_greeted else b""
    return (
        struct.pack("<BH", 0xFF, failed.number) + state + failed.message.encode(codec_of(charset), "replace")
    )


def ok(result: Result = OK, info: bytes = b"") -> bytes:
    """Return the OK packet that ends a statement without rows, with the numbers of affected rows and warnings in
    ``result``.

    ``info`` is a text for the client at the end of the packet. Only the OK packet after a login has such a text.
    """
    packet = packets.make_ok(*_STATE, affected_rows=result.affected, warnings=_warnings(result))
    return bytes(packet) + (str_len(info) if info else b"")


def eof(result: Result = OK) -> bytes:
    """Return the EOF packet, which follows the columns of a result, its rows, and a dump. The packet has the number of
    warnings in ``result``.
    """
    return bytes(packets.make_eof(*_STATE, warnings=_warnings(result)))


def _warnings(result: Result) -> int:
    return min(len(result.notes), 0xFFFF)


def result_set(result: Result, charset: CharacterSet, *, binary: bool) -> Iterator[bytes]:
    """Yield the packets of a result with columns: the column definitions, the rows, and the packet at the end.

    ``binary`` chooses the protocol's binary form of rows, which prepared statements need, instead of the text form.
    ``charset`` is the client's character set, in which names and texts are encoded.
    """
    yield uint_len(len(result.columns))
    for column in result.columns:
        yield column_definition(column, charset)
    yield eof(result)
    columns = [
        ResultColumn(column.name, WireType(column.type.wire), charset, _text, _BINARY.get(column.type))
        for column in result.columns
    ]
    encode = packets.make_binary_resultrow if binary else packets.make_text_resultset_row
    for row in result.rows:
        yield encode(row, columns)
    yield eof(result)


def column_definition(column: Column, charset: CharacterSet) -> bytes:
    text = column.type is ColumnType.TEXT
    return bytes(
        packets.make_column_definition_41(
            server_charset=charset,
            # A character of the name that the client's character set lacks becomes a question mark. The library encodes
            # the name anew.
            name=column.name.encode(codec_of(charset), "replace").decode(charset.codec),
            column_type=WireType(column.type.wire),
            character_set=charset if text else CharacterSet.binary,
            column_length=1 << 24 if text else 26,
            decimals=column.type.decimals,
        )
    )
