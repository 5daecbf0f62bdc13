"""The packets of the client protocol: their reading and sending, compression, and the parsing of a client's login.

The library :mod:`mysql_mimic.packets` makes the packets that the console sends. The library's parsers are not used,
because a false length or a missing NUL from a client would keep them reading for ever.

A client that wants TLS asks for it in its first packet. The bytes after this packet are TLS's, and may have come
already. Therefore :func:`greet` reads the first packet from the socket itself, and no byte more.

Once the login is over, a connection may carry compressed packets. Each compressed packet has a header of 7 bytes: the
length of its content, a sequence number, and the length of the content before compression. The ordinary packets with
their own headers are the content. A compressed packet may hold several ordinary packets, or a part of one.
"""

from __future__ import annotations

import asyncio
import contextlib
import io
import socket
import ssl
import struct
import zlib
from collections.abc import Awaitable, Callable, Mapping
from typing import Any, NamedTuple

import zstandard
from mysql_mimic.types import Capabilities

from dumpfilter.base.security.client_tls import ssl_reason
from dumpfilter.console.sql.server_errors import ER_NET_PACKET_TOO_LARGE

MAX_COMPRESSED_COMMAND = (1 << 20) + (1 << 16)
"""The limit of the length of a compressed packet from a client, before and after its compression, bytes."""
_LEVEL = 3
"""The level of compression. With zlib servers use 6, which takes almost three times the CPU time for an eighth fewer
bytes. Zstd's level 3 is its default, whatever the client asks for.
"""
_PIECE = 1 << 20
"""The limit of the bytes that are compressed to one packet."""
_INLINE = 4 << 10
"""The length up to which a packet is compressed in the event loop, because another thread would take longer, bytes."""
_COMPRESSED_HEADER = 7

MAX_ALLOWED_PACKET = 1 << 20
"""The limit of the length of one command from a client, bytes (a server's ``max_allowed_packet``)."""
NET_READ_SECONDS = 30.0
"""The time in which a client must send the rest of a packet that it has begun (a server's ``net_read_timeout``)."""
CLOSE_SECONDS = 0.5
"""The time in which a client must accept the last packets when the console ends the connection."""
DISCARD_SECONDS = 2.0
"""The time in which the console discards the rest of a too large packet, so that the client gets the error."""
NET_WRITE_SECONDS = 60.0
"""The time in which a client must accept more of a result (a server's ``net_write_timeout``)."""
_HEADER = 4
_FULL = 0xFFFFFF
LOGIN_PACKET = 1 << 16
"""The limit of the length of a packet during the login, bytes."""
_UNSENT = 1 << 16
"""The number of unsent bytes in asyncio's write buffer above which further sending waits for the client."""
_DRAIN_ABOVE = 1 << 14
_PAUSE_SECONDS = 1e-3
_SLICE = 1 << 18
"""The number of bytes of a long answer that a client must accept within :data:`NET_WRITE_SECONDS`."""

_LOST = OSError, RuntimeError
"""The errors of writing to a lost connection. uvloop raises RuntimeError once it has closed the socket."""

_TLS_REQUEST = 32
"""The length of a client's packet that asks for TLS, bytes. The packet is a login packet cut before the user name."""


class Codec(NamedTuple):
    """A compression algorithm for packets, as a function that compresses and a function that decompresses up to a
    limit.
    """

    compress: Callable[[bytes | memoryview], bytes]
    decompress: Callable[[bytes, int], bytes]
    """Returns the first bytes of a packet's content, up to a limit. Raises zlib.error or ZstdError for malformed data.
    """


ZLIB = Codec(
    lambda data: zlib.compress(data, _LEVEL),
    lambda data, most: zlib.decompressobj().decompress(data, most),
)
ZSTD = Codec(
    lambda data: zstandard.ZstdCompressor(_LEVEL).compress(data),
    # A reader takes no memory for the length that the data itself claims.
    lambda data, most: (
        zstandard.ZstdDecompressor(max_window_size=MAX_COMPRESSED_COMMAND).stream_reader(data).read(most)
    ),
)


