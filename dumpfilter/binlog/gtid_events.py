"""The events that begin a transaction: MySQL's GTID, ANONYMOUS_GTID and GTID_TAGGED, MariaDB's GTID.

``body`` is everywhere the event without its common header and without its checksum. Every decoder
raises BinlogCorrupt for what is too short or cannot be, and nothing else. Sources:
``libs/mysql/binlog/event/control_events.{h,cpp}`` (``Gtid_event``), ``libs/mysql/serialization``,
MariaDB's ``sql/log_event.cc`` (``Gtid_log_event``), and recordings of MySQL 9.7 and MariaDB 10.11.
"""

from __future__ import annotations

import struct
from dataclasses import dataclass

from dumpfilter.binlog.gtid import (
    GNO_MAX,
    MariadbGtid,
    MysqlGtid,
    decode_tag,
    decode_varlen,
)
from dumpfilter.errors import BinlogCorrupt

FLAG_MAY_HAVE_SBR = 1
"""MySQL: the transaction may hold statements, not only rows (``Gtid_event::FLAG_MAY_HAVE_SBR``)."""

FL_STANDALONE = 1
"""MariaDB: the event group is one statement, with no COMMIT at its end."""
FL_GROUP_COMMIT_ID = 2
"""MariaDB: a commit id follows; transactions with the same one were committed together."""
FL_TRANSACTIONAL = 4
"""MariaDB: the group can be rolled back."""
FL_ALLOW_PARALLEL = 8
"""MariaDB: ``@@skip_parallel_replication`` was 0."""
FL_WAITED = 16
"""MariaDB: the group waited for a row lock of another."""
FL_DDL = 32
"""MariaDB: the group is DDL."""
FL_PREPARED_XA = 64
"""MariaDB: the group ends in XA PREPARE."""
FL_COMPLETED_XA = 128
"""MariaDB: the group is XA COMMIT or XA ROLLBACK."""

FL_EXTRA_MULTI_ENGINE_E1 = 1
"""MariaDB's extra flags: the number of engines of the XA transaction beyond one follows."""
FL_START_ALTER_E1 = 2
"""MariaDB's extra flags: START ALTER, the first half of an ALTER in two phases."""
FL_COMMIT_ALTER_E1 = 4
"""MariaDB's extra flags: COMMIT ALTER; the seq_no of its START ALTER follows."""
FL_ROLLBACK_ALTER_E1 = 8
"""MariaDB's extra flags: ROLLBACK ALTER; the seq_no of its START ALTER follows."""
FL_EXTRA_THREAD_ID = 16
"""MariaDB's extra flags (11.5 and later): the thread id follows."""

_HEAD = struct.Struct("<B16sqB")  # flags, sid, gno, lt_type
_HEAD_56 = struct.Struct("<B16sq")
_LOGICAL_TIMESTAMP_TYPECODE = 2
_TIMES = struct.Struct("<qq")
_U32 = struct.Struct("<I")
_U64 = struct.Struct("<Q")
_MARIADB_HEAD = struct.Struct("<QIB")
_ORIGINAL_TIMESTAMP_FOLLOWS = 1 << 55
_ORIGINAL_VERSION_FOLLOWS = 1 << 31


@dataclass(frozen=True)
class MysqlGtidEvent:
    """A GTID, ANONYMOUS_GTID or GTID_TAGGED event. What the event does not have is None.

    For an anonymous transaction ``gtid`` is None.
    """

    gtid: MysqlGtid | None
    flags: int
    """FLAG_MAY_HAVE_SBR or 0."""
    last_committed: int | None = None
    """Logical clock: the transaction may run together with those after this one (5.7 and later)."""
    sequence_number: int | None = None
    """Logical clock: the transaction's number within its file, from 1 (5.7 and later)."""
    immediate_commit_timestamp: int | None = None
    """When this server committed it, microseconds of Unix time (8.0 and later)."""
    original_commit_timestamp: int | None = None
    """When the first server committed it, microseconds of Unix time; 0 when unknown (8.0 and later)."""
    transaction_length: int | None = None
    """Length of the transaction's events with this one, uncompressed sizes not counted, bytes."""
    immediate_server_version: int | None = None
    """Version of this server, as 80034 (8.0.14 and later)."""
    original_server_version: int | None = None
    """Version of the first server, as 80034 (8.0.14 and later)."""
    commit_group_ticket: int | None = None
    """Number of the commit group within a Group Replication view change (8.0.29 and later)."""


