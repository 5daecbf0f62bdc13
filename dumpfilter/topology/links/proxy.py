"""Links as TCP proxies. A target (the reading node) connects to a link's port of 127.0.0.1. The link passes bytes
between the target and a source, with a rate and a delay, and can be cut or silent.

The function :func:`main` is a process that carries links. A :class:`.client.LinkProcess` starts this process, and sends
requests to it. The request ``open`` makes a link. The process ends when the other end of its socket closes, or when its
parent has ended.
"""

from __future__ import annotations

import asyncio
import contextlib
import gc
import math
import os
import socket
import struct
import sys
import time
from collections import deque
from multiprocessing.connection import Connection
from random import Random
from typing import Any

from dumpfilter.base.errors import LinkError
from dumpfilter.base.helper import END
from dumpfilter.base.options.values import MOST_SECONDS
from dumpfilter.topology.links.line import BITS, UNLIMITED, WINDOW, Line
from dumpfilter.topology.links.shape import Counters, Happening, LinkShape, LinkState

BACKLOG = 128
"""The backlog of the listening socket: the connections that may wait for being accepted."""

ACCEPT_RETRY = 0.1
"""The time after which a link accepts connections again when an attempt has failed, for example because the process had
no file descriptor left, seconds.
"""

MOST_READ = 256 << 10
"""The limit of the bytes that one ``recv`` reads."""

WRITE_BUFFER = 256 << 10
"""The limit of the bytes that wait until one socket of a connection takes them. Above it the link no longer reads the
connection's other socket.
"""

SEGMENT = 1448
"""The TCP segment size of the link's sockets, bytes, as on an Ethernet. Loopback's segments of 64 KiB do not fit a slow
link's small buffer.
"""

SMALLEST_BUFFER, LARGEST_BUFFER = 16 << 10, 4 << 20
"""The bounds of the TCP receive buffer of a socket whose link has a rate, bytes."""

RESET_ON_CLOSE, FLUSH_ON_CLOSE = struct.pack("ii", 1, 0), struct.pack("ii", 0, 0)
"""Two values of ``struct linger``. With the first one the system resets a connection when its socket is closed. With
the second one the system first sends the bytes that wait.
"""


_BUFFER = memoryview(bytearray(MOST_READ))
"""The memory into which all sockets are read. Its bytes are copied before another socket is read."""


