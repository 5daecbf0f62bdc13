"""The small events: what a statement needs beforehand, what ends a transaction, what ends a file.

``body`` is the event without its common header and without its checksum. The decoders raise
BinlogCorrupt for what is too short or cannot be, and nothing else. Sources:
``libs/mysql/binlog/event/{statement,control,load_data,rows}_events.{h,cpp}``, MariaDB's
``sql/log_event.cc`` and ``sql/log_event_data_type.h``, recordings of both.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from dumpfilter.binlog.gtid_events import Xid, checked_xid
from dumpfilter.binlog.query import decode_name
from dumpfilter.errors import BinlogCorrupt

LAST_INSERT_ID_EVENT = 1
"""Intvar: the value of LAST_INSERT_ID()."""
INSERT_ID_EVENT = 2
"""Intvar: the next AUTO_INCREMENT value."""

STRING_RESULT, REAL_RESULT, INT_RESULT, ROW_RESULT, DECIMAL_RESULT = range(5)
"""User_var: types of values (``Item_result``)."""

INCIDENT_NONE, INCIDENT_LOST_EVENTS = range(2)

_XA_HEAD = struct.Struct("<BiII")
_RAND = struct.Struct("<QQ")
_U32 = struct.Struct("<I")
_CHUNK_SIGNED, _CHUNK_UNSIGNED, _CHUNK_DATA_TYPE_NAME = range(3)


def _need(body: bytes | memoryview, length: int, what: str, *, exactly: bool = False) -> None:
    if len(body) < length or (exactly and len(body) != length):
        raise BinlogCorrupt(f"{what} event: {len(body)} bytes, not {length}{'' if exactly else ' or more'}")


class Rotate(NamedTuple):
    """The stream or file goes on in file ``name`` (no path) at ``position`` (bytes)."""

    name: str
    position: int


def decode_rotate(body: bytes | memoryview) -> Rotate:
    """Read a Rotate (4) event's body: u64 position, the file's name to the end."""
    _need(body, 9, "Rotate")
    return Rotate(decode_name(body[8:]), int.from_bytes(body[:8], "little"))


def encode_rotate(rotate: Rotate) -> bytes:
    """A Rotate event's body.

    >>> decode_rotate(encode_rotate(Rotate("bin.000002", 4)))
    Rotate(name='bin.000002', position=4)
    """
    return rotate.position.to_bytes(8, "little") + rotate.name.encode("utf-8", "surrogateescape")


def decode_xid(body: bytes | memoryview) -> int:
    """Read an Xid (16) event's body, u64: the transaction's number in the server, which means nothing
    elsewhere. The event is the COMMIT."""
    _need(body, 8, "Xid", exactly=True)
    return int.from_bytes(body, "little")


class XaPrepare(NamedTuple):
    """XA PREPARE, or, with ``one_phase``, XA COMMIT … ONE PHASE."""

    one_phase: bool
    xid: Xid


def decode_xa_prepare(body: bytes | memoryview) -> XaPrepare:
    """Read an XA_prepare (38) event's body: u8 one phase, i32 format id, u32 gtrid length, u32 bqual
    length, the two."""
    _need(body, _XA_HEAD.size, "XA_prepare")
    one_phase, format_id, gtrid_length, bqual_length = _XA_HEAD.unpack_from(body)
    data = bytes(body[_XA_HEAD.size :])
    if len(data) != gtrid_length + bqual_length:
        raise BinlogCorrupt(f"XA_prepare event: XID of {gtrid_length} + {bqual_length} bytes in {len(data)}")
    return XaPrepare(bool(one_phase), checked_xid(format_id, data[:gtrid_length], data[gtrid_length:]))


class Intvar(NamedTuple):
    """A number the next statement uses: LAST_INSERT_ID_EVENT or INSERT_ID_EVENT."""

    type: int
    value: int


def decode_intvar(body: bytes | memoryview) -> Intvar:
    """Read an Intvar (5) event's body: u8 type, u64 value."""
    _need(body, 9, "Intvar", exactly=True)
    if body[0] not in (LAST_INSERT_ID_EVENT, INSERT_ID_EVENT):
        raise BinlogCorrupt(f"Intvar event: unknown type {body[0]}")
    return Intvar(body[0], int.from_bytes(body[1:], "little"))


def encode_intvar(intvar: Intvar) -> bytes:
    """An Intvar event's body.

    >>> decode_intvar(encode_intvar(Intvar(INSERT_ID_EVENT, 9)))
    Intvar(type=2, value=9)
    """
    return bytes([intvar.type]) + intvar.value.to_bytes(8, "little")


class Rand(NamedTuple):
    """The state of RAND() for the next statement."""

    seed1: int
    seed2: int


def decode_rand(body: bytes | memoryview) -> Rand:
    """Read a Rand (13) event's body: two u64."""
    _need(body, _RAND.size, "Rand", exactly=True)
    return Rand(*_RAND.unpack(body))


class UserVar(NamedTuple):
    """A user variable the next statement uses. ``value`` is None for NULL, which has no more to it."""

    name: str
    value: bytes | None
    """As in the event: a string's bytes; a double; an i64 or u64; precision, scale and binary decimal."""
    type: int = STRING_RESULT
    """STRING_RESULT, REAL_RESULT, INT_RESULT or DECIMAL_RESULT."""
    charset: int = 63
    """Collation id."""
    unsigned: bool = False
    data_type_name: str | None = None
    """MariaDB's type beyond the four, such as ``point``."""