def decode_mysql_gtid(body: bytes | memoryview, *, anonymous: bool = False) -> MysqlGtidEvent:
    """Read a GTID (33) or, with ``anonymous``, an ANONYMOUS_GTID (34) event's body.

    u8 flags, 16 bytes uuid, i64 gno; from 5.7 on u8 2, i64 last_committed, i64 sequence_number; then
    each if the event is that long: u56 immediate commit timestamp (bit 55: u56 original follows),
    length-encoded transaction length, u32 immediate server version (bit 31: u32 original follows),
    u64 commit group ticket. Raises BinlogCorrupt.
    """
    data = memoryview(body)
    size = len(data)
    if size < _HEAD_56.size:
        raise BinlogCorrupt(f"GTID event: only {size} bytes")
    flags, uuid, gno = _HEAD_56.unpack_from(data)
    gtid = None if anonymous else _mysql_gtid(uuid, gno, "")
    if size < _HEAD.size + _TIMES.size or data[_HEAD_56.size] != _LOGICAL_TIMESTAMP_TYPECODE:
        return MysqlGtidEvent(gtid, flags)  # 5.6, and previews of 5.7: what follows is of no known form
    last_committed, sequence_number = _TIMES.unpack_from(data, _HEAD.size)
    offset = _HEAD.size + _TIMES.size
    immediate_timestamp = original_timestamp = length = immediate_version = original_version = ticket = None
    if size - offset >= 7:
        immediate_timestamp = original_timestamp = int.from_bytes(data[offset : offset + 7], "little")
        offset += 7
        if immediate_timestamp & _ORIGINAL_TIMESTAMP_FOLLOWS:
            immediate_timestamp &= ~_ORIGINAL_TIMESTAMP_FOLLOWS
            if size - offset < 7:
                raise BinlogCorrupt("GTID event: ends before its original commit timestamp")
            original_timestamp = int.from_bytes(data[offset : offset + 7], "little")
            offset += 7
    if size > offset:
        length, offset = _length_encoded(data, offset)
    if size - offset >= 4:
        immediate_version = original_version = _U32.unpack_from(data, offset)[0]
        offset += 4
        if immediate_version & _ORIGINAL_VERSION_FOLLOWS:
            immediate_version &= ~_ORIGINAL_VERSION_FOLLOWS
            if size - offset < 4:
                raise BinlogCorrupt("GTID event: ends before its original server version")
            original_version = _U32.unpack_from(data, offset)[0]
            offset += 4
    if size - offset >= 8:
        ticket = _U64.unpack_from(data, offset)[0]
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
# ids of the fields, in the order of Gtid_event::define_fields
_FLAGS, _UUID, _GNO, _TAG, _LAST_COMMITTED, _SEQUENCE_NUMBER = range(6)
_IMMEDIATE_TIMESTAMP, _ORIGINAL_TIMESTAMP, _LENGTH = range(6, 9)
_IMMEDIATE_VERSION, _ORIGINAL_VERSION, _TICKET = range(9, 12)
_SIGNED = frozenset({_GNO, _LAST_COMMITTED, _SEQUENCE_NUMBER})


def decode_gtid_tagged(body: bytes | memoryview) -> MysqlGtidEvent:
    """Read a GTID_TAGGED (42) event's body: one message of ``mysql::serialization``, all in varlen integers.

    Serialization version (1), size of the message with these first fields, the smallest field id that
    a reader may not skip over (0: it may skip all it does not know), then fields in the order of their
    ids, each after its id, absent ones left out: 0 flags, 1 uuid (16 integers), 2 gno, 3 tag (length,
    characters), 4 last_committed, 5 sequence_number, 6 immediate commit timestamp, 7 original (absent:
    the same), 8 transaction length, 9 immediate server version, 10 original (absent: the same),
    11 commit group ticket. 2, 4 and 5 are signed: shifted left by one, the sign in bit 0. Fields with
    larger ids are passed over, as the server does. Raises BinlogCorrupt.
    """
    data = memoryview(body)
    version, offset = decode_varlen(data, 0)
    if version != _SERIALIZATION_VERSION:
        raise BinlogCorrupt(f"GTID_TAGGED event: serialization version {version}")
    size, offset = decode_varlen(data, offset)
    if size > len(data) or size < offset:
        raise BinlogCorrupt(f"GTID_TAGGED event: a message of {size} bytes in {len(data)}")
    data = data[:size]
    last_non_ignorable, offset = decode_varlen(data, offset)
    if last_non_ignorable > _TICKET + 1:
        raise BinlogCorrupt(f"GTID_TAGGED event: field {last_non_ignorable - 1} is needed, and unknown")
    values: dict[int, int] = {}
    uuid = b""
    tag = ""
    before = -1
    while offset < size:
        field, offset = decode_varlen(data, offset)
        if field <= before:
            raise BinlogCorrupt(f"GTID_TAGGED event: field {field} after field {before}")
        before = field
        if field > _TICKET:
            break
        if field == _UUID:
            octets = []
            for _ in range(16):
                octet, offset = decode_varlen(data, offset)
                octets.append(octet)
            if max(octets) > 255:
                raise BinlogCorrupt("GTID_TAGGED event: its uuid has a byte beyond 255")
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


