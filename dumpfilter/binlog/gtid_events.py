"""Decoders of the events that begin a transaction: MySQL's GTID, ANONYMOUS_GTID, GTID_TAGGED and MariaDB's GTID.

In every function, ``body`` is an event without its common header and without its checksum. The decoders raise
BinlogCorrupt for a body that is too short or has an impossible value, and nothing else. Sources:
``libs/mysql/binlog/event/control_events.{h,cpp}`` (``Gtid_event``), ``libs/mysql/serialization``, MariaDB's
``sql/log_event.cc`` (``Gtid_log_event``), and recordings of MySQL 9.7 and MariaDB 10.11.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from dumpfilter.base.errors import BinlogCorrupt
from dumpfilter.binlog.events import EventHeader, EventType
from dumpfilter.binlog.gtid import GNO_MAX, MariadbGtid, MysqlGtid
from dumpfilter.binlog.gtid_wire import decode_tag, decode_varlen
from dumpfilter.binlog.rows_events import Cursor

FLAG_MAY_HAVE_SBR = 1
"""MySQL's flag for a transaction that may have statements besides rows (``Gtid_event::FLAG_MAY_HAVE_SBR``)."""

FL_STANDALONE = 1
"""MariaDB's flag for an event group of one statement, without a COMMIT at its end."""
FL_GROUP_COMMIT_ID = 2
"""MariaDB's flag for a GTID event with a commit id. The transactions of one group commit have the same commit id."""
FL_TRANSACTIONAL = 4
"""MariaDB's flag for an event group that can be rolled back."""
FL_ALLOW_PARALLEL = 8
"""MariaDB's flag for an event group of a session in which ``@@skip_parallel_replication`` was 0."""
FL_DDL = 32
"""MariaDB's flag for an event group that is DDL, such as CREATE TABLE."""
FL_PREPARED_XA = 64
"""MariaDB's flag for an event group that ends in XA PREPARE."""
FL_COMPLETED_XA = 128
"""MariaDB's flag for an event group that is an XA COMMIT or XA ROLLBACK, the end of a prepared transaction."""

FL_EXTRA_MULTI_ENGINE_E1 = 1
"""MariaDB's extra flag for a GTID event that tells how many storage engines, less one, take part in the transaction.
"""
FL_START_ALTER_E1 = 2
"""MariaDB's extra flag for START ALTER, the first half of an ALTER in two phases."""
FL_COMMIT_ALTER_E1 = 4
"""MariaDB's extra flag for COMMIT ALTER, the second half of an ALTER in two phases.

The GTID event with this flag has the seq_no of the START ALTER.
"""
FL_ROLLBACK_ALTER_E1 = 8
"""MariaDB's extra flag for ROLLBACK ALTER, with which an ALTER in two phases fails.

The GTID event with this flag has the seq_no of the START ALTER.
"""
FL_EXTRA_THREAD_ID = 16
"""MariaDB's extra flag (11.5 and later) for a GTID event with the thread id of the transaction's session."""

_HEAD = struct.Struct("<B16sqB")
_HEAD_56 = struct.Struct("<B16sq")
_LOGICAL_TIMESTAMP_TYPECODE = 2
_TIMES = struct.Struct("<qq")
_MARIADB_HEAD = struct.Struct("<QIB")
_XID_HEAD = struct.Struct("<iBB")
_ORIGINAL_TIMESTAMP_FOLLOWS = 1 << 55
_ORIGINAL_VERSION_FOLLOWS = 1 << 31


@dataclass(frozen=True)
class MysqlGtidEvent:
    """The content of a GTID, ANONYMOUS_GTID or GTID_TAGGED event. A field that the event does not have is None."""

    gtid: MysqlGtid | None
    """The transaction's GTID; None for an anonymous transaction."""
    flags: int
    """The flags of the transaction: FLAG_MAY_HAVE_SBR, or 0 when the transaction has row changes only."""
    last_committed: int | None = None
    """The sequence_number of an earlier transaction, which a slave commits before it starts this transaction (5.7 and
    later).
    """
    sequence_number: int | None = None
    """The transaction's number within its binlog file, from 1 (5.7 and later)."""
    immediate_commit_timestamp: int | None = None
    """The time at which the server that wrote this binlog committed the transaction, microseconds of Unix time (8.0
    and later).
    """
    original_commit_timestamp: int | None = None
    """The time at which the transaction was first committed, on the server where it began (8.0 and later).

    The unit is microseconds of Unix time. The time is 0 when it is unknown.
    """
    transaction_length: int | None = None
    """The size of all events of the transaction in the binlog, including this GTID event, bytes."""
    immediate_server_version: int | None = None
    """The version of the server that wrote this binlog, such as 80034 (8.0.14 and later)."""
    original_server_version: int | None = None
    """The version of the first server that committed the transaction, such as 80034 (8.0.14 and later)."""
    commit_group_ticket: int | None = None
    """The number of the commit group to which the transaction belongs, within a Group Replication view change (8.0.29
    and later).
    """


