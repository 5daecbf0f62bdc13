"""Events that a server makes for the stream and that no binlog file has, and the format description of a dump's start."""

from __future__ import annotations

import struct
import zlib

from dumpfilter.binlog.events import CHECKSUM_LENGTH, HEADER_LENGTH, LOG_EVENT_ARTIFICIAL_F, EventType
from dumpfilter.binlog.format import FormatDescription
from dumpfilter.binlog.writer import make_event

_END_LOG_POS_AT = 13
_CREATED_AT = HEADER_LENGTH + 2 + 50
_U32 = struct.Struct("<I")
_U64 = struct.Struct("<Q")

LARGEST_V1_POSITION = 0xFFFFFFFF
"""The largest position that a heartbeat of version 1 can tell."""

_V2_END = 0
_V2_FILE = 1
_V2_POSITION = 2


def rotate(file: str, position: int, server_id: int, checksum: bool) -> bytes:
    """Return the artificial Rotate event that tells a replica the file and the position of what follows."""
    return make_event(
        EventType.ROTATE,
        _U64.pack(position) + file.encode(),
        server_id=server_id,
        flags=LOG_EVENT_ARTIFICIAL_F,
        checksum=checksum,
    )


def format_description(fd: FormatDescription, *, is_whole_file: bool) -> bytes:
    """Return a file's format description event as a server sends it, without LOG_EVENT_BINLOG_IN_USE_F.

    If the dump begins in the middle of the file, ``end_log_pos`` is 0, because the event is no part of what follows.
    ``created`` is 0, too, because a replica drops its temporary tables at any other value.
    """
    event = bytearray(fd.raw)
    if not is_whole_file:
        _U32.pack_into(event, _END_LOG_POS_AT, 0)
        _U32.pack_into(event, _CREATED_AT, 0)
        if fd.ends_in_checksum:
            _U32.pack_into(event, len(event) - CHECKSUM_LENGTH, zlib.crc32(event[:-CHECKSUM_LENGTH]))
    return bytes(event)


def heartbeat(file: str, position: int, server_id: int, checksum: bool, v2: bool = False) -> bytes:
    """Return the heartbeat event that tells a replica that the server is alive, and the position of the dump.

    Version 2 is for MySQL's replicas that ask for it. Version 1 cannot tell a position of 4 GiB and more.
    """
    name = file.encode()
    if not v2:
        return make_event(
            EventType.HEARTBEAT,
            name,
            server_id=server_id,
            end_log_pos=position & LARGEST_V1_POSITION,
            checksum=checksum,
        )
    number = _length_encoded(position)
    body = (
        bytes([_V2_FILE, len(name)]) + name + bytes([_V2_POSITION, len(number)]) + number + bytes([_V2_END])
    )
    return make_event(EventType.HEARTBEAT_V2, body, server_id=server_id, checksum=checksum)


def _length_encoded(number: int) -> bytes:
    """Return a number as the protocol's length-encoded integer."""
    if number < 251:
        return bytes([number])
    for first, width in ((252, 2), (253, 3), (254, 8)):
        if number < 1 << (8 * width):
            return bytes([first]) + number.to_bytes(width, "little")
    raise ValueError(number)
