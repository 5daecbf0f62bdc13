"""Decoders of small events: events that prepare a statement, end a transaction, or end a binlog file.

In every function, ``body`` is an event without its common header and without its checksum. The decoders raise
BinlogCorrupt for a body that is too short or has an impossible value, and nothing else. Sources:
``libs/mysql/binlog/event/{statement,control,load_data,rows}_events.{h,cpp}``, MariaDB's ``sql/log_event.cc`` and
``sql/log_event_data_type.h``, recordings of both.
"""

from __future__ import annotations

import struct
from typing import NamedTuple

from dumpfilter.base.errors import BinlogCorrupt
from dumpfilter.binlog.gtid_events import Xid, checked_xid
from dumpfilter.binlog.query import decode_name

LAST_INSERT_ID_EVENT = 1
"""The type of an Intvar event with the value of LAST_INSERT_ID()."""
INSERT_ID_EVENT = 2
"""The type of an Intvar event with the next AUTO_INCREMENT value."""

STRING_RESULT, REAL_RESULT, INT_RESULT, ROW_RESULT, DECIMAL_RESULT = range(5)
"""The codes that tell the type of a user variable's value in a User_var event (the servers' enum ``Item_result``)."""

INCIDENT_NONE, INCIDENT_LOST_EVENTS = range(2)
"""The numbers of the kinds of incidents in an Incident event. Servers write INCIDENT_LOST_EVENTS only."""

_XA_HEAD = struct.Struct("<BiII")
_RAND = struct.Struct("<QQ")
_CHUNK_SIGNED, _CHUNK_UNSIGNED, _CHUNK_DATA_TYPE_NAME = range(3)


def _need(body: bytes | memoryview, length: int, what: str, *, exactly: bool = False) -> None:
    if len(body) < length or (exactly and len(body) != length):
        raise BinlogCorrupt(
            f"{what} event: its body has {len(body)} bytes instead of {length}{'' if exactly else ' or more'}"
        )


class Rotate(NamedTuple):
    """The content of a Rotate event: the file and the position at which the stream or the binlog set continues."""

    name: str
    """The next file's name, without a path."""
    position: int
    """The offset at which reading goes on in the next file, bytes."""


def decode_rotate(body: bytes | memoryview) -> Rotate:
    """Decode the body of a Rotate (4) event: u64 position, then the next file's name. Raises BinlogCorrupt."""
    _need(body, 9, "Rotate")
    return Rotate(decode_name(body[8:]), int.from_bytes(body[:8], "little"))


def encode_rotate(rotate: Rotate) -> bytes:
    """Return the body of a Rotate event.

    >>> decode_rotate(encode_rotate(Rotate("bin.000002", 4)))
    Rotate(name='bin.000002', position=4)
    """
    return rotate.position.to_bytes(8, "little") + rotate.name.encode("utf-8", "surrogateescape")


def decode_xid(body: bytes | memoryview) -> int:
    """Return the number in an Xid (16) event, which commits its transaction.

    The body is one u64. The number identifies the transaction inside its server only.
    """
    _need(body, 8, "Xid", exactly=True)
    return int.from_bytes(body, "little")


class XaPrepare(NamedTuple):
    """The content of an XA_prepare event, which ends the first phase of an XA transaction."""

    one_phase: bool
    """True when the event stands for XA COMMIT … ONE PHASE, which commits at once. False for XA PREPARE."""
    xid: Xid
    """The XA transaction's identifier, to which a later XA COMMIT or XA ROLLBACK refers."""


def decode_xa_prepare(body: bytes | memoryview) -> XaPrepare:
    """Read the body of an XA_prepare (38) event.

    The body has u8 one_phase (1 for XA COMMIT … ONE PHASE), i32 format id, u32 length of the gtrid, u32 length of the
    bqual, gtrid, bqual.
    """
    _need(body, _XA_HEAD.size, "XA_prepare")
    one_phase, format_id, gtrid_length, bqual_length = _XA_HEAD.unpack_from(body)
    data = bytes(body[_XA_HEAD.size :])
    if len(data) != gtrid_length + bqual_length:
        raise BinlogCorrupt(
            f"XA_prepare event: its XID has {len(data)} bytes instead of {gtrid_length} + {bqual_length}"
        )
    return XaPrepare(bool(one_phase), checked_xid(format_id, data[:gtrid_length], data[gtrid_length:]))


class Intvar(NamedTuple):
    """The content of an Intvar event: the value of LAST_INSERT_ID() or AUTO_INCREMENT that the next statement uses."""

    type: int
    """The meaning of ``value``: LAST_INSERT_ID_EVENT for LAST_INSERT_ID(), INSERT_ID_EVENT for the next AUTO_INCREMENT
    value.
    """
    value: int


def decode_intvar(body: bytes | memoryview) -> Intvar:
    """Decode the body of an Intvar (5) event: u8 type, u64 value. Raises BinlogCorrupt."""
    _need(body, 9, "Intvar", exactly=True)
    if body[0] not in (LAST_INSERT_ID_EVENT, INSERT_ID_EVENT):
        raise BinlogCorrupt(f"Intvar event: unknown type {body[0]}")
    return Intvar(body[0], int.from_bytes(body[1:], "little"))


