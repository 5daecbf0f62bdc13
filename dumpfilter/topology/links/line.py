"""One direction of a link, without sockets and clocks: bytes go in, and come out later.

A line is first in, first out. A byte enters the wire when all earlier bytes have left it, and the wire passes ``rate``
bits per second. That is a token bucket with room for one token: an idle line saves nothing up. A byte comes out
``delay`` seconds after it has left the wire, give or take the jitter. In a formula, the message ``i`` of ``n`` bytes
that arrives at ``a`` leaves the wire at ``w[i] = max(a, w[i-1]) + 8 * n / rate``. It comes out at ``w[i] + delay``.
:mod:`dumpfilter.simulation` uses the same formula.

All times are seconds of one clock that never runs backwards.
"""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from enum import Enum
from random import Random
from typing import Generic, TypeVar

from dumpfilter.topology.links.shape import LinkShape

WINDOW = 0.1
"""The longest time for which accepted bytes wait for a slow wire, seconds. Further bytes wait at their sender."""

MOST_HELD = 64 << 20
"""The most bytes that a line holds. A fast line with a long delay is slower than its rate when it would need more."""

FULL = 0.75
"""The share of ``WINDOW`` from which on a line is full. A line that is read for each byte costs a whole processor."""

MUCH_ROOM = 1 << 20
"""The room that makes reading worth it, bytes, in a line that holds almost ``MOST_HELD``."""

PIECE = 0.002
"""The shortest time between two deliveries of a busy wire, seconds. A shorter time costs processor time."""

BITS = 8


class Mark(Enum):
    """The kinds of parcels. ``END`` and ``RESET`` carry no bytes, and wait in line like bytes."""

    BYTES = "bytes"
    END = "end"
    RESET = "reset"


Receiver = TypeVar("Receiver")


@dataclass
class _Parcel(Generic[Receiver]):
    """Bytes that entered the line together."""

    receiver: Receiver
    data: bytes
    mark: Mark
    first: float
    """The time at which the first byte comes out."""
    last: float
    """The time at which the last byte comes out."""
    done: int = 0
    """The bytes that have come out."""

    def due(self, now: float) -> int:
        """Return the number of bytes that have come out at this time, or before."""
        if now >= self.last:
            return len(self.data)
        if now <= self.first:
            return 0
        return int(len(self.data) * (now - self.first) / (self.last - self.first))

    def next_byte(self) -> float:
        """Return the time at which the next byte comes out."""
        if not self.data:
            return self.last
        return self.first + (self.done + 1) / len(self.data) * (self.last - self.first)


@dataclass(frozen=True)
class Delivery(Generic[Receiver]):
    """Bytes, or a mark, that come out of a line."""

    receiver: Receiver
    mark: Mark
    data: bytes


class Line(Generic[Receiver]):
    """One direction of a link. All connections of the link share the line."""

    def __init__(self, shape: LinkShape, random: Random) -> None:
        self._shape = shape
        self._random = random
        self._parcels: deque[_Parcel[Receiver]] = deque()
        self._held = 0
        self._wire_free = 0.0
        """The time at which the last accepted byte has left the wire."""
        self._last_out = 0.0
        """The time at which the last accepted byte comes out."""
        self._last_pop = 0.0

    @property
    def held(self) -> int:
        """The bytes in the line."""
        return self._held

    def room(self, now: float) -> int:
        """Return the number of bytes that the line accepts now. A slow line accepts at least one byte at times."""
        room = MOST_HELD - self._held
        rate = self._shape.rate
        if rate is None:
            return room
        waiting = max(0.0, self._wire_free - now) * rate / BITS
        return min(room, int(max(1.0, WINDOW * rate / BITS) - waiting))

    def is_full(self, now: float) -> bool:
        """Tell whether the line has so little room that reading is not worth it."""
        return self._wire_free - now > FULL * WINDOW or MOST_HELD - self._held < MUCH_ROOM

    def has_much_room(self, now: float) -> bool:
        """Tell whether a line that was full should accept bytes again."""
        return self.room_time() <= now and MOST_HELD - self._held >= 2 * MUCH_ROOM

    def room_time(self) -> float:
        """Return the time at which half of the bytes that may wait for the wire have entered it."""
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
        """Accept bytes, or a mark.

        ``since`` is an earlier time since which the bytes have waited outside a full line. It makes up for a process
        that was late to accept them, so that a busy machine does not slow the line.
        """
        rate, delay = self._shape.rate, self._shape.delay
        begin = max(self._wire_free, now if since is None else min(now, since))
        self._wire_free = begin + (0.0 if rate is None else len(data) * BITS / rate)
        if self._shape.jitter:
            delay = max(0.0, delay + self._random.uniform(-self._shape.jitter, self._shape.jitter))
        first = max(self._last_out, begin + delay)
        self._last_out = max(self._last_out, self._wire_free + delay)
        self._parcels.append(_Parcel(receiver, data, mark, first, self._last_out))
        self._held += len(data)

    def pop(self, now: float, limit: int | None = None) -> list[Delivery[Receiver]]:
        """Remove and return everything that has come out, but at most ``limit`` bytes."""
        found: list[Delivery[Receiver]] = []
        self._last_pop = now
        while self._parcels and (limit is None or limit > 0):
            parcel = self._parcels[0]
            end = parcel.due(now)
            if limit is not None:
                end = min(end, parcel.done + limit)
                limit -= end - parcel.done
            is_complete = end == len(parcel.data) and now >= parcel.last
            if end > parcel.done:
                found.append(Delivery(parcel.receiver, Mark.BYTES, parcel.data[parcel.done : end]))
                self._held -= end - parcel.done
                parcel.done = end
            if not is_complete:
                break
            if parcel.mark is not Mark.BYTES:
                found.append(Delivery(parcel.receiver, parcel.mark, b""))
            self._parcels.popleft()
        return found

    def next_time(self) -> float | None:
        """Return the earliest time at which to call :meth:`pop` again, or None for an empty line."""
        if not self._parcels:
            return None
        parcel = self._parcels[0]
        if parcel.first == parcel.last:
            return parcel.last
        at = max(self._last_pop + PIECE, parcel.next_byte())
        # The end of a message is exact when no other message follows it.
        return min(at, parcel.last) if len(self._parcels) == 1 else at

    def change(self, now: float, shape: LinkShape) -> None:
        """Change the shape. A shorter delay applies to the bytes in the line, too; a new rate does not."""
        sooner = self._shape.delay - shape.delay
        if sooner > 0:
            for parcel in self._parcels:
                parcel.first = max(min(now, parcel.first), parcel.first - sooner)
                parcel.last = max(min(now, parcel.last), parcel.last - sooner)
            self._last_out = max(min(now, self._last_out), self._last_out - sooner)
        self._shape = shape

    def shift(self, seconds: float) -> None:
        """Let everything in the line come out later, after a time in which no byte could pass."""
        for parcel in self._parcels:
            parcel.first += seconds
            parcel.last += seconds
        self._last_out += seconds
        self._wire_free += seconds

    def clear(self, now: float) -> int:
        """Forget everything in the line, and return the number of forgotten bytes."""
        lost, self._held = self._held, 0
        self._parcels.clear()
        self._wire_free = self._last_out = now
        return lost
