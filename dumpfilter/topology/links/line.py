"""One direction of a link, without sockets and clocks: bytes go in, and come out later.

A line is first in, first out. A byte enters the wire when all earlier bytes have left it, and the wire passes ``rate``
bits per second. That is a token bucket with room for one token: an idle line saves nothing up. A byte comes out
``delay`` seconds after it has left the wire, give or take the jitter. In a formula, the message ``i`` of ``n`` bytes
that arrives at ``a`` leaves the wire at ``w[i] = max(a, w[i-1]) + 8 * n / rate``. It comes out at ``w[i] + delay``.
:mod:`dumpfilter.simulation` uses the same formula.

All times are seconds of one clock that never runs backwards.
"""

from __future__ import annotations

import sys
from collections import deque
from dataclasses import dataclass, replace
from enum import Enum
from itertools import groupby
from random import Random
from typing import Generic, TypeVar

from dumpfilter.topology.links.shape import LinkShape

WINDOW = 0.1
"""The limit of the time for which accepted bytes wait for a slow line, seconds. Further bytes are not read from the
sender's socket.
"""

MOST_HELD = 64 << 20
"""The limit of the bytes in a line. A line whose rate times delay is more is slower than its rate."""

FULL = 0.75
"""The fraction of ``WINDOW`` at which a line counts as full, so that the senders' sockets are no longer read. Reading
for every free byte would cost a whole processor.
"""

MUCH_ROOM = 1 << 20
"""The number of free bytes below ``MOST_HELD`` under which a line counts as full. A full line accepts bytes again when
twice as many are free.
"""

PIECE = 0.002
"""The limit of the time for which one piece of data occupies the wire, seconds. All bytes of a piece come out together,
when the last of them has arrived. Shorter pieces cost processor time.
"""

BITS = 8


class Mark(Enum):
    """A kind of entry in a :class:`Line` (the queue of one direction of a link).

    ``BYTES`` are bytes of a connection. ``END`` (end of the TCP stream) and ``RESET`` (TCP reset) have no bytes, and
    wait in the queue like bytes.
    """

    BYTES = "bytes"
    END = "end"
    RESET = "reset"


Receiver = TypeVar("Receiver")


@dataclass
class _Piece(Generic[Receiver]):
    """One entry in the queue of one direction of a link: some of the bytes that were put in together, or a mark (end or
    reset of the stream).
    """

    due: float
    """The time at which the piece comes out, seconds of the line's clock."""
    receiver: Receiver
    mark: Mark
    data: bytes