async def _worked(length: int, work: Callable[..., bytes], *arguments: Any) -> bytes:
    """Return the result of ``work(*arguments)``, which processes ``length`` bytes. For many bytes ``work`` is called in
    another thread, so that the event loop can serve other clients meanwhile.
    """
    return work(*arguments) if length <= _INLINE else await asyncio.to_thread(work, *arguments)


class CompressedChannel:
    """The server's side of a client connection whose packets are compressed, on top of another connection.

    The sequence numbers of an answer's compressed packets continue those of the client's command.
    """

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, codec: Codec) -> None:
        self._reader = reader
        self._writer = writer
        self.codec = codec
        self._content = bytearray()
        self._sequence = 0
        self.sent = 0
        """The number of bytes that were sent, after their compression."""

    async def readexactly(self, n: int) -> bytes:
        """Wait for ``n`` decompressed bytes from the client, and return them.

        Raises IncompleteReadError when the client closes the connection, ConnectionError for packets that are no
        compressed packets, and SqlError 1153 for too long ones.
        """
        while len(self._content) < n:
            # The turn of the loop would otherwise read all packets that have come, however small they are.
            await asyncio.sleep(0)
            self._content += await self._read_packet()
        taken = bytes(self._content[:n])
        del self._content[:n]
        return taken

    async def _read_packet(self) -> bytes:
        header = await self._reader.readexactly(_COMPRESSED_HEADER)
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

    async def write(self, data: bytes | memoryview) -> None:
        """Compress ``data`` and send the result. Large data are compressed in another thread. Return when most of the
        bytes have been sent. Raises ConnectionError when the connection is lost.
        """
        for at in range(0, len(data), _PIECE):
            piece = data[at : at + _PIECE]
            packet = await _worked(len(piece), self._packet, piece)
            self.sent += len(packet)
            self._writer.write(packet)
            await self._writer.drain()

    def _packet(self, piece: bytes | memoryview) -> bytes:
        number, before = self._sequence, len(piece)
        self._sequence = (number + 1) & 0xFF
        content = self.codec.compress(piece)
        if len(content) >= before:
            content, before = bytes(piece), 0
        return struct.pack("<I", len(content) | number << 24) + before.to_bytes(3, "little") + content


class ClientGone(Exception):
    """The exception that ends a connection: the client left, sent packets in a wrong order, or did not read in time."""


class MalformedPacket(Exception):
    """The error of a client's packet that is too short or lacks a field that packets of its type must have."""


class ClientReader(asyncio.StreamReader):
    """An asyncio StreamReader that notices at once that the client has closed the connection, even if nobody reads."""

    def __init__(self) -> None:
        super().__init__()
        self.left: asyncio.Future[None] = asyncio.get_running_loop().create_future()
        """The future that is complete once the client has closed its side, or the connection is lost."""

    def feed_eof(self) -> None:
        super().feed_eof()
        self._end()

    def set_exception(self, exc: Exception) -> None:
        super().set_exception(exc)
        self._end()

    def _end(self) -> None:
        if not self.left.done():
            self.left.set_result(None)


