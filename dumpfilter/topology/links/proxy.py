"""Links as TCP proxies. A target (the reading node) connects to a link's port of 127.0.0.1. The link passes bytes
between the target and a source, with a rate and a delay, and can be cut or silent.

The function :func:`main` is a process that carries links. A :class:`.client.LinkProcess` starts this process, and sends
requests to it. The request ``open`` makes a link. The process ends when the other end of its socket closes, or when its
parent has ended.
"""

from __future__ import annotations

import asyncio
import contextlib
import fcntl
import gc
import os
import socket
import struct
import sys
import termios
import time
from collections import deque
from multiprocessing.connection import Connection
from random import Random
from typing import Any

from dumpfilter.base.errors import LinkError
from dumpfilter.base.helper import END
from dumpfilter.base.options.values import MOST_SECONDS
from dumpfilter.topology.links.line import BITS, WINDOW, Line, Mark
from dumpfilter.topology.links.shape import Counters, Happening, LinkShape, LinkState

BACKLOG = 128
"""The backlog of the listening socket: the connections that may wait for being accepted."""

ACCEPT_RETRY = 0.1
"""The time after which a link accepts connections again when an attempt has failed, for example because the process had
no file descriptor left, seconds.
"""

READ_AT_ONCE = 0.002
"""The time for which a link that resumes reading takes the bytes that it reads for bytes that have waited in the
sockets, seconds.
"""

FLUSH_INTERVAL = 0.001
"""The interval at which a link that is to be cut checks whether the last bytes before the cut have been acknowledged,
seconds.
"""

MOST_READ = 256 << 10
"""The limit of the bytes that one ``recv`` reads."""

WRITE_BUFFER = 256 << 10
"""The limit of the bytes that wait until one socket of a connection takes them. Above it the link no longer reads the
connection's other socket.
"""

UNLIMITED = sys.maxsize
"""The number of bytes that may pass a link for which no cut is planned."""

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


class _Way:
    """One direction of one proxied TCP connection. Bytes that are read from one socket cross the link in this
    direction, and are written to the connection's other socket.
    """

    def __init__(self, connection: _Connection, direction: _Direction) -> None:
        self.connection = connection
        self._direction = direction
        self._loop = connection.link.loop
        self._source: socket.socket | None = None
        """The socket that is read: None before it is connected, and after its stream has ended."""
        self._is_reading = False
        self._crossed: asyncio.Queue[tuple[Mark, bytes]] = asyncio.Queue()
        self.unsent = 0
        """The number of bytes that have crossed the link, and wait until the other socket takes them."""

    def begin(self, source: socket.socket) -> None:
        """Read the socket ``source`` from now on."""
        self._source = source
        self.update_reading()

    def update_reading(self) -> None:
        """Start or stop reading the way's source socket. The socket is read only while the link accepts bytes and the
        other socket takes them.

        Nothing happens before :meth:`begin` and after the end of the source's stream.
        """
        wanted = self._direction.is_open and self.unsent <= WRITE_BUFFER
        if self._source is not None and wanted != self._is_reading:
            self._is_reading = wanted
            if wanted:
                self._loop.add_reader(self._source, self._read, self._source)
            else:
                self._loop.remove_reader(self._source)

    def _read(self, source: socket.socket) -> None:
        try:
            data = source.recv(self._direction.room())
        except BlockingIOError:
            return
        except OSError:
            self.finish(Mark.RESET)
            return
        if data:
            self._direction.take(self, data)
        else:
            self.finish(Mark.END)

    def finish(self, mark: Mark) -> None:
        """Read nothing from now on, and let ``mark`` (the end or the reset of the stream) cross the link after the
        bytes that were read before.
        """
        self.close()
        self._direction.take(self, b"", mark)

    def close(self) -> None:
        """Read nothing from now on."""
        if self._source is not None:
            self._loop.remove_reader(self._source)
            self._source = None

    def deliver(self, mark: Mark, data: bytes) -> bool:
        """Take over bytes, or the end of the stream, that have crossed the link. :meth:`write` will write them to the
        other socket. With the mark ``RESET`` the whole connection ends.

        Return False, and do nothing, if the connection has already ended. Otherwise return True.
        """
        if not self.connection.is_open:
            return False
        if mark is Mark.RESET:
            self.connection.close()
        self._crossed.put_nowait((mark, data))
        self.unsent += len(data)
        self.update_reading()
        return True

    async def write(self, target: socket.socket, back: _Way) -> None:
        """Write the bytes that have crossed the link to the socket ``target``. Return after the end of the stream has
        been sent there.

        ``back`` is the connection's other direction. If ``target`` cannot be written to, a reset crosses the link over
        ``back``.
        """
        try:
            while (crossed := await self._crossed.get())[0] is not Mark.END:
                await self._loop.sock_sendall(target, crossed[1])
                self.unsent -= len(crossed[1])
                self.update_reading()
            target.shutdown(socket.SHUT_WR)
        except OSError:
            back.finish(Mark.RESET)


