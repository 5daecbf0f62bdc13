"""The size of a stream's messages, adapted to the speed of the connection.

A slave can use a message only when the whole message has arrived. A message that is interrupted by a lost
connection is sent again. So a message should take less than a second to arrive. Fast connections get large messages,
because each message costs processor time.

:mod:`dumpfilter.simulation` uses the same size.
"""

from __future__ import annotations

LARGEST = 1 << 20
"""The size of messages on a fast connection, in bytes of events, if the slave asks for no other size.

Each message costs processor time in addition to the time for its events. With messages of 256 KiB a master takes
nearly twice as much.
"""

LEAST = 2 << 10
"""The smallest size of messages, in bytes of events. The other fields of a message take about 110 bytes."""

SECONDS = 0.25
"""The time that a message of more than 8 KiB (``SMALL``) may take on the connection, seconds."""

SMALL = 8 << 10
"""The size up to which messages may take ``SMALL_SECONDS`` instead of ``SECONDS``, in bytes of events. Below this
size, a large part of a message is other fields.
"""

SMALL_SECONDS = 0.75
"""The time that a message of 2 to 8 KiB (``LEAST`` to ``SMALL``) may take on a slow connection, seconds."""

BLOCKED = 0.05
"""The duration from which on a write counts as blocked by the connection, seconds. Shorter delays may come from a busy
processor.
"""

IDLE = 0.1
"""The pause between two writes after which the send buffers may have become empty, seconds."""

BUFFERS = 2 << 20
"""The bytes that can wait in send buffers before a write blocks, mostly in the socket's buffer. Measured: 1.5 MB on
loopback.

Up to this number, written bytes do not count as carried by the connection. Otherwise messages would become too large
for a slow one.
"""


BURST = 64 << 10
"""The number of bytes after which the rate is measured again. HTTP/2 makes room for several messages at a time."""


def message_size(rate: float, most: int) -> int:
    """Return the size of messages for a connection that carries ``rate`` bytes per second, at most ``most``.

    The size is ``most`` or a power of two, so that slaves with similar lines share their messages.

    >>> message_size(1_200, 262_144), message_size(25_000, 262_144), message_size(1e9, 262_144)
    (2048, 8192, 262144)
    """
    wanted = max(LEAST, min(rate * SMALL_SECONDS, SMALL), rate * SECONDS)
    return most if wanted >= most else 1 << int(wanted).bit_length() - 1


class Pace:
    """The measured rate of a connection, and the size of its messages.

    A write blocks while the send buffers are full. The buffers hold equally much after any two writes that blocked, so
    the connection has carried the bytes that were written between them. If no write blocks, some written bytes may
    still be in the buffers. Only the bytes beyond the size of the buffers then count as carried.

    ``most`` is the largest size of a message, bytes. ``rate`` is a rate that the connection surely has, bytes per
    second. With None the rate is not known, and messages have the largest size until writes block.
    """

    def __init__(self, most: int, rate: float | None = None) -> None:
        self._most = most
        self.rate = float("inf") if rate is None else rate
        self._written = 0
        self._begin: tuple[float, int] | None = None
        """The time and the count of written bytes at which the connection became busy, or its rate was last
        measured.
        """
        self._waited: tuple[float, int] | None = None
        """The time and the count of written bytes when the last blocked write ended."""
        self._last = 0.0
        self._told = 0

    @property
    def size(self) -> int:
        """The size of the next messages on the connection, in bytes of events."""
        return message_size(self.rate, self._most)

    def hear(self, rate: int) -> None:
        """Take over the rate of the connection that the slave has measured and reports, bytes per second, if it is
        higher than the present rate. The rate determines the size of messages. A rate that the slave only repeats is
        ignored.
        """
        if rate != self._told:
            self._told = rate
            self.rate = max(self.rate, rate)

    def wrote(self, size: int, begun: float, ended: float) -> None:
        """Update the measured rate of the connection after a write of ``size`` bytes to it. ``begun`` and ``ended`` are
        the times of the write's begin and end, seconds.
        """
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
