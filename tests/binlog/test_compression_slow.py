"""Tests of compression and decompression: MariaDB's compressed rows and MySQL's compressed transactions."""

import struct
import subprocess
import sys
import tracemalloc
import zlib
from contextlib import suppress
from pathlib import Path

import pytest
import zstandard
from hypothesis import given, settings
from hypothesis import strategies as st

from dumpfilter.base.errors import BinlogCorrupt
from dumpfilter.binlog.compression import (
    MAX_UNCOMPRESSED,
    NONE,
    ZSTD,
    TransactionPayload,
    decode_transaction_payload,
    encode_transaction_payload,
    rows_data,
    uncompress,
)
from dumpfilter.binlog.cursor import packed_integer
from dumpfilter.binlog.events import EventType
from dumpfilter.binlog.rows_events import decode_rows_header
from tests.binlog.encoders import compress

DATA = Path(__file__).parents[1] / "oracle" / "data"


def bodies(path: Path, wanted: int) -> list[bytes]:
    """Return the bodies of all events of one type in a binlog file."""
    data, at, checksum, found = path.read_bytes(), 4, False, []
    while at < len(data):
        _, kind, _, size, _, _ = struct.unpack_from("<IBIIIH", data, at)
        if kind == EventType.FORMAT_DESCRIPTION:
            checksum = data[at + size - 5] == 1
        if kind == wanted:
            found.append(data[at + 19 : at + size - 4 * checksum])
        at += size
    return found


def payload(*fields: tuple[int, int], rest: bytes = b"", end: bool = True) -> bytes:
    out = b""
    for kind, value in fields:
        packed = packed_integer(value)
        out += packed_integer(kind) + packed_integer(len(packed)) + packed
    return out + (b"\0" if end else b"") + rest


@settings(deadline=None)
@given(st.binary(max_size=70_000))
def test_rows_come_back_as_they_were(data):
    assert uncompress(compress(data)) == data
    assert uncompress(memoryview(compress(data, 1))) == data


@pytest.mark.parametrize("length", [0, 1, 255, 256, 65535, 65536, 1 << 24])
def test_the_length_takes_as_many_bytes_as_it_needs(length):
    packed = compress(bytes(length))
    assert packed[0] == 0x80 | max(1, (length.bit_length() + 7) // 8)
    assert len(uncompress(packed)) == length


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (b"", "inside their header"),
        (b"\x81", "inside their header"),
        (b"\x01\x05" + zlib.compress(b"hello"), "start with byte 0x01"),
        (b"\x80\x05" + zlib.compress(b"hello"), "start with byte 0x80"),
        (b"\x85" + bytes(9), "start with byte 0x85"),
        (b"\x84\x00\x00", "start with byte 0x84"),
        (b"\x91\x05" + zlib.compress(b"hello"), "unknown algorithm 1"),
        (b"\x81\x05hello", "cannot be opened"),
        (b"\x81\x04" + zlib.compress(b"hello"), "announce 4 bytes and hold more"),
        (b"\x81\x06" + zlib.compress(b"hello"), "announce 6 bytes and hold 5"),
        (b"\x81\x05" + zlib.compress(b"hello")[:-1], "announce 5 bytes"),
    ],
)
def test_what_is_wrong_with_compressed_data_is_said(data, text):
    with pytest.raises(BinlogCorrupt, match=text):
        uncompress(data)


def test_a_bomb_is_not_opened():
    bomb = b"\x81\x10" + zlib.compress(bytes(1 << 26))
    with pytest.raises(BinlogCorrupt, match="hold more"):
        uncompress(bomb)
    with pytest.raises(BinlogCorrupt, match="announce 1073741825 bytes, more than 1073741824"):
        uncompress(b"\x84\x40\0\0\x01" + zlib.compress(b"x"))
    frame = zstandard.ZstdCompressor().compress(bytes(1 << 26))
    with pytest.raises(BinlogCorrupt, match="holds more"):
        TransactionPayload(ZSTD, 16, frame).open()
    with pytest.raises(BinlogCorrupt, match="announces"):
        TransactionPayload(ZSTD, MAX_UNCOMPRESSED + 1, frame).open()


