"""The limits of what clients may make a console (a port for MySQL clients) use: memory, and each user's processor time.

A user's expensive commands delay only that user.
"""

from __future__ import annotations

import asyncio
import sys
import threading
import time
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager

from dumpfilter.console.sql.result import Result, size_of_row
from dumpfilter.console.sql.server_errors import ER_OUT_OF_CONSOLE_MEMORY

CLIENT_MEMORY = 256 << 10
"""The limit of one client's memory between its statements (prepared statements and user variables), bytes."""
CONSOLE_MEMORY = 64 << 20
"""The limit of the memory of all clients of a port together between their statements, bytes. A replication port may
have 5,250 clients.
"""
RESULT_MEMORY = 128 << 20
"""The limit of the memory of all results that clients have not read completely yet, bytes."""
RESULT_MEMORY_OF_USER = 96 << 20
"""The limit of the memory of one user's results, bytes, so that other users can still get results."""

MOST_SELECTS = 2
"""The limit of concurrent SELECTs of one user that read tables. A further SELECT waits, and the wait counts against its
time limit.
"""

SHARE = 0.25
"""The fraction of one processor that the commands of a user may take in the long run."""
BURST_SECONDS = 1.0
"""The processor time that a user may take at once, before the user's next command must wait, seconds."""
MOST_OWED_SECONDS = 5.0
"""The limit of a user's debt (the processor time that counts against the user's limit), seconds. Therefore a user waits
at most 16 s after one long SELECT.
"""
_SECONDS_PER_COMMAND = 5e-5
"""The processor time that each command counts against the user's limit, seconds. COM_PING takes as much."""
_SECONDS_PER_BYTE = 2e-8
"""The processor time that receiving a command counts against the user's limit, seconds a byte. The time is counted
before the command arrives.
"""


@contextmanager
def unread(held: Counter[str], user: str, result: Result) -> Iterator[None]:
    """Count the memory of a result in ``held`` (bytes by user) while the ``with`` block sends the result to ``user``.

    Raises SqlError 1041 if the results of the user, or those of all users together, would exceed their limit.
    """
    size = sum(map(size_of_row, result.rows))
    for before, most, what, advice in (
        (held[user], RESULT_MEMORY_OF_USER, "results of a user", "read them, or try with less"),
        (held.total(), RESULT_MEMORY, "results", "try again later, or with less"),
    ):
        if before + size > most:
            raise ER_OUT_OF_CONSOLE_MEMORY(
                f"{what} that clients have not read yet may have {most >> 20} MiB; {advice}"
            )
    held[user] += size
    try:
        yield
    finally:
        held[user] -= size


class UserLimits:
    """The limits on what one user of a port for MySQL clients may take, on all the user's connections together. An
    object is made at the user's first login.

    The processor time of the user's commands is the user's debt, which falls by :data:`SHARE` seconds each second. A
    user whose debt is above :data:`BURST_SECONDS` waits before the next command is received. The user's connections
    wait one after another. ``threads`` is the largest number of this user's statements that run at once.
    """

    def __init__(self, threads: int = sys.maxsize) -> None:
        self.threads = asyncio.Semaphore(threads)
        self.selects = threading.BoundedSemaphore(MOST_SELECTS)
        """The semaphore that limits the user's concurrent SELECTs that read tables."""
        self._turn = asyncio.Lock()
        self._owed = 0.0
        self._at = time.monotonic()
        self._lock = threading.Lock()

    async def admit(self, length: int) -> None:
        """Wait until the user may send another command, and add the processor time for receiving the command to the
        user's debt. ``length`` is the command's length, bytes.

        The debt is the processor time that counts against the user's limit, and falls with time. Between two commands
        of a user, the asyncio loop serves other clients once, so that thousands of small commands delay nobody.
        """
        async with self._turn:
            await asyncio.sleep(0)
            while (over := self._add(0.0) - BURST_SECONDS) > 0:
                await asyncio.sleep(over / SHARE)
            self._add(_SECONDS_PER_COMMAND + length * _SECONDS_PER_BYTE)

    @contextmanager
    def counting(self) -> Iterator[None]:
        """Count the processor time of the current thread inside the ``with`` block against the user's limit. The
        context manager can also decorate a function.
        """
        begun = time.thread_time()
        try:
            yield
        finally:
            self._add(time.thread_time() - begun)

    def _add(self, seconds: float) -> float:
        """Add processor time to the user's debt, and return the new debt, both in seconds. The debt is the processor
        time that counts against the user's limit, and falls with time.
        """
        with self._lock:
            now = time.monotonic()
            left = max(0.0, self._owed - SHARE * (now - self._at))
            self._owed = min(left + seconds, MOST_OWED_SECONDS)
            self._at = now
            return self._owed
