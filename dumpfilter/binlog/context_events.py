"""Decoders of small events: events that prepare a statement, end a transaction, or end a binlog file.

In every function, ``body`` is an event without its common header and without its checksum. The decoders raise
BinlogCorrupt for a body that is too short or has an impossible value, and nothing else. Sources:
``libs/mysql/binlog/event/{statement,control,load_data,rows}_events.{h,cpp}``, MariaDB's ``sql/log_event.cc`` and
``sql/log_event_data_type.h``, recordings of both.
"""

from __future__ import annotations

import struct
from typing import Any, NamedTuple

from dumpfilter.base.errors import BinlogCorrupt
from dumpfilter.binlog.cursor import BytesLike, Cursor, decode_name, encode_name
from dumpfilter.binlog.events import CHECKSUM_LENGTH
from dumpfilter.binlog.gtid_events import Xid, read_xid

LAST_INSERT_ID_EVENT = 1
"""The type of an Intvar event with the value of LAST_INSERT_ID()."""
INSERT_ID_EVENT = 2
"""The type of an Intvar event with the next AUTO_INCREMENT value."""

STRING_RESULT, REAL_RESULT, INT_RESULT, ROW_RESULT, DECIMAL_RESULT = range(5)
"""The codes that tell the type of a user variable's value in a User_var event (the servers' enum ``Item_result``)."""

INCIDENT_NONE, INCIDENT_LOST_EVENTS = range(2)
"""The numbers of the kinds of incidents in an Incident event. Servers write INCIDENT_LOST_EVENTS only."""

_XID = struct.Struct("<Q")
_XA_HEAD = struct.Struct("<iII")
_INTVAR = struct.Struct("<BQ")
_RAND = struct.Struct("<QQ")
_USER_VALUE = struct.Struct("<BII")
_CHUNK_SIGNED, _CHUNK_UNSIGNED, _CHUNK_DATA_TYPE_NAME = range(3)


def _fixed(body: BytesLike, what: str, form: struct.Struct) -> tuple[Any, ...]:
    reader = Cursor(body, what)
    fields = reader.unpack(form, "its fields")
    reader.finish()
    return fields


class Rotate(NamedTuple):
    """The content of a Rotate event: the file and the position at which the stream or the binlog set continues."""

    name: str
    """The next file's name, without a path."""
    position: int
    """The offset at which reading goes on in the next file, bytes."""


def decode_rotate(body: BytesLike) -> Rotate:
    """Decode the body of a Rotate (4) event: u64 position, then the next file's name. Raises BinlogCorrupt for another
    layout.
    """
    reader = Cursor(body, "Rotate")
    position = reader.integer(8, "the position")
    return Rotate(decode_name(reader.rest("the next file's name", least=1)), position)


def encode_rotate(rotate: Rotate) -> bytes:
    """Return the body of a Rotate event, which is the event without its common header and checksum.

    >>> decode_rotate(encode_rotate(Rotate("bin.000002", 4)))
    Rotate(name='bin.000002', position=4)
    """
    return rotate.position.to_bytes(8, "little") + encode_name(rotate.name)


def decode_xid(body: BytesLike) -> int:
    """Return the transaction number in the body of an Xid (16) event, which commits a transaction.

    The body is one u64. The number identifies the transaction inside its server only. Raises BinlogCorrupt for another
    layout.
    """
    (number,) = _fixed(body, "Xid", _XID)
    return int(number)


class XaPrepare(NamedTuple):
    """The content of an XA_prepare event: the xid of an XA transaction, and whether the event commits the transaction
    in one phase. Otherwise the event ends the first phase (XA PREPARE).
    """

    one_phase: bool
    """True when the event stands for XA COMMIT … ONE PHASE, which commits at once. False for XA PREPARE."""
    xid: Xid
    """The XA transaction's identifier, to which a later XA COMMIT or XA ROLLBACK refers."""


def decode_xa_prepare(body: BytesLike) -> XaPrepare:
    """Decode the body of an XA_prepare (38) event, which ends the first phase of an XA transaction.

    The body has u8 one_phase (1 for XA COMMIT … ONE PHASE), i32 format id, u32 length of the gtrid, u32 length of the
    bqual, gtrid, bqual. Raises BinlogCorrupt for another layout.
    """
    reader = Cursor(body, "XA_prepare")
    prepare = XaPrepare(bool(reader.integer(1, "its phase")), read_xid(reader, _XA_HEAD))
    reader.finish()
    return prepare


class Intvar(NamedTuple):
    """The content of an Intvar event: the value of LAST_INSERT_ID() or AUTO_INCREMENT that the next statement uses."""

    type: int
    """The meaning of ``value``: LAST_INSERT_ID_EVENT for LAST_INSERT_ID(), INSERT_ID_EVENT for the next AUTO_INCREMENT
    value.
    """
    value: int


def decode_intvar(body: BytesLike) -> Intvar:
    """Decode the body of an Intvar (5) event: u8 type, u64 value. Raises BinlogCorrupt for another layout or type."""
    found = Intvar(*_fixed(body, "Intvar", _INTVAR))
    if found.type not in (LAST_INSERT_ID_EVENT, INSERT_ID_EVENT):
        raise BinlogCorrupt(f"Intvar event: unknown type {found.type}")
    return found


class Rand(NamedTuple):
    """The content of a Rand event: the two seeds with which a slave sets RAND() before the next statement."""

    seed1: int
    seed2: int


