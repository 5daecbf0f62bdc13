"""Decoders of MySQL's GTID, ANONYMOUS_GTID and GTID_TAGGED events and MariaDB's GTID event, which begin a transaction.

The events Previous_gtids (MySQL) and Gtid_list (MariaDB), with the GTID set at the beginning of a file, are here, too,
and the commit times of transactions (:func:`commit_time`).

In every function, ``body`` is an event without its common header and without its checksum. The decoders raise
BinlogCorrupt for a body that is too short or has an impossible value, and nothing else. Sources:
``libs/mysql/binlog/event/control_events.{h,cpp}`` (``Gtid_event``), ``libs/mysql/serialization``, MariaDB's
``sql/log_event.cc`` (``Gtid_log_event``), and recordings of MySQL 9.7 and MariaDB 10.11.
"""

from __future__ import annotations

import struct
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import numpy as np

from dumpfilter.base.errors import BinlogCorrupt, BinlogError
from dumpfilter.binlog.cursor import Cursor, encode_varlen
from dumpfilter.binlog.events import (
    CHECKSUM_LENGTH,
    HEADER_LENGTH,
    MYSQL_GTIDS,
    EventHeader,
    EventType,
    Symbol,
    types_of,
)
from dumpfilter.binlog.gtid import (
    GNO_MAX,
    ONE,
    TAG_TEXT,
    MariadbGtid,
    MariadbGtidSet,
    MysqlGtid,
    MysqlGtidSet,
    format_uuid,
    shortened,
)

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

_HEAD = struct.Struct("<B16sq")
_TIMES = struct.Struct("<Bqq")

CLOCK_TYPE_AT = _HEAD.size
"""The byte offset, in the body of a GTID or ANONYMOUS_GTID event, of the code that announces logical timestamps."""
LOGICAL_TIMESTAMP_TYPECODE = 2
"""The code at CLOCK_TYPE_AT by which MySQL 5.7 and later announce last_committed and sequence_number."""
SEQUENCE_AT = CLOCK_TYPE_AT + 9
"""The offset of the sequence_number in the body of a Gtid event of MySQL 5.7 and newer, bytes."""
COMMIT_TIME_AT = _HEAD.size + _TIMES.size
"""The byte offset of the commit time in the body of a GTID or ANONYMOUS_GTID event, after two logical timestamps."""
COMMIT_TIME_LENGTH = 7
ORIGINAL_TIME_FOLLOWS = 1 << 55
"""The bit of the commit time that announces the time of the original commit. This bit is no part of the time."""

_MARIADB_HEAD = struct.Struct("<QIB")
_XID_HEAD = struct.Struct("<iBB")


@dataclass(frozen=True)
class MysqlGtidEvent:
    """The content of a GTID, ANONYMOUS_GTID or GTID_TAGGED event.

    A field that the event does not have is None. The fields after the immediate commit timestamp are not read.
    """

    gtid: MysqlGtid | None
    """The transaction's GTID; None for an anonymous transaction."""
    flags: int
    """The flags of the transaction: 1 (``Gtid_event::FLAG_MAY_HAVE_SBR``), or 0 when the transaction has row changes
    only.
    """
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


