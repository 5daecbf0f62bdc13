"""Waiting for a state that nobody announces."""

from __future__ import annotations

import time
from collections.abc import Callable

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
