from __future__ import annotations

import pytest

from dumpfilter.console.sql import interruption
from dumpfilter.console.sql.interruption import Turns

_TICK = 1e-4


class Clock:
    """A clock that goes on by a tenth of a millisecond at each look, and while a thread sleeps."""

    def __init__(self) -> None:
        self.now = 0.0
        self.slept: list[float] = []

    def monotonic(self) -> float:
        self.now += _TICK
        return self.now

    def sleep(self, seconds: float) -> None:
        self.slept.append(seconds)
        self.now += seconds


def test_a_thread_that_calculates_pauses_each_millisecond(monkeypatch: pytest.MonkeyPatch) -> None:
    clock, turns = Clock(), Turns()
    monkeypatch.setattr(interruption, "time", clock)
    for _ in range(1000):
        turns.pause()
    worked = clock.now - sum(clock.slept)
    assert 0.8 <= sum(clock.slept) / (worked / 2) <= 1.2
    assert len(clock.slept) == pytest.approx(worked / 1e-3, rel=0.2)
