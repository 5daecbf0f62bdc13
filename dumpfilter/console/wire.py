"""The reading and sending of the client protocol's packets, and the parsing of the packets that a client sends.

The library :mod:`mysql_mimic.packets` makes the packets that the console sends. The library's parsers are not used,
because a false length or a missing NUL from a client would keep them reading for ever.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl
import struct
from collections.abc import Awaitable, Callable, Mapping
from dataclasses import dataclass, field

from mysql_mimic.types import Capabilities

from dumpfilter.console.compressed_channel import CompressedChannel, codec_of
from dumpfilter.console.sql.server_errors import ER_NET_PACKET_TOO_LARGE
from dumpfilter.console.tls_channel import TlsChannel

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

_FULL = 0xFFFFFF
_DRAIN_ABOVE = 1 << 14
_PAUSE_SECONDS = 1e-3

_SLICE = 1 << 18
"""The number of bytes of a long answer that a client must accept within :data:`NET_WRITE_SECONDS`."""


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

    def __init__(self, reader: ClientReader, writer: asyncio.StreamWriter) -> None:
        self.left = reader.left
        """The future that is complete once the client has left."""
        self._unencrypted = reader, writer
        self._reader: asyncio.StreamReader | TlsChannel | CompressedChannel = reader
        self._writer: asyncio.StreamWriter | TlsChannel | CompressedChannel = writer
        self.sequence = 0
        """The sequence number of the next packet, which the numbers of the client's packets continue."""
        self._pending = bytearray()
        self._write_seconds = NET_WRITE_SECONDS
        self.tls: TlsChannel | None = None
        """The encrypted connection, or None as long as the connection is not encrypted."""
        self.compression: CompressedChannel | None = None
        """The compressed connection, or None as long as the connection is not compressed."""

    @property
    def peer_name(self) -> tuple[str, int]:
        """The client's network address and port."""
        name = self._unencrypted[1].get_extra_info("peername")
        return (str(name[0]), int(name[1])) if name else ("", 0)

    async def start_tls(self, context: ssl.SSLContext) -> None:
        """Carry out the TLS handshake, and encrypt all packets after it. Raises TlsFailed if the handshake fails."""
        channel = TlsChannel(*self._unencrypted, context)
        await channel.handshake()
        self._reader = self._writer = self.tls = channel

    def start_compression(self, login: Login) -> None:
        """Compress all packets from now on, if the client's login asks for compression."""
        codec = codec_of(login.capabilities, login.zstd_level)
        if codec is not None and self.compression is None:
            plain = self.tls
            reader, writer = (plain, plain) if plain is not None else self._unencrypted
            self._reader = self._writer = self.compression = CompressedChannel(reader, writer, codec)

    async def close(self) -> None:
        """Close the connection. A client that does not accept the last packets in time loses them."""
        with contextlib.suppress(OSError):
            self._writer.close()
        plain = self._unencrypted[1]
        try:
            async with asyncio.timeout(CLOSE_SECONDS):
                await plain.wait_closed()
        except (OSError, TimeoutError, asyncio.CancelledError):
            pass
        finally:
            plain.transport.abort()

    async def read_reply(self, limit: int) -> bytes:
        """Return the packet with which the client answers the console's last packet, during the login.

        Raises ClientGone when the client leaves, and SqlError 1153 for a packet of more than ``limit`` bytes.
        """
        return await self._rest(await self._length(self.sequence, limit))

    async def read_command(self, admit: Callable[[int, int], Awaitable[None]]) -> tuple[int, bytes]:
        """Return the client's next command: its number in MySQL's protocol (such as 3 for COM_QUERY), and the rest of
        the packet.

        ``admit`` is called with the command's number and its length in bytes, before the rest of the command is
        received. It may wait, or raise SqlError 1153 for a too long command. The connection cannot be used after this
        error.

        Raises ClientGone when the client leaves, and MalformedPacket for a command without a number.
        """
        length = await self._length(0, _FULL)
        if not length:
            raise MalformedPacket
        (number,) = await self._rest(1)
        await admit(number, length)
        return number, await self._rest(length - 1)

    async def discard(self) -> None:
        """Read and discard the bytes that the client still sends, for at most :data:`DISCARD_SECONDS`.

        Without this method, a client that is still sending would not receive the console's last packets.
        """
        with contextlib.suppress(OSError, TimeoutError):
            async with asyncio.timeout(DISCARD_SECONDS):
                while await self._unencrypted[0].read(_DRAIN_ABOVE):
                    pass

    async def send_framed(self, packets: memoryview, sequence: int) -> None:
        """Send packets that already have their headers. ``sequence`` is the sequence number for the next packet after
        them.

        The packets are sent in slices, and the client may take :data:`NET_WRITE_SECONDS` for each. Raises ClientGone.
        """
        self.sequence = sequence
        await self.drain()
        for at in range(0, len(packets), _SLICE):
            await self._write(packets[at : at + _SLICE])

    @property
    def is_idle(self) -> bool:
        """Whether all sent packets have left this process, and the connection is not compressed. Only then may
        :meth:`send_at_once` be called.
        """
        return (
            not self._pending
            and self.compression is None
            and not self._unencrypted[1].transport.get_write_buffer_size()
        )

    def send_at_once(self, packets: bytes, sequence: int) -> None:
        """Send packets that already have their headers, without waiting. The connection must be idle (:attr:`is_idle`).

        ``sequence`` is the sequence number for the next packet after them. Raises ClientGone.
        """
        self.sequence = sequence
        try:
            self._writer.write(packets)
        except ConnectionError as error:
            raise ClientGone("closed") from error

    async def _length(self, number: int, limit: int) -> int:
        """Read the header of the packet with the sequence number ``number``, and return the packet's length in bytes.

        Raises ClientGone, and SqlError 1153 for a packet of more than ``limit`` bytes.
        """
        header = await self._read(4, None)
        if header[3] != number:
            raise ClientGone(f"packet number {header[3]} instead of {number}")
        self.sequence = (number + 1) & 0xFF
        length = int.from_bytes(header[:3], "little")
        if length > limit:
            raise ER_NET_PACKET_TOO_LARGE()
        return length

    async def _rest(self, length: int) -> bytes:
        """Read ``length`` bytes of a packet that the client has begun. Raises ClientGone."""
        return await self._read(length, NET_READ_SECONDS)

    async def _read(self, length: int, seconds: float | None) -> bytes:
        try:
            async with asyncio.timeout(seconds):
                return await self._reader.readexactly(length)
        except (asyncio.IncompleteReadError, ConnectionError, TimeoutError) as error:
            raise ClientGone("closed") from error

    def put(self, payload: bytes) -> None:
        """Queue a packet without sending it yet. A payload of 0xFFFFFF bytes or more becomes several packets."""
        while True:
            part, payload = payload[:_FULL], payload[_FULL:]
            self._pending += struct.pack("<I", len(part) | self.sequence << 24) + part
            self.sequence = (self.sequence + 1) & 0xFF
            if len(part) < _FULL:
                return

    async def drain(self, *, above: int = 0) -> None:
        """Send the queued packets if they have more than ``above`` bytes.

        Waits while the client reads more slowly than the console writes. Raises ClientGone when the client leaves or
        accepts nothing for :data:`NET_WRITE_SECONDS`.
        """
        if len(self._pending) > above:
            data = bytes(self._pending)
            self._pending.clear()
            await self._write(data)

    async def _write(self, data: bytes | memoryview) -> None:
        try:
            self._writer.write(data)
            async with asyncio.timeout(self._write_seconds):
                await self._writer.drain()
        except (ConnectionError, TimeoutError) as error:
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