def decode_mysql_gtid(body: bytes | memoryview, *, anonymous: bool = False) -> MysqlGtidEvent:
    """Decode the body of a GTID (33) event or, with ``anonymous``, of an ANONYMOUS_GTID (34) event.

    All versions write u8 flags, 16 bytes of uuid and i64 gno. MySQL 5.7 and later go on with u8 2, i64 last_committed
    and i64 sequence_number. Later versions append the u56 immediate commit timestamp, whose bit 55 belongs to the
    fields after it. An event may end before any of these fields. Raises BinlogCorrupt for a malformed body.
    """
    reader = Cursor(body, "GTID")
    flags, uuid, gno = reader.unpack(_HEAD, "its GTID")
    gtid = None if anonymous else _mysql_gtid(uuid, gno, "")
    if reader.left < _TIMES.size or body[reader.at] != LOGICAL_TIMESTAMP_TYPECODE:
        # A GTID event without the logical timestamps is from MySQL 5.6, or from a preview of 5.7 whose further fields
        # have no known layout.
        return MysqlGtidEvent(gtid, flags)
    _, last_committed, sequence_number = reader.unpack(_TIMES, "its logical timestamps")
    committed_at = None
    if reader.left >= COMMIT_TIME_LENGTH:
        committed_at = reader.integer(COMMIT_TIME_LENGTH, "its commit time") & (ORIGINAL_TIME_FOLLOWS - 1)
    return MysqlGtidEvent(gtid, flags, last_committed, sequence_number, committed_at)


_SERIALIZATION_VERSION = 1
_TAGGED_FIELDS = (
    *("flags", "uuid", "gno", "tag", "last_committed", "sequence_number"),
    *("immediate_commit_timestamp", "original_commit_timestamp", "transaction_length"),
    *("immediate_server_version", "original_server_version", "commit_group_ticket"),
)
"""The fields of a GTID_TAGGED event by their ids (``Gtid_event::define_fields``)."""
_SIGNED = frozenset({"gno", "last_committed", "sequence_number"})


def decode_gtid_tagged(body: bytes | memoryview) -> MysqlGtidEvent:
    """Decode the body of a GTID_TAGGED (42) event, which is one message of ``mysql::serialization``.

    All numbers are varlen integers. The message begins with the serialization version (1) and the size of the whole
    message. The next number is one more than the id of the last field that a reader must know, or 0. The fields follow
    in the order of their ids, each after its id.

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

    Fields 2, 4 and 5 are signed, with the number shifted left by one and the sign in bit 0. Fields with larger ids are
    skipped, as the server does. Raises BinlogCorrupt for a malformed body.
    """
    reader = Cursor(body, "GTID_TAGGED")
    version = reader.varlen("its serialization version")
    if version != _SERIALIZATION_VERSION:
        raise BinlogCorrupt(f"GTID_TAGGED event: unknown serialization version {version}")
    size = reader.varlen("its size")
    if not reader.at <= size <= len(body):
        raise BinlogCorrupt(f"GTID_TAGGED event: its body has {len(body)} bytes and its message {size}")
    reader.end = size
    last_non_ignorable = reader.varlen("its last known field")
    if last_non_ignorable > len(_TAGGED_FIELDS):
        raise BinlogCorrupt(
            f"GTID_TAGGED event: field {last_non_ignorable - 1} is unknown and must not be skipped"
        )
    found: dict[str, Any] = {}
    before = -1
    while reader.left:
        field = reader.varlen("the id of a field")
        if field <= before:
            raise BinlogCorrupt(f"GTID_TAGGED event: field {field} comes after field {before}")
        before = field
        if field >= len(_TAGGED_FIELDS):
            break
        name = _TAGGED_FIELDS[field]
        if name == "uuid":
            octets = [reader.varlen("its uuid") for _ in range(16)]
            if max(octets) > 255:
                raise BinlogCorrupt("GTID_TAGGED event: its uuid has a number over 255")
            found[name] = bytes(octets)
        elif name == "tag":
            found[name] = read_tag(reader)
        else:
            value = reader.varlen(f"field {field}")
            found[name] = (value >> 1) ^ -(value & 1) if name in _SIGNED else value
    if "uuid" not in found or "gno" not in found:
        raise BinlogCorrupt("GTID_TAGGED event: it has no GTID")
    gtid = _mysql_gtid(found["uuid"], found["gno"], found.get("tag", ""))
    return MysqlGtidEvent(gtid, found.get("flags", 0), *map(found.get, _TAGGED_FIELDS[4:7]))


