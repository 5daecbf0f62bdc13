"""Links as TCP proxies. A link listens on a port, and passes bytes to and from a source with its rate and faults."""

from __future__ import annotations

import asyncio
import socket
import time
from collections.abc import Callable
from random import Random

from dumpfilter.base.errors import LinkError
from dumpfilter.topology.links.connection import Connection, End, prepare, receive_buffer
from dumpfilter.topology.links.line import Line, Mark
from dumpfilter.topology.links.records import Counters, History, Journal, State
from dumpfilter.topology.links.shape import LinkShape

BACKLOG = 128
"""The backlog of the listening socket: the connections that may wait for being accepted."""

ACCEPT_RETRY = 0.1
"""The time after which a link accepts again when the system had no resources for a connection, seconds."""

READ_AT_ONCE = 0.002
"""The time after reading was resumed within which read bytes count as having waited in the socket, seconds."""

FLUSH_INTERVAL = 0.001
"""The interval at which a link that is to be cut checks whether the last bytes before the cut have been acknowledged,
seconds.
"""


class _Timer:
    """A timer of the event loop, which makes at most one call at a later time."""

    def __init__(self, loop: asyncio.AbstractEventLoop) -> None:
        self._loop = loop
        self._handle: asyncio.TimerHandle | None = None

    def set(self, time: float, call: Callable[..., None], *arguments: object) -> None:
        """Call a function at the time ``time`` of the event loop's clock. An earlier call that was set is cancelled."""
        self.stop()
        self._handle = self._loop.call_at(time, call, *arguments)

    def stop(self) -> None:
        """Cancel the call. Without a call nothing happens."""
        if self._handle is not None:
            self._handle.cancel()
            self._handle = None


class _Direction:
    """One direction of a link: the line (queue), the timer that empties it, and the number of bytes that it passed."""

    def __init__(self, link: Link, line: Line[End], count: Callable[[float, int], None]) -> None:
        self._link = link
        self.line = line
        self._count = count
        self.timer = _Timer(link.loop)
        self.passed = 0
        """The bytes that have come out for a socket that was there."""
        self._is_full = False
        self._resumed = (0.0, 0.0)
        """The time until which bytes are taken for bytes that have waited, and the time since which they waited."""
        self.limit: int | None = None
        """The bytes that still may pass before the link is cut."""

    @property
    def is_open(self) -> bool:
        """Whether the direction accepts bytes now, which it does not while it is full or the link is silenced."""
        return not self._is_full and self._link.passes

    def room(self) -> int:
        """Return the number of bytes that the direction accepts now."""
        return self.line.room(self._link.loop.time())

    def take(self, receiver: End, data: bytes, mark: Mark = Mark.BYTES) -> None:
        """Put bytes, or a mark (end or reset of the stream), into the line for the socket ``receiver``."""
        now = self._link.loop.time()
        until, since = self._resumed
        self.line.push(now, receiver, data, mark, since=since if now <= until else None)
        if not self._is_full and self.line.is_full(now):
            self._is_full = True
            self._link.update_reading()
        self.pump()

    def pump(self) -> None:
        """Deliver the bytes that have come out of the line, and set the timer for the next ones."""
        self.timer.stop()
        if not self._link.passes:
            return
        now = self._link.loop.time()
        passed = 0
        for delivery in self.line.pop(now, self.limit):
            count = len(delivery.data)
            if delivery.receiver.deliver(delivery):
                passed += count
            else:
                self._link.lost += count
        if passed:
            self.passed += passed
            self._count(self._link.wall_time(), passed)
            if self.limit is not None:
                self.limit -= passed
        if self.limit == 0:
            self._link.cut_when_flushed()
            return
        if self._is_full and self.line.has_much_room(now):
            self._is_full = False
            self._resumed = (now + READ_AT_ONCE, self.line.room_time())
            self._link.update_reading()
        times = [at for at in (self.line.next_time(), self._room_time(now)) if at is not None]
        if times:
            self.timer.set(min(times), self.pump)

    def clear(self) -> int:
        """Discard everything in the line, so that it has room for the bytes of new connections. Return the number of
        discarded bytes.
        """
        self.timer.stop()
        self._is_full = False
        return self.line.clear(self._link.loop.time())

    def _room_time(self, now: float) -> float | None:
        at = self.line.room_time()
        return at if self._is_full and at > now else None


