"""The master's coroutines without an asyncio loop: nothing is shared, and nothing is computed before somebody asks."""

from __future__ import annotations

from collections.abc import AsyncIterator, Callable, Coroutine, Iterator, Sequence
from typing import Any, TypeVar

from dumpfilter.master.advance import DumpPlace, PlacedPlan, Step, step_from
from dumpfilter.master.store import BinlogStore

T = TypeVar("T")


def at_once(coroutine: Coroutine[Any, Any, T]) -> T:
    """Return the result of a coroutine that never waits."""
    try:
        coroutine.send(None)
    except StopIteration as end:
        return end.value
    raise AssertionError("the coroutine waits")


def one_by_one(items: AsyncIterator[T]) -> Iterator[T]:
    """Yield the items of an asynchronous generator that never waits."""
    try:
        while True:
            yield at_once(items.__anext__())
    except StopAsyncIteration:
        return
    finally:
        at_once(items.aclose())


class Flag:
    """A waiter that is only looked at."""

    follower: object = None

    def __init__(self) -> None:
        self.is_set = False

    def wake(self) -> None:
        self.is_set = True


class InlineReader:
    """A reader in which each dump reads for itself."""

    def __init__(self, store: BinlogStore) -> None:
        self.store = store

    @property
    def growth(self) -> int:
        """A number that changes when the binlog grows."""
        return 0

    def wait(self, growth: int, seconds: float, flag: Flag) -> None:
        """Wait until the growth differs, seconds are over, or a flag is set."""

    def waiter(self) -> Flag:
        return Flag()

    def leave(self, waiter: Flag) -> None:
        """Nobody counts the dumps of this reader."""

    async def call(self, function: Callable[[], T]) -> T:
        return function()

    async def serve(self, function: Callable[[], T]) -> T:
        return function()

    async def step(self, place: DumpPlace, seconds: float, signal: Flag) -> Step | None:
        step = None
        growth = self.growth
        if not signal.is_set:
            step = step_from(self.store, place)
            if step is None and seconds > 0:
                self.wait(growth, seconds, signal)
        signal.is_set = False
        return step

    async def messages(self, piece: PlacedPlan, chunk_size: int) -> Sequence[bytes]:
        return list(piece.messages(chunk_size))

    def prepare(self, step: Step, number: int) -> None:
        pass