class _Connection:
    """A connection through a link: a socket to the target (the reading node), a socket to the source, and both ways
    between them.
    """

    def __init__(self, link: Link, target: socket.socket) -> None:
        self.link = link
        self._target = target
        self._sockets = [target]
        """The socket to the target, and the socket to the source when it is connected."""
        self.up, self.down = _Way(self, link.up), _Way(self, link.down)
        link.connections.add(self)
        link.note("connected")
        self._task = link.loop.create_task(self._run())
        self._task.add_done_callback(lambda _: self.close())

    @property
    def is_open(self) -> bool:
        """Whether the connection has not ended."""
        return self in self.link.connections

    async def _run(self) -> None:
        """Connect to the source, in the time that TCP's handshake takes over the link, and carry bytes until both
        streams have ended. If the source cannot be reached, the link's history gets an entry ``failed``, and the target
        is reset.

        A handshake is three messages. The target sends its first bytes after two of them, and the source accepts the
        connection after three. None of them passes a silent link.
        """
        await self.link.passes.wait()
        delay = self.link.shape.delay
        await asyncio.sleep(2 * delay)
        self.up.begin(self._target)
        await asyncio.sleep(delay)
        await self.link.passes.wait()
        host, port = self.link.address
        try:
            source = await _connected(host, port, self.link.shape)
        except OSError as error:
            self.link.note("failed", f"{host}:{port}: {error}")
            return
        self._sockets.append(source)
        self.down.begin(source)
        await asyncio.gather(self.up.write(source, self.down), self.down.write(self._target, self.up))
        self.set_option(socket.SO_LINGER, FLUSH_ON_CLOSE)

    def close(self) -> None:
        """Close the connection's sockets, unless the connection has already ended. The target and the source get a TCP
        reset, and bytes that wait for them are discarded.

        If both directions have ended in order, there is no reset, and the system still sends the bytes that wait.
        """
        if self.is_open:
            self.link.connections.remove(self)
            self._task.cancel()
            self.up.close()
            self.down.close()
            for each in self._sockets:
                self.link.loop.remove_writer(each)
                each.close()
            self.link.note("ended")

    def set_option(self, option: int, value: int | bytes) -> None:
        """Set an option, such as ``SO_RCVBUF``, of the connection's sockets to the target and to the source."""
        for each in self._sockets:
            each.setsockopt(socket.SOL_SOCKET, option, value)

    def unsent(self) -> int:
        """Return the number of bytes that have crossed the link, and that the target's system has not acknowledged yet.

        The bytes wait in this process or in the system (``SIOCOUTQ`` of ``tcp(7)``). A reset would discard them.
        Therefore a planned cut waits until the number is 0.
        """
        queued = fcntl.ioctl(self._target, termios.TIOCOUTQ, bytes(4))
        return self.down.unsent + int(struct.unpack("i", queued)[0])


