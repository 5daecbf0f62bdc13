"""Waiting for a state that nobody announces, and watching while other work is done."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

POLL = 0.01
"""The time between two looks at a state, seconds."""


def until(
    is_reached: Callable[[], object],
    deadline: float,
    failure: Callable[[], BaseException],
    *,
    poll: float = POLL,
) -> None:
    """Wait until a state is reached. Raise what ``failure`` returns at ``deadline``, a time of ``time.monotonic``.

    ``is_reached`` may raise an error itself, when the state cannot be reached any more.

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
    """Run ``watch`` in a thread with a name during the body of a ``with`` statement.

    The event is set at the end of the body, and the end waits for the thread.
    """
    over = threading.Event()
    thread = threading.Thread(target=watch, args=(over,), name=name, daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()
