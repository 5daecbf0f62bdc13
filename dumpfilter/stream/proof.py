"""The CRC32 that proves a chunk, a message of the stream, from the master's memory to the slave's.

The checksum covers everything of a chunk but its events. Of the events it covers the length, because each event ends in
a checksum of its own.
"""

from __future__ import annotations

import struct
import zlib

from dumpfilter.v1 import dumpfilter_pb2 as pb

_NUMBERS = struct.Struct("<8Q3?")


def chunk_crc32(chunk: pb.Chunk, events: int | None = None) -> int:
    """Return the CRC32 of a chunk's fields, at least 1.

    The CRC32 is taken over the numbers, the names, the format description event, and the messages ``completed``,
    ``gaps`` and ``counts``, in this order. ``kept_bytes`` follows if that is not 0. A field that later releases add
    is not covered. ``events`` is the length of the chunk's events, bytes, if ``chunk`` itself does not hold them.
    """
    crc = zlib.crc32(
        _NUMBERS.pack(
            chunk.begin_position,
            chunk.end_position,
            chunk.start_position,
            chunk.resume_position,
            chunk.resume_bytes,
            chunk.filter_version,
            len(chunk.events) if events is None else events,
            len(chunk.format_description),
            chunk.heartbeat,
            chunk.end_of_log,
            chunk.end_of_file,
        )
    )
    parts = [
        chunk.file.encode(),
        chunk.previous_file.encode(),
        chunk.format_description,
        chunk.completed.SerializeToString(deterministic=True),
        chunk.gaps.SerializeToString(deterministic=True),
        chunk.counts.SerializeToString(deterministic=True),
    ]
    if chunk.kept_bytes:
        parts.append(b"%d" % chunk.kept_bytes)
    for part in parts:
        crc = zlib.crc32(b"%d:" % len(part), crc)
        crc = zlib.crc32(part, crc)
    return crc or 1