def _mysql_gtid(uuid: bytes, gno: int, tag: str) -> MysqlGtid:
    if not 1 <= gno <= GNO_MAX:
        raise BinlogCorrupt(f"GTID event: gno {gno} is out of range (1 to {GNO_MAX})")
    return MysqlGtid(uuid, gno, tag)


@dataclass(frozen=True)
class Xid:
    """The identifier of an XA transaction (the servers' ``XID``): format id, gtrid and bqual."""

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

    The identifier is None without the flags FL_PREPARED_XA and FL_COMPLETED_XA.
    """
    flags_extra: int = 0
    """The event's extra flags: a sum of the flags FL_EXTRA_MULTI_ENGINE_E1 to FL_EXTRA_THREAD_ID."""
    start_alter_seq_no: int | None = None
    """The seq_no of the START ALTER event that this COMMIT ALTER or ROLLBACK ALTER ends (``sa_seq_no``); None for
    other events.
    """

    @property
    def standalone(self) -> bool:
        """Whether the event group is a single statement, without a COMMIT or Xid event at its end."""
        return bool(self.flags & FL_STANDALONE)


def decode_mariadb_gtid(body: bytes | memoryview, server_id: int) -> MariadbGtidEvent:
    """Decode the body of a MariaDB GTID (162) event. ``server_id`` is the server id in the event's header.

    The body begins with u64 seq_no, u32 domain id and u8 flags. The flags tell which of these fields follow:

    - u64 commit id.
    - an XID: i32 format id, u8 length of the gtrid, u8 length of the bqual, gtrid, bqual.

    An event that has more bytes goes on with u8 extra flags. The extra flags tell which of these fields follow:
    u8 number of engines less one, u64 seq_no of the START ALTER, u32 thread id of the session. Nothing reads the
    first and the last of these.

    The server pads the body with zeros to 19 bytes. The padding reads as "no extra flags". Raises BinlogCorrupt for a
    malformed body.
    """
    reader = Cursor(body, "GTID")
    seq_no, domain_id, flags = reader.unpack(_MARIADB_HEAD, "its header")
    if not seq_no:
        raise BinlogCorrupt("GTID event: its seq_no is 0")

    def number(width: int) -> int:
        return reader.integer(width, "a field that its flags announce")

    found: dict[str, Any] = {}
    if flags & FL_GROUP_COMMIT_ID:
        found["commit_id"] = number(8)
    if flags & (FL_PREPARED_XA | FL_COMPLETED_XA):
        found["xid"] = read_xid(reader, _XID_HEAD)
    if reader.left:
        extra = found["flags_extra"] = number(1)
        if extra & FL_EXTRA_MULTI_ENGINE_E1:
            number(1)
        if extra & (FL_COMMIT_ALTER_E1 | FL_ROLLBACK_ALTER_E1):
            found["start_alter_seq_no"] = number(8)
        if extra & FL_EXTRA_THREAD_ID:
            number(4)
    return MariadbGtidEvent(MariadbGtid(domain_id, server_id, seq_no), flags, **found)


def decode_gtid(header: EventHeader, body: bytes | memoryview) -> MysqlGtidEvent | MariadbGtidEvent:
    """Decode the body of a GTID event, which begins a transaction: MySQL's GTID, ANONYMOUS_GTID and GTID_TAGGED, and
    MariaDB's GTID.

    ``header`` is the event's header, which tells the type. Raises BinlogCorrupt for a malformed body.
    """
    if header.type == EventType.MARIADB_GTID:
        return decode_mariadb_gtid(body, header.server_id)
    if header.type == EventType.GTID_TAGGED:
        return decode_gtid_tagged(body)
    return decode_mysql_gtid(body, anonymous=header.type == EventType.ANONYMOUS_GTID)


