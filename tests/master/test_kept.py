"""A dump that leaves out the events that a slave has kept from a transaction whose end it lacks."""

from __future__ import annotations

import zlib

import pytest

from dumpfilter.dump.stream.message import chunk_crc32
from dumpfilter.v1 import dumpfilter_pb2 as pb
from tests.master.client import Client


def begun(client: Client, slave_id: str) -> tuple[pb.BinlogPosition, bytes, bytes]:
    """Return a boundary of the binlog, the first events of the transaction after it, and the rest of the file's events.

    Each chunk of the dump has one event.
    """
    at, before, rest = None, b"", b""
    inside = 0
    for chunk in client.dump(slave_id, chunk_size=1):
        if at is not None and chunk.file != at.file:
            break
        if at is None and chunk.events and not chunk.resume_bytes:
            inside += 1
            before += chunk.events
            if inside == 3:
                at = pb.BinlogPosition(file=chunk.file, position=chunk.resume_position)
        elif at is not None:
            rest += chunk.events
        else:
            inside, before = 0, b""
    assert at is not None
    return at, before, rest


def asked(
    client: Client, slave_id: str, at: pb.BinlogPosition, kept: bytes, crc32: int, size: int
) -> list[pb.Chunk]:
    """Return the chunks of the binlog file from a boundary on, for a slave that has kept some events."""
    stream = client.dump(slave_id, chunk_size=size, kept_bytes=len(kept), kept_crc32=crc32, **{"from": at})
    return [chunk for chunk in stream if chunk.file == at.file]


@pytest.mark.parametrize("size", [1, 100, 1 << 18])
def test_events_that_the_slave_has_kept_are_left_out(client: Client, size: int) -> None:
    slave_id = client.register().slave_id
    at, kept, rest = begun(client, slave_id)
    for n in (len(kept), len(kept) - 1, 1):
        first, *chunks = asked(client, slave_id, at, kept[:n], zlib.crc32(kept[:n]), size)
        assert first.kept_bytes == n
        assert first.crc32 == chunk_crc32(first)
        assert (first.start_position, first.resume_position) == (at.position, at.position)
        assert b"".join(chunk.events for chunk in chunks) == kept[n:] + rest
        ends = [first.end_position, *(chunk.end_position for chunk in chunks)]
        assert [chunk.begin_position for chunk in chunks] == ends[:-1]


def test_a_slave_with_other_events_gets_all(client: Client) -> None:
    slave_id = client.register().slave_id
    at, kept, rest = begun(client, slave_id)
    beyond = kept + rest + b"more"
    for events, crc32 in ((kept, zlib.crc32(kept) ^ 1), (beyond, zlib.crc32(beyond))):
        first, *chunks = asked(client, slave_id, at, events, crc32, 100)
        assert not first.kept_bytes
        assert b"".join(chunk.events for chunk in chunks) == kept + rest


def test_a_slave_that_kept_a_whole_transaction_gets_it_again(client: Client) -> None:
    """The slave would miss the transaction's GTID."""
    slave_id = client.register().slave_id
    at, kept, rest = begun(client, slave_id)
    everything = kept + rest
    first, *chunks = asked(client, slave_id, at, everything, zlib.crc32(everything), 1)
    assert not first.kept_bytes
    assert b"".join(chunk.events for chunk in chunks) == everything
