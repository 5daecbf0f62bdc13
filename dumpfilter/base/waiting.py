"""Polling until a state is reached, and a thread that watches something during other work."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager

POLL = 0.01
"""The default interval between two checks of the state, seconds."""


def until(
    is_reached: Callable[[], object],
    deadline: float,
    failure: Callable[[], BaseException],
    *,
    poll: float = POLL,
) -> None:
    """Poll ``is_reached`` until it returns a true value. At ``deadline`` (a time of ``time.monotonic``), raise the
    error that ``failure`` returns.

    ``is_reached`` may raise an error itself, when the state cannot be reached any more. ``poll`` is the interval,
    seconds.

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
