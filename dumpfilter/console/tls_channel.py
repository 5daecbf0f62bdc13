"""TLS for a client's connection that begins unencrypted.

asyncio's own ``start_tls`` can lose bytes: the first bytes of TLS may already be in the buffer of the unencrypted
connection's reader. Therefore this module keeps the reader, and passes its bytes to OpenSSL through memory.
"""

from __future__ import annotations

import asyncio
import contextlib
import ssl

from dumpfilter.base.security.client_tls import ssl_reason

_READ = 1 << 16


class TlsFailed(ConnectionError):
    """The error that ends an encrypted connection, in the handshake or later. The text gives the reason."""


class BufferedReading:
    """The base class of connections that decode the bytes of another connection, by TLS or by decompression. It keeps
    the decoded bytes that nobody has read yet.
    """

    def __init__(self) -> None:
        self._content = bytearray()

    async def readexactly(self, n: int) -> bytes:
        """Wait for ``n`` decoded bytes from the client, and return them.

        Raises IncompleteReadError when the client closes the connection before, and ConnectionError for other failures.
        """
        while len(self._content) < n:
            more = await self._read_more()
            if more is None:
                raise asyncio.IncompleteReadError(bytes(self._content), n)
            self._content += more
        taken = bytes(self._content[:n])
        del self._content[:n]
        return taken

    async def _read_more(self) -> bytes | None:
        """Return the next bytes of the content, possibly none yet, or None when the client has closed the channel."""
        raise NotImplementedError


class TlsChannel(BufferedReading):
    """The server's side of an encrypted connection, on top of an unencrypted asyncio connection.

    The class has the methods of asyncio's StreamReader and StreamWriter that the console uses. One task may read while
    another task of the same event loop writes.
    """

    def __init__(
        self, reader: asyncio.StreamReader, writer: asyncio.StreamWriter, context: ssl.SSLContext
    ) -> None:
        super().__init__()
        self._reader = reader
        self._writer = writer
        self._from_client = ssl.MemoryBIO()
        self._to_client = ssl.MemoryBIO()
        self._tls = context.wrap_bio(self._from_client, self._to_client, server_side=True)

    async def handshake(self) -> None:
        """Carry out the TLS handshake with the client. Raises TlsFailed, after sending the client a TLS alert."""
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
        """The version of TLS that the connection uses, such as ``TLSv1.3``."""
        return self._tls.version() or ""

    @property
    def cipher(self) -> str:
        """The cipher that the connection uses, under OpenSSL's name."""
        cipher = self._tls.cipher()
        return cipher[0] if cipher else ""

    async def _read_more(self) -> bytes | None:
        try:
            return self._tls.read(_READ) or None
        except ssl.SSLWantReadError:
            await self._receive()
            return b""
        except ssl.SSLError as error:
            raise TlsFailed(ssl_reason(error)) from None

    def write(self, data: bytes | memoryview) -> None:
        """Encrypt ``data``, and queue it for sending to the client. Raises ConnectionError."""
        rest = memoryview(data)
        try:
            while rest:
                rest = rest[self._tls.write(rest) :]
        except ssl.SSLError as error:
            raise TlsFailed(ssl_reason(error)) from None
        self._flush()

    async def drain(self) -> None:
        """Wait until most of the queued bytes have been sent, so that a slow client does not fill the memory."""
        await self._writer.drain()

    def close(self) -> None:
        """Send TLS's message for a proper end (close_notify), and close the connection."""
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