class _End(asyncio.BufferedProtocol):
    """One end of a connection through a link, a TCP proxy between two nodes. The end is the socket to the target (the
    reading node) or to the source. What one end reads crosses the link, and is written to the other end.
    """

    other: _End

    def __init__(self, connection: _Connection, line: Line) -> None:
        self._connection = connection
        self._link = connection.link
        self._line = line
        """The direction of the link that carries the bytes read from this end's socket."""
        self._transport: asyncio.Transport | None = None
        """The transport of the socket: None before the socket is connected."""
        self._is_read = False
        """Whether asyncio has begun to read the socket. Only from then on can the reading be paused."""
        self._under_way: deque[tuple[float, bytes | None]] = deque()
        """The bytes that cross the link to this end, in pieces, with their times (see :meth:`Line.push`). An empty
        piece is the end of the stream, and None its reset.
        """
        self._timer: asyncio.TimerHandle | None = None
        self._has_read_all = False
        self._takes = True
        """Whether the socket takes bytes. While it takes none, the socket at the other end of the link is not read."""
        self.is_complete = False
        """Whether the end of the stream has been written to the socket."""

    def connection_made(self, transport: asyncio.BaseTransport) -> None:
        """Begin to read this end's socket, which is now connected, and write to it the bytes that have already crossed
        the link from the other end. asyncio calls the method.
        """
        assert isinstance(transport, asyncio.Transport)
        self._transport = transport
        transport.set_write_buffer_limits(WRITE_BUFFER)
        # Python 3.11.2 begins to read a socket after this call even if the transport is paused by then. Such a socket
        # would be read for ever, and take all free bytes of a full link.
        self._link.loop.call_soon(self._begin_reading)
        self.deliver()

    def _begin_reading(self) -> None:
        self._is_read = True
        self.update_reading()

    def update_reading(self) -> None:
        """Start or stop reading this end's socket. The socket is read while the link (a TCP proxy) is up and accepts
        bytes, and the socket at the connection's other end takes the bytes.
        """
        if self._transport is not None and self._is_read and not self._has_read_all:
            is_wanted = self._link.accepts(self._line) and self.other._takes
            (self._transport.resume_reading if is_wanted else self._transport.pause_reading)()

    def get_buffer(self, sizehint: int) -> memoryview:
        """Return the memory into which asyncio reads the next bytes from the socket. It has room for the bytes that the
        link accepts now.
        """
        return _BUFFER[: self._line.room(self._link.now())]

    def buffer_updated(self, nbytes: int) -> None:
        """Send ``nbytes`` bytes, which asyncio has just read from this end's socket, over the link, a proxy between two
        nodes, to the connection's other end. Discard them if the connection was closed.
        """
        if self._connection.is_open:
            self._cross(bytes(_BUFFER[:nbytes]))

    def eof_received(self) -> bool:
        """Send the end of the stream, which the peer of this socket has sent, over the link to the other end.

        Return True to asyncio, so that the socket stays open for bytes in the other direction. Return False, so that
        the socket is closed, if the connection was closed.
        """
        self._has_read_all = True
        if self._connection.is_open:
            self._cross(b"")
        return self._connection.is_open

    def connection_lost(self, exc: Exception | None) -> None:
        """Send a reset over the link (a TCP proxy) to the connection's other end, if this end's socket has failed, for
        example because its peer has reset it. asyncio calls the method.
        """
        if exc is not None:
            self._cross(None)

    def pause_writing(self) -> None:
        """Stop reading the socket at the other end of the link (a TCP proxy), because this socket takes no more bytes.
        asyncio calls the method.
        """
        self._takes = False
        self.other.update_reading()

    def resume_writing(self) -> None:
        """Read the socket at the other end of the link (a TCP proxy) again, because this socket takes bytes again.
        asyncio calls the method.
        """
        self._takes = True
        self.other.update_reading()

    def _cross(self, data: bytes | None) -> None:
        pieces = self._line.push(self._link.now(), data or b"")
        self.other._under_way.extend((due, piece if data else data) for due, piece in pieces)
        self.other.deliver()
        if not self._link.accepts(self._line):
            self._link.update()

    def deliver(self) -> None:
        """Write to this end's socket the bytes that have crossed the link, a proxy between two nodes, from the other
        end, and set the timer for the next bytes. Do nothing while the link is cut or silent (passes no byte).

        If a cut of the link is planned after a number of bytes (:meth:`Link.cut_after`), and these have been written,
        the cut begins.
        """
        _cancel(self._timer)
        line = self.other._line
        while self._under_way and self._link.state == "up" and line.limit > 0:
            due, data = self._under_way[0]
            wait = due - line.sooner - self._link.now()
            if wait > 0:
                self._timer = self._link.loop.call_later(wait, self.deliver)
                return
            if data is None:
                self._connection.close()
            if self._transport is None or data is None:
                return
            piece, rest = data[: line.limit], data[line.limit :]
            self._under_way[0] = due, rest
            if not rest:
                self._under_way.popleft()
            line.held -= len(piece)
            if self._transport.is_closing():
                continue
            line.passed += len(piece)
            line.limit -= len(piece)
            if piece:
                self._transport.write(piece)
            else:
                self._complete(self._transport)
        self._link.cut_as_planned()

    def _complete(self, transport: asyncio.Transport) -> None:
        """Write the end of the stream that has crossed the link to this end's socket, whose asyncio transport is
        ``transport``. If the stream in the other direction, from this socket over the link, has also ended, close the
        connection.
        """
        with contextlib.suppress(OSError):
            transport.write_eof()
        self.is_complete = True
        if self.other.is_complete:
            self._connection.close(in_order=True)

    def set_option(self, option: int, value: int | bytes) -> None:
        """Set an option, such as ``SO_RCVBUF``, of the socket."""
        if self._transport is not None and not self._transport.is_closing():
            self._transport.get_extra_info("socket").setsockopt(socket.SOL_SOCKET, option, value)

    def close(self, *, in_order: bool) -> None:
        """Close this end's socket, and discard the bytes that are crossing the link to the socket. Unless ``in_order``
        is set, the peer of the socket gets a TCP reset.

        With ``in_order`` the peer gets the end of the stream. If the peer is the target (the node that reads over the
        link), the socket is closed only when the target has ended its stream, too. Otherwise bytes from the target that
        nobody has read would make the system discard the bytes that wait for the target.
        """
        _cancel(self._timer)
        self.other._line.held -= sum(len(data or b"") for _, data in self._under_way)
        self._under_way.clear()
        if self._transport is None:
            return
        if not in_order:
            self._transport.abort()
            return
        self.set_option(socket.SO_LINGER, FLUSH_ON_CLOSE)
        if self is self._connection.source or self._has_read_all:
            self._transport.close()
        else:
            with contextlib.suppress(OSError):
                self._transport.write_eof()
            self._transport.resume_reading()