class Line(Generic[Receiver]):
    """One direction of a link (a proxy between two nodes): a queue of bytes with the link's rate and delay, which all
    connections of the link share.

    The caller puts bytes in, and takes them out when they have arrived. Times are seconds of a clock that never runs
    backwards.
    """

    def __init__(self, shape: LinkShape, random: Random) -> None:
        self._shape = shape
        self._random = random
        self._pieces: deque[_Piece[Receiver]] = deque()
        self.held = 0
        """The number of bytes in the line: those that were put in and have not been taken out."""
        self._wire_free = 0.0
        """The time at which the last accepted byte has left the wire."""
        self._last_out = 0.0
        """The time at which the last accepted byte comes out."""

    def room(self, now: float) -> int:
        """Return how many more bytes may be put into the line (queue of one direction of a link) at the time ``now``.
        The limit keeps the wait of bytes for the wire short.

        The result is 0 or negative for a full line. An idle line accepts at least 1 byte, even if its rate is low.
        """
        room = MOST_HELD - self.held
        rate = self._shape.rate
        if rate is None:
            return room
        waiting = max(0.0, self._wire_free - now) * rate / BITS
        return min(room, int(max(1.0, WINDOW * rate / BITS) - waiting))

    def is_full(self, now: float, *, before: bool) -> bool:
        """Tell whether so many bytes wait in the line (queue of one direction of a link) at the time ``now`` that the
        caller should stop reading the senders' sockets.

        ``before`` is the result of the last call. A line becomes full at ``FULL`` of the time ``WINDOW``, or when few
        bytes are free. It stays full until only half of ``WINDOW`` is used and twice as many bytes are free.
        """
        free = MOST_HELD - self.held
        if before:
            return self.room_time() > now or free < 2 * MUCH_ROOM
        return self._wire_free - now > FULL * WINDOW or free < MUCH_ROOM

    def room_time(self) -> float:
        """Return the time from which on the caller may read from the senders' sockets again, after the line (queue) was
        full.

        The wire then needs only half of ``WINDOW`` for the bytes that wait. ``WINDOW`` is the longest time for which
        accepted bytes may wait, seconds.
        """
        return self._wire_free - WINDOW / 2

    def push(
        self,
        now: float,
        receiver: Receiver,
        data: bytes,
        mark: Mark = Mark.BYTES,
        *,
        since: float | None = None,
    ) -> None:
        """Put ``data``, bytes for ``receiver``, into the line (queue of one direction of a link) at the time ``now``.
        With the mark ``END`` or ``RESET`` the end or the reset of a stream is put in, without bytes.

        ``since`` is an earlier time since which the bytes have waited, because the line was full; None: they have not
        waited. The line then sends the bytes as if it had accepted them at ``since``. So a process that reads late does
        not slow the line.
        """
        rate, delay = self._shape.rate, self._shape.delay
        begin = max(self._wire_free, now if since is None else min(now, since))
        if self._shape.jitter:
            delay = max(0.0, delay + self._random.uniform(-self._shape.jitter, self._shape.jitter))
        step = max(1, len(data) if rate is None else int(PIECE * rate / BITS))
        for start in range(0, max(len(data), 1), step):
            piece = data[start : start + step]
            self._wire_free = begin + (0.0 if rate is None else (start + len(piece)) * BITS / rate)
            self._last_out = max(self._last_out, self._wire_free + delay)
            self._pieces.append(_Piece(self._last_out, receiver, mark, piece))
        self.held += len(data)

    def pop(self, now: float, limit: int = sys.maxsize) -> list[tuple[Receiver, Mark, bytes]]:
        """Remove and return the bytes, ends and resets of streams that have come out of the line (queue of one
        direction of a link) by the time ``now``.

        The result is a list of tuples in order: the receiver, the kind of the entry, and its bytes (empty for an end or
        a reset). All entries have at most ``limit`` bytes together. With the limit 0 the list is empty.
        """
        taken: list[_Piece[Receiver]] = []
        while self._pieces and self._pieces[0].due <= now and limit > 0:
            piece = self._pieces.popleft()
            if len(piece.data) > limit:
                self._pieces.appendleft(replace(piece, data=piece.data[limit:]))
                piece.data = piece.data[:limit]
            limit -= len(piece.data)
            self.held -= len(piece.data)
            taken.append(piece)
        together = groupby(taken, lambda piece: (piece.receiver, piece.mark))
        return [(*key, b"".join(piece.data for piece in pieces)) for key, pieces in together]

    def next_time(self) -> float | None:
        """Return the earliest time at which :meth:`pop` should be called again, because an entry of the line (queue)
        will have arrived by then. None if the line is empty.
        """
        return self._pieces[0].due if self._pieces else None

    def change(self, now: float, shape: LinkShape) -> None:
        """Change the rate, delay and jitter of the line (one direction of a link) to those of ``shape``, at the time
        ``now``.

        A shorter delay applies to the bytes in the line, too. A new rate applies to later bytes only.
        """
        sooner = self._shape.delay - shape.delay
        if sooner > 0:
            for piece in self._pieces:
                piece.due = max(min(now, piece.due), piece.due - sooner)
            self._last_out = max(min(now, self._last_out), self._last_out - sooner)
        self._shape = shape

    def shift(self, seconds: float) -> None:
        """Delay everything in the line (queue of one direction of a link) by ``seconds``. The link calls this after it
        has passed nothing for that time.
        """
        for piece in self._pieces:
            piece.due += seconds
        self._last_out += seconds
        self._wire_free += seconds

    def clear(self, now: float) -> int:
        """Discard all bytes that are in the line (queue) at the time ``now``, and return their number."""
        lost, self.held = self.held, 0
        self._pieces.clear()
        self._wire_free = self._last_out = now
        return lost
