"""The servers' binary forms of GTID sets, in the events Previous_gtids (MySQL) and Gtid_list (MariaDB)."""

from __future__ import annotations

import struct
from dataclasses import dataclass

import numpy as np

from dumpfilter.base.errors import BinlogCorrupt
from dumpfilter.binlog.gtid import (
    GNO_MAX,
    ONE,
    TAG_MAX_LENGTH,
    TAG_TEXT,
    MariadbGtid,
    MariadbGtidSet,
    MysqlGtidSet,
    format_uuid,
)


def decode_varlen(data: bytes | memoryview, offset: int) -> tuple[int, int]:
    """Read an unsigned integer of ``mysql::serialization`` (``variable_length_integers.h``).

    Returns the value and the offset after the integer. The number of 1 bits at the low end of the first byte is the
    number of bytes that follow. The bits above hold the value, little-endian. Raises BinlogCorrupt at the end of data.

    >>> decode_varlen(bytes.fromhex("83120b"), 0)
    (90704, 3)
    """
    if offset >= len(data):
        raise BinlogCorrupt("the event ends inside a variable-length integer")
    first = data[offset]
    # The first byte 0xff has no 0 bit and says that 8 more bytes follow.
    extra = (~first & (first + 1)).bit_length() - 1
    end = offset + 1 + extra
    if end > len(data):
        raise BinlogCorrupt("the event ends inside a variable-length integer")
    if extra == 8:
        return int.from_bytes(data[offset + 1 : end], "little"), end
    return int.from_bytes(data[offset:end], "little") >> (extra + 1), end


def encode_varlen(value: int) -> bytes:
    """Return an unsigned integer (0 to 2**64-1) in the variable-length form of ``mysql::serialization``.

    >>> encode_varlen(90704).hex()
    '83120b'
    """
    if not 0 <= value < 2**64:
        raise ValueError(f"not an unsigned integer of 64 bits: {value}")
    length = max(1, -(-value.bit_length() // 7))
    if length > 8:
        return b"\xff" + value.to_bytes(8, "little")
    return (value << length | (1 << (length - 1)) - 1).to_bytes(length, "little")


_INTERVAL = struct.Struct("<QQ")
_GTID_LIST_ENTRY = struct.Struct("<IIQ")
# The format code of a GTID set with tags (mysql::gtids::Gtid_format::tagged). A GTID set without tags has the code 0.
_TAGGED = 1


def previous_gtids_count(body: bytes | memoryview) -> int:
    """Return the number of UUIDs, or of pairs of UUID and tag, that an encoded GTID set of MySQL announces in its
    first bytes.
    """
    number = int.from_bytes(body[:7], "little")
    return number >> 8 if body[7:8] == bytes([_TAGGED]) else number


def decode_previous_gtids(body: bytes | memoryview) -> MysqlGtidSet:
    """Return the GTID set in the body of a Previous_gtids event, or in another output of ``Gtid_set::encode``.

    COM_BINLOG_DUMP_GTID, with which a slave asks for a dump, carries such a set, too.

    The classic form is a u64 number of UUIDs. Each UUID has 16 bytes, a u64 number of intervals, and for each interval
    u64 first and u64 last + 1. MySQL 8.3 and later write the tagged form when the set has a tag. There, the first u64
    has the format code 1 in bytes 0 and 7 and the number in the bytes between, and a tag (varlen length, bytes)
    follows each UUID. Raises BinlogCorrupt.
    """
    data = memoryview(body)
    if len(data) < 8:
        raise BinlogCorrupt(f"Previous_gtids: only {len(data)} bytes")
    number, code = previous_gtids_count(data), data[7]
    if code and not (code == _TAGGED and data[0] == _TAGGED):
        raise BinlogCorrupt(f"Previous_gtids: unknown format, header {data[:8].hex()}")
    made = MysqlGtidSet()
    offset = 8
    for _ in range(number):
        if len(data) - offset < 24:
            raise BinlogCorrupt(f"Previous_gtids: ends before the last of {number} uuids")
        uuid = bytes(data[offset : offset + 16])
        offset += 16
        tag = ""
        if code == _TAGGED:
            tag, offset = decode_tag(data, offset)
        if len(data) - offset < 8:
            raise BinlogCorrupt("Previous_gtids: ends before a number of intervals")
        count = int.from_bytes(data[offset : offset + 8], "little")
        offset += 8
        if count > (len(data) - offset) // 16:
            raise BinlogCorrupt(f"Previous_gtids: {count} intervals in {len(data) - offset} bytes")
        if count == 1:
            # Most sets have one interval for each UUID, for which arrays would take ten times the time.
            first, after = _INTERVAL.unpack_from(data, offset)
            offset += 16
            if not 1 <= first < after <= GNO_MAX + 1:
                raise BinlogCorrupt(f"Previous_gtids: intervals of {format_uuid(uuid)} out of order or range")
            made._intervals((uuid, tag)).add_range(first, after - 1)
            continue
        pairs = np.frombuffer(data[offset : offset + 16 * count], "<u8").astype(np.uint64).reshape(-1, 2)
        offset += 16 * count
        firsts, afters = pairs[:, 0], pairs[:, 1]
        if count and (
            firsts[0] < 1
            or afters[-1] > GNO_MAX + 1
            or not bool((firsts < afters).all())
            or not bool((afters[:-1] <= firsts[1:]).all())
        ):
            raise BinlogCorrupt(f"Previous_gtids: intervals of {format_uuid(uuid)} out of order or range")
        made._add_intervals((uuid, tag), firsts, afters - ONE)
    if offset != len(data):
        raise BinlogCorrupt(f"Previous_gtids: {len(data) - offset} bytes after the end")
    return made


def decode_tag(data: bytes | memoryview, offset: int) -> tuple[str, int]:
    """Decode the tag of a GTID (varlen length, characters) in ``data`` at ``offset``. Return the tag, and the offset
    after it.

    Raises BinlogCorrupt.
    """
    length, offset = decode_varlen(data, offset)
    raw = bytes(data[offset : offset + min(length, TAG_MAX_LENGTH)])
    text = raw.decode("latin-1")
    if len(raw) != length or (text and (not text.isascii() or not TAG_TEXT.fullmatch(text))):
        raise BinlogCorrupt(f"GTID tag of {length} bytes: {text!r}")
    return text.lower(), offset + length


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
                made.advance(gtid)
        return made


def decode_gtid_list(body: bytes | memoryview) -> GtidList:
    """Decode a Gtid_list event's body (``Gtid_list_log_event``).

    The body begins with a u32, whose upper 4 bits are flags and whose other bits are the number of GTIDs. Each GTID is
    u32 domain, u32 server and u64 seq_no. The server pads an empty list to 6 bytes. Raises BinlogCorrupt.
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
    """Return the body of a Gtid_list event as the server writes it.

    >>> encode_gtid_list(GtidList((MariadbGtid(0, 11, 38),))).hex()
    '01000000000000000b0000002600000000000000'
    """
    head = (len(gtids.gtids) | gtids.flags).to_bytes(4, "little")
    return (head + b"".join(_GTID_LIST_ENTRY.pack(*gtid) for gtid in gtids.gtids)).ljust(6, b"\0")
