"""The processor time that the users of a port take, so that no user's commands delay those of the others."""

from __future__ import annotations

import asyncio
import threading
import time
from collections.abc import Callable
from typing import TypeVar

T = TypeVar("T")

SHARE = 0.25
"""The part of one processor that the commands of a user may take in the long run."""
BURST_SECONDS = 1.0
"""The processor time that a user may take at once, before the user's commands wait."""
MOST_OWED_SECONDS = 5.0
"""The largest debt. A user waits at most 16 s after one long SELECT."""
_SECONDS_PER_BYTE = 2e-8
"""The processor time that receiving a command takes, seconds a byte. It counts before the command arrives."""
_REFUSAL_SECONDS = 0.02
"""The processor time of a refused command: what still arrives is discarded, and a new login follows, seconds."""


class _Account:
    """The processor time that one user owes. It falls by :data:`SHARE` with time."""

    def __init__(self) -> None:
        self.turn = asyncio.Lock()
        self._owed = 0.0
        self._at = time.monotonic()
        self._lock = threading.Lock()

    def add(self, seconds: float) -> float:
        """Add processor time to the debt, and return the debt."""
        with self._lock:
            now = time.monotonic()
            left = max(0.0, self._owed - SHARE * (now - self._at))
            self._owed = min(left + seconds, MOST_OWED_SECONDS)
            self._at = now
            return self._owed


class Costs:
    """The processor time that each user of a port owes.

    A user who owes more than :data:`BURST_SECONDS` waits before the next command is received. The connections of a
    user wait in one row, and each leaves it only when the user owes little enough.
    """

    def __init__(self) -> None:
        self._accounts: dict[str, _Account] = {}

    async def admit(self, user: str, length: int) -> None:
        """Wait until a user may send a command of ``length`` bytes."""
        account = self._of(user)
        async with account.turn:
            while (over := account.add(0.0) - BURST_SECONDS) > 0:
                await asyncio.sleep(over / SHARE)
            account.add(length * _SECONDS_PER_BYTE)

    def counted(self, user: str, function: Callable[[], T]) -> Callable[[], T]:
        """Return a function that calls ``function``, and adds the processor time of the call to the user's debt."""
        account = self._of(user)

        def run() -> T:
            begun = time.thread_time()
            try:
                return function()
            finally:
                account.add(time.thread_time() - begun)

        return run

    def charge_refusal(self, user: str) -> None:
        """Count a command that was refused by its length. The connection ends, so that the user must log in again."""
        self._of(user).add(_REFUSAL_SECONDS)

    def owed(self, user: str) -> float:
        """Return the processor time that a user owes now, seconds."""
        return self._of(user).add(0.0)

    def _of(self, user: str) -> _Account:
        # Only users of the configuration log in, so that there are few accounts.
        return self._accounts.setdefault(user, _Account())
