"""Compiled code that turns the packets of a replication stream into consecutive events, a whole buffer in one pass."""

from __future__ import annotations

import enum

import numpy as np

from dumpfilter.base.compiler.kernels import njit
from dumpfilter.binlog.crc32 import crc32
from dumpfilter.binlog.events import CHECKSUM_LENGTH, HEADER_LENGTH, LOG_EVENT_ARTIFICIAL_F, EventType
from dumpfilter.binlog.native import copy_bytes, load_u8, load_u16, load_u32

LEAST_WITHOUT_CHECKSUM = HEADER_LENGTH
LEAST_WITH_CHECKSUM = HEADER_LENGTH + CHECKSUM_LENGTH

PACKET_HEADER = 4
"""The length of a packet's header, bytes: 3 for the payload's length, 1 for the sequence number."""

LONGEST_PAYLOAD = 0xFFFFFF
"""The longest payload of one packet, bytes. A longer message goes on in the next packet."""


class Stop(enum.IntEnum):
    """The reasons for which :func:`deframe` stops."""

    NEED_MORE = 0
    """The buffer ends inside a packet."""
    CONTROL = 1
    """The next packet holds no ordinary event: an error, an end, or an event that says where the stream is."""
    LARGE = 2
    """The next event does not fit into the buffer."""
    WRONG_SEQUENCE = 3
    WRONG_LENGTH = 4
    WRONG_POSITION = 5


_NEED_MORE = int(Stop.NEED_MORE)
_CONTROL = int(Stop.CONTROL)
_LARGE = int(Stop.LARGE)
_WRONG_SEQUENCE = int(Stop.WRONG_SEQUENCE)
_WRONG_LENGTH = int(Stop.WRONG_LENGTH)
_WRONG_POSITION = int(Stop.WRONG_POSITION)
_STOP = int(EventType.STOP)
_ROTATE = int(EventType.ROTATE)
_FORMAT_DESCRIPTION = int(EventType.FORMAT_DESCRIPTION)
_HEARTBEAT = int(EventType.HEARTBEAT)
_HEARTBEAT_V2 = int(EventType.HEARTBEAT_V2)
_START_ENCRYPTION = int(EventType.START_ENCRYPTION)
_ARTIFICIAL = int(LOG_EVENT_ARTIFICIAL_F)
_MASK = np.int64(0xFFFFFFFF)


@njit(cache=True, nogil=True)
def deframe(buffer, begin, end, out, sequence, position, least):
    """Copy the events of the packets in ``buffer[begin:end]`` to ``out``, back to back.

    ``sequence`` is the sequence number that is due, ``position`` the place of the next event in its binlog file, and
    ``least`` the least length of an event. ``out`` is as large as ``buffer``. The first packet that is not an ordinary
    event stops the pass.

    Return the reason, the number of bytes read, the number of bytes written, and the next sequence number.
    """
    base = np.uintp(buffer.ctypes.data)
    target = np.uintp(out.ctypes.data)
    at = np.int64(begin)
    size = np.int64(buffer.size)
    written = np.int64(0)
    while end - at >= PACKET_HEADER:
        head = load_u32(base + np.uintp(at))
        length = np.int64(head & np.uint32(0xFFFFFF))
        if length == 0:
            return _WRONG_LENGTH, at - begin, written, sequence
        if end - at < PACKET_HEADER + 1:
            break
        if load_u8(base + np.uintp(at + PACKET_HEADER)) != 0:
            return _CONTROL, at - begin, written, sequence
        if np.int64(head >> np.uint32(24)) != sequence:
            return _WRONG_SEQUENCE, at - begin, written, sequence
        if length < 1 + HEADER_LENGTH:
            return _WRONG_LENGTH, at - begin, written, sequence
        if end - at < PACKET_HEADER + 1 + HEADER_LENGTH:
            break
        event = base + np.uintp(at + PACKET_HEADER + 1)
        event_size = np.int64(load_u32(event + np.uintp(9)))
        kind = load_u8(event + np.uintp(4))
        end_log_pos = np.int64(load_u32(event + np.uintp(13)))
        if (
            kind in (_ROTATE, _FORMAT_DESCRIPTION, _HEARTBEAT, _HEARTBEAT_V2, _STOP)
            or (kind == _START_ENCRYPTION and end_log_pos == 0)
            or load_u16(event + np.uintp(17)) & _ARTIFICIAL
        ):
            return _CONTROL, at - begin, written, sequence
        if event_size < least or (
            event_size != length - 1 if length < LONGEST_PAYLOAD else event_size < length - 1
        ):
            return _WRONG_LENGTH, at - begin, written, sequence
        if end_log_pos != 0 and end_log_pos != (position + event_size) & _MASK:
            return _WRONG_POSITION, at - begin, written, sequence
        if length == LONGEST_PAYLOAD or PACKET_HEADER + length > size:
            return _LARGE, at - begin, written, sequence
        if end - at < PACKET_HEADER + length:
            break
        copy_bytes(target + np.uintp(written), event, np.uintp(event_size))
        written += event_size
        position += event_size
        at += PACKET_HEADER + length
        sequence = (sequence + 1) & 0xFF
    return _NEED_MORE, at - begin, written, sequence


@njit(cache=True, nogil=True)
def walk(data, size, position, has_checksums):
    """Walk over the whole events at the begin of ``data[:size]``, which stands at ``position`` in its file.

    Return the offset of the last whole event, the end of the whole events, and whether a damaged event follows them.
    The length, the place or the checksum of a damaged event is wrong.
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