def decode_mysql_gtid(body: bytes | memoryview, *, anonymous: bool = False) -> MysqlGtidEvent:
    """Read the body of a GTID (33) event or, with ``anonymous``, of an ANONYMOUS_GTID (34) event.

    All versions write u8 flags, 16 bytes of uuid and i64 gno. MySQL 5.7 and later go on with u8 2, i64 last_committed
    and i64 sequence_number. Later versions append these fields, and an event may end before any of them:

    - u56 immediate commit timestamp. With bit 55 set, the u56 original commit timestamp follows.
    - the transaction length, length-encoded.
    - u32 immediate server version. With bit 31 set, the u32 original server version follows.
    - u64 commit group ticket.

    Raises BinlogCorrupt.
    """
    data = memoryview(body)
    size = len(data)
    if size < _HEAD_56.size:
        raise BinlogCorrupt(f"GTID event: only {size} bytes")
    flags, uuid, gno = _HEAD_56.unpack_from(data)
    gtid = None if anonymous else _mysql_gtid(uuid, gno, "")
    if size < _HEAD.size + _TIMES.size or data[_HEAD_56.size] != _LOGICAL_TIMESTAMP_TYPECODE:
        # A GTID event without the logical timestamps is from MySQL 5.6, or from a preview of 5.7 whose further fields
        # have no known layout.
        return MysqlGtidEvent(gtid, flags)
    last_committed, sequence_number = _TIMES.unpack_from(data, _HEAD.size)
    reader = Cursor(data[_HEAD.size + _TIMES.size :], "GTID")
    immediate_timestamp = original_timestamp = length = immediate_version = original_version = ticket = None
    if reader.left >= 7:
        immediate_timestamp = original_timestamp = reader.integer(7, "its commit timestamp")
        if immediate_timestamp & _ORIGINAL_TIMESTAMP_FOLLOWS:
            immediate_timestamp &= ~_ORIGINAL_TIMESTAMP_FOLLOWS
            original_timestamp = reader.integer(7, "its original commit timestamp")
    if reader.left:
        length = reader.packed("its transaction length")
    if reader.left >= 4:
        immediate_version = original_version = reader.integer(4, "its server version")
        if immediate_version & _ORIGINAL_VERSION_FOLLOWS:
            immediate_version &= ~_ORIGINAL_VERSION_FOLLOWS
            original_version = reader.integer(4, "its original server version")
    if reader.left >= 8:
        ticket = reader.integer(8, "its commit group ticket")
    return MysqlGtidEvent(
        gtid,
        flags,
        last_committed,
        sequence_number,
        immediate_timestamp,
        original_timestamp,
        length,
        immediate_version,
        original_version,
        ticket,
    )


_SERIALIZATION_VERSION = 1
# The ids of the fields of a GTID_TAGGED event, in the order of Gtid_event::define_fields.
_FLAGS, _UUID, _GNO, _TAG, _LAST_COMMITTED, _SEQUENCE_NUMBER = range(6)
_IMMEDIATE_TIMESTAMP, _ORIGINAL_TIMESTAMP, _LENGTH = range(6, 9)
_IMMEDIATE_VERSION, _ORIGINAL_VERSION, _TICKET = range(9, 12)
_SIGNED = frozenset({_GNO, _LAST_COMMITTED, _SEQUENCE_NUMBER})


