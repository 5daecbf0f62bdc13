"""One TCP connection through a link: two sockets (to the source and to the target), and the bytes that pass between
them.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import socket
import struct
import termios
from collections.abc import Callable
from typing import TYPE_CHECKING, Protocol

from dumpfilter.topology.links.line import BITS, WINDOW, Delivery, Mark
from dumpfilter.topology.links.shape import LinkShape

if TYPE_CHECKING:
    from asyncio import BufferedProtocol, Transport
else:
    BufferedProtocol, Transport = asyncio.BufferedProtocol, asyncio.Transport

MOST_READ = 256 << 10
"""The limit of the bytes that one ``recv`` reads."""

WRITE_BUFFER = 256 << 10
"""The bytes that may wait for a socket whose peer reads nothing. With more of them the other socket is no
longer read.
"""

SEGMENT = 1448
"""The TCP segment size of the link's sockets, bytes, as on an Ethernet. Loopback's segments of 64 KiB do not fit a slow
link's small buffer.
"""

SMALLEST_BUFFER, LARGEST_BUFFER = 16 << 10, 4 << 20
"""The bounds of the TCP receive buffer of a socket whose link has a rate, bytes."""

RESET_ON_CLOSE = struct.pack("ii", 1, 0)
"""``struct linger`` that makes the system reset a connection when its socket is closed."""

_buffer = memoryview(bytearray(MOST_READ))
"""The memory into which all sockets of the process are read. They can share it, since each read is copied at once."""


class Way(Protocol):
    """One direction of a link, as the interface for the sockets whose bytes the direction carries."""

    @property
    def is_open(self) -> bool:
        """Whether the direction accepts bytes now, which it does not while it is full or the link is silenced."""

    def room(self) -> int:
        """Return the number of bytes that the direction accepts now."""

    def take(self, receiver: End, data: bytes, mark: Mark = Mark.BYTES) -> None:
        """Accept bytes that the link is to deliver to the socket ``receiver``.

        ``mark`` is BYTES, END (the stream ends, without bytes) or RESET (the connection is reset, without bytes).
        """


class End(BufferedProtocol):
    """One of the two sockets of a connection: the one to the source or the one to the target."""

    def __init__(self, connection: Connection, way: Way) -> None:
        self._connection = connection
        self.way = way
        self.peer: End = self
        self.is_reading_allowed = False
        self.is_made = False
        """Whether asyncio has taken the socket over."""
        self.is_gone = False
        self.is_ended = False
        """Whether the peer's end has been passed on to this socket."""
        self.is_accepting = True
        """Whether the socket's buffer has room."""
        self._is_reading = True
        self._has_ended = False
        self._transport: Transport | None = None
        self._pending: list[Delivery[End]] = []

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        assert isinstance(transport, Transport)
        self._transport = transport
        self.is_made = True
        transport.set_write_buffer_limits(high=WRITE_BUFFER)
        if self.is_gone:
            self.reset()
            return
        self.update_reading()
        pending, self._pending = self._pending, []
        for delivery in pending:
            self.deliver(delivery)

    def get_buffer(self, sizehint: int) -> memoryview:
        return _buffer[: max(1, min(MOST_READ, self.way.room()))]

    def buffer_updated(self, nbytes: int) -> None:
        self.way.take(self.peer, bytes(_buffer[:nbytes]))

    def eof_received(self) -> bool:
        self._has_ended = True
        self.way.take(self.peer, b"", Mark.END)
        return True

    def pause_writing(self) -> None:
        self.is_accepting = False
        self.peer.update_reading()

    def resume_writing(self) -> None:
        self.is_accepting = True
        self.peer.update_reading()

    def connection_lost(self, exc: Exception | None) -> None:
        if not self.is_gone:
            self.is_gone = True
            if not self.peer.is_gone:
                self.way.take(self.peer, b"", Mark.RESET)
        self._transport = None
        self._connection.end_is_gone()

    def update_reading(self) -> None:
        """Start or stop reading from the socket.

        The socket is read only while the link and the other socket of the connection accept its bytes.
        """
        if self._transport is None or self.is_gone or self._has_ended:
            return
        wanted = self.is_reading_allowed and self.way.is_open and self.peer.is_accepting
        if wanted != self._is_reading:
            self._is_reading = wanted
            (self._transport.resume_reading if wanted else self._transport.pause_reading)()

    def deliver(self, delivery: Delivery[End]) -> bool:
        """Write a delivery's bytes to the socket, or end or reset the stream if the delivery has this mark.

        Returns False for a socket that is already closed.
        """
        if self.is_gone:
            return False
        if self._transport is None:
            self._pending.append(delivery)
        elif delivery.mark is Mark.BYTES:
            self._transport.write(delivery.data)
        elif delivery.mark is Mark.RESET:
            self._connection.reset()
        else:
            self.is_ended = True
            if self.peer.is_ended:
                self._connection.close()
            elif self._transport.can_write_eof() and not self._transport.is_closing():
                self._transport.write_eof()
        return True

    def unsent(self) -> int:
        """Return the number of delivered bytes that the peer's system has not acknowledged yet.

        The bytes wait in asyncio's buffer or in the system's (``SIOCOUTQ`` of ``tcp(7)``). A reset would discard them.
        """
        if self._transport is None:
            return 0
        sock = self._transport.get_extra_info("socket")
        (queued,) = struct.unpack("i", fcntl.ioctl(sock.fileno(), termios.TIOCOUTQ, bytes(4)))
        return self._transport.get_write_buffer_size() + int(queued)

    def set_receive_buffer(self, size: int) -> None:
        """Set the socket's TCP receive buffer (``SO_RCVBUF``), bytes."""
        if self._transport is not None:
            sock = self._transport.get_extra_info("socket")
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, size)

    def reset(self) -> None:
        """Close the socket at once with a TCP reset. Bytes that wait are lost."""
        self.is_gone = True
        if self._transport is not None:
            sock = self._transport.get_extra_info("socket")
            sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET_ON_CLOSE)
            self._transport.abort()

    def close(self) -> None:
        """Close the socket after the bytes that wait for it have been sent."""
        self.is_gone = True
        if self._transport is not None:
            self._transport.close()


