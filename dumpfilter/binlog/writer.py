"""Functions that make binlog events, with header and checksum, and that adapt events to another position in a file."""

from __future__ import annotations

import zlib

import numpy as np

from dumpfilter.base.compiler.arrays import Bytes
from dumpfilter.base.errors import BinlogCorrupt
from dumpfilter.binlog.context_events import Rotate, encode_rotate
from dumpfilter.binlog.events import (
    CHECKSUM_LENGTH,
    COMMON_HEADER,
    HEADER_LENGTH,
    MAGIC,
    EventHeader,
    EventType,
    seal,
)
from dumpfilter.binlog.format import FormatDescription


def make_event(
    kind: int,
    body: bytes,
    *,
    timestamp: int = 0,
    server_id: int = 0,
    end_log_pos: int = 0,
    flags: int = 0,
    checksum: bool = True,
) -> bytes:
    """Return the bytes of an event: a common header, ``body`` and, with ``checksum``, a CRC32.

    ``kind`` is the number of the event's type. The keyword arguments fill the header.
    """
    # A live commit that is dropped for a replica needs two such events.
    size = HEADER_LENGTH + len(body) + (CHECKSUM_LENGTH if checksum else 0)
    event = COMMON_HEADER.pack(timestamp, kind, server_id, size, end_log_pos, flags) + body
    if checksum:
        event += zlib.crc32(event).to_bytes(CHECKSUM_LENGTH, "little")
    return event


def with_body(header: EventHeader, body: bytes, *, checksum: bool) -> bytes:
    """Return the bytes of an event with another body, for example with fewer rows.

    ``header`` is the header of the original event. Length and checksum are computed anew. All other fields of the
    header stay, even end_log_pos.
    """
    timestamp, kind, server_id, _, end_log_pos, flags = header
    return make_event(
        kind,
        body,
        timestamp=timestamp,
        server_id=server_id,
        end_log_pos=end_log_pos,
        flags=flags,
        checksum=checksum,
    )


def file_head(fd: FormatDescription) -> bytes:
    """Return the first bytes of a binlog file: the magic number and a copy of the format description event ``fd``, with
    the end_log_pos and the checksum for this position.
    """
    head = bytearray(fd.raw)
    head[13:17] = (len(MAGIC) + len(head)).to_bytes(4, "little")
    if fd.ends_in_checksum:
        seal(head)
    return MAGIC + head


def rotate_event(following: str, fd: FormatDescription, position: int, timestamp: int) -> bytearray:
    """Return the Rotate event for the end of a binlog file, which names the file ``following``.

    ``fd`` is the file's format description event. ``position`` is the byte offset of the Rotate event in the file, and
    ``timestamp`` is its Unix time.
    """
    event = make_event(
        EventType.ROTATE,
        encode_rotate(Rotate(following, 4)),
        timestamp=timestamp,
        server_id=fd.header.server_id,
        checksum=fd.checksum,
    )
    return rebase(event, position, checksum=fd.checksum)


def rebase(events: bytes | bytearray, position: int, *, checksum: bool) -> bytearray:
    """Return a copy of consecutive events, for a file in which they begin at the byte offset ``position``. In the copy
    each end_log_pos and checksum is computed anew, even one that was 0 or wrong.

    ``checksum`` tells whether the events end in a CRC32. Raises BinlogCorrupt when ``events`` does not consist of whole
    events.
    """
    data = bytearray(events)
    rebase_array(np.frombuffer(data, np.uint8), position, checksum=checksum, is_new=True)
    return data


def rebase_array(events: Bytes, position: int, *, checksum: bool, is_new: bool = False) -> None:
    """Rewrite end_log_pos and checksums of consecutive events in place, for a file in which they begin at the byte
    offset ``position``.

    ``events`` is a uint8 array, and ``checksum`` tells whether events end in a CRC32. ``is_new`` is for new events:
    each end_log_pos and checksum is computed anew. Otherwise an end_log_pos of 0 stays 0, because MariaDB writes 0 for
    the events inside a transaction. Then also a wrong checksum stays wrong, but only in events of up to 65,535 bytes.
    Larger events get a right checksum.

    Raises BinlogCorrupt when ``events`` does not consist of whole events.
    """
    # The import loads compiled code, or compiles it, and many programs move no events.
    from dumpfilter.binlog import event_kernels as K

    wrong = K.rebase(events, position, checksum, is_new)
    if wrong >= 0:
        raise BinlogCorrupt("an event is incomplete or too short", position=position + int(wrong))