class Fields:
    """A reader of the fields in one packet from a client.

    Each method returns the next field of the packet. A method raises MalformedPacket if the packet ends too early.
    """

    def __init__(self, data: bytes) -> None:
        self._data = data
        self._at = 0

    def __bool__(self) -> bool:
        return self._at < len(self._data)

    def take(self, length: int) -> bytes:
        end = self._at + length
        if end > len(self._data):
            raise MalformedPacket
        taken = self._data[self._at : end]
        self._at = end
        return taken

    def rest(self) -> bytes:
        return self.take(len(self._data) - self._at)

    def uint(self, length: int) -> int:
        return int.from_bytes(self.take(length), "little")

    def signed(self, length: int) -> int:
        return int.from_bytes(self.take(length), "little", signed=True)

    def real(self, length: int) -> float:
        value: float = struct.unpack("<d" if length == 8 else "<f", self.take(length))[0]
        return value

    def length(self) -> int:
        """Consume an integer of 1 to 9 bytes (the protocol's length-encoded integer), and return it."""
        first = self.uint(1)
        if first in (0xFB, 0xFF):
            raise MalformedPacket
        return first if first < 0xFB else self.uint({0xFC: 2, 0xFD: 3, 0xFE: 8}[first])

    def with_length(self) -> bytes:
        return self.take(self.length())

    def until_nul(self) -> bytes:
        end = self._data.find(b"\0", self._at)
        if end < 0:
            raise MalformedPacket
        taken = self.take(end - self._at)
        self._at += 1
        return taken


