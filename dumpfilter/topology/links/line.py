"""One direction of a link, without sockets and clocks: when bytes that go in come out.

A line is first in, first out. A byte enters the wire when all earlier bytes have left it, and the wire passes ``rate``
bits per second. That is a token bucket with room for one token: an idle line saves nothing up. A byte comes out
``delay`` seconds after it has left the wire, give or take the jitter. In a formula, the message ``i`` of ``n`` bytes
that arrives at ``a`` leaves the wire at ``w[i] = max(a, w[i-1]) + 8 * n / rate``. It comes out at ``w[i] + delay``.
:mod:`dumpfilter.simulation` uses the same formula.

All times are seconds of one clock that never runs backwards.
"""

from __future__ import annotations

import math
import sys
from random import Random

from dumpfilter.topology.links.shape import LinkShape

WINDOW = 0.1
"""The limit of the time for which accepted bytes wait for a slow line (one direction of a link), seconds. Further bytes
are not read from the sender's socket.
"""

MOST_HELD = 64 << 20
"""The limit of the bytes in a line (one direction of a link). A line that would hold more at its full rate (rate times
delay) does not reach that rate.
"""

FULL = 0.75
"""The fraction of ``WINDOW`` (the longest wait) at which a line, one direction of a link, counts as full. The senders'
sockets are then no longer read. Reading for every free byte would cost a whole processor.
"""

READ_AT_ONCE = 0.002
"""The time for which new bytes count as having waited in the senders' sockets, after a full line (one direction of a
link) accepts bytes again, seconds.
"""

PIECE = 0.002
"""The limit of the time for which one piece of data occupies the wire, seconds. All bytes of a piece come out together,
when the last of them has arrived. Shorter pieces cost processor time.
"""

UNLIMITED = sys.maxsize
"""The number of bytes that may pass a link for which no cut is planned."""

BITS = 8


class Line:
    """One direction of a link (a proxy between two nodes): the rate and delay that all connections of the link share.

    The caller puts bytes in, and learns when they come out. Times are seconds of a clock that never runs backwards.
    """

    def __init__(self, shape: LinkShape, random: Random) -> None:
        self.shape = shape
        self._random = random
        self.held = 0
        """The number of bytes in this line (one direction of a link). The caller subtracts the bytes that it has
        delivered or discarded.
        """
        self.passed = 0
        """The number of bytes from this line that the caller has delivered to open connections."""
        self.limit = UNLIMITED
        """The bytes that still may pass before the link is cut."""
        self.reads_at = 0.0
        """The time from which on the line (one direction of a link) accepts bytes. Until then the line is full. 0: the
        line was not full.
        """
        self.resumed_at = -math.inf
        """The time at which the caller reads the senders' sockets again after the line (one direction of a link) was
        full. The bytes that are put in until ``READ_AT_ONCE`` seconds later are sent as if the line had accepted them
        at ``reads_at``. So a process that reads late does not slow the line.
        """
        self._wire_free = 0.0
        """The time at which the last accepted byte has left the wire."""
        self._last_out = 0.0
        """The time at which the last accepted byte comes out, if the delay stays."""
        self.sooner = 0.0
        """The seconds by which bytes come out sooner than :meth:`push` said, since the delay has become shorter."""

    def room(self, now: float) -> int:
        """Return how many more bytes may be put into the line (one direction of a link) at the time ``now``. The limit
        keeps the time short for which bytes wait to be sent at the link's rate. The result is at least 1, even if the
        rate is low.
        """
        room = MOST_HELD - self.held
        rate = self.shape.rate
        if rate is not None:
            waiting = max(0.0, self._wire_free - now) * rate / BITS
            room = min(room, int(WINDOW * rate / BITS - waiting))
        return max(1, room)

    def push(self, now: float, data: bytes) -> list[tuple[float, bytes]]:
        """Put bytes into the line, one direction of a link (network connection of two nodes), at the time ``now``.
        Return the bytes in pieces, each with the time at which the piece arrives at the other end.

        If the delay becomes shorter later, a piece arrives earlier than at its time. :attr:`sooner` then has the
        seconds to subtract. Without bytes the result is one empty piece, with which a caller can mark the end of a
        stream.
        """
        rate, delay = self.shape.rate, self.shape.delay
        has_waited = self.reads_at > 0 and now <= self.resumed_at + READ_AT_ONCE
        begin = max(self._wire_free, min(now, self.reads_at) if has_waited else now)
        if self.shape.jitter:
            delay = max(0.0, delay + self._random.uniform(-self.shape.jitter, self.shape.jitter))
        step = max(1, len(data) if rate is None else int(PIECE * rate / BITS))
        pieces = []
        for start in range(0, max(len(data), 1), step):
            piece = data[start : start + step]
            self._wire_free = begin + (0.0 if rate is None else (start + len(piece)) * BITS / rate)
            self._last_out = max(self._last_out, self._wire_free + delay + self.sooner)
            pieces.append((self._last_out, piece))
        self.held += len(data)
        if self.held >= MOST_HELD:
            self.reads_at = now + WINDOW / 2
        elif self._wire_free - now > FULL * WINDOW:
            self.reads_at = self._wire_free - WINDOW / 2
        return pieces

    def change(self, shape: LinkShape) -> None:
        """Change the rate, delay and jitter of the line (one direction of a link) to those of ``shape``.

        A shorter delay applies to the bytes in the line, too. A new rate applies to later bytes only.
        """
        self.sooner += max(0.0, self.shape.delay - shape.delay)
        self.shape = shape

    def clear(self) -> None:
        """Let new bytes pass without a wait for earlier ones, because the caller has discarded all bytes that were in
        the line (one direction of a link).
        """
        self._wire_free = self._last_out = self.reads_at = self.sooner = 0.0
