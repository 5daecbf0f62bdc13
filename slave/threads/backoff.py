"""The wait before the next attempt to reach the master."""

from __future__ import annotations

import random

FIRST = 0.1
"""The longest wait after the first failed attempt, seconds."""


class Backoff:
    """Exponential backoff with jitter: the wait before attempt N is at most ``FIRST * 2**N`` and at most
    ``maximum`` seconds.

    The jitter shortens the wait by up to half, so that a restarted master's slaves do not all come back at
    the same time.
    """

    def __init__(self, maximum: float, *, uniform: random.Random | None = None) -> None:
        self._maximum = maximum
        self._random = uniform or random.Random()
        self.attempts = 0

    def reset(self) -> None:
        """Begin again with the shortest wait, because the master was reached."""
        self.attempts = 0

    def next(self) -> float:
        """Count a failed attempt. Return the wait before the next one, seconds."""
        bound = min(self._maximum, FIRST * 2.0 ** min(self.attempts, 30))
        self.attempts += 1
        return bound * self._random.uniform(0.5, 1.0)