class Rand(NamedTuple):
    """The content of a Rand event: the two seeds with which a slave sets RAND() before the next statement."""

    seed1: int
    seed2: int


def decode_rand(body: bytes | memoryview) -> Rand:
    """Decode the body of a Rand (13) event: u64 first seed, u64 second seed. Raises BinlogCorrupt."""
    _need(body, _RAND.size, "Rand", exactly=True)
    return Rand(*_RAND.unpack(body))


class UserVar(NamedTuple):
    """The content of a User_var event: a user variable (``@name``) that the next statement uses.

    For a variable that is NULL, only the name has a meaning.
    """

    name: str
    value: bytes | None
    """The bytes of the variable's value as the event stores them; None for NULL.

    The bytes are a string, a double, an integer of 64 bits, or a decimal (precision, scale and binary digits).
    ``type`` tells which.
    """
    type: int = STRING_RESULT
    """The type of the variable's value: STRING_RESULT, REAL_RESULT, INT_RESULT or DECIMAL_RESULT."""
    charset: int = 63
    """The id of the collation of the variable's value; 63 is the collation ``binary``."""
    unsigned: bool = False
    data_type_name: str | None = None
    """The name of MariaDB's data type, such as ``point``; None when ``type`` tells the data type completely."""


def decode_user_var(body: bytes | memoryview) -> UserVar:
    """Read the body of a User_var (14) event.

    The body has u32 length of the name, the name, and u8 whether the value is NULL. For a value that is not NULL, u8
    type, u32 collation id, u32 length and the value follow. Then come pieces, each with a code of one byte:

    - 0: the integer is signed.
    - 1: the integer is unsigned. MySQL has no other pieces.
    - 2: u8 length and the name of MariaDB's data type.

    Reading ends at a piece with an unknown code.
    """
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
        raise BinlogCorrupt(f"User_var event: its number has {length} bytes instead of 8")
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


def decode_rows_query(body: bytes | memoryview) -> bytes:
    """Return the statement in a Rows_query (29) event. The rows events of this statement follow the event.

    The statement is in the client's character set, which the event does not name. The first byte of the body is the
    statement's length modulo 256, and is ignored.
    """
    _need(body, 1, "Rows_query")
    return bytes(body[1:])


def decode_annotate_rows(body: bytes | memoryview) -> bytes:
    """Return the statement in an Annotate_rows (160) event. The rows events of this statement follow the event.

    The statement is in the client's character set, which the event does not name.
    """
    return bytes(body)


class LoadBlock(NamedTuple):
    """A part of the data file of a LOAD DATA statement, which the binlog carries in several events."""

    file_id: int
    """The number of the data file. The Execute_load_query event with the LOAD DATA statement has the same number."""
    data: bytes


def decode_begin_load_query(body: bytes | memoryview) -> LoadBlock:
    """Read the body of a Begin_load_query (17) event, which carries the first part of a LOAD DATA statement's file.

    The body has u32 file id, then data to the end.
    """
    _need(body, 4, "Begin_load_query")
    return LoadBlock(int.from_bytes(body[:4], "little"), bytes(body[4:]))


def decode_append_block(body: bytes | memoryview) -> LoadBlock:
    """Read the body of an Append_block (9) event, which carries a later part of a LOAD DATA statement's file.

    The body has u32 file id, then data to the end.
    """
    _need(body, 4, "Append_block")
    return LoadBlock(int.from_bytes(body[:4], "little"), bytes(body[4:]))


class Incident(NamedTuple):
    """The content of an Incident event, with which a server tells that it could not log some changes.

    A slave stops with an error at an incident.
    """

    number: int
    """The kind of the incident: INCIDENT_NONE or INCIDENT_LOST_EVENTS."""
    message: str


def decode_incident(body: bytes | memoryview) -> Incident:
    """Read the body of an Incident (26) event: u16 number, u8 length of the message, message.

    Some servers leave out length and message.
    """
    _need(body, 2, "Incident")
    number = int.from_bytes(body[:2], "little")
    if number > INCIDENT_LOST_EVENTS:
        raise BinlogCorrupt(f"Incident event: unknown number {number}")
    if len(body) == 2:
        return Incident(number, "")
    _need(body, 3 + body[2], "Incident", exactly=True)
    return Incident(number, decode_name(body[3:]))


def decode_binlog_checkpoint(body: bytes | memoryview) -> str:
    """Return the oldest binlog file that crash recovery needs, from a Binlog_checkpoint (161) event.

    The body has u32 length of the file's name, and the name.
    """
    _need(body, 4, "Binlog_checkpoint")
    _need(body, 4 + int.from_bytes(body[:4], "little"), "Binlog_checkpoint", exactly=True)
    return decode_name(bytes(body[4:]))


def decode_heartbeat(body: bytes | memoryview) -> str:
    """Return the name of the binlog file that the master is reading, from a Heartbeat (27) event.

    The master's position in this file is ``end_log_pos`` of the event's header.
    """
    _need(body, 1, "Heartbeat")
    return decode_name(body)


def decode_stop(body: bytes | memoryview) -> None:
    """Check that the body of a Stop (3) event is empty. The event says that the server was shut down."""
    _need(body, 0, "Stop", exactly=True)