class Link:
    """A link between two nodes: its port, its connections, its shape (rate, delay, outages) and its faults."""

    def __init__(self, name: str, address: tuple[str, int], shape: LinkShape, port: int = 0) -> None:
        """Open a link in the running event loop. Raises LinkError for an invalid shape and for a port that is taken."""
        _check(shape)
        self.name = name
        self.loop = asyncio.get_running_loop()
        self.address = address
        self._wall = time.time() - self.loop.time()
        self._shape = shape
        random = Random(name)
        self._journal = journal = Journal()
        self._down = _Direction(self, Line(shape, random), lambda time, count: journal.count(time, count, 0))
        self._up = _Direction(self, Line(shape, random), lambda time, count: journal.count(time, 0, count))
        self._connections: set[Connection] = set()
        self._tasks: set[asyncio.Task[None]] = set()
        self._accepted = 0
        """The connections that were ever accepted."""
        self.lost = 0
        self._is_cut = False
        self._is_scheduled_out = False
        self._silent_since: float | None = None
        self._end_of_fault = _Timer(self.loop)
        self._schedule_timer = _Timer(self.loop)
        self._accept_timer = _Timer(self.loop)
        self._listener: socket.socket | None = None
        self._keeper = _bind(port)
        self.port: int = self._keeper.getsockname()[1]
        self._note("opened", f"to {address[0]}:{address[1]}, {_describe(shape)}")
        self._listen()
        self._begin_schedule()

    @property
    def passes(self) -> bool:
        """Whether bytes pass at present, which they do unless the link is silenced."""
        return self._silent_since is None

    @property
    def state(self) -> State:
        """The link's state: ``up``, ``cut`` (also during a scheduled outage) or ``silent``."""
        if self._is_cut or self._is_scheduled_out:
            return "cut"
        return "up" if self.passes else "silent"

    def counters(self) -> Counters:
        """Return the number of bytes and connections since the link was opened, and its state."""
        waiting = self._down.line.held + self._up.line.held
        return Counters(
            self.state,
            self._down.passed,
            self._up.passed,
            self.lost,
            waiting,
            self._accepted,
            len(self._connections),
        )

    def history(self) -> History:
        """Return the latest changes and faults of the link, and its bytes over time."""
        return self._journal.history()

    def set(self, shape: LinkShape) -> None:
        """Change the rate, delay, jitter and scheduled outages of the link.

        The times of outages count from now on. Raises LinkError for values that no link can have.
        """
        _check(shape)
        now = self.loop.time()
        if shape != self._shape or shape.outages:
            self._note("shape", _describe(shape))
        self._shape = shape
        for direction in (self._down, self._up):
            direction.line.change(now, shape)
        size = receive_buffer(shape)
        if size is not None:
            for connection in self._connections:
                for end in connection.ends:
                    end.set_receive_buffer(size)
        self._begin_schedule()
        for direction in (self._down, self._up):
            direction.pump()

    def retarget(self, address: tuple[str, int]) -> None:
        """Connect new connections to another address (host and port) of the source. Open connections stay."""
        self.address = address
        self._note("shape", f"to {address[0]}:{address[1]}")

    def cut(self, seconds: float | None = None) -> None:
        """Reset all connections and refuse new ones, for ``seconds``; None: until :meth:`heal`."""
        length = _length_of(seconds)
        self._forget_plans()
        self._is_cut = True
        self._go_down("cut", length)
        self._heal_after(seconds)

    def cut_after(self, count: int, seconds: float | None = None) -> None:
        """Cut the link when ``count`` more bytes have reached the target.

        The cut lasts for ``seconds``; None: until :meth:`heal`. A cut or a silence that has an end still ends at its
        time. Raises LinkError for a negative number.
        """
        if count < 0:
            raise LinkError(f"cut after {count} bytes: the number must be 0 or more")
        _length_of(seconds)
        self._down.limit = count
        self._cut_seconds = seconds
        self._down.pump()

    def cut_when_flushed(self) -> None:
        """Carry out the cut that :meth:`cut_after` planned, if there is one.

        The cut waits until the target's system has acknowledged all delivered bytes.
        """
        if self._down.limit is None:
            return
        if any(connection.target.unsent() for connection in self._connections):
            self.loop.call_later(FLUSH_INTERVAL, self.cut_when_flushed)
            return
        self.cut(self._cut_seconds)

    def silence(self, seconds: float | None = None) -> None:
        """Hold back all bytes but keep the connections open, for ``seconds``; None: until :meth:`heal`."""
        length = _length_of(seconds)
        self._forget_plans()
        if self._silent_since is None:
            self._silent_since = self.loop.time()
        self._note("silenced", length)
        self.update_reading()
        self._heal_after(seconds)

    def reset(self) -> None:
        """Reset all connections. New connections are accepted at once."""
        self._note("reset")
        self._reset_connections()

    def heal(self) -> None:
        """End a cut, a silence or a scheduled outage, and cancel a cut that :meth:`cut_after` planned."""
        self._forget_plans()
        was_up = self.state == "up"
        self._is_cut = self._is_scheduled_out = False
        self._come_up(is_news=not was_up)

    def close(self) -> None:
        """Reset all connections, and release the port."""
        self._forget_plans()
        self._schedule_timer.stop()
        self._stop_listening()
        self._reset_connections()
        self._keeper.close()

    def update_reading(self) -> None:
        """Start or stop reading from each socket. A socket is read only while link and peer accept its bytes."""
        for connection in tuple(self._connections):
            connection.update_reading()

    def wall_time(self) -> float:
        """Return the time of day for the history, seconds since 1970, by a clock that never jumps."""
        return self._wall + self.loop.time()

    def _note(self, kind: str, detail: str = "") -> None:
        self._journal.note(self.wall_time(), kind, detail)

    def _forget_plans(self) -> None:
        self._down.limit = None
        self._end_of_fault.stop()

    def _heal_after(self, seconds: float | None) -> None:
        if seconds is not None:
            self._end_of_fault.set(self.loop.time() + seconds, self._end_fault)

    def _end_fault(self) -> None:
        """End a cut or a silence whose time is over. A scheduled outage goes on."""
        self._is_cut = False
        self._come_up()

    def _begin_schedule(self) -> None:
        self._schedule_timer.stop()
        self._schedule_begin = self.loop.time()
        self._follow_schedule(0.0)

    def _follow_schedule(self, elapsed: float) -> None:
        was_out, self._is_scheduled_out = self._is_scheduled_out, self._shape.is_down(elapsed)
        if self._is_scheduled_out and not was_out:
            self._go_down("cut", "as scheduled")
        elif was_out:
            self._come_up()
        after = self._shape.next_change(elapsed)
        if after is not None:
            self._schedule_timer.set(self._schedule_begin + after, self._follow_schedule, after)

    def _go_down(self, kind: str, detail: str) -> None:
        self._note(kind, detail)
        self._silent_since = None
        self._stop_listening()
        self._reset_connections()

    def _come_up(self, *, is_news: bool = True) -> None:
        """Accept connections and pass bytes again, unless another fault lasts.

        With ``is_news`` the history gets an entry ``healed``.
        """
        if self._silent_since is not None:
            silent = self.loop.time() - self._silent_since
            self._silent_since = None
            for direction in (self._down, self._up):
                direction.line.shift(silent)
        if self._is_cut or self._is_scheduled_out:
            return
        if is_news:
            self._note("healed")
        self._listen()
        self.update_reading()
        for direction in (self._down, self._up):
            direction.pump()

    def _reset_connections(self) -> None:
        for task in self._tasks:
            task.cancel()
        for connection in tuple(self._connections):
            connection.reset()
        for direction in (self._down, self._up):
            self.lost += direction.clear()

    def _listen(self) -> None:
        if self._listener is None:
            self._listener = _bind(self.port)
            prepare(self._listener, self._shape)
            self._listener.listen(BACKLOG)
            self._await_connections()

    def _await_connections(self) -> None:
        assert self._listener is not None
        self.loop.add_reader(self._listener, self._accept)

    def _stop_listening(self) -> None:
        if self._listener is not None:
            self._accept_timer.stop()
            self.loop.remove_reader(self._listener)
            self._listener.close()
            self._listener = None

    def _accept(self) -> None:
        assert self._listener is not None
        try:
            accepted, _ = self._listener.accept()
        except OSError:
            # The connection ended before it was accepted, or the process has no file descriptor left for it. In the
            # latter case the connection stays in the backlog, and the loop would find it again at once.
            self.loop.remove_reader(self._listener)
            self._accept_timer.set(self.loop.time() + ACCEPT_RETRY, self._await_connections)
            return
        accepted.setblocking(False)
        self._accepted += 1
        self._note("connected")
        connection = Connection(accepted, self._down, self._up, self._connection_ended)
        self._connections.add(connection)
        task = self.loop.create_task(self._run(connection))
        self._tasks.add(task)
        task.add_done_callback(self._tasks.discard)

    async def _run(self, connection: Connection) -> None:
        try:
            await connection.run(*self.address, self._shape)
        except OSError as error:
            self._note("failed", f"{self.address[0]}:{self.address[1]}: {error}")
            connection.reset()

    def _connection_ended(self, connection: Connection) -> None:
        if connection in self._connections:
            self._connections.discard(connection)
            self._note("ended")