def decode_gtid_tagged(body: bytes | memoryview) -> MysqlGtidEvent:
    """Read the body of a GTID_TAGGED (42) event, which is one message of ``mysql::serialization``.

    All numbers are varlen integers. The message begins with the serialization version (1) and the size of the whole
    message. The number after the size says which unknown fields a reader may skip: it is 0, or one more than the id of
    a field that a reader must know. The fields follow in the order of their ids, each after its id:

    - 0: flags
    - 1: uuid, 16 integers
    - 2: gno
    - 3: tag, its length and its characters
    - 4: last_committed
    - 5: sequence_number
    - 6: immediate commit timestamp
    - 7: original commit timestamp, absent when equal to field 6
    - 8: transaction length
    - 9: immediate server version
    - 10: original server version, absent when equal to field 9
    - 11: commit group ticket

    Fields 2, 4 and 5 are signed, with the number shifted left by one and the sign in bit 0. Fields with larger ids
    are skipped, as the server does. Raises BinlogCorrupt.
    """
    data = memoryview(body)
    version, offset = decode_varlen(data, 0)
    if version != _SERIALIZATION_VERSION:
        raise BinlogCorrupt(f"GTID_TAGGED event: unknown serialization version {version}")
    size, offset = decode_varlen(data, offset)
    if size > len(data) or size < offset:
        raise BinlogCorrupt(f"GTID_TAGGED event: its body has {len(data)} bytes and its message {size}")
    data = data[:size]
    last_non_ignorable, offset = decode_varlen(data, offset)
    if last_non_ignorable > _TICKET + 1:
        raise BinlogCorrupt(
            f"GTID_TAGGED event: field {last_non_ignorable - 1} is unknown and must not be skipped"
        )
    values: dict[int, int] = {}
    uuid = b""
    tag = ""
    before = -1
    while offset < size:
        field, offset = decode_varlen(data, offset)
        if field <= before:
            raise BinlogCorrupt(f"GTID_TAGGED event: field {field} comes after field {before}")
        before = field
        if field > _TICKET:
            break
        if field == _UUID:
            octets = []
            for _ in range(16):
                octet, offset = decode_varlen(data, offset)
                octets.append(octet)
            if max(octets) > 255:
                raise BinlogCorrupt("GTID_TAGGED event: its uuid has a number over 255")
            uuid = bytes(octets)
        elif field == _TAG:
            tag, offset = decode_tag(data, offset)
        else:
            value, offset = decode_varlen(data, offset)
            values[field] = (value >> 1) ^ -(value & 1) if field in _SIGNED else value
    if not uuid or _GNO not in values:
        raise BinlogCorrupt("GTID_TAGGED event: it has no GTID")
    immediate_timestamp = values.get(_IMMEDIATE_TIMESTAMP)
    immediate_version = values.get(_IMMEDIATE_VERSION)
    return MysqlGtidEvent(
        _mysql_gtid(uuid, values[_GNO], tag),
        values.get(_FLAGS, 0),
        values.get(_LAST_COMMITTED),
        values.get(_SEQUENCE_NUMBER),
        immediate_timestamp,
        values.get(_ORIGINAL_TIMESTAMP, immediate_timestamp),
        values.get(_LENGTH),
        immediate_version,
        values.get(_ORIGINAL_VERSION, immediate_version),
        values.get(_TICKET),
    )


def _mysql_gtid(uuid: bytes, gno: int, tag: str) -> MysqlGtid:
    if not 1 <= gno <= GNO_MAX:
        raise BinlogCorrupt(f"GTID event: gno {gno} is out of range (1 to {GNO_MAX})")
    return MysqlGtid(uuid, gno, tag)


@dataclass(frozen=True)
class Xid:
    """The identifier of an XA transaction (the servers' ``XID``)."""

    format_id: int
    gtrid: bytes
    """The global transaction identifier, the first part of an XA transaction's identifier."""
    bqual: bytes
    """The branch qualifier, the second part of an XA transaction's identifier."""

    def __str__(self) -> str:
        """Return the identifier as the servers write it in XA statements, such as ``X'67',X'62',7``."""
        return f"X'{self.gtrid.hex()}',X'{self.bqual.hex()}',{self.format_id}"


@dataclass(frozen=True)
class MariadbGtidEvent:
    """The content of MariaDB's GTID event, which opens a transaction (event group) and also stands for its BEGIN."""

    gtid: MariadbGtid
    flags: int
    """The event's flags: a sum of the flags FL_STANDALONE to FL_COMPLETED_XA (the server's ``flags2``)."""
    commit_id: int | None = None
    """The number of the group commit that committed the transaction; None without the flag FL_GROUP_COMMIT_ID."""
    xid: Xid | None = None
    """The identifier of the XA transaction that the event group prepares or ends.

    It is None without the flags FL_PREPARED_XA and FL_COMPLETED_XA.
    """
    flags_extra: int = 0
    """The event's extra flags: a sum of the flags FL_EXTRA_MULTI_ENGINE_E1 to FL_EXTRA_THREAD_ID."""
    extra_engines: int | None = None
    """The number of storage engines, less one, that take part in the transaction; None without the flag
    FL_EXTRA_MULTI_ENGINE_E1.
    """
    start_alter_seq_no: int | None = None
    """The seq_no of the START ALTER event that this COMMIT ALTER or ROLLBACK ALTER ends (``sa_seq_no``); None for
    other events.
    """
    thread_id: int | None = None
    """The thread id of the session that ran the transaction; None without the flag FL_EXTRA_THREAD_ID."""

    @property
    def standalone(self) -> bool:
        """Whether the event group is a single statement, without a COMMIT or Xid event at its end."""
        return bool(self.flags & FL_STANDALONE)

    @property
    def ddl(self) -> bool:
        """Whether the event group is a DDL statement, such as CREATE TABLE."""
        return bool(self.flags & FL_DDL)


