"""Limits against hostile clients: on the memory that clients fill by choosing keys, and on guesses of passwords.

Delays after wrong passwords double with each failure. A gRPC call that comes too early is refused, so that a guesser
does not occupy a thread. A client of a port for MySQL clients waits for its turn, which costs a coroutine only.
"""

from __future__ import annotations

import asyncio
import time
from collections import OrderedDict
from collections.abc import AsyncIterator, Callable, Hashable
from contextlib import asynccontextmanager
from typing import TypeVar
from weakref import WeakValueDictionary

K = TypeVar("K")
V = TypeVar("V")


class Recent(OrderedDict[K, V]):
    """A mapping of at most ``most`` entries, so that clients who choose the keys cannot fill the memory. Above the
    limit, the entry that was set longest ago is dropped.
    """

    def __init__(self, most: int) -> None:
        super().__init__()
        self._most = most

    def __setitem__(self, key: K, value: V) -> None:
        super().__setitem__(key, value)
        self.move_to_end(key)
        if len(self) > self._most:
            self.popitem(last=False)


_MOST_KEYS = 10_000
"""The largest number of guessers (clients that gave wrong passwords) that a throttle remembers, which limits its
memory.

The throttle forgets the guesser whose last failure is the oldest.
"""

_FORGET_SECONDS = 900.0
"""The time without a failure after which the failures of a guesser are forgotten, seconds."""


class Throttle:
    """A counter of wrong passwords, which tells how long a client must wait before it may try another password. Not
    thread-safe.

    A key identifies a client that may be guessing, for example a network address. The first ``free`` wrong passwords
    cause no wait. After the next one the client must wait one second, and each further one doubles the wait, up to
    ``longest`` seconds. ``clock`` returns the time in seconds.
    """

    def __init__(
        self, *, free: int = 3, longest: float = 60.0, clock: Callable[[], float] = time.monotonic
    ) -> None:
        self._free = free
        self._longest = longest
        self._clock = clock
        self._guessers: Recent[Hashable, tuple[int, float]] = Recent(_MOST_KEYS)
        """The number of wrong passwords of each client key, and the time of the last wrong password."""
        self._locks: WeakValueDictionary[Hashable, asyncio.Lock] = WeakValueDictionary()
        """The lock by client key, with which one password is checked at a time. A lock exists as long as a client holds
        or awaits it.
        """

    def failures(self, key: Hashable) -> int:
        """Return the number of wrong passwords that the client ``key`` has recently given. After 15 minutes without a
        wrong password the number is 0 again.
        """
        failures, failed_at = self._guessers.get(key, (0, 0.0))
        return failures if self._clock() - failed_at <= _FORGET_SECONDS else 0

    def wait(self, key: Hashable) -> float:
        """Return the time until the client ``key`` may try a password again, seconds; 0 if it may try now.

        ``key`` identifies a client that may be guessing passwords, for example by its address and user name.
        """
        failures = self.failures(key)
        if failures <= self._free:
            return 0.0
        pause = min(self._longest, 2.0 ** min(failures - self._free - 1, 30))
        return max(0.0, self._guessers[key][1] + pause - self._clock())

    @asynccontextmanager
    async def turn(self, key: Hashable) -> AsyncIterator[None]:
        """Wait until the client ``key`` may try a password, and let the ``with`` block check the password. The block
        calls :meth:`failed` if the password is wrong.

        Another check for the same key must end first. Therefore a guesser with many connections does not guess faster
        than with one.
        """
        async with self._locks.setdefault(key, asyncio.Lock()):
            await asyncio.sleep(self.wait(key))
            yield

    def failed(self, key: Hashable) -> None:
        """Count a wrong password, which the client ``key`` gave now."""
        self._guessers[key] = self.failures(key) + 1, self._clock()