class PacketStream:
    """The packets of one client's connection, in both directions.

    The class adds and checks the header of each packet, which holds the packet's length and sequence number.
    """

    def __init__(self, reader: ClientReader, writer: asyncio.StreamWriter, sequence: int = 0) -> None:
        self.left = reader.left
        """The future that is complete once the client has left."""
        self._reader = reader
        self._writer = writer
        self._transport = writer.transport
        self.sequence = sequence
        """The sequence number that the next packet has, in whichever direction it goes."""
        self._pending = bytearray()
        self._is_cut = False
        """Whether a cancelled :meth:`send_framed` has left the client with a part of a packet."""
        self.tls: ssl.SSLObject | None = writer.get_extra_info("ssl_object")
        """The encryption of the connection, or None for a connection without encryption."""
        self.compression: CompressedChannel | None = None
        """The compressed connection, or None as long as the connection is not compressed."""

    def start_compression(self, codec: Codec) -> None:
        """Compress all packets from now on."""
        self.compression = CompressedChannel(self._reader, self._writer, codec)

    async def close(self) -> None:
        """Close the connection. A client that does not accept the last packets in time loses them."""
        with contextlib.suppress(*_LOST, TimeoutError, asyncio.CancelledError):
            async with asyncio.timeout(CLOSE_SECONDS):
                self._writer.close()
                await self._writer.wait_closed()
        self._transport.abort()

    async def read_reply(self) -> bytes:
        """Return the packet with which the client answers the console's last packet, during the login.

        The result is empty for a packet that is too long for a login. Raises ClientGone when the client leaves.
        """
        length = await self._length(self.sequence)
        return await self._read(length, NET_READ_SECONDS) if length <= LOGIN_PACKET else b""

    async def read_command(self, admit: Callable[[int, int], Awaitable[None]]) -> tuple[int, bytes]:
        """Return the client's next command: its number in MySQL's protocol (such as 3 for COM_QUERY), and the rest of
        the packet.

        ``admit`` is called with the command's number and its length in bytes, before the rest of the command is
        received. The function ``admit`` may wait, or raise SqlError 1153 for a too long command. The connection cannot
        be used after this error.

        Raises ClientGone when the client leaves, and MalformedPacket for a command without a number.
        """
        length = await self._length(0)
        number = (await self._read(1, NET_READ_SECONDS))[0] if length else 0
        await admit(number, length)
        if not length:
            raise MalformedPacket
        return number, await self._read(length - 1, NET_READ_SECONDS)

    async def discard(self) -> None:
        """Read and discard the bytes that the client still sends, for at most :data:`DISCARD_SECONDS`.

        Without this method, a client that is still sending would not receive the console's last packets.
        """
        with contextlib.suppress(OSError, TimeoutError):
            async with asyncio.timeout(DISCARD_SECONDS):
                while await self._reader.read(_DRAIN_ABOVE):
                    pass

    async def send_framed(self, packets: memoryview, sequence: int) -> None:
        """Send packets that already have their headers. ``sequence`` is the sequence number for the next packet after
        them.

        The packets are sent in slices, and the client may take :data:`NET_WRITE_SECONDS` for each. Raises ClientGone
        when the client leaves or takes longer. If the call is cancelled before all slices are sent, the client would
        take a later packet for the rest of these packets. Therefore :meth:`drain` then raises ClientGone.
        """
        self.sequence = sequence
        await self.drain()
        for at in range(0, len(packets), _SLICE):
            # Without compression, a slice is in the write buffer before anything can cancel the call.
            self._is_cut = self.compression is not None or at + _SLICE < len(packets)
            await self._write(packets[at : at + _SLICE])
        self._is_cut = False

    @property
    def is_idle(self) -> bool:
        """Whether :meth:`send_at_once` may be called, which neither waits nor compresses. All packets sent before must
        have left this process, and the connection must not be compressed.
        """
        return not (self._pending or self.compression or self._transport.get_write_buffer_size())

    def send_at_once(self, packets: bytes | memoryview, sequence: int) -> None:
        """Send packets that already have their headers, without waiting. The connection must be idle (:attr:`is_idle`).

        ``sequence`` is the sequence number for the next packet after them. Raises ClientGone when the connection is
        lost.
        """
        self.sequence = sequence
        try:
            self._transport.write(packets)
        except _LOST as error:
            raise ClientGone("closed") from error

    async def _length(self, number: int) -> int:
        """Read the header of the packet with the sequence number ``number``, and return the packet's length in bytes.
        Raises ClientGone when the client leaves, or sends another number.
        """
        header = await self._read(_HEADER, None)
        if header[3] != number:
            raise ClientGone(f"packet number {header[3]} instead of {number}")
        self.sequence = (number + 1) & 0xFF
        return int.from_bytes(header[:3], "little")

    async def _read(self, length: int, seconds: float | None) -> bytes:
        try:
            async with asyncio.timeout(seconds):
                return await (self.compression or self._reader).readexactly(length)
        except (asyncio.IncompleteReadError, OSError) as error:
            raise ClientGone("closed") from error

    def put(self, payload: bytes) -> None:
        """Queue ``payload`` as a packet for the client, which :meth:`drain` sends. A payload of 0xFFFFFF bytes or more
        becomes several packets.
        """
        while True:
            part, payload = payload[:_FULL], payload[_FULL:]
            self._pending += _framed(part, self.sequence)
            self.sequence = (self.sequence + 1) & 0xFF
            if len(part) < _FULL:
                return

    async def drain(self) -> None:
        """Send the queued packets.

        Waits while the client reads more slowly than the console writes. Raises ClientGone when the client leaves or
        accepts nothing for :data:`NET_WRITE_SECONDS`, and after a cancelled :meth:`send_framed`.
        """
        if self._pending:
            if self._is_cut:
                raise ClientGone("cut")
            data = bytes(self._pending)
            self._pending.clear()
            await self._write(data)

    async def _write(self, data: bytes | memoryview) -> None:
        try:
            async with asyncio.timeout(NET_WRITE_SECONDS):
                if self.compression:
                    await self.compression.write(data)
                else:
                    self._writer.write(data)
                    await self._writer.drain()
        except _LOST as error:
            raise ClientGone("closed") from error

    async def send(self, payload: bytes) -> None:
        self.put(payload)
        await self.drain()

    async def relieve(self) -> None:
        """Send the queued packets of a result if they exceed 16 KiB, so that a large result does not fill the memory.
        Let other clients and threads run after that.
        """
        if len(self._pending) > _DRAIN_ABOVE:
            await self.drain()
            # A client that reads fast never makes the drain wait. Other clients and threads get their turn here.
            await asyncio.sleep(_PAUSE_SECONDS)