def read_xid(reader: Cursor, head: struct.Struct) -> Xid:
    """Read the identifier of an XA transaction from the body of an event.

    The identifier's fields are format id, length of the gtrid, length of the bqual, gtrid and bqual. ``head`` unpacks
    the first three, whose widths depend on the event type. Raises BinlogCorrupt when the gtrid or the bqual has more
    than 64 bytes (``MAXGTRIDSIZE``).

    >>> str(read_xid(Cursor(bytes([7, 0, 0, 0, 1, 1]) + b"gb", "GTID"), struct.Struct("<iBB")))
    "X'67',X'62',7"
    """
    format_id, *lengths = reader.unpack(head, "its XID")
    gtrid, bqual = (reader.take(length, "its XID") for length in lengths)
    if len(gtrid) > 64 or len(bqual) > 64:
        raise BinlogCorrupt(f"an XID has parts of {len(gtrid)} and {len(bqual)} bytes; each has 64 at most")
    return Xid(format_id, gtrid, bqual)


_INTERVAL = struct.Struct("<QQ")
_GTID_LIST_ENTRY = struct.Struct("<IIQ")
# The format code of a GTID set with tags (mysql::gtids::Gtid_format::tagged). A GTID set without tags has the code 0.
_TAGGED = 1


def previous_gtids_count(body: bytes | memoryview) -> int:
    """Return the number of entries that the first 8 bytes of an encoded GTID set of MySQL announce. An entry is a UUID,
    or a UUID with a tag.

    ``body`` begins with these bytes, as the body of a Previous_gtids event does. Further bytes are ignored.
    """
    number = int.from_bytes(body[:7], "little")
    return number >> 8 if body[7:8] == bytes([_TAGGED]) else number


def decode_previous_gtids(body: bytes | memoryview) -> MysqlGtidSet:
    """Return the GTID set in the body of a Previous_gtids event, or in another output of ``Gtid_set::encode``.

    COM_BINLOG_DUMP_GTID, with which a slave asks for a dump, carries such a set, too.

    The classic form is a u64 number of UUIDs. Each UUID has 16 bytes, a u64 number of intervals, and for each interval
    u64 first and u64 last + 1. MySQL 8.3 and later write the tagged form when the set has a tag. There, the first u64
    has the format code 1 in bytes 0 and 7 and the number in the bytes between, and a tag (varlen length, bytes) follows
    each UUID. Raises BinlogCorrupt for a malformed set.
    """
    reader = Cursor(body, "Previous_gtids")
    head = reader.take(8, "its header")
    number, code = previous_gtids_count(head), head[7]
    if code and not (code == _TAGGED and head[0] == _TAGGED):
        raise BinlogCorrupt(f"Previous_gtids: unknown format, header {head.hex()}")
    made = MysqlGtidSet()
    for _ in range(number):
        uuid = reader.take(16, f"the last of {number} uuids")
        tag = read_tag(reader) if code == _TAGGED else ""
        count = reader.integer(8, "a number of intervals")
        if count == 1:
            # Most sets have one interval for each UUID, for which arrays would take ten times the time.
            first, after = reader.unpack(_INTERVAL, "an interval")
            if not 1 <= first < after <= GNO_MAX + 1:
                raise BinlogCorrupt(f"Previous_gtids: intervals of {format_uuid(uuid)} out of order or range")
            made.add_range((uuid, tag), first, after - 1)
            continue
        pairs = np.frombuffer(reader.take(16 * count, f"{count} intervals"), "<u8").astype(np.uint64)
        firsts, afters = pairs[::2], pairs[1::2]
        # The numbers of all intervals ascend, and two intervals may be adjacent.
        if count and not (
            firsts[0] >= 1
            and afters[-1] <= GNO_MAX + 1
            and bool((firsts < afters).all())
            and bool((afters[:-1] <= firsts[1:]).all())
        ):
            raise BinlogCorrupt(f"Previous_gtids: intervals of {format_uuid(uuid)} out of order or range")
        made.add_intervals((uuid, tag), firsts, afters - ONE)
    reader.finish()
    return made


