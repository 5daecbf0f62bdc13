# mypy: ignore-errors
"""Compiled loops over the events of a chunk (a message of the stream). The loops put events into packets of the
client/server protocol, and insert stand-ins (empty transactions in place of dropped ones).
"""

from __future__ import annotations

import numpy as np

from dumpfilter.base.compiler.arrays import Bytes, Int64s
from dumpfilter.base.compiler.kernels import kernel
from dumpfilter.binlog.crc32 import crc32
from dumpfilter.binlog.events import CHECKSUM_LENGTH, HEADER_LENGTH, EventType
from dumpfilter.binlog.native import copy_bytes, load_u8, load_u32, store_u8, store_u32

_U = np.uintp
_HEADER = HEADER_LENGTH
_TYPE_AT = 4
_SERVER_ID_AT = 5
_SIZE_AT = 9
_END_LOG_POS_AT = 13

PACKET_HEADER = 4
"""The length of a packet's header: 3 bytes of length and the sequence number."""

LARGEST = 0xFFFFFF
"""The largest payload length of one packet, bytes. A payload of this length continues in the next packet."""

GOOD = 0
PLACE_WRONG = 1
"""The result of :func:`weave` when the position of a stand-in (empty transaction) lies outside of the chunk (message of
events), or before the position of the previous stand-in.
"""
GTID_WRONG = 2
"""The result of :func:`weave` when the bytes given as a Gtid event are not a Gtid event."""

OK_BYTE = 0
"""The first byte of the packet payload of each event (OK)."""

_TYPES = np.arange(256)
_IS_GTID = np.isin(_TYPES, (EventType.GTID, EventType.GTID_TAGGED))
"""For each event type, whether events of the type are Gtid events of MySQL. After such an event only an event of the
same transaction may follow.
"""
_IS_OUTSIDE = _IS_GTID | np.isin(
    _TYPES,
    (
        EventType.ANONYMOUS_GTID,
        EventType.ROTATE,
        EventType.STOP,
        EventType.FORMAT_DESCRIPTION,
        EventType.HEARTBEAT,
        EventType.HEARTBEAT_V2,
        EventType.PREVIOUS_GTIDS,
    ),
)
"""For each event type, whether the event cannot stand inside a transaction of MySQL."""
_MARIADB_GTID = int(EventType.MARIADB_GTID)


@kernel
def frame(events: Bytes, sequence: int, left_out: int, out: Bytes):
    """Write each event to ``out`` as one packet of the client/server protocol, or as several if it is too large for
    one.

    ``events`` are whole events, one after another. ``sequence`` is the sequence number of the first packet. ``out``
    must have room for all packets. Events of the type ``left_out`` get no packet. The loop ends at the first event with
    an impossible length.

    Return six numbers:

    - The size of the packets in bytes.
    - The sequence number for the packet that follows.
    - The offset in ``events`` of the first event with an impossible length, or -1.
    - The offset in ``events`` of the first event that follows a MySQL Gtid event but cannot belong to its transaction,
      or -1. Such an event means that the Gtid event stands alone.
    - The offset in ``events`` of the last event.
    - The last ``end_log_pos`` that is not 0; 0 for none.
    """
    source = _U(events.ctypes.data)
    begin = _U(out.ctypes.data)
    target = begin
    at = np.int64(0)
    wrong = np.int64(-1)
    alone = np.int64(-1)
    last = np.int64(0)
    end_log_pos = np.int64(0)
    is_after_gtid = False
    seq = np.uint32(sequence)
    while at < events.size:
        event = source + _U(at)
        size = np.int64(load_u32(event + _U(_SIZE_AT))) if at + _HEADER <= events.size else np.int64(0)
        if size < _HEADER or at + size > events.size:
            wrong = at
            break
        kind = load_u8(event + _U(_TYPE_AT))
        if is_after_gtid and _IS_OUTSIDE[kind] and alone < 0:
            alone = at
        is_after_gtid = _IS_GTID[kind]
        position = np.int64(load_u32(event + _U(_END_LOG_POS_AT)))
        end_log_pos = position if position else end_log_pos
        last = at
        at += size
        if kind == left_out:
            continue
        # The payload is the OK byte and the event.
        length = min(size + 1, np.int64(LARGEST))
        store_u32(target, np.uint32(length) | (seq << np.uint32(24)))
        seq = (seq + np.uint32(1)) & np.uint32(0xFF)
        store_u8(target + _U(PACKET_HEADER), np.uint8(OK_BYTE))
        done = length - 1
        copy_bytes(target + _U(PACKET_HEADER + 1), event, _U(done))
        target += _U(PACKET_HEADER + length)
        # A payload of exactly LARGEST bytes, or a multiple of them, ends with an empty packet.
        while length == LARGEST:
            length = min(size - done, np.int64(LARGEST))
            store_u32(target, np.uint32(length) | (seq << np.uint32(24)))
            seq = (seq + np.uint32(1)) & np.uint32(0xFF)
            copy_bytes(target + _U(PACKET_HEADER), event + _U(done), _U(length))
            target += _U(PACKET_HEADER + length)
            done += length
    return np.int64(target - begin), np.int64(seq), wrong, alone, last, end_log_pos


