"""How long to wait before the next attempt to reach the master."""

from __future__ import annotations

import random

FIRST = 0.1
"""The first wait, seconds."""


class Backoff:
    """Exponential, with jitter, bounded: attempt N waits up to ``FIRST * 2**N`` seconds, at most ``maximum``.

    The jitter takes up to half of it away, so that the slaves of a master that was down do not all come back
    at once.
    """

    def __init__(self, maximum: float, *, uniform: random.Random | None = None) -> None:
        self._maximum = maximum
        self._random = uniform or random.Random()
        self.attempts = 0

    def reset(self) -> None:
        """The master was reached."""
        self.attempts = 0

    def next(self) -> float:
        """Count a failed attempt; returns how long to wait now, seconds."""
        bound = min(self._maximum, FIRST * 2.0 ** min(self.attempts, 30))
        self.attempts += 1
        return bound * self._random.uniform(0.5, 1.0)
