"""Tests of a chunk's bytes: the message that a master makes is the contract's, and a slave reads it without copies."""

from __future__ import annotations

import pytest

from dumpfilter.dump.stream.message import Received, chunk_crc32, with_events
from dumpfilter.v1 import dumpfilter_pb2 as pb


def chunk() -> pb.Chunk:
    return pb.Chunk(
        file="bin.000001", begin_position=4, end_position=1 << 40, counts=pb.Counts(events_sent=3)
    )


@pytest.mark.parametrize("size", [0, 1, 127, 128, 70_000, 3 << 20])
def test_a_message_is_the_contracts(size: int) -> None:
    events = bytes(range(256)) * (size // 256) + bytes(range(size % 256))
    made = chunk()
    message = with_events(made, events)
    read = pb.Chunk.FromString(message)
    assert read.events == events
    assert read.crc32 == chunk_crc32(read)
    received = Received.parse(message)
    assert received.events == events
    assert received.chunk == made
    assert chunk_crc32(received.chunk, size) == received.chunk.crc32


def test_a_message_of_generated_code_is_read_too() -> None:
    made = chunk()
    made.events = b"events"
    received = Received.parse(made.SerializeToString())
    assert bytes(received.events) == b"events"
    assert received.chunk.end_position == made.end_position


@pytest.mark.parametrize("left", [1, 2, 3, 100, 1000])
def test_the_crc32_shows_a_message_that_ends_too_early(left: int) -> None:
    message = with_events(chunk(), bytes(1000))
    received = Received.parse(message[:left])
    assert received.chunk.crc32 != chunk_crc32(received.chunk, len(received.events))