class _Direction:
    """One direction of a link: the line (queue), the timer that empties it, and the number of bytes that it passed."""

    def __init__(self, link: Link, line: Line[_Way]) -> None:
        self._link = link
        self.line = line
        self._timer: asyncio.TimerHandle | None = None
        self.passed = 0
        """The number of bytes that have crossed the link in this direction, and were delivered to open connections."""
        self._is_full = False
        self._resumed = (0.0, 0.0)
        """Two times of the event loop. Bytes that are read until the first one count as having waited since the second
        one, because the line was full.
        """
        self.limit = UNLIMITED
        """The bytes that still may pass before the link is cut."""

    @property
    def is_open(self) -> bool:
        """Whether the direction accepts bytes. It accepts none while the line is full, or while the link is cut or
        silent.
        """
        return not self._is_full and self._link.state == "up"

    def room(self) -> int:
        """Return how many bytes may be read from a socket now: at least 1, and at most ``MOST_READ``."""
        return max(1, min(MOST_READ, self.line.room(self._link.loop.time())))

    def take(self, receiver: _Way, data: bytes, mark: Mark = Mark.BYTES) -> None:
        """Put bytes of the way ``receiver``, or a mark (end or reset of the stream), into the direction's line
        (queue).
        """
        now = self._link.loop.time()
        until, since = self._resumed
        self.line.push(now, receiver, data, mark, since=since if now <= until else None)
        self.pump()

    def pump(self) -> None:
        """Hand the bytes that have crossed the link in this direction to their connections, and set the timer for the
        next bytes. While the link is cut or silent nothing happens.

        When ``limit`` bytes have passed, the planned cut of the link begins.
        """
        _cancel(self._timer)
        if self._link.state != "up":
            return
        now = self._link.loop.time()
        for receiver, mark, data in self.line.pop(now, self.limit):
            if receiver.deliver(mark, data):
                self.passed += len(data)
                self.limit -= len(data)
            else:
                self._link.lost += len(data)
        if self.limit == 0:
            self._link.cut_when_flushed()
            return
        if self._is_full != self.line.is_full(now, before=self._is_full):
            self._is_full = not self._is_full
            self._resumed = (now + READ_AT_ONCE, self.line.room_time())
            self._link.update_reading()
        at, room_at = self.line.next_time(), self.line.room_time()
        if self._is_full and room_at > now:
            at = room_at if at is None else min(at, room_at)
        if at is not None:
            self._timer = self._link.loop.call_at(at, self.pump)

    def clear(self) -> int:
        """Discard everything in the direction's line (queue), so that it has room for the bytes of new connections.
        Return the number of discarded bytes.
        """
        _cancel(self._timer)
        self._is_full = False
        return self.line.clear(self._link.loop.time())


MOST_HAPPENINGS = 10_000
"""The limit of a history's entries. Beyond it the oldest ones are removed."""