class Connection:
    """A connection through a link: the target connected to the link's port, and the link connects to the source."""

    def __init__(
        self, accepted: socket.socket, down: Way, up: Way, on_end: Callable[[Connection], None]
    ) -> None:
        self._accepted = accepted
        self._on_end = on_end
        self.target = End(self, up)
        """The socket of the node that reads. Its bytes go up."""
        self.source = End(self, down)
        """The socket of the node that is read. Its bytes go down."""
        self.target.peer, self.source.peer = self.source, self.target
        self.ends = (self.target, self.source)

    async def run(self, host: str, port: int, shape: LinkShape) -> None:
        """Connect the accepted socket to the source, in the time that TCP's handshake takes over the link.

        A handshake is three messages. The target sends its first bytes after two of them, and the source accepts the
        connection after three. Raises OSError if the source cannot be reached.
        """
        loop = asyncio.get_running_loop()
        await loop.connect_accepted_socket(lambda: self.target, self._accepted)
        await asyncio.sleep(2 * shape.delay)
        self.target.is_reading_allowed = True
        self.target.update_reading()
        await asyncio.sleep(shape.delay)
        if self.target.is_gone:
            return
        sock = await _connected(host, port, shape)
        self.source.is_reading_allowed = True
        await loop.create_connection(lambda: self.source, sock=sock)

    def update_reading(self) -> None:
        """Start or stop reading from each socket. A socket is read only while link and peer accept its bytes."""
        for end in self.ends:
            end.update_reading()

    def end_is_gone(self) -> None:
        """Call the link's ``on_end`` function if both sockets are closed."""
        if all(end.is_gone for end in self.ends):
            self._on_end(self)

    def close(self) -> None:
        """Close both sockets after the bytes that wait for them have been sent."""
        for end in self.ends:
            end.close()
        self.end_is_gone()

    def reset(self) -> None:
        """Close both sockets with a TCP reset."""
        for end in self.ends:
            end.reset()
        if not self.target.is_made and self._accepted.fileno() >= 0:
            self._accepted.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET_ON_CLOSE)
            self._accepted.close()
        self.end_is_gone()


async def _connected(host: str, port: int, shape: LinkShape) -> socket.socket:
    """Return a socket that is connected to the first of a host's addresses that accepts it. Raises OSError.

    The name ``localhost`` often has an IPv6 address first, at which many servers do not listen.
    """
    loop = asyncio.get_running_loop()
    failed = OSError("the host has no address")
    for family, kind, protocol, _, address in await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM):
        with contextlib.ExitStack() as unused:
            try:
                sock = unused.enter_context(socket.socket(family, kind, protocol))
                sock.setblocking(False)
                prepare(sock, shape)
                await loop.sock_connect(sock, address)
            except OSError as error:
                failed = error
            else:
                unused.pop_all()
                return sock
    raise failed


def receive_buffer(shape: LinkShape) -> int | None:
    """Return the size of the TCP receive buffer for the sockets of a link, bytes; None for the system's default.

    The size is about the number of bytes that the link and its queues carry in a round trip.
    """
    if shape.rate is None:
        return None
    size = int(shape.rate / BITS * (2 * shape.delay + 2 * WINDOW))
    return min(LARGEST_BUFFER, max(SMALLEST_BUFFER, size))


def prepare(sock: socket.socket, shape: LinkShape) -> None:
    """Set the options of a socket that must be set before it connects or listens.

    A slow line hands over a message in pieces, each at its time. Nagle's algorithm would hold back the later ones until
    the receiver's delayed acknowledgement. asyncio does not turn it off for accepted sockets of an unnamed protocol.
    """
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, SEGMENT)
    size = receive_buffer(shape)
    if size is not None:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, size)