class _Connection:
    """A connection through a link, a TCP proxy between two nodes: an end at the target (the reading node), and an end
    at the source.
    """

    def __init__(self, link: Link, accepted: socket.socket) -> None:
        self.link = link
        self.target, self.source = _End(self, link.up), _End(self, link.down)
        self.target.other, self.source.other = self.source, self.target
        self.ends = self.target, self.source
        link.connections.append(self)
        link.note("connected")
        self._task = link.loop.create_task(self._run(accepted))

    @property
    def is_open(self) -> bool:
        """Whether the connection has not ended."""
        return self in self.link.connections

    async def _run(self, accepted: socket.socket) -> None:
        """Connect the target (the reading node, at the socket ``accepted``) and the source, in the time that TCP's
        handshake takes over the link. If the source cannot be reached, the link's history gets an entry ``failed``, and
        the target gets a TCP reset.

        A handshake is three messages. The target sends its first bytes after two of them, and the source accepts the
        connection after three. While the link is silent, no message passes.
        """
        link, delay = self.link, self.link.shape.delay
        try:
            await link.passes.wait()
            await asyncio.sleep(2 * delay)
            await link.loop.connect_accepted_socket(lambda: self.target, accepted)
            await asyncio.sleep(delay)
            await link.passes.wait()
            source = await _connected(*link.address, link.shape)
            await link.loop.create_connection(lambda: self.source, sock=source)
        except (OSError, UnicodeError) as error:
            link.note("failed", f"{':'.join(map(str, link.address))}: {error}")
            self.close()
        except asyncio.CancelledError:
            # A transport closes its socket itself. The event loop would not notice that the socket was closed here, and
            # would not read the next socket with the same descriptor.
            if self.target._transport is None:
                accepted.close()
            raise

    def close(self, *, in_order: bool = False) -> None:
        """Close both ends of the connection, unless it has already ended. The target (the node that reads over the
        link) and the source get a TCP reset, and bytes that wait for them are discarded.

        With ``in_order`` there is no reset, and the system still sends the bytes that wait.
        """
        if self.is_open:
            self.link.connections.remove(self)
            self._task.cancel()
            for end in self.ends:
                end.close(in_order=in_order)
            self.link.note("ended")


MOST_HAPPENINGS = 10_000
"""The maximum number of entries in a link's history of events. Beyond it the oldest ones are removed."""