def read_tag(reader: Cursor) -> str:
    """Read the tag of a MySQL GTID from an event's body: its length (a varlen integer) and its characters. Raises
    BinlogCorrupt for a malformed tag.
    """
    length = reader.varlen("a GTID tag")
    raw = reader.take(length, f"a GTID tag of {length} bytes")
    text = raw.decode("latin-1")
    if text and not TAG_TEXT.fullmatch(text):
        raise BinlogCorrupt(f"GTID tag of {length} bytes: {shortened(text)!r}")
    return text.lower()


def encode_previous_gtids(gtids: MysqlGtidSet) -> bytes:
    """Return the body of a Previous_gtids event with a GTID set.

    As in the server, the body has the tagged form when a GTID of the set has a tag.

    >>> encode_previous_gtids(MysqlGtidSet()).hex()
    '0000000000000000'
    """
    tagged = gtids.has_tags()
    keys = sorted(gtids._sets)
    number = len(keys) << 8 | _TAGGED | _TAGGED << 56 if tagged else len(keys)
    pieces = [number.to_bytes(8, "little")]
    for uuid, tag in keys:
        starts, ends = gtids._sets[uuid, tag].arrays()
        pieces.append(uuid)
        if tagged:
            pieces += [encode_varlen(len(tag)), tag.encode()]
        pieces.append(len(starts).to_bytes(8, "little"))
        pieces.append(np.stack((starts, ends + ONE), axis=1).astype("<u8").tobytes())
    return b"".join(pieces)


@dataclass(frozen=True)
class GtidList:
    """The content of a Gtid_list event of MariaDB, which begins each binlog file: for each domain the last GTID of
    each server.

    Within a domain, the GTID that was logged last stands last.
    """

    gtids: tuple[MariadbGtid, ...]
    flags: int = 0
    """The event's flags: a sum of the server's FLAG_UNTIL_REACHED and FLAG_IGN_GTIDS in a stream, 0 in a file."""

    def position(self) -> MariadbGtidSet:
        """Return the set of all GTIDs up to the largest listed seq_no of each domain, which is the meaning of MariaDB's
        ``gtid_slave_pos``.
        """
        made = MariadbGtidSet()
        for gtid in self.gtids:
            if gtid.seq_no:
                made.add_range(gtid.source, 1, gtid.seq_no)
        return made


def decode_gtid_list(body: bytes | memoryview) -> GtidList:
    """Decode the body of MariaDB's Gtid_list event (``Gtid_list_log_event``), which tells the state of the GTIDs at the
    beginning of a file.

    The body begins with a u32, whose upper 4 bits are flags and whose other bits are the number of GTIDs. Each GTID is
    u32 domain, u32 server and u64 seq_no. The server pads an empty list to 6 bytes. Raises BinlogCorrupt for a
    malformed body.
    """
    if len(body) < 4:
        raise BinlogCorrupt(f"Gtid_list: only {len(body)} bytes")
    head = int.from_bytes(body[:4], "little")
    count, flags = head & 0x0FFFFFFF, head & 0xF0000000
    end = 4 + 16 * count
    padding = bytes(body[end:])
    if end > len(body) or len(padding) > 2 or any(padding):
        raise BinlogCorrupt(f"Gtid_list: {count} GTIDs in {len(body)} bytes")
    return GtidList(tuple(MariadbGtid(*entry) for entry in _GTID_LIST_ENTRY.iter_unpack(body[4:end])), flags)


def encode_gtid_list(gtids: GtidList) -> bytes:
    """Return the body of a Gtid_list event (the event without common header and checksum) as the server writes it.

    >>> encode_gtid_list(GtidList((MariadbGtid(0, 11, 38),))).hex()
    '01000000000000000b0000002600000000000000'
    """
    head = (len(gtids.gtids) | gtids.flags).to_bytes(4, "little")
    return (head + b"".join(_GTID_LIST_ENTRY.pack(*gtid) for gtid in gtids.gtids)).ljust(6, b"\0")


