"""Compiled code that extracts the events from the packets of a replication stream, a whole buffer in one pass."""

from __future__ import annotations

import numpy as np

from dumpfilter.base.compiler.arrays import Bytes
from dumpfilter.base.compiler.kernels import kernel
from dumpfilter.binlog.crc32 import crc32
from dumpfilter.binlog.events import CHECKSUM_LENGTH, HEADER_LENGTH, LOG_EVENT_ARTIFICIAL_F, EventType
from dumpfilter.binlog.native import copy_bytes, load_u8, load_u16, load_u32

LEAST_WITHOUT_CHECKSUM = HEADER_LENGTH
LEAST_WITH_CHECKSUM = HEADER_LENGTH + CHECKSUM_LENGTH

PACKET_HEADER = 4
"""The length of a packet's header, bytes: 3 for the payload's length, 1 for the sequence number."""

LONGEST_PAYLOAD = 0xFFFFFF
"""The longest payload of one packet, bytes. A longer message continues in the next packet."""


HEARTBEATS = (EventType.HEARTBEAT, EventType.HEARTBEAT_V2)

EVENT_AHEAD = 0
"""The first byte of a packet that holds an event."""

_CONTROLS = tuple(map(int, (EventType.STOP, EventType.ROTATE, EventType.FORMAT_DESCRIPTION, *HEARTBEATS)))
_START_ENCRYPTION = int(EventType.START_ENCRYPTION)
_ARTIFICIAL = int(LOG_EVENT_ARTIFICIAL_F)
_MASK = np.int64(0xFFFFFFFF)


@kernel
def deframe(buffer: Bytes, begin: int, end: int, out: Bytes, sequence: int, position: int, least: int):
    """Copy the events of the packets in ``buffer[begin:end]`` to ``out``, one directly after another.

    ``buffer`` and ``out`` are uint8 arrays of the same size. ``sequence`` is the sequence number that the next packet
    must have. ``position`` is the byte offset of the next event in its binlog file. ``least`` is the smallest valid
    length of an event, bytes. The pass stops at the first packet that is incomplete, malformed, or holds no ordinary
    event.

    Return the number of bytes read, the number of bytes written, the next sequence number, and whether the next packet
    holds no ordinary event. Such a packet is an error, an end, or an event that tells the stream's position.
    """
    base = np.uintp(buffer.ctypes.data)
    target = np.uintp(out.ctypes.data)
    at = np.int64(begin)
    written = np.int64(0)
    while end - at > PACKET_HEADER:
        head = load_u32(base + np.uintp(at))
        length = np.int64(head & np.uint32(0xFFFFFF))
        if length != 0 and load_u8(base + np.uintp(at + PACKET_HEADER)) != EVENT_AHEAD:
            return at - begin, written, sequence, True
        if min(length, end - at - PACKET_HEADER) < 1 + HEADER_LENGTH:
            break
        event = base + np.uintp(at + PACKET_HEADER + 1)
        event_size = np.int64(load_u32(event + np.uintp(9)))
        kind = load_u8(event + np.uintp(4))
        end_log_pos = np.int64(load_u32(event + np.uintp(13)))
        if (
            kind in _CONTROLS
            or (kind == _START_ENCRYPTION and end_log_pos == 0)
            or load_u16(event + np.uintp(17)) & _ARTIFICIAL
        ):
            return at - begin, written, sequence, True
        if (
            np.int64(head >> np.uint32(24)) != sequence
            or event_size < least
            or event_size != length - 1
            or (end_log_pos != 0 and end_log_pos != (position + event_size) & _MASK)
            or length == LONGEST_PAYLOAD
            or end - at < PACKET_HEADER + length
        ):
            break
        copy_bytes(target + np.uintp(written), event, np.uintp(event_size))
        written += event_size
        position += event_size
        at += PACKET_HEADER + length
        sequence = (sequence + 1) & 0xFF
    return at - begin, written, sequence, False


@kernel
def walk(data: Bytes, size: int, position: int, has_checksums: bool):
    """Check the events in ``data[:size]`` one after another. ``data`` is a uint8 array that begins with an event, at
    the byte offset ``position`` in its file. ``has_checksums`` tells whether events end in a checksum.

    Return the offset in ``data`` of the last whole event (-1 for none), the offset in ``data`` after it, and whether a
    damaged event follows. A damaged event has a wrong length, ``end_log_pos`` or checksum.
    """
    base = np.uintp(data.ctypes.data)
    least = LEAST_WITH_CHECKSUM if has_checksums else LEAST_WITHOUT_CHECKSUM
    at = np.int64(0)
    last = np.int64(-1)
    while at + HEADER_LENGTH <= size:
        event = base + np.uintp(at)
        length = np.int64(load_u32(event + np.uintp(9)))
        end_log_pos = np.int64(load_u32(event + np.uintp(13)))
        if length < least or (end_log_pos != 0 and end_log_pos != (position + at + length) & _MASK):
            return last, at, True
        if at + length > size:
            break
        if has_checksums:
            body = np.uintp(length - CHECKSUM_LENGTH)
            if crc32(event, body) != load_u32(event + body):
                return last, at, True
        last = at
        at += length
    return last, at, False