def _length_of(seconds: float | None) -> str:
    """Return the length of a fault as text for the history. It is empty for a fault without an end.

    Raises LinkError, before the fault begins, for a length that is no number of seconds.
    """
    if seconds is None:
        return ""
    if not isinstance(seconds, int | float) or not seconds >= 0:
        raise LinkError(f"{seconds!r} is no length of a fault: give seconds, as a number of 0 or more")
    return f"for {seconds:g} s"


def _bind(port: int) -> socket.socket:
    """Return a TCP socket that is bound to a port of 127.0.0.1 (0: any free one), but does not listen.

    Two sockets of a link share its port: one keeps the port, and the other one listens. So the port stays the link's
    while the link is cut and the system refuses connections. Raises LinkError.
    """
    sock = socket.socket()
    try:
        sock.setblocking(False)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        sock.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEPORT, 1)
        sock.bind(("127.0.0.1", port))
    except OSError as error:
        sock.close()
        raise LinkError(
            f"port {port} of 127.0.0.1 cannot be had: {error.strerror}; choose another one"
        ) from error
    return sock


def _describe(shape: LinkShape) -> str:
    parts = [f"rate {shape.rate} bit/s" if shape.rate is not None else "no rate"]
    if shape.delay:
        parts.append(f"delay {shape.delay * 1e3:g} ms")
    if shape.jitter:
        parts.append(f"jitter {shape.jitter * 1e3:g} ms")
    if shape.outages:
        parts.append(f"{len(shape.outages)} outages")
    return ", ".join(parts)


def _check(shape: LinkShape) -> None:
    """Raise LinkError for a shape with a rate, delay, jitter or outage that no link can have."""
    if shape.rate is not None and shape.rate <= 0:
        raise LinkError(f"rate {shape.rate}: give bits per second above 0, or no rate; `cut` stops a link")
    if shape.delay < 0 or shape.jitter < 0:
        raise LinkError(f"delay {shape.delay}, jitter {shape.jitter}: give seconds, 0 or more")
    for outage in shape.outages:
        if outage.start < 0 or (outage.end is not None and outage.end <= outage.start):
            raise LinkError(
                f"outage from {outage.start} s to {outage.end} s: the end must be after the start"
            )