def decode_rand(body: BytesLike) -> Rand:
    """Decode the body of a Rand (13) event: u64 first seed, u64 second seed. Raises BinlogCorrupt for
    another layout.
    """
    return Rand(*_fixed(body, "Rand", _RAND))


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


def decode_user_var(body: BytesLike) -> UserVar:
    """Decode the body of a User_var (14) event, which holds the value of a user variable (``@name``).

    The body has u32 length of the name, the name, and u8 whether the value is NULL. For a value that is not NULL, u8
    type, u32 collation id, u32 length and the value follow. Then come optional fields, each with a code of one byte:

    - 0: the integer is signed.
    - 1: the integer is unsigned. MySQL has no other fields.
    - 2: u8 length and the name of MariaDB's data type, which the result lacks.

    Reading ends at a field with an unknown code. Raises BinlogCorrupt for another layout or an unknown type.
    """
    reader = Cursor(body, "User_var")
    name = reader.name(4, "the variable's name")
    if reader.integer(1, "the mark of NULL"):
        return UserVar(name, None)
    kind, charset, length = reader.unpack(_USER_VALUE, "its value's type")
    if kind == ROW_RESULT or kind > DECIMAL_RESULT:
        raise BinlogCorrupt(f"User_var event: unknown type {kind}")
    value = reader.take(length, "its value")
    if kind in (REAL_RESULT, INT_RESULT) and length != 8:
        raise BinlogCorrupt(f"User_var event: its number has {length} bytes instead of 8")
    unsigned = False
    while reader.left:
        piece = reader.integer(1, "a piece")
        if piece == _CHUNK_DATA_TYPE_NAME:
            reader.name(1, "the name of its data type")
        elif piece in (_CHUNK_SIGNED, _CHUNK_UNSIGNED):
            unsigned = piece == _CHUNK_UNSIGNED
        else:
            break
    return UserVar(name, value, kind, charset, unsigned)


def decode_rows_query(body: BytesLike) -> bytes:
    """Return the statement in a Rows_query (29) event. The rows events of this statement follow the event.

    The statement is in the client's character set, which the event does not name. The first byte of the body is the
    statement's length modulo 256, and is ignored. Raises BinlogCorrupt for an empty body.
    """
    return Cursor(body, "Rows_query").rest("its length", least=1)[1:]


def decode_annotate_rows(body: BytesLike) -> bytes:
    """Return the statement in an Annotate_rows (160) event. The rows events of this statement follow the event.

    The statement is in the client's character set, which the event does not name.
    """
    return bytes(body)


class LoadBlock(NamedTuple):
    """A part of the file that a LOAD DATA statement reads. The binlog carries the file in several events."""

    file_id: int
    """The number of the data file. The Execute_load_query event with the LOAD DATA statement has the same number."""
    data: bytes


def decode_load_block(body: BytesLike) -> LoadBlock:
    """Decode the body of a Begin_load_query (17), Append_block (9) or Delete_file (11) event.

    Begin_load_query carries the first part of the file that a LOAD DATA statement reads. Append_block carries a later
    part. Delete_file, without data, tells that the statement failed. The body has u32 file id, then data to the end.
    Raises BinlogCorrupt for a shorter body.
    """
    reader = Cursor(body, "Begin_load_query, Append_block or Delete_file")
    return LoadBlock(reader.integer(4, "the file id"), reader.rest())


class Incident(NamedTuple):
    """The content of an Incident event, with which a server tells that it could not log some changes.

    A slave stops with an error at an incident.
    """

    number: int
    """The kind of the incident: INCIDENT_NONE or INCIDENT_LOST_EVENTS."""
    message: str


def decode_incident(body: BytesLike) -> Incident:
    """Decode the body of an Incident (26) event, with which a server tells that it could not log some changes. The body
    has u16 number, u8 length of the message, and the message.

    Some servers leave out length and message. MySQL with ``binlog_checksum=CRC32`` adds a second checksum to an
    incident that it writes through a session's binlog cache, so that four bytes follow the message. Their content does
    not matter. Raises BinlogCorrupt for another layout or an unknown number.
    """
    reader = Cursor(body, "Incident")
    number = reader.integer(2, "its number")
    if number > INCIDENT_LOST_EVENTS:
        raise BinlogCorrupt(f"Incident event: unknown number {number}")
    message = reader.name(1, "its message") if reader.left else ""
    if reader.left == CHECKSUM_LENGTH:
        reader.rest()
    reader.finish()
    return Incident(number, message)


def decode_binlog_checkpoint(body: BytesLike) -> str:
    """Return the oldest binlog file that crash recovery needs, from a Binlog_checkpoint (161) event.

    The body has u32 length of the file's name, and the name. Raises BinlogCorrupt for another layout.
    """
    reader = Cursor(body, "Binlog_checkpoint")
    name = reader.name(4, "the file's name")
    reader.finish()
    return name


def decode_heartbeat(body: BytesLike) -> str:
    """Return the name of the binlog file that the master is reading, from a Heartbeat (27) event.

    The master's position in this file is ``end_log_pos`` of the event's header. Raises BinlogCorrupt for an empty body.
    """
    return decode_name(Cursor(body, "Heartbeat").rest("the file's name", least=1))


def decode_stop(body: BytesLike) -> None:
    """Raise BinlogCorrupt if the body of a Stop (3) event is not empty. The event says that the server shut down."""
    Cursor(body, "Stop").finish()