def decode_user_var(body: bytes | memoryview) -> UserVar:
    """Read a User_var (14) event's body: u32 length and name, u8 whether NULL; if not u8 type, u32
    collation id, u32 length and value, then pieces till the end: 0 signed, 1 unsigned (written for
    integers; the one flag MySQL has), MariaDB's 2, u8 length and name of the data type. What follows
    an unknown piece is passed over."""
    data = memoryview(body)
    _need(data, 4, "User_var")
    end = 4 + int.from_bytes(data[:4], "little")
    _need(data, end + 1, "User_var")
    name = decode_name(data[4:end])
    if data[end]:
        return UserVar(name, None)
    _need(data, end + 10, "User_var")
    kind, charset, length = struct.unpack_from("<BII", data, end + 1)
    if kind == ROW_RESULT or kind > DECIMAL_RESULT:
        raise BinlogCorrupt(f"User_var event: unknown type {kind}")
    start, end = end + 10, end + 10 + length
    _need(data, end, "User_var")
    value = bytes(data[start:end])
    if kind in (REAL_RESULT, INT_RESULT) and length != 8:
        raise BinlogCorrupt(f"User_var event: a number of {length} bytes")
    unsigned, type_name = False, None
    while end < len(data):
        piece = data[end]
        end += 1
        if piece == _CHUNK_DATA_TYPE_NAME:
            _need(data, end + 1, "User_var")
            start, end = end + 1, end + 1 + data[end]
            _need(data, end, "User_var")
            type_name = decode_name(data[start:end])
        elif piece in (_CHUNK_SIGNED, _CHUNK_UNSIGNED):
            unsigned = piece == _CHUNK_UNSIGNED
        else:
            break
    return UserVar(name, value, kind, charset, unsigned, type_name)


def encode_user_var(variable: UserVar) -> bytes:
    """A User_var event's body.

    >>> decode_user_var(encode_user_var(UserVar("i", bytes(8), INT_RESULT))).name
    'i'
    """
    name = variable.name.encode("utf-8", "surrogateescape")
    head = _U32.pack(len(name)) + name
    if variable.value is None:
        return head + b"\1"
    rest = struct.pack("<BBII", 0, variable.type, variable.charset, len(variable.value)) + variable.value
    if variable.type == INT_RESULT:
        rest += bytes([variable.unsigned])
    if variable.data_type_name is not None:
        type_name = variable.data_type_name.encode("utf-8", "surrogateescape")
        rest += bytes([_CHUNK_DATA_TYPE_NAME, len(type_name)]) + type_name
    return head + rest


def decode_rows_query(body: bytes | memoryview) -> bytes:
    """Read a Rows_query (29) event's body: the statement whose rows follow, in the client's character
    set, which nothing tells. The first byte is its length cut to 8 bits, and means nothing."""
    _need(body, 1, "Rows_query")
    return bytes(body[1:])


def decode_annotate_rows(body: bytes | memoryview) -> bytes:
    """Read MariaDB's Annotate_rows (160) event's body: the statement whose rows follow, in the client's
    character set, which nothing tells."""
    return bytes(body)


class LoadBlock(NamedTuple):
    """A block of the file of a LOAD DATA statement."""

    file_id: int
    """The same as in the Execute_load_query event that uses the file."""
    data: bytes


def decode_begin_load_query(body: bytes | memoryview) -> LoadBlock:
    """Read a Begin_load_query (17) event's body, the first block: u32 file id, data to the end."""
    _need(body, 4, "Begin_load_query")
    return LoadBlock(int.from_bytes(body[:4], "little"), bytes(body[4:]))


def decode_append_block(body: bytes | memoryview) -> LoadBlock:
    """Read an Append_block (9) event's body, a later block: u32 file id, data to the end."""
    _need(body, 4, "Append_block")
    return LoadBlock(int.from_bytes(body[:4], "little"), bytes(body[4:]))


class Incident(NamedTuple):
    """Something happened on the master that the binlog cannot tell; a slave stops at it."""

    number: int
    """INCIDENT_LOST_EVENTS is the only one."""
    message: str


def decode_incident(body: bytes | memoryview) -> Incident:
    """Read an Incident (26) event's body: u16 number, u8 length and message (absent in some)."""
    _need(body, 2, "Incident")
    number = int.from_bytes(body[:2], "little")
    if number > INCIDENT_LOST_EVENTS:
        raise BinlogCorrupt(f"Incident event: unknown number {number}")
    if len(body) == 2:
        return Incident(number, "")
    _need(body, 3 + body[2], "Incident", exactly=True)
    return Incident(number, decode_name(body[3:]))


def decode_binlog_checkpoint(body: bytes | memoryview) -> str:
    """Read a Binlog_checkpoint (161) event's body: u32 length, and the oldest file that crash recovery needs."""
    return decode_name(bytes(body[4:]))


def decode_heartbeat(body: bytes | memoryview) -> str:
    """Read a Heartbeat (27) event's body: the name of the file the stream is in. The position is the
    header's ``end_log_pos``."""
    _need(body, 1, "Heartbeat")
    return decode_name(body)


def decode_stop(body: bytes | memoryview) -> None:
    """Check a Stop (3) event's body, which is empty: the server was shut down."""
    _need(body, 0, "Stop", exactly=True)