class Link:
    """A TCP proxy between two nodes, with a limited rate and a delay. The target (the reading node) connects to the
    proxy's port, and the proxy connects to the source. Tests can cut or silence the link.
    """

    def __init__(self, name: str, address: tuple[str, int], shape: LinkShape) -> None:
        """Open the link ``name``, a proxy between two nodes, in the running event loop.

        ``address`` is the host and port of the source, the node that is read. ``shape`` has the rate, delay, jitter and
        scheduled outages.
        """
        self.loop = asyncio.get_running_loop()
        self.address = address
        self._wall = time.time() - self.loop.time()
        self.shape = shape
        random = Random(name)
        self._happenings: deque[Happening] = deque(maxlen=MOST_HAPPENINGS)
        self.down, self.up = Line(shape, random), Line(shape, random)
        self._timers: dict[Line, asyncio.TimerHandle] = {}
        """For each direction (:class:`Line`) of the link that is full, the timer at whose end the direction accepts
        bytes again.
        """
        self.connections: deque[_Connection] = deque()
        """The open connections. The first one is read first."""
        self._accepted = 0
        """The number of connections that the link has accepted since it was opened."""
        self.passes = asyncio.Event()
        """Set while the link is up, so that bytes pass. During a cut there are no connections that wait for it."""
        self.passes.set()
        self.state: LinkState = "up"
        self._silent_since = 0.0
        """The time at which the present silence (no byte passes) began. 0: the link is not silent."""
        self._silent_for = 0.0
        self._end_of_fault: asyncio.TimerHandle | None = None
        self._schedule: list[asyncio.TimerHandle] = []
        self._listener: socket.socket | None = None
        self._keeper = _bind()
        self.port: int = self._keeper.getsockname()[1]
        self.note("opened", f"to {address[0]}:{address[1]} {shape}")
        self._listen()
        self._begin_schedule()

    def counters(self) -> Counters:
        """Return the link's state (up, cut or silent), its bytes (passed in each direction, and waiting) and its
        connections, all counted since the link was opened.
        """
        passed = self.down.passed, self.up.passed
        held = self.down.held + self.up.held
        return Counters(self.state, *passed, held, self._accepted, len(self.connections))

    def history(self) -> tuple[Happening, ...]:
        """Return the latest events of the link, oldest first: changes of its rate or delay, cuts, silences (times in
        which no byte passes) and connections. There are at most ``MOST_HAPPENINGS``.
        """
        return tuple(self._happenings)

    def set(self, shape: LinkShape) -> None:
        """Change the rate, delay, jitter and scheduled outages of the link.

        The times of outages count from now on, unless the link has the same outages already. Raises LinkError for a
        negative or an endless delay.
        """
        if not 0 <= shape.delay <= MOST_SECONDS:
            raise LinkError(f"delay {shape.delay}: give seconds, 0 or more, and at most {MOST_SECONDS}")
        if shape != self.shape:
            self.note("shape", str(shape))
        has_other_outages = shape.outages != self.shape.outages
        self.shape = shape
        size = _receive_buffer(shape)
        if size is not None:
            for end in self._ends():
                end.set_option(socket.SO_RCVBUF, size)
        self.down.change(shape)
        self.up.change(shape)
        if has_other_outages:
            self._begin_schedule()
        self.update()

    def retarget(self, address: tuple[str, int]) -> None:
        """Let the proxy connect new connections to another address (host and port), at which the source (the node that
        is read) listens now. Open connections stay.
        """
        self.address = address
        self.note("shape", f"to {address[0]}:{address[1]}")

    def cut(self, seconds: float | None = None) -> None:
        """Cut the link, a proxy between two nodes: reset all its connections, and refuse new ones. The cut lasts for
        ``seconds``; None: until :meth:`heal` is called.

        The new cut replaces an earlier cut, outage or silence, and cancels a cut that :meth:`cut_after` planned. Raises
        LinkError for a negative number of seconds.
        """
        self._fail("cut", "cut", seconds)
        self.down.limit = UNLIMITED

    def cut_after(self, count: int, seconds: float | None = None) -> None:
        """Cut the link when ``count`` more bytes have reached the target, the node that reads through the link.

        The connections end in order after these bytes, and new ones are refused. The cut lasts for ``seconds``; None:
        until :meth:`heal` is called. If the link is cut or silent for a time now, this earlier fault still ends at its
        own time. Raises LinkError for a negative number of bytes or seconds.
        """
        if count < 0:
            raise LinkError(f"cut after {count} bytes: the number must be 0 or more")
        _length_of(seconds)
        self.down.limit = count
        self._cut_seconds = seconds
        self.cut_as_planned()

    def cut_as_planned(self) -> None:
        """Cut the link now if all bytes before a planned cut (:meth:`cut_after`) have been delivered.

        The connections end in order, so that the target (the reading node) gets these bytes even if it reads late.
        """
        if self.down.limit == 0 and self.state == "up":
            for connection in tuple(self.connections):
                connection.close(in_order=True)
            self.cut(self._cut_seconds)

    def silence(self, seconds: float | None = None) -> None:
        """Let no byte pass over the link, a proxy between two nodes, for ``seconds``, but keep its connections open.
        With None the silence lasts until :meth:`heal` is called. Afterwards the bytes that were in transit are
        delivered, and new connections reach the source.

        The silence replaces a present cut or scheduled outage. A later cut or scheduled outage ends the silence, resets
        the connections, and discards the bytes in transit. Raises LinkError for a negative number of seconds.
        """
        self._fail("silent", "silenced", seconds)
        self.down.limit = UNLIMITED

    def reset(self) -> None:
        """Reset all open TCP connections of the link, and discard the bytes in transit. The link's state stays. A link
        that is up accepts new connections at once.
        """
        self.note("reset")
        self._reset_connections()

    def heal(self) -> None:
        """End a cut, a silence or a present scheduled outage of the link, and cancel a cut that :meth:`cut_after`
        planned. Later scheduled outages still take place.
        """
        self.down.limit = UNLIMITED
        self._change("up")

    def now(self) -> float:
        """Return the time by the link's clock, seconds. The clock stands still while the link is silent (passes no
        bytes).
        """
        return (self._silent_since or self.loop.time()) - self._silent_for

    def accepts(self, line: Line) -> bool:
        """Tell whether ``line``, one direction of the link, accepts bytes. It accepts none while it is full, or while
        the link is cut or silent (passes no bytes).
        """
        return self.state == "up" and line.reads_at <= self.now()

    def update(self) -> None:
        """Read the sockets of all connections from which the link accepts bytes, and deliver the bytes that have
        crossed the link.

        For a direction that is full, a timer is set, which calls this method when the direction accepts bytes again.
        While the link is cut or silent no socket is read.
        """
        for line in (self.down, self.up):
            _cancel(self._timers.pop(line, None))
            if self.state == "up" and not self.accepts(line):
                self._timers[line] = self.loop.call_later(line.reads_at - self.now(), self._resume, line)
        for end in self._ends():
            end.update_reading()
            end.deliver()
        self.cut_as_planned()

    def _resume(self, line: Line) -> None:
        line.resumed_at = self.now()
        # The connection that is read first may fill the line again, so each one is the first in turn.
        self.connections.rotate()
        self.update()

    def _ends(self) -> list[_End]:
        return [end for connection in self.connections for end in connection.ends]

    def note(self, kind: str, detail: str = "") -> None:
        """Add an entry to the history of the link, a proxy between two nodes. ``kind`` is an event such as ``cut``, and
        ``detail`` a text about it. The entry's time of day is computed from a monotonic clock, so that changes of the
        system time do not affect the history.
        """
        self._happenings.append(Happening(self._wall + self.loop.time(), kind, detail))

    def _fail(self, fault: LinkState, kind: str, seconds: float | None, detail: str = "") -> None:
        """Begin the fault ``fault`` (``cut`` or ``silent``) of the link, in place of an earlier one. The fault ends by
        itself after ``seconds``; None: when the link is healed. Raises LinkError for a negative number of seconds.

        ``kind`` is the name of the event in the link's history, and ``detail`` the text about the event. If ``detail``
        is empty, the history gets the length of the fault instead.
        """
        self.note(kind, detail or _length_of(seconds))
        self._change(fault)
        self._end_of_fault = self.loop.call_later(
            math.inf if seconds is None else seconds, self._change, "up"
        )

    def _change(self, state: LinkState) -> None:
        _cancel(self._end_of_fault)
        before, self.state = self.state, state
        if before == "silent":
            self._silent_for += self.loop.time() - self._silent_since
        self._silent_since = self.loop.time() if state == "silent" else 0.0
        if state == "cut":
            if self._listener is not None:
                self._accepting.cancel()
                self.loop.remove_reader(self._listener)
                self._listener.close()
                self._listener = None
            self._reset_connections()
            return
        if before != state == "up":
            self.note("healed")
        (self.passes.set if state == "up" else self.passes.clear)()
        self._listen()
        self.update()

    def _begin_schedule(self) -> None:
        for timer in self._schedule:
            timer.cancel()
        starts = (outage.start for outage in self.shape.outages)
        self._schedule = [self.loop.call_later(start, self._begin_outage, start) for start in starts]

    def _begin_outage(self, start: float) -> None:
        """Cut the link, because a scheduled outage begins. Its start is ``start`` seconds after the link got its
        schedule.

        Several scheduled outages may overlap. The cut lasts until all outages that have begun by now are over, and at
        least as long as the present cut, if there is one.
        """
        ends = (math.inf if one.end is None else one.end for one in self.shape.outages if one.start <= start)
        seconds = max(ends) - start
        if self.state == "cut" and self._end_of_fault is not None:
            seconds = max(seconds, self._end_of_fault.when() - self.loop.time())
        self._fail("cut", "cut", seconds, "as scheduled")

    def _reset_connections(self) -> None:
        for connection in tuple(self.connections):
            connection.close()
        self.down.clear()
        self.up.clear()

    def _listen(self) -> None:
        if self._listener is None:
            self._listener = _bind(self.port)
            _prepare(self._listener, self.shape)
            self._listener.listen(BACKLOG)
            self._accepting = self.loop.create_task(self._accept(self._listener))

    async def _accept(self, listener: socket.socket) -> None:
        while True:
            try:
                accepted, _ = await self.loop.sock_accept(listener)
            except OSError:
                # The connection ended before it was accepted, or the process has no file descriptor left for it. In the
                # latter case the connection stays in the backlog, and the loop would find it again at once.
                await asyncio.sleep(ACCEPT_RETRY)
            else:
                self._accepted += 1
                _Connection(self, accepted)