def _length_encoded(data: memoryview, offset: int) -> tuple[int, int]:
    """A length-encoded integer of the client protocol (``net_field_length_ll``) and the offset after it."""
    first = data[offset]
    if first < 251:
        return first, offset + 1
    width = {252: 2, 253: 3, 254: 8}.get(first)
    if width is None or len(data) - offset <= width:
        raise BinlogCorrupt("GTID event: its transaction length is broken")
    return int.from_bytes(data[offset + 1 : offset + 1 + width], "little"), offset + 1 + width


@dataclass(frozen=True)
class Xid:
    """The name of an XA transaction (``XID``)."""

    format_id: int
    gtrid: bytes
    bqual: bytes

    def __str__(self) -> str:
        """As the servers write it: ``X'67',X'62',7``."""
        return f"X'{self.gtrid.hex()}',X'{self.bqual.hex()}',{self.format_id}"


@dataclass(frozen=True)
class MariadbGtidEvent:
    """A GTID event of MariaDB, which stands also for the BEGIN of a transaction."""

    gtid: MariadbGtid
    flags: int
    """FL_STANDALONE … FL_COMPLETED_XA (``flags2``)."""
    commit_id: int | None = None
    """With FL_GROUP_COMMIT_ID: the number of the group commit."""
    xid: Xid | None = None
    """With FL_PREPARED_XA or FL_COMPLETED_XA: the XA transaction."""
    flags_extra: int = 0
    """FL_EXTRA_MULTI_ENGINE_E1 … FL_EXTRA_THREAD_ID."""
    extra_engines: int | None = None
    start_alter_seq_no: int | None = None
    """With FL_COMMIT_ALTER_E1 or FL_ROLLBACK_ALTER_E1: the seq_no of the START ALTER (``sa_seq_no``)."""
    thread_id: int | None = None

    @property
    def standalone(self) -> bool:
        """Whether the group is a single statement, not ended by COMMIT or an Xid event."""
        return bool(self.flags & FL_STANDALONE)

    @property
    def ddl(self) -> bool:
        """Whether the group is DDL."""
        return bool(self.flags & FL_DDL)


def decode_mariadb_gtid(body: bytes | memoryview, server_id: int) -> MariadbGtidEvent:
    """Read a MariaDB GTID (162) event's body; ``server_id`` is the one of the event's header.

    u64 seq_no, u32 domain, u8 flags; by flags u64 commit id, and an XID (u32 format id, u8 gtrid length,
    u8 bqual length, bytes); then, unless the event ends here, u8 extra flags and by those u8 engines,
    u64 seq_no of START ALTER, u32 thread id. The event is padded with zeros to 19 bytes, which read as
    no extra flags. Raises BinlogCorrupt.
    """
    data = memoryview(body)
    if len(data) < _MARIADB_HEAD.size:
        raise BinlogCorrupt(f"GTID event: only {len(data)} bytes")
    seq_no, domain_id, flags = _MARIADB_HEAD.unpack_from(data)
    if not seq_no:
        raise BinlogCorrupt("GTID event: its seq_no is 0")
    offset = _MARIADB_HEAD.size

    def take(width: int) -> memoryview:
        nonlocal offset
        if len(data) - offset < width:
            raise BinlogCorrupt(f"GTID event: ends at byte {len(data)}, inside a field its flags promise")
        offset += width
        return data[offset - width : offset]

    def number(width: int) -> int:
        return int.from_bytes(take(width), "little")

    commit_id = number(8) if flags & FL_GROUP_COMMIT_ID else None
    xid = None
    if flags & (FL_PREPARED_XA | FL_COMPLETED_XA):
        format_id = int.from_bytes(take(4), "little", signed=True)
        gtrid_length, bqual_length = take(2)
        xid = checked_xid(format_id, bytes(take(gtrid_length)), bytes(take(bqual_length)))
    flags_extra, engines, start_alter, thread_id = 0, None, None, None
    if offset < len(data):
        flags_extra = number(1)
        if flags_extra & FL_EXTRA_MULTI_ENGINE_E1:
            engines = number(1)
        if flags_extra & (FL_COMMIT_ALTER_E1 | FL_ROLLBACK_ALTER_E1):
            start_alter = number(8)
        if flags_extra & FL_EXTRA_THREAD_ID:
            thread_id = number(4)
    gtid = MariadbGtid(domain_id, server_id, seq_no)
    return MariadbGtidEvent(gtid, flags, commit_id, xid, flags_extra, engines, start_alter, thread_id)


def checked_xid(format_id: int, gtrid: bytes, bqual: bytes) -> Xid:
    """An :class:`Xid`, each part at most 64 bytes (``MAXGTRIDSIZE``). Raises BinlogCorrupt.

    >>> str(checked_xid(7, b"g", b"b"))
    "X'67',X'62',7"
    """
    if len(gtrid) > 64 or len(bqual) > 64:
        raise BinlogCorrupt(f"XID with {len(gtrid)} and {len(bqual)} bytes, 64 at most")
    return Xid(format_id, gtrid, bqual)
