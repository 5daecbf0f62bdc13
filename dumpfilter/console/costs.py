"""Accounting of the processor time that each user of a port takes. A user's expensive commands delay only that user."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

SHARE = 0.25
"""The fraction of one processor that the commands of a user may take in the long run."""
BURST_SECONDS = 1.0
"""The processor time that a user may take at once, before the user's next command must wait, seconds."""
MOST_OWED_SECONDS = 5.0
"""The limit of a user's debt, seconds of processor time. So a user waits at most 16 s after one long SELECT."""
_SECONDS_PER_BYTE = 2e-8
"""The processor time charged for receiving a command, seconds a byte. It is charged before the command arrives."""


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
