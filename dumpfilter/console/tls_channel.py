"""TLS between the packets and the bytes of a connection.

asyncio's own ``start_tls`` loses the bytes that the client sent directly after its request for TLS, because the
connection's reader may already hold them. TlsChannel keeps that reader: OpenSSL reads from memory and writes to memory.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl

from dumpfilter.security.tls import ssl_reason

_READ = 1 << 16


class TlsFailed(ConnectionError):
    """The end of an encrypted connection by a failure, in the handshake or later. The text is OpenSSL's reason."""


class TlsChannel:
    """The server's end of a TLS connection.

    It reads like an asyncio.StreamReader and writes like an asyncio.StreamWriter. Two tasks of the same event loop may
    read and write at the same time.
    """

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, context: ssl.SSLContext
    ) -> None:
        self._reader = reader
        self._writer = writer
        self._from_client = ssl.MemoryBIO()
        self._to_client = ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._from_client, self._to_client, server_side=True)
        self._decrypted = bytearray()

    async def handshake(self) -> None:
        """Agree on keys with the client. Raises TlsFailed, after telling the client why."""
        while True:
            try:
                self._tls.do_handshake()
                break
            except ssl.SSLWantReadError:
                await self._receive()
            except ssl.SSLError as error:
                self._flush()
                raise TlsFailed(ssl_reason(error)) from None
        self._flush()

    @property
    def version(self) -> str:
        """The protocol's version, such as ``TLSv1.3``."""
        return self._tls.version() or ""

    @property
    def cipher(self) -> str:
        """OpenSSL's name of the cipher."""
        cipher = self._tls.cipher()
        return cipher[0] if cipher else ""

    async def readexactly(self, n: int) -> bytes:
        """Return ``n`` decrypted bytes. Raises IncompleteReadError at the end, ConnectionError."""
        while len(self._decrypted) < n:
            try:
                data = self._tls.read(_READ)
            except ssl.SSLWantReadError:
                await self._receive()
                continue
            except ssl.SSLError as error:
                raise TlsFailed(ssl_reason(error)) from None
            if not data:
                raise asyncio.IncompleteReadError(bytes(self._decrypted), n)
            self._decrypted += data
        taken = bytes(self._decrypted[:n])
        del self._decrypted[:n]
        return taken

    def write(self, data: bytes) -> None:
        """Encrypt ``data`` and queue it. Raises ConnectionError."""
        rest = memoryview(data)
        try:
            while rest:
                rest = rest[self._tls.write(rest) :]
        except ssl.SSLError as error:
            raise TlsFailed(ssl_reason(error)) from None
        self._flush()

    async def drain(self) -> None:
        """Wait until the client has taken most of what is queued."""
        await self._writer.drain()

    def close(self) -> None:
        """Send close_notify, and close the connection."""
        with contextlib.suppress(ssl.SSLError):
            self._tls.unwrap()
        self._flush()
        self._writer.close()

    async def _receive(self) -> None:
        self._flush()
        data = b""
        with contextlib.suppress(OSError):
            data = await self._reader.read(_READ)
        if not data:
            raise TlsFailed("the client left")
        self._from_client.write(data)

    def _flush(self) -> None:
        if self._to_client.pending:
            self._writer.write(self._to_client.read())
