"""The waiting times of guessers, with a clock that the tests set, and mappings of bounded size."""

from __future__ import annotations

import asyncio
import gc
from types import SimpleNamespace

import pytest

from dumpfilter.base.security import throttle
from dumpfilter.base.security.throttle import Recent, Throttle


class Clock:
    now = 1000.0

    def __call__(self) -> float:
        return self.now


def test_the_wait_grows_up_to_a_limit_and_is_forgotten() -> None:
    clock = Clock()
    guesses = Throttle(free=2, longest=8, clock=clock)
    waits = []
    for _ in range(8):
        guesses.failed("a")
        waits.append(guesses.wait("a"))
    assert waits == [0, 0, 1, 2, 4, 8, 8, 8]
    assert guesses.wait("b") == 0
    clock.now += 7
    assert guesses.wait("a") == 1
    clock.now += 1
    assert guesses.wait("a") == 0
    clock.now += 1000
    assert guesses.failures("a") == 0
    guesses.failed("a")
    assert guesses.wait("a") == 0


def test_the_memory_is_bounded() -> None:
    guesses = Throttle(free=0)
    for number in range(throttle._MOST_KEYS + 1):
        guesses.failed(number)
    assert guesses.failures(0) == 0
    assert guesses.failures(1) == 1


def test_what_was_set_longest_ago_is_forgotten() -> None:
    numbers: Recent[str, int] = Recent(2)
    numbers["a"] = 1
    numbers["b"] = 2
    numbers["a"] = 3
    numbers["c"] = 4
    assert dict(numbers) == {"a": 3, "c": 4}


def test_a_guesser_with_many_connections_has_one_check_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """After the free failures each check waits, and clients of one guesser do not wait at the same time."""
    clock = Clock()
    waits: list[float] = []

    async def sleep(seconds: float) -> None:
        if seconds:
            waits.append(seconds)
            await asyncio.sleep(0)
            clock.now += seconds

    # Loops of other threads go on to sleep as they do.
    monkeypatch.setattr(throttle, "asyncio", SimpleNamespace(Lock=asyncio.Lock, sleep=sleep))
    guesses = Throttle(free=2, longest=1, clock=clock)

    async def guess() -> None:
        async with guesses.turn(("10.0.0.9", "root")):
            guesses.failed(("10.0.0.9", "root"))

    async def other() -> None:
        async with guesses.turn(("10.0.0.8", "root")):
            pass

    async def everybody() -> None:
        await asyncio.gather(*(guess() for _ in range(10)), other())

    asyncio.run(everybody())
    assert waits == [1] * 7
    assert not guesses._locks


def test_a_client_that_leaves_gives_up_its_turn() -> None:
    guesses = Throttle(free=2, longest=3600, clock=Clock())

    async def scene() -> None:
        for _ in range(20):
            guesses.failed("guesser")
        first = asyncio.create_task(take())
        await asyncio.sleep(0)
        second = asyncio.create_task(take())
        await asyncio.sleep(0)
        for task in (second, first):
            task.cancel()
        await asyncio.gather(first, second, return_exceptions=True)

    async def take() -> None:
        async with guesses.turn("guesser"):
            raise AssertionError("the password must not be checked")

    asyncio.run(scene())
    # The errors of the cancelled tasks hold the lock in a cycle.
    gc.collect()
    assert not guesses._locks
