"""Tests of a chunk's bytes: the message that a master makes is the contract's, and a slave reads it without copies."""

from __future__ import annotations

import pytest

from dumpfilter.base.errors import ProtocolMismatch
from dumpfilter.dump.stream.message import (
    PROTOCOL,
    Received,
    Speaker,
    check_versions,
    chunk_crc32,
    with_events,
)
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


def test_one_version() -> None:
    check_versions(slave=Speaker(PROTOCOL, "9.8"), master=Speaker(PROTOCOL, "9.9"))


@pytest.mark.parametrize(
    ("slave", "master", "text"),
    [
        (
            Speaker(2, "9.8"),
            Speaker(3, "9.9"),
            r"the slave \(dumpfilter 9.8\) speaks version 2, the master \(dumpfilter 9.9\) speaks version 3; "
            "upgrade the slave$",
        ),
        (
            Speaker(2, "9.8"),
            Speaker(0, ""),
            r"the master \(an early dumpfilter\) speaks version 1; upgrade the master$",
        ),
    ],
)
def test_the_error_names_both_sides_and_the_one_to_upgrade(
    slave: Speaker, master: Speaker, text: str
) -> None:
    with pytest.raises(ProtocolMismatch, match=text):
        check_versions(slave=slave, master=master)
