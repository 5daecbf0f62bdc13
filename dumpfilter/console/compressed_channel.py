"""The compression of a client's connection, with zlib or zstd (the client protocol's compressed packets).

Once the login is over, a compressed connection carries compressed packets. Each has a header of 7 bytes: the length of
its content, a sequence number, and the length of the content before compression. The ordinary packets with their own
headers are the content. A compressed packet may hold several ordinary packets, or a part of one.
"""

from __future__ import annotations

import asyncio
import io
import struct
import zlib
from collections.abc import Callable
from typing import Any, NamedTuple

import zstandard
from mysql_mimic.types import Capabilities

from dumpfilter.console.sql.server_errors import ER_NET_PACKET_TOO_LARGE
from dumpfilter.console.tls_channel import BufferedReading, TlsChannel

MAX_COMPRESSED_COMMAND = (1 << 20) + (1 << 16)
"""The limit of the length of a compressed packet from a client, before and after its compression, bytes."""

MAX_ZSTD_LEVEL = 9
"""The highest level at which packets are compressed with zstd, whatever the client asks for.

Higher levels take many times the CPU time for a few percent.
"""

_DEFAULT_ZSTD_LEVEL = 3
_ZLIB_LEVEL = 3
"""The level of zlib. Servers use 6, which takes almost three times the CPU time for an eighth fewer bytes."""
_PIECE = 1 << 20
"""The limit of the bytes that are compressed to one packet."""
_LEAST = 50
"""The length below which a packet is sent as it is (``MIN_COMPRESS_LENGTH`` in MySQL's source), bytes."""
_INLINE = 4 << 10
"""The length up to which a packet is compressed in the event loop, because another thread would take longer, bytes."""
_HEADER = 7


class Codec(NamedTuple):
    """A compression algorithm for packets, as a function that compresses and a function that decompresses up to a
    limit.
    """

    compress: Callable[[bytes | memoryview], bytes]
    decompress: Callable[[bytes, int], bytes]
    """Returns the first bytes of a packet's content, up to a limit. Raises zlib.error or ZstdError for malformed data.
    """


ZLIB = Codec(
    lambda data: zlib.compress(data, _ZLIB_LEVEL),
    lambda data, most: zlib.decompressobj().decompress(data, most),
)


def zstd(level: int) -> Codec:
    """Return the compression with zstd. ``level`` is the level that the client asks for; 0 stands for the default
    level, and high levels are reduced to 9.
    """
    compressor_level = min(level or _DEFAULT_ZSTD_LEVEL, MAX_ZSTD_LEVEL)

    def decompress(data: bytes, most: int) -> bytes:
        # A reader takes no memory for the length that the data itself claims.
        limited = zstandard.ZstdDecompressor(max_window_size=MAX_COMPRESSED_COMMAND)
        return limited.stream_reader(io.BytesIO(data)).read(most)

    return Codec(lambda data: zstandard.ZstdCompressor(compressor_level).compress(data), decompress)


def codec_of(capabilities: Capabilities, zstd_level: int) -> Codec | None:
    """Return the algorithm that client and server agreed on in the login, or None without compression.

    Like a server, prefer zlib if the client supports both.
    """
    if Capabilities.CLIENT_COMPRESS in capabilities:
        return ZLIB
    if Capabilities.CLIENT_ZSTD_COMPRESSION_ALGORITHM in capabilities:
        return zstd(zstd_level)
    return None


async def _worked(length: int, work: Callable[..., bytes], *arguments: Any) -> bytes:
    """Call ``work`` on ``length`` bytes: in the event loop for few bytes, and in another thread for many."""
    return work(*arguments) if length <= _INLINE else await asyncio.to_thread(work, *arguments)


class CompressedChannel(BufferedReading):
    """The server's side of a client connection whose packets are compressed, on top of a plain or an encrypted
    connection.

    The class has the methods of asyncio's StreamReader and StreamWriter that the console uses. :meth:`drain` compresses
    the queued bytes in another thread, and sends them. The sequence numbers of an answer's compressed packets continue
    those of the client's command.
    """

    def __init__(
        self,
        reader: asyncio.StreamReader | TlsChannel,
        writer: asyncio.StreamWriter | TlsChannel,
        codec: Codec,
    ) -> None:
        super().__init__()
        self._reader = reader
        self._writer = writer
        self.codec = codec
        self._queue: list[bytes | memoryview] = []
        self._sequence = 0
        self.sent = 0
        """The number of bytes that were sent, after their compression."""

    async def _read_more(self) -> bytes:
        """Return the content of the next packet.

        Raises IncompleteReadError when the client closes the connection, ConnectionError for packets that are no
        compressed packets, and SqlError 1153 for too long ones.
        """
        header = await self._reader.readexactly(_HEADER)
        length, number = int.from_bytes(header[:3], "little"), header[3]
        before = int.from_bytes(header[4:], "little")
        if number not in (0, self._sequence):
            raise ConnectionError(f"compressed packet number {number} instead of {self._sequence}")
        self._sequence = (number + 1) & 0xFF
        if max(length, before) > MAX_COMPRESSED_COMMAND:
            raise ER_NET_PACKET_TOO_LARGE()
        data = await self._reader.readexactly(length)
        if not before:
            return data
        try:
            content = await _worked(before, self.codec.decompress, data, before + 1)
        except (zlib.error, zstandard.ZstdError) as error:
            raise ConnectionError(f"a compressed packet cannot be uncompressed: {error}") from None
        if len(content) != before:
            raise ConnectionError("a compressed packet does not have the announced length before compression")
        return content

    def write(self, data: bytes | memoryview) -> None:
        """Queue ``data``, which :meth:`drain` compresses and sends."""
        self._queue.append(data)

    async def drain(self) -> None:
        """Compress and send the queued bytes, and wait until most of them have been sent. Raises ConnectionError."""
        queue, self._queue = self._queue, []
        for data in queue:
            for at in range(0, len(data), _PIECE):
                piece = data[at : at + _PIECE]
                packet = await _worked(len(piece), self._packet, piece)
                self.sent += len(packet)
                self._writer.write(packet)
                await self._writer.drain()

    def _packet(self, piece: bytes | memoryview) -> bytes:
        number, before = self._sequence, len(piece)
        self._sequence = (number + 1) & 0xFF
        content = bytes(piece) if before < _LEAST else self.codec.compress(piece)
        if len(content) >= before:
            content, before = bytes(piece), 0
        return struct.pack("<I", len(content) | number << 24) + before.to_bytes(3, "little") + content

    def close(self) -> None:
        """Close the client's connection. Queued bytes that :meth:`drain` has not sent are lost."""
        self._writer.close()