class Link:
    """A TCP proxy between two nodes, with a limited rate and a delay. The target (the reading node) connects to the
    proxy's port, and the proxy connects to the source. Tests can cut or silence the link.
    """

    def __init__(self, name: str, address: tuple[str, int], shape: LinkShape) -> None:
        """Open the link ``name`` in the running event loop. Raises LinkError for an invalid shape.

        ``address`` is the host and port of the source. ``shape`` has the rate, delay, jitter and scheduled outages.
        """
        _check(shape)
        self.loop = asyncio.get_running_loop()
        self.address = address
        self._wall = time.time() - self.loop.time()
        self.shape = shape
        random = Random(name)
        self._happenings: deque[Happening] = deque(maxlen=MOST_HAPPENINGS)
        self.down = _Direction(self, Line(shape, random))
        self.up = _Direction(self, Line(shape, random))
        self._directions = (self.down, self.up)
        self.connections: set[_Connection] = set()
        self._accepted = 0
        """The number of connections that the link has accepted since it was opened."""
        self.lost = 0
        self.passes = asyncio.Event()
        """Set while the link is up, so that bytes pass. During a cut there are no connections that wait for it."""
        self.passes.set()
        self._fault: LinkState = "up"
        """The state of the link apart from scheduled outages."""
        self._is_scheduled_out = False
        self._silent_since = 0.0
        self._end_of_fault: asyncio.TimerHandle | None = None
        self._schedule: list[asyncio.TimerHandle] = []
        self._listener: socket.socket | None = None
        self._keeper = _bind()
        self.port: int = self._keeper.getsockname()[1]
        self.note("opened", f"to {address[0]}:{address[1]} {shape}")
        self._listen()
        self._begin_schedule()

    @property
    def state(self) -> LinkState:
        """The link's state. ``cut`` is also the state during a scheduled outage."""
        return "cut" if self._is_scheduled_out else self._fault

    def counters(self) -> Counters:
        """Return the link's state, its bytes (passed in each direction, lost, and waiting) and its connections, all
        counted since the link was opened.
        """
        passed = self.down.passed, self.up.passed
        held = self.down.line.held + self.up.line.held
        return Counters(self.state, *passed, self.lost, held, self._accepted, len(self.connections))

    def history(self) -> tuple[Happening, ...]:
        """Return the latest events of the link, oldest first: changes of its shape, cuts, silences and connections.
        There are at most ``MOST_HAPPENINGS``.
        """
        return tuple(self._happenings)

    def set(self, shape: LinkShape) -> None:
        """Change the rate, delay, jitter and scheduled outages of the link.

        The times of outages count from now on, unless the link has the same outages already. Raises LinkError for
        values that no link can have, such as a negative delay.
        """
        _check(shape)
        if shape != self.shape:
            self.note("shape", str(shape))
        has_other_outages = shape.outages != self.shape.outages
        self.shape = shape
        size = _receive_buffer(shape)
        if size is not None:
            for connection in self.connections:
                connection.set_option(socket.SO_RCVBUF, size)
        for direction in self._directions:
            direction.line.change(self.loop.time(), shape)
        if has_other_outages:
            self._begin_schedule()
        for direction in self._directions:
            direction.pump()

    def retarget(self, address: tuple[str, int]) -> None:
        """Let the proxy connect new connections to another address (host and port), at which the source listens now.
        Open connections stay.
        """
        self.address = address
        self.note("shape", f"to {address[0]}:{address[1]}")

    def cut(self, seconds: float | None = None) -> None:
        """Cut the link: reset all its connections, and refuse new ones. The cut lasts for ``seconds``; None: until
        :meth:`heal` is called.

        The new cut replaces an earlier cut or silence, and cancels a cut that :meth:`cut_after` planned. Raises
        LinkError for a negative number of seconds.
        """
        self._fail("cut", "cut", seconds)

    def cut_after(self, count: int, seconds: float | None = None) -> None:
        """Cut the link when ``count`` more bytes have reached the target, the node that reads through the link.

        A cut resets all connections and refuses new ones. The cut lasts for ``seconds``; None: until :meth:`heal` is
        called. If the link is cut or silent for a time now, this earlier fault still ends at its own time. Raises
        LinkError for a negative number of bytes or seconds.
        """
        if count < 0:
            raise LinkError(f"cut after {count} bytes: the number must be 0 or more")
        _length_of(seconds)
        self.down.limit = count
        self._cut_seconds = seconds
        self.down.pump()

    def cut_when_flushed(self) -> None:
        """Cut the link now that all bytes before a planned cut (:meth:`cut_after`) have been delivered. Without such a
        plan nothing happens.

        The cut waits until the operating system of the target (the reading node) has acknowledged these bytes.
        """
        if self.down.limit > 0:
            return
        if any(connection.unsent() for connection in self.connections):
            self.loop.call_later(FLUSH_INTERVAL, self.cut_when_flushed)
            return
        self.cut(self._cut_seconds)

    def silence(self, seconds: float | None = None) -> None:
        """Let no byte pass over the link for ``seconds``, but keep its connections open. With None the silence lasts
        until :meth:`heal` is called. Afterwards the bytes that were under way are delivered, and new connections reach
        the source.

        A later cut or scheduled outage ends the silence, resets the connections, and discards the bytes under way.
        A present scheduled outage lasts to its end. Raises LinkError for a negative number of seconds.
        """
        self._fail("silent", "silenced", seconds)

    def reset(self) -> None:
        """Reset all open TCP connections of the link, and discard the bytes under way. The link's state stays. A link
        that is up accepts new connections at once.
        """
        self.note("reset")
        self._reset_connections()

    def heal(self) -> None:
        """End a cut, a silence or a present scheduled outage of the link, and cancel a cut that :meth:`cut_after`
        planned. Later scheduled outages still take place.
        """
        self._forget_plans()
        self._change("up", is_scheduled_out=False)

    def update_reading(self) -> None:
        """Start or stop reading both sockets of each connection, as the link's state and free space allow."""
        for connection in self.connections:
            connection.up.update_reading()
            connection.down.update_reading()

    def note(self, kind: str, detail: str = "") -> None:
        """Add an entry to the link's history. ``kind`` is an event such as ``cut``, and ``detail`` a text about it. The
        entry's time of day is by a clock that never jumps.
        """
        self._happenings.append(Happening(self._wall + self.loop.time(), kind, detail))

    def _forget_plans(self) -> None:
        self.down.limit = UNLIMITED
        _cancel(self._end_of_fault)

    def _fail(self, fault: LinkState, kind: str, seconds: float | None) -> None:
        """Begin the fault ``fault`` (``cut`` or ``silent``) of the link, in place of an earlier or planned one. The
        fault ends by itself after ``seconds``; None: when the link is healed. Raises LinkError for a negative number of
        seconds.

        ``kind`` is the name of the event in the link's history.
        """
        length = _length_of(seconds)
        self._forget_plans()
        self.note(kind, length)
        self._change(fault)
        if seconds is not None:
            self._end_of_fault = self.loop.call_later(seconds, self._change, "up")

    def _change(self, fault: LinkState, *, is_scheduled_out: bool | None = None) -> None:
        """Set the link's fault (``cut``, ``silent``, or ``up`` for none), and apply the link's new state to its
        connections.

        ``is_scheduled_out`` says whether a scheduled outage lasts from now on; None: as before. During a scheduled
        outage the link's state is ``cut``, whatever the fault is.
        """
        before, self._fault = self.state, fault
        if is_scheduled_out is not None:
            self._is_scheduled_out = is_scheduled_out
        if self.state == "cut":
            self._stop_listening()
            self._reset_connections()
            return
        if before == "silent" and self.state == "up":
            for direction in self._directions:
                direction.line.shift(self.loop.time() - self._silent_since)
        if before != self.state == "up":
            self.note("healed")
        elif before != self.state:
            self._silent_since = self.loop.time()
        (self.passes.set if self.state == "up" else self.passes.clear)()
        self._listen()
        self.update_reading()
        for direction in self._directions:
            direction.pump()

    def _begin_schedule(self) -> None:
        for timer in self._schedule:
            timer.cancel()
        begin = self.loop.time()
        times = {at for one in self.shape.outages for at in (one.start, one.end) if at}
        self._schedule = [self.loop.call_at(begin + at, self._follow_schedule, at) for at in times]
        self._follow_schedule(0.0)

    def _follow_schedule(self, elapsed: float) -> None:
        """Begin the scheduled outage of the link that is due now, or end the present one.

        ``elapsed`` is the time since the link got its outages, seconds.
        """
        is_out = self.shape.is_down(elapsed)
        if is_out != self._is_scheduled_out:
            if is_out:
                self.note("cut", "as scheduled")
            # The begin of an outage ends a silence, whose connections it resets.
            self._change("up" if is_out and self._fault == "silent" else self._fault, is_scheduled_out=is_out)

    def _reset_connections(self) -> None:
        for connection in tuple(self.connections):
            connection.close()
        for direction in self._directions:
            self.lost += direction.clear()

    def _listen(self) -> None:
        if self._listener is None:
            self._listener = _bind(self.port)
            _prepare(self._listener, self.shape)
            self._listener.listen(BACKLOG)
            self._accepting = self.loop.create_task(self._accept(self._listener))

    def _stop_listening(self) -> None:
        if self._listener is not None:
            self._accepting.cancel()
            self.loop.remove_reader(self._listener)
            self._listener.close()
            self._listener = None

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

    A slow line hands over a message in pieces, each at its time. Nagle's algorithm would hold back the later ones until
    the receiver's delayed acknowledgement. asyncio does not turn it off for accepted sockets of an unnamed protocol.
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