async def _connected(host: str, port: int, shape: LinkShape) -> socket.socket:
    """Return a socket that is connected to a host, at the first of the host's addresses that accepts it. Raises OSError
    if none does.

    ``shape`` has the rate and delay of the link, by which the socket's buffers are sized. The name ``localhost`` often
    has an IPv6 address first, at which many servers do not listen.
    """
    loop = asyncio.get_running_loop()
    failed = OSError("the host has no address")
    for family, kind, protocol, _, to in await loop.getaddrinfo(host, port, type=socket.SOCK_STREAM):
        sock = socket.socket(family, kind, protocol)
        try:
            sock.setblocking(False)
            _prepare(sock, shape)
            await loop.sock_connect(sock, to)
            return sock
        except BaseException as error:
            sock.close()
            if not isinstance(error, OSError):
                raise
            failed = error
    raise failed


def _cancel(timer: asyncio.TimerHandle | None) -> None:
    if timer is not None:
        timer.cancel()


def _length_of(seconds: float | None) -> str:
    """Return the length of a fault (a cut or a silence of a link) as text for the link's history, such as ``for 2 s``.
    The text is empty for None, a fault without an end.

    Raises LinkError if ``seconds`` is no number, or is negative.
    """
    if seconds is None:
        return ""
    if not isinstance(seconds, int | float) or not seconds >= 0:
        raise LinkError(f"{seconds!r} is no length of a fault: give seconds, as a number of 0 or more")
    return f"for {seconds:g} s"


