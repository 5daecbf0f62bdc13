"""The limits of what clients may make a console use: memory, and each user's processor time.

A user's expensive commands delay only that user.
"""

from __future__ import annotations

import asyncio
import sys
import threading
import time
from collections.abc import Callable
from typing import TypeVar

from dumpfilter.console.sql.result import Result
from dumpfilter.console.sql.server_errors import ER_OUT_OF_CONSOLE_MEMORY

MIB = 1 << 20

CLIENT_MEMORY = 4 * MIB
"""The limit of one client's memory between its statements (prepared statements and user variables), bytes."""
CONSOLE_MEMORY = 64 * MIB
"""The limit of the memory between statements of all clients together, bytes. Statements being received count, too."""
RESULT_MEMORY = 128 * MIB
"""The limit of the memory of all results that clients have not read completely yet, bytes."""
RESULT_SHARE = 0.75
"""The share of :data:`RESULT_MEMORY` that the results of one user may take, so that other users can still get
results.
"""

MOST_SELECTS = 2
"""The limit of concurrent SELECTs of one user that read tables. A further one waits, and its waiting counts as running
time.
"""

T = TypeVar("T")
SHARE = 0.25
"""The fraction of one processor that the commands of a user may take in the long run."""
BURST_SECONDS = 1.0
"""The processor time that a user may take at once, before the user's next command must wait, seconds."""
MOST_OWED_SECONDS = 5.0
"""The limit of a user's debt, seconds of processor time. So a user waits at most 16 s after one long SELECT."""
_SECONDS_PER_BYTE = 2e-8
"""The processor time charged for receiving a command, seconds a byte. It is charged before the command arrives."""


class Memory:
    """A counter of reserved memory with a limit. It counts for one client, one user, or all of them together.

    ``most`` is the limit in bytes. ``what`` (the use of the memory) and ``advice`` are parts of the error's text.
    ``within`` is the counter for all clients, in which each reservation counts, too. Any thread may call the methods.
    """

    def __init__(
        self,
        most: int,
        what: str,
        *,
        advice: str = "try again later, or with less",
        within: Memory | None = None,
    ) -> None:
        self.most = most
        self._refusal = f"{what} may have {most >> 20} MiB; {advice}"
        self._within = within
        self.held = 0
        """The number of reserved bytes."""
        self._lock = threading.RLock()

    def take(self, size: int) -> None:
        """Count ``size`` bytes as reserved. Raises SqlError 1041 if the limit of this counter or of all clients would
        be exceeded.

        After :meth:`close` every reservation raises this error.
        """
        with self._lock:
            if self.held + size > self.most:
                raise ER_OUT_OF_CONSOLE_MEMORY(self._refusal)
            if self._within is not None:
                self._within.take(size)
            self.held += size

    def give_back(self, size: int) -> None:
        with self._lock:
            size = min(size, self.held)
            self.held -= size
            if self._within is not None:
                self._within.give_back(size)

    def close(self) -> None:
        """Release all reserved bytes of a client that has left.

        A statement of this client may still run. Its reservations raise SqlError 1041 from now on.
        """
        with self._lock:
            self.most = 0
            self.give_back(self.held)


def size_of(result: Result) -> int:
    """Return the approximate memory that the rows of a result take, bytes."""
    return sum(sys.getsizeof(row) + sum(map(sys.getsizeof, row)) for row in result.rows)


class Costs:
    """A limit of the processor time that one user of a port for MySQL clients may take, on all connections together.

    The processor time of the user's commands is the user's debt, which falls by :data:`SHARE` seconds each second. A
    user whose debt is above :data:`BURST_SECONDS` waits before the next command is received. The user's connections
    wait one after another.
    """

    def __init__(self) -> None:
        self._turn = asyncio.Lock()
        self._owed = 0.0
        self._at = time.monotonic()
        self._lock = threading.Lock()

    async def admit(self, length: int) -> None:
        """Wait until the user's earlier commands allow another one, and add the cost of receiving it to the user's
        debt.

        The debt is the processor time that counts against the user's limit. ``length`` is the command's length, bytes.
        """
        async with self._turn:
            while (over := self._add(0.0) - BURST_SECONDS) > 0:
                await asyncio.sleep(over / SHARE)
            self._add(length * _SECONDS_PER_BYTE)

    def counted(self, function: Callable[[], T]) -> Callable[[], T]:
        """Return a function that calls ``function``, and counts the processor time of the call against the user's
        limit.
        """

        def run() -> T:
            begun = time.thread_time()
            try:
                return function()
            finally:
                self._add(time.thread_time() - begun)

        return run

    def _add(self, seconds: float) -> float:
        """Add processor time to the debt, and return the new debt. Both are in seconds."""
        with self._lock:
            now = time.monotonic()
            left = max(0.0, self._owed - SHARE * (now - self._at))
            self._owed = min(left + seconds, MOST_OWED_SECONDS)
            self._at = now
            return self._owed


class UserLimits:
    """The limits on what one user of a console or replication port may take, on all the user's connections together.
    An object is made at the user's first login.

    ``results`` counts the memory of all users' results, of which this user may take a share. ``threads`` is the largest
    number of this user's statements that run at once.
    """

    def __init__(self, results: Memory, threads: int) -> None:
        self.costs = Costs()
        self.threads = asyncio.Semaphore(threads)
        self.selects = threading.BoundedSemaphore(MOST_SELECTS)
        """The semaphore of the SELECTs that read tables."""
        self.results = Memory(
            int(results.most * RESULT_SHARE),
            "results of a user that clients have not read yet",
            advice="read them, or try with less",
            within=results,
        )