@dataclass(frozen=True)
class Login:
    """The fields of a client's login packet (HandshakeResponse41)."""

    capabilities: Capabilities
    """The optional parts of the client protocol that both the client and the console support."""
    user: str
    response: bytes
    """The digest by which the client proves that it knows the password.

    The client computes it from the password and the random bytes (nonce) that the console sent in its greeting.
    """
    database: str | None
    plugin: str | None
    collation: int | None
    attributes: Mapping[str, str] = field(default_factory=dict)
    """The client's description of itself (connection attributes), such as ``program_name``."""
    zstd_level: int = 0
    """The level at which the client wants packets compressed with zstd."""


_TLS_REQUEST = 32
"""The length of a client's packet that asks for TLS, bytes. The packet is a login packet cut before the user name."""


def asks_for_tls(data: bytes) -> bool:
    """Tell whether the client's first packet asks for TLS, instead of being a login.

    Raises MalformedPacket for a login that has CLIENT_SSL set but was not encrypted.
    """
    if Capabilities.CLIENT_SSL not in Capabilities(Fields(data).uint(4)):
        return False
    if len(data) != _TLS_REQUEST:
        raise MalformedPacket
    return True


def parse_login(data: bytes, server: Capabilities) -> Login:
    """Parse the login packet of a new connection (HandshakeResponse41), and return its fields.

    ``server`` has the capabilities that the console announced. Raises MalformedPacket, also for clients older than
    MySQL 4.1.
    """
    fields = Fields(data)
    capabilities = Capabilities(fields.uint(4)) & server
    if Capabilities.CLIENT_PROTOCOL_41 not in capabilities:
        raise MalformedPacket
    # The client's max_packet_size has no meaning for the console.
    fields.uint(4)
    collation = fields.uint(1)
    fields.take(23)
    user = _text(fields.until_nul())
    if Capabilities.CLIENT_PLUGIN_AUTH_LENENC_CLIENT_DATA in capabilities:
        response = fields.with_length()
    else:
        response = fields.take(fields.uint(1))
    database = plugin = None
    if Capabilities.CLIENT_CONNECT_WITH_DB in capabilities and fields:
        database = _text(fields.until_nul()) or None
    if Capabilities.CLIENT_PLUGIN_AUTH in capabilities and fields:
        plugin = _text(fields.until_nul())
    attributes: dict[str, str] = {}
    if Capabilities.CLIENT_CONNECT_ATTRS in capabilities and fields:
        pairs = Fields(fields.with_length())
        while pairs:
            name = _text(pairs.with_length())
            attributes[name] = _text(pairs.with_length())
    level = 0
    if Capabilities.CLIENT_ZSTD_COMPRESSION_ALGORITHM in capabilities and fields:
        level = fields.uint(1)
    return Login(capabilities, user, response, database, plugin, collation, attributes, level)


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")