def _receive_buffer(shape: LinkShape) -> int | None:
    """Return the size of the TCP receive buffer for the sockets of a link, bytes; None (the system's default) for a
    link without a rate.

    The size is about the number of bytes that the link and its queues carry in a round trip, between
    ``SMALLEST_BUFFER`` and ``LARGEST_BUFFER``.
    """
    if shape.rate is None:
        return None
    size = int(shape.rate / BITS * (2 * shape.delay + 2 * WINDOW))
    return min(LARGEST_BUFFER, max(SMALLEST_BUFFER, size))


def _prepare(sock: socket.socket, shape: LinkShape) -> None:
    """Set the options of a link's socket that must be set before it connects or listens. Accepted sockets inherit them.
    ``shape`` has the link's rate and delay, by which the receive buffer is sized.

    One option turns off Nagle's algorithm. A slow link writes a message to the socket in pieces, and the algorithm
    would hold back each later piece until the receiver's delayed acknowledgement. asyncio turns the algorithm off only
    for sockets whose protocol number is TCP's, and accepted sockets have the number 0.
    """
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY, 1)
    sock.setsockopt(socket.IPPROTO_TCP, socket.TCP_MAXSEG, SEGMENT)
    # A connection is reset unless it has ended in order.
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_LINGER, RESET_ON_CLOSE)
    size = _receive_buffer(shape)
    if size is not None:
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, size)


