"""The packets of MySQL's client protocol: framing, and reading the client's packets.

:mod:`mysql_mimic.packets` makes the packets that the console sends. Its readers are not used, because they trust the
client: a missing NUL or a false length keeps them reading for ever.
"""

from __future__ import annotations

import asyncio
import ssl
import struct
from dataclasses import dataclass

from mysql_mimic.types import Capabilities

from dumpfilter.console.tls_channel import TlsChannel
from dumpfilter.sql.server_errors import ER_NET_PACKET_TOO_LARGE

MAX_ALLOWED_PACKET = 16 << 20
"""The most bytes of one command (the server's ``max_allowed_packet``)."""

_FULL = 0xFFFFFF
_DRAIN_ABOVE = 1 << 16


class ClientGone(Exception):
    """The end of a connection: the client closed it, or broke the protocol so that no answer can reach it."""


class MalformedPacket(Exception):
    """A packet without the fields that its type must have."""


class PacketStream:
    """The packets of one connection."""

    def __init__(self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter) -> None:
        self._unencrypted = reader, writer
        self._reader: asyncio.StreamReader | TlsChannel = reader
        self._writer: asyncio.StreamWriter | TlsChannel = writer
        self._sequence = 0
        self._received = 0
        self._pending = bytearray()
        self.tls: TlsChannel | None = None
        """The encryption after :meth:`start_tls`; None before."""

    async def start_tls(self, context: ssl.SSLContext) -> None:
        """Encrypt everything from here on. Raises TlsFailed."""
        channel = TlsChannel(*self._unencrypted, context)
        await channel.handshake()
        self._reader = self._writer = self.tls = channel

    def close(self) -> None:
        """Close the connection after the queued bytes are sent."""
        self._writer.close()

    async def read_reply(self, limit: int) -> bytes:
        """Return the client's answer to the last sent packet. Raises the errors of :meth:`read_command`."""
        payload = await self._read(limit, self._sequence)
        self.begin_answer()
        return payload

    async def read_command(self, limit: int) -> bytes:
        """Return the next command. It can be read before the answer to the previous command is sent.

        Raises ClientGone, and SqlError 1153 for a command of more than ``limit`` bytes. No byte of such a command is
        kept, and the connection cannot be used after it.
        """
        return await self._read(limit, 0)

    def begin_answer(self) -> None:
        """Make the next packets the answer to the packet that was read last."""
        self._sequence = self._received

    async def _read(self, limit: int, number: int) -> bytes:
        payload = bytearray()
        while True:
            try:
                header = await self._reader.readexactly(4)
                length = int.from_bytes(header[:3], "little")
                if header[3] != number:
                    raise ClientGone(f"packet number {header[3]} instead of {number}")
                self._received = number = (number + 1) & 0xFF
                if len(payload) + length > limit:
                    raise ER_NET_PACKET_TOO_LARGE()
                payload += await self._reader.readexactly(length)
            except (asyncio.IncompleteReadError, ConnectionError) as error:
                raise ClientGone("closed") from error
            if length < _FULL:
                return bytes(payload)

    def put(self, payload: bytes) -> None:
        """Queue a packet for :meth:`drain`."""
        while True:
            part, payload = payload[:_FULL], payload[_FULL:]
            self._pending += struct.pack("<I", len(part) | self._sequence << 24) + part
            self._sequence = (self._sequence + 1) & 0xFF
            if len(part) < _FULL:
                return

    async def drain(self, *, above: int = 0) -> None:
        """Send the queued bytes if there are more than ``above``. Waits for a client that reads slowly."""
        if len(self._pending) > above:
            data = bytes(self._pending)
            self._pending.clear()
            try:
                self._writer.write(data)
                await self._writer.drain()
            except ConnectionError as error:
                raise ClientGone("closed") from error

    async def send(self, payload: bytes) -> None:
        self.put(payload)
        await self.drain()

    async def relieve(self) -> None:
        """Send the queued bytes of a result once they are many."""
        await self.drain(above=_DRAIN_ABOVE)


class Fields:
    """A strict reader of one packet's fields.

    Every method raises MalformedPacket when the packet ends too early.
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
        """Read a length-encoded integer."""
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
    """A client's login: HandshakeResponse41 or COM_CHANGE_USER."""

    capabilities: Capabilities
    """The capabilities that the client and the console share."""
    user: str
    response: bytes
    """The proof of the password, made by the plugin."""
    database: str | None
    plugin: str | None
    collation: int | None


_TLS_REQUEST = 32
"""The length of the packet that asks for TLS, bytes: the beginning of a login packet."""


def asks_for_tls(data: bytes) -> bool:
    """Return whether the answer to the greeting is a request for TLS instead of a login.

    Raises MalformedPacket for a login that claims to be encrypted.
    """
    if Capabilities.CLIENT_SSL not in Capabilities(Fields(data).uint(4)):
        return False
    if len(data) != _TLS_REQUEST:
        raise MalformedPacket
    return True


def parse_login(data: bytes, server: Capabilities) -> Login:
    """Read a HandshakeResponse41. Raises MalformedPacket."""
    fields = Fields(data)
    capabilities = Capabilities(fields.uint(4)) & server
    if Capabilities.CLIENT_PROTOCOL_41 not in capabilities:
        raise MalformedPacket
    fields.uint(4)  # max_packet_size
    collation = fields.uint(1)
    fields.take(23)
    user = _text(fields.until_nul())
    if Capabilities.CLIENT_PLUGIN_AUTH_LENENC_CLIENT_DATA in capabilities:
        response = fields.with_length()
    else:
        response = fields.take(fields.uint(1))
    return _login_tail(fields, capabilities, user, response, collation)


def parse_change_user(data: bytes, capabilities: Capabilities) -> Login:
    """Read a COM_CHANGE_USER. Raises MalformedPacket."""
    fields = Fields(data)
    user = _text(fields.until_nul())
    response = fields.take(fields.uint(1))
    database = _text(fields.until_nul()) or None
    collation = fields.uint(2) if fields else None
    plugin = _text(fields.until_nul()) if fields else None
    return Login(capabilities, user, response, database, plugin, collation)


def _login_tail(
    fields: Fields, capabilities: Capabilities, user: str, response: bytes, collation: int
) -> Login:
    database = plugin = None
    if Capabilities.CLIENT_CONNECT_WITH_DB in capabilities and fields:
        database = _text(fields.until_nul()) or None
    if Capabilities.CLIENT_PLUGIN_AUTH in capabilities and fields:
        plugin = _text(fields.until_nul())
    # connection attributes do not follow, since the console does not announce that it reads them
    return Login(capabilities, user, response, database, plugin, collation)


def _text(data: bytes) -> str:
    return data.decode("utf-8", "replace")