def event(size: int, fill: bytes = b"x") -> bytes:
    return struct.pack("<IBIIIH", 0, 5, 1, 19 + size, 0, 0) + fill * size


def peak_memory(run: str) -> int:
    """Return the memory that a function of this module needs at its peak, bytes.

    The function runs in a process of its own, where no other test's threads and caches are counted. Its first call
    loads kernels.
    """
    script = f"""
import tracemalloc
from tests.binlog import test_compression_slow as module
module.{run}()
tracemalloc.start()
module.{run}()
print(tracemalloc.get_traced_memory()[1])
"""
    done = subprocess.run(
        [sys.executable, "-c", script],
        capture_output=True,
        text=True,
        check=True,
        cwd=Path(__file__).parents[2],
    )
    return int(done.stdout)


def open_bombs() -> None:
    size = 64 << 20
    frame = zstandard.ZstdCompressor().compress(bytes(size))
    # The frame keeps the memory of its largest possible size, and its copy does not.
    bomb = TransactionPayload(ZSTD, size, bytes(bytearray(frame)))
    del frame
    tracemalloc.reset_peak()
    with pytest.raises(BinlogCorrupt, match="impossible length"):
        bomb.open(check_events=True)
    with pytest.raises(BinlogCorrupt, match="impossible length 0"):
        list(bomb.events())


def test_a_payload_without_events_is_refused_after_its_first_piece() -> None:
    assert peak_memory("open_bombs") < 8 << 20


def pass_many_events() -> None:
    one = event(1000)
    number = (32 << 20) // len(one)
    body = encode_transaction_payload(one * number)
    tracemalloc.reset_peak()
    assert sum(raw == one for _, raw in decode_transaction_payload(body).events()) == number


def test_events_are_yielded_with_bounded_memory() -> None:
    """32 MiB of events pass, and memory holds a piece of them at a time."""
    assert peak_memory("pass_many_events") < 8 << 20


@settings(deadline=None)
@given(st.lists(st.sampled_from([0, 1, 100, (1 << 20) - 19, 1 << 20, 3 << 20]), max_size=6), st.booleans())
def test_events_are_those_of_the_whole_payload(sizes, plain):
    events = [event(size) for size in sizes]
    body = encode_transaction_payload(b"".join(events), compression=NONE if plain else ZSTD)
    opened = decode_transaction_payload(body)
    assert [raw for _, raw in opened.events()] == events
    assert opened.open(check_events=True) == b"".join(events)


@pytest.mark.parametrize(
    ("data", "text"),
    [
        (event(5)[:18], "inside an event's header"),
        (event(5)[:-1], "impossible length 24"),
        (event(5) + struct.pack("<IBIIIH", 0, 5, 1, 18, 0, 0), "impossible length 18"),
        (event(5) + struct.pack("<IBIIIH", 0, 5, 1, 0xFFFFFFFF, 0, 0), "impossible length 4294967295"),
    ],
)
def test_events_that_are_not_whole_are_said(data, text):
    found = []
    with pytest.raises(BinlogCorrupt, match=text):
        found.extend(decode_transaction_payload(encode_transaction_payload(data)).events())


@settings(deadline=None)
@given(st.binary(max_size=70_000), st.integers(1, 19))
def test_a_transaction_comes_back_as_it_was(data, level):
    body = encode_transaction_payload(data, level)
    decoded = decode_transaction_payload(memoryview(body))
    assert (decoded.compression, decoded.uncompressed_size) == (ZSTD, len(data))
    assert isinstance(decoded.payload, memoryview)
    assert decoded.open() == decode_transaction_payload(body).open() == data


def test_a_transaction_that_is_not_compressed():
    body = payload((2, NONE), (1, 6), rest=b"events")
    assert decode_transaction_payload(body) == TransactionPayload(NONE, 6, b"events")
    assert decode_transaction_payload(body).open() == b"events"


def test_frames_one_after_the_other_unknown_fields_and_what_follows():
    frames = b"".join(zstandard.ZstdCompressor(write_content_size=False).compress(b) for b in (b"ab", b"cd"))
    body = b"\x09\x03xyz" + payload((2, ZSTD), (3, 4), (1, len(frames)), rest=frames + b"later")
    assert decode_transaction_payload(body).open() == b"abcd"


