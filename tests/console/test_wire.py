"""Compressed connections, with packets of both algorithms in both directions, and lost connections."""

from __future__ import annotations

import asyncio
import random
import socket
import ssl
import struct

import pytest
import uvloop
from mysql_mimic.types import Capabilities

from dumpfilter.base.security.tls import temporary_tls
from dumpfilter.console.sql.server_errors import SqlError
from dumpfilter.console.wire import (
    MAX_COMPRESSED_COMMAND,
    ZLIB,
    ZSTD,
    ClientGone,
    Codec,
    CompressedChannel,
    open_stream,
    parse_login,
)
from tests.console.turns import Turns

CODECS = [ZLIB, ZSTD]
_IDS = ["zlib", "zstd"]


class Pipe:
    """A connection in memory: what is written can be read."""

    def __init__(self, data: bytes = b"") -> None:
        self.data = bytearray(data)

    async def readexactly(self, n: int) -> bytes:
        if len(self.data) < n:
            raise asyncio.IncompleteReadError(bytes(self.data), n)
        taken = bytes(self.data[:n])
        del self.data[:n]
        return taken

    def write(self, data: bytes) -> None:
        self.data += data

    async def drain(self) -> None:
        await asyncio.sleep(0)


def channel(codec: Codec, pipe: Pipe) -> CompressedChannel:
    return CompressedChannel(pipe, pipe, codec)


def through(codec: Codec, *messages: bytes) -> tuple[bytes, int]:
    """Send messages, and return what the other side reads, and the number of bytes on the wire."""

    async def run() -> tuple[bytes, int]:
        pipe = Pipe()
        sender, receiver = channel(codec, pipe), channel(codec, pipe)
        for message in messages:
            await sender.write(memoryview(message))
        wire = len(pipe.data)
        assert sender.sent == wire
        return await receiver.readexactly(sum(map(len, messages))), wire

    return asyncio.run(run())


@pytest.mark.parametrize("codec", CODECS, ids=_IDS)
def test_what_is_sent_arrives(codec: Codec) -> None:
    messages = [b"short", b"x" * 100_000, bytes(3 << 20)]
    found, wire = through(codec, *messages)
    assert found == b"".join(messages)
    assert wire < 20_000


@pytest.mark.parametrize("codec", CODECS[:2], ids=_IDS[:2])
def test_what_does_not_shrink_is_sent_as_it_is(codec: Codec) -> None:
    message = bytes(range(60))
    found, wire = through(codec, message)
    assert found == message
    assert wire == len(message) + 7


def received(codec: Codec, packet: bytes, n: int = 1) -> bytes:
    return asyncio.run(channel(codec, Pipe(packet)).readexactly(n))


def packet(content: bytes, before: int, number: int = 0) -> bytes:
    return len(content).to_bytes(3, "little") + bytes([number]) + before.to_bytes(3, "little") + content


@pytest.mark.parametrize("codec", CODECS[:2], ids=_IDS[:2])
def test_lies_end_the_connection(codec: Codec) -> None:
    content = codec.compress(b"x" * 1000)
    assert received(codec, packet(content, 1000), 1000) == b"x" * 1000
    for lie in (
        packet(content, 999),
        packet(content, 1001),
        packet(b"nonsense" * 9, 100),
        packet(content, 1000, 5),
    ):
        with pytest.raises(ConnectionError):
            received(codec, lie)
    with pytest.raises(SqlError):
        received(codec, packet(content, MAX_COMPRESSED_COMMAND + 1))
    with pytest.raises(ConnectionError):
        received(codec, packet(codec.compress(bytes(64 << 20)), 1000))


def test_the_sequence_numbers_continue_those_of_the_client() -> None:
    async def run() -> None:
        pipe = Pipe(packet(b"a", 0) + packet(b"b", 0, 1))
        both = channel(ZLIB, pipe)
        assert await both.readexactly(2) == b"ab"
        await both.write(b"c")
        await both.write(b"d")
        assert pipe.data[3] == 2
        assert pipe.data[8 + 3] == 3

    asyncio.run(run())


def test_each_compressed_packet_takes_a_turn_of_the_loop() -> None:
    """The packets that have come wait for the other clients of the loop, even if none of them ends a command."""

    async def run() -> int:
        pipe = Pipe(b"".join(packet(b"a", 0, number % 256) for number in range(1000)))
        async with Turns() as turns:
            assert await channel(ZLIB, pipe).readexactly(1000) == b"a" * 1000
        return turns.number

    assert asyncio.run(run()) >= 1000


ALL = Capabilities(0xFFFF_FFFF)


def test_few_connection_attributes_are_read() -> None:
    """A stranger's login packet may hold 30,000 of them."""
    flags = Capabilities.CLIENT_PROTOCOL_41 | Capabilities.CLIENT_CONNECT_ATTRS
    pairs = b"".join(b"\2%c%c\0" % divmod(number, 256) for number in range(15_000))
    data = (
        flags.to_bytes(4, "little")
        + bytes(28)
        + b"user\0\0"
        + b"\xfd"
        + len(pairs).to_bytes(3, "little")
        + pairs
    )
    assert len(parse_login(data, ALL).attributes) == 100


def test_zlib_is_preferred() -> None:
    zlib, zstd = Capabilities.CLIENT_COMPRESS, Capabilities.CLIENT_ZSTD_COMPRESSION_ALGORITHM

    def codec(asked: Capabilities, server: Capabilities = ALL) -> Codec | None:
        flags = (Capabilities.CLIENT_PROTOCOL_41 | asked).to_bytes(4, "little")
        return parse_login(flags + bytes(60), server).codec

    assert codec(zlib | zstd) is codec(zlib) is ZLIB
    assert codec(zstd) is ZSTD
    assert codec(Capabilities(0)) is None
    assert codec(zlib | zstd, Capabilities.CLIENT_PROTOCOL_41) is None


def test_logins_cannot_fill_the_memory_with_combinations_of_flags() -> None:
    before = len(Capabilities._value2member_map_)
    chance = random.Random(1)
    for _ in range(3000):
        flags = chance.getrandbits(32) | Capabilities.CLIENT_PROTOCOL_41.value
        parse_login(flags.to_bytes(4, "little") + bytes(60), ALL)
    assert len(Capabilities._value2member_map_) == before


@pytest.mark.parametrize("is_encrypted", [False, True])
def test_a_client_that_has_reset_its_connection_is_gone(is_encrypted: bool) -> None:
    async def run() -> None:
        with socket.create_server(("127.0.0.1", 0)) as listener:
            client = socket.create_connection(listener.getsockname())
            connection, _ = listener.accept()
        connection.setblocking(False)
        context = temporary_tls("localhost").context if is_encrypted else None
        opening = open_stream(connection, context=context)
        if is_encrypted:
            trusting = ssl._create_unverified_context()
            stream, client = await asyncio.gather(opening, asyncio.to_thread(trusting.wrap_socket, client))
        else:
            stream = await opening
        client.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, struct.pack("ii", 1, 0))
        client.close()
        await stream.left
        await asyncio.sleep(0.01)
        with pytest.raises(ClientGone):
            await stream.send(b"x")
        await stream.close()

    with asyncio.Runner(loop_factory=uvloop.new_event_loop) as runner:
        runner.run(run())