MICROSECONDS = 1e6
"""The number of microseconds in a second. GTID events have the commit time in microseconds."""

_MOST_EVENTS = 100
"""The number of events after which the search for the first event with a timestamp gives up. Events that a master or
slave made for a stream have no timestamp.
"""

_FRAME_OF_A_FILE = types_of(Symbol.FORMAT_DESCRIPTION, Symbol.FILE)
"""The types of events that a server writes at the beginning and end of a file. These events do not count when the lag
of a reader is measured.
"""


FIXED_TIME = frozenset({EventType.GTID, EventType.ANONYMOUS_GTID})
"""The GTID events of MySQL in whose body the commit time has a fixed offset."""


def commit_time(events: bytes | memoryview, *, checksum: bool) -> float | None:
    """Return the Unix time at which the first transaction in ``events`` was committed, seconds.

    ``events`` begins with a whole event, and ``checksum`` tells whether events end in a CRC32. MySQL 8.0.1 and later
    give microseconds. For other servers the result is the timestamp of the event's header, whole seconds. Return None
    if there is no transaction, or no event with a timestamp, or only the first part of an event's header.
    """
    found = _first_timed(lambda at, length: events[at : at + length], 0, len(events))
    if found is None:
        return None
    at, header = found
    if header.type in MYSQL_GTIDS:
        end = at + header.size - (CHECKSUM_LENGTH if checksum else 0)
        if microseconds := told_time(header.type, memoryview(events)[at + HEADER_LENGTH : end]):
            return microseconds / MICROSECONDS
    return float(header.timestamp)


def told_time(kind: int, body: memoryview) -> int | None:
    """Return the commit time in the body of a GTID event of MySQL, microseconds of Unix time.

    ``kind`` is the event's type, and ``body`` the event without header and checksum. The result is None for an event
    without a time, and for a malformed event.
    """
    if kind in FIXED_TIME:
        time = body[COMMIT_TIME_AT : COMMIT_TIME_AT + COMMIT_TIME_LENGTH]
        if len(time) < COMMIT_TIME_LENGTH or body[CLOCK_TYPE_AT] != LOGICAL_TIMESTAMP_TYPECODE:
            return None
        return int.from_bytes(time, "little") & (ORIGINAL_TIME_FOLLOWS - 1)
    try:
        return decode_gtid_tagged(body).immediate_commit_timestamp
    except BinlogError:
        # The dump and the applier report a malformed event. A measurement must not.
        return None


def first_time(read_up_to: Callable[[int, int], bytes], position: int, end: int) -> int | None:
    """Return the timestamp of the first event between two byte offsets of a binlog file, Unix seconds. The lag of a
    reader at ``position`` is measured by this time.

    Events that only begin or end a file, such as Format_desc, are skipped. ``read_up_to`` takes an offset and a length,
    and returns bytes of the binlog file, or fewer at the file's end. ``position`` is the offset of an event, and
    ``end`` the offset after the last event. The result is None if none of the first hundred events has a timestamp.
    """
    found = _first_timed(read_up_to, position, end)
    return None if found is None else found[1].timestamp


def _first_timed(
    read_up_to: Callable[[int, int], bytes | memoryview], position: int, end: int
) -> tuple[int, EventHeader] | None:
    """Return the offset and the header of the first event with a timestamp, without events that only begin or end a
    file. None if none of the first hundred events is such an event. The arguments are those of :func:`first_time`.
    """
    for _ in range(_MOST_EVENTS):
        if position >= end or len(head := read_up_to(position, HEADER_LENGTH)) < HEADER_LENGTH:
            return None
        header = EventHeader.unpack(head)
        if header.timestamp and header.type not in _FRAME_OF_A_FILE:
            return position, header
        if header.size < HEADER_LENGTH:
            return None
        position += header.size
    return None