@kernel
def seal(events: Bytes):
    """Write the right checksum at the end of each event. ``events`` are whole events that end in a checksum."""
    at = _U(events.ctypes.data)
    end = at + _U(events.size)
    while at < end:
        size = _U(load_u32(at + _U(_SIZE_AT)))
        content = size - _U(CHECKSUM_LENGTH)
        store_u32(at + content, crc32(at, content))
        at += size


@kernel
def weave(
    events: Bytes,
    place: Int64s,
    end: Int64s,
    gtids: Bytes,
    gtid_at: Int64s,
    gtid_size: Int64s,
    tail: Bytes,
    checksum: bool,
    out: Bytes,
):
    """Copy ``events`` to ``out``, and insert a stand-in (an empty transaction) at each byte offset of ``place``.

    Stand-in number k is a Gtid event and the events of ``tail``. The Gtid event has ``gtid_size[k]`` bytes from byte
    ``gtid_at[k]`` of ``gtids`` on. The events of ``tail`` get the time and server id of the Gtid event, and with
    ``checksum`` a new checksum. The ``end_log_pos`` of the last event is ``end[k]``. ``out`` has room for all.

    Return GOOD, or PLACE_WRONG for an offset that is too large or smaller than the one before. Return GTID_WRONG if the
    bytes that ``gtids`` has for a stand-in are not one whole Gtid event.

    Each Gtid event is written together with the events of ``tail``, also before an error. A replica would crash at a
    Gtid event that nothing follows.
    """
    source, target = _U(events.ctypes.data), _U(out.ctypes.data)
    done = np.int64(0)
    for k in range(place.size):
        size = place[k] - done
        if size < 0 or place[k] > events.size:
            return PLACE_WRONG
        copy_bytes(target, source + _U(done), _U(size))
        target += _U(size)
        done = place[k]
        size = gtid_size[k]
        if size < _HEADER or gtid_at[k] < 0 or gtid_at[k] + size > gtids.size:
            return GTID_WRONG
        gtid = _U(gtids.ctypes.data) + _U(gtid_at[k])
        kind = load_u8(gtid + _U(_TYPE_AT))
        is_gtid = _IS_GTID[kind] or kind == _MARIADB_GTID
        if not is_gtid or np.int64(load_u32(gtid + _U(_SIZE_AT))) != size:
            return GTID_WRONG
        copy_bytes(target, gtid, _U(size))
        target += _U(size)
        copy_bytes(target, _U(tail.ctypes.data), _U(tail.size))
        left = np.int64(tail.size)
        while left:
            size = np.int64(load_u32(target + _U(_SIZE_AT)))
            left -= size
            store_u32(target, load_u32(gtid))
            store_u32(target + _U(_SERVER_ID_AT), load_u32(gtid + _U(_SERVER_ID_AT)))
            store_u32(
                target + _U(_END_LOG_POS_AT), np.uint32(np.uint64(end[k] - left) & np.uint64(0xFFFFFFFF))
            )
            if checksum:
                content = _U(size - CHECKSUM_LENGTH)
                store_u32(target + content, crc32(target, content))
            target += _U(size)
    copy_bytes(target, source + _U(done), _U(events.size - done))
    return GOOD
