"""The wire format of a chunk (one message of the stream to a slave), and the CRC32 that protects it.

A chunk may have a MiB of events, which the generated code of protocol buffers copies several times. Therefore this
module writes and reads the field ``events`` by itself, and leaves the other fields to the generated code. On the wire
the message is an ordinary one, whose first field is ``events``.

The CRC32 covers all fields of a chunk but the events. Of the events it covers only the length, because each event
ends in a checksum.
"""

from __future__ import annotations

import struct
import zlib
from typing import NamedTuple

import grpc

from dumpfilter.v1 import dumpfilter_pb2 as pb
from dumpfilter.v1 import dumpfilter_pb2_grpc as rpc

_DUMP = f"/{pb.DESCRIPTOR.services_by_name['DumpFilter'].full_name}/Dump"

_EVENTS_KEY = pb.Chunk.EVENTS_FIELD_NUMBER << 3 | 2
"""The key (tag) of the field ``events`` on the wire: the field's number, and the wire type of bytes."""

_GAPS_KEY = pb.Chunk.GAPS_FIELD_NUMBER << 3 | 2
"""The key (tag) of the field ``gaps`` on the wire."""

_LONGEST_VARINT = 10
"""The largest size of a varint of protocol buffers, bytes."""

_NUMBERS = struct.Struct("<7Q3?")


def chunk_crc32(chunk: pb.Chunk, events: int | None = None, gaps: bytes | None = None) -> int:
    """Return the CRC32 of a chunk's fields, at least 1. A chunk is one message of the stream to a slave.

    The CRC32 is taken over the numbers, the names, the format description event, and the messages ``completed``,
    ``gaps`` and ``counts``, in this order. ``kept_bytes`` follows if that is not 0. A field that later releases add is
    not covered. ``events`` is the length of the chunk's events, bytes. ``gaps`` is the serialized message with the gaps
    (runs of dropped transactions), if ``chunk`` itself does not hold them.
    """
    crc = zlib.crc32(
        _NUMBERS.pack(
            chunk.begin_position,
            chunk.end_position,
            chunk.start_position,
            chunk.resume_position,
            chunk.resume_bytes,
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
        chunk.gaps.SerializeToString(deterministic=True) if gaps is None else gaps,
        chunk.counts.SerializeToString(deterministic=True),
    ]
    if chunk.kept_bytes:
        parts.append(b"%d" % chunk.kept_bytes)
    for part in parts:
        crc = zlib.crc32(b"%d:" % len(part), crc)
        crc = zlib.crc32(part, crc)
    return crc or 1


class Kept(NamedTuple):
    """The size and CRC32 of the events that a slave has received after its last resume point, from an incomplete
    transaction. A resume point is a transaction boundary at which a broken stream can begin again.

    The slave's relay log ends with these bytes. After a lost connection the master need not send them again.
    """

    size: int = 0
    crc32: int = 0

    def add(self, events: bytes | memoryview) -> Kept:
        """Return the size and CRC32 after further events of the incomplete transaction have arrived."""
        return Kept(self.size + len(events), zlib.crc32(events, self.crc32))


NOTHING_KEPT = Kept()


class Received(NamedTuple):
    """A chunk (one message of the stream) as a slave receives it: the events, and all other fields."""

    chunk: pb.Chunk
    """All fields of the message but ``events``."""
    events: bytes | memoryview

    @classmethod
    def parse(cls, message: bytes) -> Received:
        """Return the chunk of a serialized message. Raises DecodeError for a malformed message."""
        if message[:1] != bytes([_EVENTS_KEY]):
            chunk = pb.Chunk.FromString(message)
            return cls(chunk, chunk.events)
        size, begin = _read_varint(message, 1)
        # Slices of a message that ends too early are shorter, which the CRC32 shows.
        view = memoryview(message)
        return cls(pb.Chunk.FromString(message[begin + size :]), view[begin : begin + size])


def client(channel: grpc.Channel) -> rpc.DumpFilterStub:
    """Return a gRPC client of the master's dump service, whose method ``Dump`` yields :class:`Received`. ``channel`` is
    the connection to the master.
    """
    stub = rpc.DumpFilterStub(channel)
    stub.Dump = channel.unary_stream(
        _DUMP, request_serializer=pb.DumpRequest.SerializeToString, response_deserializer=Received.parse
    )
    return stub


def with_events(chunk: pb.Chunk, events: bytes | memoryview, gaps: bytes | None = None) -> bytes:
    """Return the serialized message of a chunk (one message of the stream) with its events, which are copied only once.
    Also set ``crc32`` of ``chunk``.

    ``gaps`` is the serialized message with the chunk's gaps (runs of dropped transactions), if ``chunk`` itself does
    not hold them.
    """
    chunk.crc32 = chunk_crc32(chunk, len(events), gaps)
    first = (_varint(_EVENTS_KEY), _varint(len(events)), events) if len(events) else ()
    last = (_varint(_GAPS_KEY), _varint(len(gaps)), gaps) if gaps else ()
    return b"".join((*first, chunk.SerializeToString(), *last))


def _varint(number: int) -> bytes:
    """Return a number as a varint of protocol buffers."""
    out = bytearray()
    while number > 0x7F:
        out.append(number & 0x7F | 0x80)
        number >>= 7
    out.append(number)
    return bytes(out)


def _read_varint(message: bytes, at: int) -> tuple[int, int]:
    """Return the number in the varint at offset ``at`` of a message, and the offset after the varint."""
    number = shift = 0
    for byte in message[at : at + _LONGEST_VARINT]:
        at += 1
        number |= (byte & 0x7F) << shift
        shift += 7
        if byte < 0x80:
            break
    return number, at