def _framed(payload: bytes, sequence: int) -> bytes:
    return struct.pack("<I", len(payload) | sequence << 24) + payload


async def greet(client: socket.socket, greeting: bytes) -> bytes:
    """Send the greeting to a client that has connected, and return the payload of the client's first packet.

    The result is empty for a packet that is too long for a login. Raises ClientGone when the client leaves.
    """
    loop = asyncio.get_running_loop()

    async def read(length: int) -> bytes:
        data = b""
        while len(data) < length:
            part = await loop.sock_recv(client, length - len(data))
            if not part:
                raise ClientGone("closed")
            data += part
        return data

    try:
        await loop.sock_sendall(client, _framed(greeting, 0))
        (header,) = struct.unpack("<I", await read(_HEADER))
        length, number = header & _FULL, header >> 24
        if number != 1:
            raise ClientGone(f"packet number {number} instead of 1")
        return await read(length) if length <= LOGIN_PACKET else b""
    except OSError as error:
        raise ClientGone("closed") from error


async def open_stream(
    client: socket.socket, sequence: int = 0, context: ssl.SSLContext | None = None
) -> PacketStream:
    """Make the stream of packets between a client and the console, on the connected socket ``client``. ``sequence`` is
    the sequence number of the stream's next packet.

    With ``context`` the client and the console first carry out the TLS handshake. Raises ClientGone with the reason if
    the handshake fails.
    """
    loop = asyncio.get_running_loop()
    reader = ClientReader()
    protocol = asyncio.StreamReaderProtocol(reader)
    try:
        transport, _ = await loop.connect_accepted_socket(lambda: protocol, client, ssl=context)
    except OSError as error:
        reason = ssl_reason(error) if isinstance(error, ssl.SSLError) else "the client left"
        raise ClientGone(reason) from None
    transport.set_write_buffer_limits(_UNSENT)
    return PacketStream(reader, asyncio.StreamWriter(transport, protocol, reader, loop), sequence)


