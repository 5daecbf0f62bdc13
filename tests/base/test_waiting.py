"""The waits between attempts to reach a server."""

from __future__ import annotations

from dumpfilter.base.waiting import FIRST, Backoff


def test_waits_grow_to_their_bound() -> None:
    backoff = Backoff(1.0)
    waits = [backoff.next() for _ in range(10)]
    assert waits[0] <= FIRST
    assert all(0.5 <= wait <= 1.0 for wait in waits[4:])
    assert backoff.attempts == 10
    backoff.reset()
    assert backoff.next() <= FIRST