def decode_mariadb_gtid(body: bytes | memoryview, server_id: int) -> MariadbGtidEvent:
    """Read the body of a MariaDB GTID (162) event. ``server_id`` is the server id in the event's header.

    The body begins with u64 seq_no, u32 domain id and u8 flags. The flags tell which of these fields follow:

    - u64 commit id.
    - an XID: u32 format id, u8 length of the gtrid, u8 length of the bqual, gtrid, bqual.

    An event that has more bytes goes on with u8 extra flags. The extra flags tell which of these fields follow:
    u8 number of engines, u64 seq_no of the START ALTER, u32 thread id.

    The server pads the body with zeros to 19 bytes. The padding reads as "no extra flags". Raises BinlogCorrupt.
    """
    reader = Cursor(body, "GTID")
    seq_no, domain_id, flags = _MARIADB_HEAD.unpack(reader.take(_MARIADB_HEAD.size, "its header"))
    if not seq_no:
        raise BinlogCorrupt("GTID event: its seq_no is 0")

    def number(width: int) -> int:
        return reader.integer(width, "a field that its flags announce")

    commit_id = number(8) if flags & FL_GROUP_COMMIT_ID else None
    xid = None
    if flags & (FL_PREPARED_XA | FL_COMPLETED_XA):
        format_id, gtrid_length, bqual_length = _XID_HEAD.unpack(reader.take(_XID_HEAD.size, "its XID"))
        gtrid, bqual = (reader.take(length, "its XID") for length in (gtrid_length, bqual_length))
        xid = checked_xid(format_id, gtrid, bqual)
    flags_extra, engines, start_alter, thread_id = 0, None, None, None
    if reader.left:
        flags_extra = number(1)
        if flags_extra & FL_EXTRA_MULTI_ENGINE_E1:
            engines = number(1)
        if flags_extra & (FL_COMMIT_ALTER_E1 | FL_ROLLBACK_ALTER_E1):
            start_alter = number(8)
        if flags_extra & FL_EXTRA_THREAD_ID:
            thread_id = number(4)
    gtid = MariadbGtid(domain_id, server_id, seq_no)
    return MariadbGtidEvent(gtid, flags, commit_id, xid, flags_extra, engines, start_alter, thread_id)


def decode_any_mysql_gtid(kind: int, body: bytes | memoryview) -> MysqlGtidEvent:
    """Read the body of a GTID, ANONYMOUS_GTID or GTID_TAGGED event of MySQL. ``kind`` is the event's type."""
    if kind == EventType.GTID_TAGGED:
        return decode_gtid_tagged(body)
    return decode_mysql_gtid(body, anonymous=kind == EventType.ANONYMOUS_GTID)


def decode_gtid(header: EventHeader, body: bytes | memoryview) -> MysqlGtidEvent | MariadbGtidEvent:
    """Read the body of an event that begins a transaction, of either family of servers, also of an ANONYMOUS_GTID
    event.
    """
    if header.type == EventType.MARIADB_GTID:
        return decode_mariadb_gtid(body, header.server_id)
    return decode_any_mysql_gtid(header.type, body)


def checked_xid(format_id: int, gtrid: bytes, bqual: bytes) -> Xid:
    """Return the identifier of an XA transaction from its parts.

    Raises BinlogCorrupt when the gtrid or the bqual has more than 64 bytes (``MAXGTRIDSIZE``).

    >>> str(checked_xid(7, b"g", b"b"))
    "X'67',X'62',7"
    """
    if len(gtrid) > 64 or len(bqual) > 64:
        raise BinlogCorrupt(f"an XID has parts of {len(gtrid)} and {len(bqual)} bytes; each has 64 at most")
    return Xid(format_id, gtrid, bqual)
