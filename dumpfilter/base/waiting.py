"""Polling until a state is reached, a thread that watches something during other work, and the growing wait of a client
that cannot reach its server.
"""

from __future__ import annotations

import random
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

FIRST = 0.1
"""The longest wait after the first failed attempt, seconds. Each further failed attempt doubles the longest wait."""


class Backoff:
    """Exponential backoff with jitter: waits that double with each failed attempt, up to ``maximum`` seconds.

    After the first failed attempt the wait is at most :data:`FIRST` seconds, and each further failed attempt doubles
    this limit. A random factor from 0.5 to 1 shortens each wait, so that the slaves of a restarted master do not all
    connect at the same time.
    """

    def __init__(self, maximum: float) -> None:
        self._maximum = maximum
        self.attempts = 0
        """The number of failed attempts in a row."""

    def reset(self) -> None:
        """Forget the failed attempts, because the server was reached. The next wait is short again."""
        self.attempts = 0

    def next(self) -> float:
        """Count one more failed attempt, and return the wait before the next attempt, seconds."""
        bound = min(self._maximum, FIRST * 2.0 ** min(self.attempts, 30))
        self.attempts += 1
        return bound * random.uniform(0.5, 1.0)


POLL = 0.01
"""The default interval at which :func:`until` calls ``is_reached``, seconds."""


def until(
    is_reached: Callable[[], object],
    deadline: float,
    failure: Callable[[], BaseException],
    *,
    poll: float = POLL,
) -> None:
    """Wait until ``is_reached`` returns a true value, by calling the function again and again. At ``deadline`` (a time
    of ``time.monotonic``), raise the error that ``failure`` returns.

    ``is_reached`` may raise an error to end the waiting early. ``poll`` is the interval between two calls, seconds.

    >>> until(lambda: True, 0.0, TimeoutError)
    >>> until(lambda: False, 0.0, lambda: TimeoutError("the file is still there"))
    Traceback (most recent call last):
    TimeoutError: the file is still there
    """
    while not is_reached():
        if time.monotonic() > deadline:
            raise failure()
        time.sleep(poll)


@contextmanager
def watching(watch: Callable[[threading.Event], object], name: str) -> Iterator[None]:
    """Run ``watch`` in a background thread called ``name`` during the ``with`` block.

    ``watch`` receives a :class:`threading.Event`, which is set at the end of the block. The block ends when ``watch``
    has returned.
    """
    over = threading.Event()
    thread = threading.Thread(target=watch, args=(over,), name=name, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