class Fields(io.BytesIO):
    """A reader of the fields in one packet from a client.

    Each method returns the next field of the packet. A method raises MalformedPacket if the packet ends too early.
    """

    @property
    def left(self) -> int:
        """The number of bytes at the packet's end that no method has read yet."""
        return self.getbuffer().nbytes - self.tell()

    def take(self, length: int) -> bytes:
        if length > self.left:
            raise MalformedPacket
        return self.read(length)

    def uint(self, length: int) -> int:
        return int.from_bytes(self.take(length), "little")

    def sized(self) -> bytes:
        """Read and return the packet's next field, which begins with its length (a length-encoded integer of 1 to 9
        bytes). Raises MalformedPacket if the packet ends too early.
        """
        first = self.uint(1)
        if first in (0xFB, 0xFF):
            raise MalformedPacket
        return self.take(first if first < 0xFB else self.uint({0xFC: 2, 0xFD: 3, 0xFE: 8}[first]))

    def until_nul(self) -> bytes:
        text, nul, _ = self.getvalue()[self.tell() :].partition(b"\0")
        return self.take(len(text) + len(nul or b"?"))[:-1]


class Login(NamedTuple):
    """The fields of a client's login packet (HandshakeResponse41)."""

    user: str
    response: bytes
    """The digest by which the client proves that it knows the password.

    The client computes the digest from the password and the random bytes (nonce) that the console sent in its greeting.
    """
    database: str
    plugin: str
    """The name of the client's authentication plugin. Empty if the client names none."""
    collation: int
    attributes: Mapping[str, str]
    """The client's description of itself (connection attributes), such as ``program_name``."""
    codec: Codec | None
    """The compression of packets that client and server agreed on, or None without compression."""


_MOST_ATTRIBUTES = 100
"""The number of connection attributes that are read; the rest is ignored. A login packet holds 30,000 short ones."""


def asks_for_tls(data: bytes) -> bool:
    """Tell whether the client's first packet asks for TLS, instead of being a login."""
    return len(data) == _TLS_REQUEST and bool(Fields(data).uint(4) & Capabilities.CLIENT_SSL)


def parse_login(data: bytes, server: Capabilities) -> Login:
    """Parse the login packet of a new connection (HandshakeResponse41), and return its fields.

    ``server`` has the capabilities that the console announced. Raises MalformedPacket for an incomplete packet, and for
    clients older than MySQL 4.1.
    """
    fields = Fields(data)
    # Python keeps every combination of flags that a process has ever had. A stranger must not make millions of them.
    flags = fields.uint(4) & int(server)

    def has(part: Capabilities) -> bool:
        return bool(flags & int(part)) and fields.left > 0

    if not has(Capabilities.CLIENT_PROTOCOL_41):
        raise MalformedPacket
    # The client's max_packet_size has no meaning for the console.
    fields.take(4)
    collation = fields.uint(1)
    fields.take(23)
    user = _text(fields.until_nul())
    # Clients without CLIENT_PLUGIN_AUTH_LENENC_CLIENT_DATA write the length of these few bytes in the same way.
    response = fields.sized()
    database = _text(fields.until_nul()) if has(Capabilities.CLIENT_CONNECT_WITH_DB) else ""
    plugin = _text(fields.until_nul()) if has(Capabilities.CLIENT_PLUGIN_AUTH) else ""
    pairs = Fields(fields.sized() if has(Capabilities.CLIENT_CONNECT_ATTRS) else b"")
    attributes: dict[str, str] = {}
    for _ in range(_MOST_ATTRIBUTES):
        if not pairs.left:
            break
        name = _text(pairs.sized())
        attributes[name] = _text(pairs.sized())
    # Like a server, prefer zlib if the client supports both. The level that the client asks for is not read.
    zstd = ZSTD if flags & int(Capabilities.CLIENT_ZSTD_COMPRESSION_ALGORITHM) else None
    codec = ZLIB if flags & int(Capabilities.CLIENT_COMPRESS) else zstd
    return Login(user, response, database, plugin, collation, attributes, codec)


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")
