"""The queueing of password checks, one at a time for each guesser, which makes guessing slow."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Hashable
from contextlib import asynccontextmanager
from weakref import WeakValueDictionary

from dumpfilter.base.security.throttle import Throttle

_FREE_FAILURES = 3
"""The number of a guesser's wrong passwords from which each further check is delayed."""


class LoginTurns:
    """The queues of clients whose passwords are to be checked. A queue makes the guessing of passwords slow.

    There is one queue for each guesser, which is a user name together with a client's address. After three wrong
    passwords each further check is delayed by ``seconds``. A guesser with many connections does not guess faster than
    with one.
    """

    def __init__(self, seconds: float) -> None:
        self._seconds = seconds
        self._failures = Throttle(free=_FREE_FAILURES)
        self._locks: WeakValueDictionary[Hashable, asyncio.Lock] = WeakValueDictionary()
        """The lock of each guesser, as long as a client holds or awaits it."""

    @asynccontextmanager
    async def turn(self, guesser: Hashable) -> AsyncIterator[None]:
        """Wait for the turn of a guesser (user name and client address), and let the ``with`` block check the password.
        The block calls :meth:`failed` if the password is wrong.

        Another check for the same guesser must end first. After three wrong passwords each check is delayed.
        """
        lock = self._locks.setdefault(guesser, asyncio.Lock())
        async with lock:
            if self._failures.failures(guesser) >= _FREE_FAILURES:
                await asyncio.sleep(self._seconds)
            yield

    def failed(self, guesser: Hashable) -> None:
        """Count a wrong password of a guesser (user name and client address)."""
        self._failures.failed(guesser)