def _check(shape: LinkShape) -> None:
    """Raise LinkError for a shape (rate, delay, jitter and outages) with a value that no link can have."""
    if shape.rate is not None and shape.rate <= 0:
        raise LinkError(f"rate {shape.rate}: give bits per second above 0, or no rate; `cut` stops a link")
    if not (0 <= shape.delay <= MOST_SECONDS and 0 <= shape.jitter <= MOST_SECONDS):
        what = f"give seconds, 0 or more, and at most {MOST_SECONDS}"
        raise LinkError(f"delay {shape.delay}, jitter {shape.jitter}: {what}")
    for outage in shape.outages:
        if outage.start < 0 or (outage.end is not None and outage.end <= outage.start):
            raise LinkError(
                f"outage from {outage.start} s to {outage.end} s: the end must be after the start"
            )


# -- the process of the links

PARENT_INTERVAL = 1.0
"""The interval at which the process checks that its parent runs, seconds. A closed socket is not enough: a fork of the
parent may keep it open.
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
            except LinkError as error:
                found = error
            except Exception as error:
                # Without an answer the caller would wait for a minute, and then kill this process with all its links.
                found = LinkError(f"{request!r}: {error!r}")
            caller.send(found)
    watch.cancel()


def _result_of(links: dict[str, Link], name: str | None, method: str, *arguments: Any) -> Any:
    if name is None:
        return {each: getattr(link, method)() for each, link in links.items()}
    if method == "open":
        if name in links:
            raise LinkError(f"there is a link {name} already; give the new one another name")
        links[name] = Link(name, *arguments)
        return links[name].port
    if name not in links:
        raise LinkError(f"there is no link {name}; the links are {', '.join(sorted(links)) or 'none'}")
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
