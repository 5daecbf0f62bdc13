"""The processor time that users owe, and the wait of those who owe much."""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Iterator
from types import SimpleNamespace

import pytest

from dumpfilter.console import limits
from dumpfilter.console.limits import BURST_SECONDS, MOST_OWED_SECONDS, SHARE, UserLimits
from tests.console.turns import Turns


class _Yield:
    def __await__(self) -> Iterator[None]:
        yield


class Clock:
    """A clock that stands still, except that each sleep moves it."""

    def __init__(self) -> None:
        self.now = 1000.0
        self.processor = 0.0

    def monotonic(self) -> float:
        return self.now

    def thread_time(self) -> float:
        return self.processor

    async def sleep(self, seconds: float) -> None:
        # A rounded time must not stand still for ever.
        self.now += seconds and seconds + 1e-6
        await _Yield()

    def work(self, seconds: float) -> Callable[[], None]:
        def run() -> None:
            self.processor += seconds

        return run


@pytest.fixture
def clock(monkeypatch: pytest.MonkeyPatch) -> Clock:
    made = Clock()
    monkeypatch.setattr(limits, "time", made)
    # The module's own name is replaced. Another loop of this process, such as a server's, keeps the real function.
    monkeypatch.setattr(
        limits, "asyncio", SimpleNamespace(sleep=made.sleep, Lock=asyncio.Lock, Semaphore=asyncio.Semaphore)
    )
    return made


def test_a_long_command_is_not_paid_for_in_minutes(clock: Clock) -> None:
    counted = UserLimits()
    begun = clock.now
    counted.counting()(clock.work(60.0))()
    asyncio.run(counted.admit(100))
    assert clock.now == pytest.approx(begun + (MOST_OWED_SECONDS - BURST_SECONDS) / SHARE, abs=0.01)


def test_a_user_who_owes_much_waits_and_others_do_not(clock: Clock) -> None:
    counted = UserLimits()
    begun = clock.now
    counted.counting()(clock.work(BURST_SECONDS + 1))()
    asyncio.run(UserLimits().admit(100))
    assert clock.now == begun
    asyncio.run(counted.admit(100))
    assert clock.now == pytest.approx(begun + 1 / SHARE, abs=0.01)


def test_all_connections_of_a_user_together_have_one_share(clock: Clock) -> None:
    counted = UserLimits()
    done = 0.0

    async def connection() -> None:
        nonlocal done
        for _ in range(20):
            await counted.admit(1 << 16)
            counted.counting()(clock.work(0.1))()
            done += 0.1

    async def all_of_them() -> None:
        await asyncio.gather(*(connection() for _ in range(8)))

    begun = clock.now
    asyncio.run(all_of_them())
    assert done == pytest.approx(16.0)
    assert done <= SHARE * (clock.now - begun) + BURST_SECONDS + 8 * 0.1


def test_each_command_takes_a_turn_of_the_loop_and_some_time(clock: Clock) -> None:
    """A packet of 1 MiB may hold 200,000 commands, which kept a master's loop for 9 s."""
    counted = UserLimits()

    async def commands() -> int:
        async with Turns() as turns:
            for _ in range(30_000):
                await counted.admit(1)
        return turns.number

    begun = clock.now
    assert asyncio.run(commands()) >= 30_000
    assert clock.now > begun


def test_refused_commands_count(clock: Clock) -> None:
    counted = UserLimits()
    for _ in range(20):
        asyncio.run(counted.admit(0xFFFFFF))
    before = clock.now
    asyncio.run(counted.admit(1))
    assert clock.now > before


def test_a_debt_falls_with_time(clock: Clock) -> None:
    counted = UserLimits()
    counted.counting()(clock.work(100.0))()
    clock.now += 100.0 / SHARE
    before = clock.now
    asyncio.run(counted.admit(1))
    assert clock.now == before


def test_a_call_that_fails_counts_as_well(clock: Clock) -> None:
    def fails() -> None:
        clock.work(BURST_SECONDS + 1)()
        raise ValueError("wrong")

    counted = UserLimits()
    with pytest.raises(ValueError, match="wrong"):
        counted.counting()(fails)()
    before = clock.now
    asyncio.run(counted.admit(1))
    assert clock.now > before


def test_the_processor_time_is_that_of_the_thread(clock: Clock, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(clock, "thread_time", time.thread_time)
    monkeypatch.setattr(limits, "BURST_SECONDS", 0.04)

    def burn() -> None:
        end = time.thread_time() + 0.05
        while time.thread_time() < end:
            pass

    idle, busy = UserLimits(), UserLimits()
    before = clock.now
    idle.counting()(lambda: time.sleep(0.05))()
    asyncio.run(idle.admit(1))
    assert clock.now == before
    busy.counting()(burn)()
    asyncio.run(busy.admit(1))
    assert clock.now > before
