"""The wait of a client after a failed attempt to reach its server. The wait grows with each failure."""

from __future__ import annotations

import random

FIRST = 0.1
"""The longest wait after the first failed attempt, seconds. Each further failed attempt doubles the longest wait."""


class Backoff:
    """Exponential backoff with jitter: waits that double with each failed attempt, up to ``maximum`` seconds.

    The wait after ``N`` earlier failures is at most ``FIRST * 2**N`` seconds. A random factor from 0.5 to 1 shortens
    it, so that the slaves of a restarted master do not all connect at the same time.
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
