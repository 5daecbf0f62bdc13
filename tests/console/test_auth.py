"""The turns of clients whose passwords are checked."""

from __future__ import annotations

import asyncio
import gc
from types import SimpleNamespace

import pytest

from dumpfilter.console import auth
from dumpfilter.console.auth import LoginTurns


def test_a_guesser_with_many_connections_has_one_check_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    """After the free failures each check waits, and clients of one guesser do not wait at the same time."""
    waits: list[str] = []
    running = 0

    async def sleep(seconds: float) -> None:
        nonlocal running
        running += 1
        assert running == 1
        waits.append(f"{seconds}")
        await asyncio.sleep(0)
        running -= 1

    # Loops of other threads go on to sleep as they do.
    monkeypatch.setattr(auth, "asyncio", SimpleNamespace(Lock=asyncio.Lock, sleep=sleep))
    turns = LoginTurns(1.0)

    async def guess() -> None:
        async with turns.turn(("10.0.0.9", "root")):
            turns.failed(("10.0.0.9", "root"))

    async def other() -> None:
        async with turns.turn(("10.0.0.8", "root")):
            pass

    async def everybody() -> None:
        await asyncio.gather(*(guess() for _ in range(10)), other())

    asyncio.run(everybody())
    assert len(waits) == 7
    assert not turns._locks


def test_a_client_that_leaves_gives_up_its_turn() -> None:
    turns = LoginTurns(3600.0)

    async def scene() -> None:
        for _ in range(3):
            turns.failed("guesser")
        first = asyncio.create_task(take())
        await asyncio.sleep(0)
        second = asyncio.create_task(take())
        await asyncio.sleep(0)
        for task in (second, first):
            task.cancel()
        await asyncio.gather(first, second, return_exceptions=True)

    async def take() -> None:
        async with turns.turn("guesser"):
            raise AssertionError("the password must not be checked")

    asyncio.run(scene())
    # The errors of the cancelled tasks hold the lock in a cycle.
    gc.collect()
    assert not turns._locks