@pytest.mark.parametrize(
    ("body", "text"),
    [
        (b"", "field's type"),
        (payload((2, ZSTD), end=False), "field's type"),
        (b"\2", "the length of a field"),
        (b"\2\1", "inside a field"),
        (b"\2\2\0\0\0", "field 2 has the wrong length 2"),
        (payload((2, ZSTD), (3, 1)), "lacks the size or the compression"),
        (payload((1, 0)), "lacks the size or the compression"),
        (payload((2, ZSTD), (1, 0)), "lacks the uncompressed size"),
        (payload((2, ZSTD), (3, 1), (1, 2), rest=b"x"), "has 1 bytes instead of 2"),
    ],
)
def test_what_is_wrong_with_a_payload_is_said(body, text):
    with pytest.raises(BinlogCorrupt, match=text):
        decode_transaction_payload(body)


@pytest.mark.parametrize(
    ("compression", "size", "data", "text"),
    [
        (7, 1, b"x", "unknown compression 7"),
        (NONE, 2, b"x", "announces 2 bytes and holds 1"),
        (ZSTD, 5, b"hello", "cannot be opened"),
        (ZSTD, 4, zstandard.compress(b"hello"), "announces 4 bytes and holds more"),
        (ZSTD, 6, zstandard.compress(b"hello"), "announces 6 bytes and holds 5"),
        (ZSTD, 5, b"", "announces 5 bytes and holds 0"),
    ],
)
def test_what_is_wrong_inside_a_payload_is_said(compression, size, data, text):
    with pytest.raises(BinlogCorrupt, match=text):
        TransactionPayload(compression, size, data).open()


@settings(deadline=None)
@given(st.binary(max_size=2000), st.data())
def test_a_damaged_payload_is_corrupt_or_another_one(events, data):
    body = bytearray(encode_transaction_payload(events))
    at = data.draw(st.integers(0, len(body) - 1))
    body[at] = data.draw(st.integers(0, 255))
    del body[data.draw(st.integers(at, len(body))) :]
    with suppress(BinlogCorrupt):
        assert isinstance(decode_transaction_payload(bytes(body)).open(), bytes)


@pytest.mark.parametrize("name", ["oracle/mysql-mixed", "recordings/mysql-types"])
def test_the_server_s_payloads(name):
    found = bodies(DATA / name / "bin.000001", EventType.TRANSACTION_PAYLOAD)
    assert found
    for body in found:
        opened = decode_transaction_payload(body)
        events = opened.open()
        assert len(events) == opened.uncompressed_size
        kinds, at = [], 0
        while at < len(events):
            _, kind, _, size, _, _ = struct.unpack_from("<IBIIIH", events, at)
            kinds.append(kind)
            at += size
        assert at == len(events)
        assert kinds[0] == EventType.QUERY  # BEGIN
        # The encoder writes the server's fields in the server's order.
        ours = encode_transaction_payload(events)
        assert ours[:4] == body[:4] == b"\2\1\0\3"
        assert decode_transaction_payload(ours).open() == events


def test_the_server_s_compressed_rows():
    """Compare recorded rows with the same rows compressed here: header and content are equal, the stream may differ."""
    path = DATA / "recordings" / "mariadb-types" / "bin.000001"
    kinds = (
        EventType.WRITE_ROWS_COMPRESSED_V1,
        EventType.UPDATE_ROWS_COMPRESSED_V1,
        EventType.DELETE_ROWS_COMPRESSED_V1,
    )
    for kind in kinds:
        found = bodies(path, kind)
        assert found
        for body in found:
            header = decode_rows_header(kind, body)
            assert header.compressed
            data = rows_data(header, body)
            theirs, ours = body[header.rows_offset :], compress(data)
            assert ours[: 1 + (ours[0] & 7)] == theirs[: 1 + (theirs[0] & 7)]
            assert uncompress(ours) == data


def test_rows_that_are_not_compressed_are_a_view():
    body = memoryview(bytes.fromhex("070000000000 0100 0200 01 01 00 05000000"))
    data = rows_data(decode_rows_header(30, body), body)
    assert isinstance(data, memoryview)
    assert data == bytes.fromhex("00 05000000")