def _bind(port: int = 0) -> socket.socket:
    """Return a TCP socket that is bound to a port of 127.0.0.1 (0: any free one), but does not listen.

    Two sockets of a link share its port: one keeps the port, and the other one listens. So the port stays the link's
    while the link is cut and the system refuses connections.
    """
    sock = socket.socket()
    sock.setblocking(False)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
    sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
    sock.bind(("127.0.0.1", port))
    return sock


# -- the process of the links

PARENT_INTERVAL = 1.0
"""The interval at which the process that carries links checks that its parent runs, seconds. A closed socket is not
enough: a fork of the parent may keep it open.
"""


async def serve(caller: Connection) -> None:
    """Carry links (TCP proxies with rate and delay) at the requests of another process, which is connected to
    ``caller``. A request opens a link, or calls a method of one link or of all links. Each request gets an answer: the
    method's result, or a LinkError.

    Return when the other process closes the connection, or sends ``END``. If the parent process has ended, this process
    ends at once.
    """
    links: dict[str, Link] = {}
    watch = asyncio.create_task(_follow_parent(os.getppid()))
    gc.freeze()
    with contextlib.suppress(EOFError, OSError):
        while (request := await asyncio.to_thread(caller.recv)) is not END:
            try:
                found = _result_of(links, *request)
            except Exception as error:
                # Without an answer the caller would wait for a minute, and then kill this process with all its links.
                found = error if isinstance(error, LinkError) else LinkError(f"{request!r}: {error!r}")
            caller.send(found)
    watch.cancel()


def _result_of(links: dict[str, Link], name: str | None, method: str, *arguments: Any) -> Any:
    if name is None:
        return {each: getattr(link, method)() for each, link in links.items()}
    if method == "open":
        links[name] = Link(name, *arguments)
        return links[name].port
    return getattr(links[name], method)(*arguments)


async def _follow_parent(parent: int) -> None:
    while os.getppid() == parent:
        await asyncio.sleep(PARENT_INTERVAL)
    os._exit(0)


def main() -> None:
    """Run the process that carries the links (TCP proxies with rate and delay) of a topology. The process ends when its
    caller closes the socket between them, or when its parent has ended.

    The first argument of the command line is the file descriptor of this socket.
    """
    with Connection(int(sys.argv[1])) as caller:
        asyncio.run(serve(caller))
