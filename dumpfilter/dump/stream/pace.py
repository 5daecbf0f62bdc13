"""The size of the messages of a stream, which the line decides.

A slave has a message when the whole message has arrived. A message that a lost connection cuts is sent again. So a
message takes less than a second of the line. Fast lines get large messages, because each message costs processor time.
:mod:`dumpfilter.simulation` uses the same size.
"""

from __future__ import annotations

LARGEST = 1 << 20
"""The size of messages on a fast line, if the slave asks for no other size, bytes of events.

Each message costs processor time besides that for its events. Messages of 256 KiB cost a master nearly twice as much.
"""

LEAST = 2 << 10
"""The size below which messages do not become smaller, bytes of events. Their heads have about 110 bytes."""

SECONDS = 0.25
"""The longest time that a message of more than ``SMALL`` bytes occupies the line, seconds."""

SMALL = 8 << 10
"""The size up to which messages take ``SMALL_SECONDS``, bytes, because their heads would weigh too much otherwise."""

SMALL_SECONDS = 0.75
"""The longest time that a message of more than ``LEAST`` bytes occupies the line, seconds."""

BLOCKED = 0.05
"""The time from which on a write has surely waited for the line, seconds. A busy processor delays others, too."""

IDLE = 0.1
"""The pause between two writes in which the buffers may have become empty, seconds."""

BUFFERS = 2 << 20
"""The bytes that wait for a line before a write waits, mostly in the socket's buffer. Measured: 1.5 MB on loopback.

Bytes that wait for a slow line do not count as carried. Messages would become too large for the line.
"""


BURST = 64 << 10
"""The bytes after which a rate is measured. HTTP/2 makes room for several messages at a time."""


def message_size(rate: float, most: int) -> int:
    """Return the size of messages for a line that carries ``rate`` bytes in a second, at most ``most``.

    The size is ``most`` or a power of two, so that slaves with similar lines share their messages.

    >>> message_size(1_200, 262_144), message_size(25_000, 262_144), message_size(1e9, 262_144)
    (2048, 8192, 262144)
    """
    wanted = max(LEAST, min(rate * SMALL_SECONDS, SMALL), rate * SECONDS)
    return most if wanted >= most else 1 << int(wanted).bit_length() - 1


class Pace:
    """The rate of a line and the size of its messages, learned from the times at which writes end.

    A write ends when gRPC's buffers have room. Between two writes that waited, the line carried as many bytes as were
    written. Bytes beyond what the buffers hold have certainly been carried.

    ``most`` is the largest size of a message, bytes. ``rate`` is a rate that the line surely has, bytes per second.
    With None the rate is not known, and messages have the largest size until writes wait.
    """

    def __init__(self, most: int, rate: float | None = None) -> None:
        self._most = most
        self.rate = float("inf") if rate is None else rate
        self._written = 0
        self._begin: tuple[float, int] | None = None
        """The time and the count of written bytes at which the line became busy, or its rate was last measured."""
        self._waited: tuple[float, int] | None = None
        """The time and the count of written bytes when the last write ended that waited."""
        self._last = 0.0
        self._told = 0

    @property
    def size(self) -> int:
        """The size of the next messages, bytes of events."""
        return message_size(self.rate, self._most)

    def hear(self, rate: int) -> None:
        """Learn a rate from the slave, bytes per second, which the line surely has. The slave may repeat the rate."""
        if rate != self._told:
            self._told = rate
            self.rate = max(self.rate, rate)

    def wrote(self, size: int, begun: float, ended: float) -> None:
        """Learn from a write of ``size`` bytes, and the times at which the write began and ended, seconds."""
        if self._begin is None or begun - self._last > IDLE:
            self._begin, self._waited = (begun, self._written), None
        self._written += size
        self._last = ended
        if ended - begun >= BLOCKED:
            if self._waited is None:
                self._waited = ended, self._written
            elif self._written - self._waited[1] >= BURST:
                self.rate = self._rate_since(*self._waited, 0)
                self._begin = self._waited = ended, self._written
        else:
            self.rate = max(self.rate, self._rate_since(*self._begin, BUFFERS))

    def _rate_since(self, time: float, written: int, held: int) -> float:
        return (self._written - written - held) / max(self._last - time, 1e-6)
