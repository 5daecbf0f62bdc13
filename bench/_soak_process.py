"""A process with many simulated slaves that live through a long time (:mod:`bench._simulated`).

Some are slow, lose their connections, or change their filters.
"""

from __future__ import annotations

import asyncio
import random
from contextlib import suppress
from dataclasses import dataclass, field
from enum import Enum
from typing import Any

import grpc

from bench._filters import NUMBER, definition_of
from bench._follower import Follower, Start, WrongStream, dump, register
from bench._simulated import CALLS_AT_ONCE, Client, Clients, Result, serve
from dumpfilter.slave.threads.connection import CHANNEL_OPTIONS
from dumpfilter.topology.links.proxy import Link
from dumpfilter.topology.links.shape import PLAIN

_ROUND = 20
"""The followers of 20 consecutive numbers have all ways of life: 4 are slow, 2 vanish, 1 changes its filter."""
_SLOW_SECONDS = (0.2, 2.0)
_STAY_SECONDS = (15.0, 60.0)
_AWAY_SECONDS = (0.0, 10.0)
_CHANGE_SECONDS = (20.0, 120.0)
_RETRIED = frozenset(
    {
        grpc.StatusCode.UNAVAILABLE,
        grpc.StatusCode.CANCELLED,
        grpc.StatusCode.UNKNOWN,
        grpc.StatusCode.INTERNAL,
        grpc.StatusCode.RESOURCE_EXHAUSTED,
        grpc.StatusCode.NOT_FOUND,
        grpc.StatusCode.DEADLINE_EXCEEDED,
    }
)
_MOST_LOST = 100


class Life(Enum):
    """The ways in which a simulated slave lives."""

    STEADY = "steady"
    SLOW = "slow"
    VANISHING = "vanishing"
    CHANGING = "changing"


def life_of(number: int) -> Life:
    """Return a follower's way of life."""
    place = number % _ROUND
    if place < 4:
        return Life.SLOW
    return {4: Life.VANISHING, 5: Life.VANISHING, 6: Life.CHANGING}.get(place, Life.STEADY)


@dataclass(frozen=True)
class SoakJob:
    """The followers of a process. Follower k of the process has the number ``first + k``."""

    address: str
    count: int
    first: int = 0
    scale: float = 1.0
    """The factor for all times between disturbances. A short run has a smaller factor."""


@dataclass(kw_only=True)
class _Result(Result):
    """One follower's result."""

    life: str
    lost: list[str] = field(default_factory=list)
    """The reasons for which calls ended, except the ones that the follower brought about."""
    vanished: int = 0
    pieces: list[tuple[int, tuple[str, int]]] = field(default_factory=list)
    """Each filter's number, and the place up to which this filter chose the events. The last place is empty."""
    chunks: int = 0


class _Client(Client):
    """One simulated slave."""

    def __init__(self, job: SoakJob, number: int, places: asyncio.Semaphore, settled: asyncio.Event) -> None:
        self._job = job
        self._number = number
        self._places = places
        self._settled = settled
        self._random = random.Random(number)
        self.life = life_of(number)
        self.result: _Result = _Result(number=number, life=self.life.value)
        self.follower = Follower(Start())
        self._filter = (number + number // _ROUND) % NUMBER
        self._changed = False
        self._links: list[Link] = []
        """The links to the master. The last one is in use, and the others have gone silent."""
        self._receiving: asyncio.Task[str] | None = None
        self._absent = False
        self._is_changing = False
        """Whether the client has cancelled the stream, to register again with another filter."""
        self._taking = asyncio.Lock()

    def _between(self, bounds: tuple[float, float]) -> float:
        return self._random.uniform(*bounds) * self._job.scale

    async def run(self) -> None:
        """Follow the master until the task is cancelled, or until an error that no new connection can cure."""
        disturber = None
        if self.life is Life.VANISHING:
            self._open_link()
            disturber = asyncio.create_task(self._vanish())
        try:
            while not self.result.error:
                await self._connect_once()
        finally:
            if disturber is not None:
                disturber.cancel()
            for link in self._links:
                link.close()

    async def _connect_once(self) -> None:
        result = self.result
        while self._absent:
            await asyncio.sleep(0.05)
        vanished = result.vanished
        address = f"127.0.0.1:{self._links[-1].port}" if self._links else self._job.address
        async with grpc.aio.insecure_channel(address, options=CHANNEL_OPTIONS) as channel:
            self._receiving = asyncio.create_task(self._receive(channel))
            try:
                reason = await self._receiving
            except asyncio.CancelledError:
                if vanished == result.vanished:
                    self._receiving.cancel()
                    raise
                return
            except grpc.aio.AioRpcError as error:
                reason = f"{error.code().name}: {error.details()}"
                if error.code() not in _RETRIED:
                    result.error = reason
            except WrongStream as error:
                result.error = f"wrong stream: {error}"
                return
        if reason and vanished == result.vanished:
            result.lost.append(reason)
            if len(result.lost) >= _MOST_LOST:
                result.error = f"lost {_MOST_LOST} connections, the last time: {reason}"
            await asyncio.sleep(0.2)

    async def _receive(self, channel: grpc.aio.Channel) -> str:
        """Receive a stream until it ends, and return the reason; an empty one if the client changes its filter."""
        async with self._places:
            answer = await register(channel, self._number, definition_of(self._filter))
        request = self.follower.begin()
        request.slave_id, request.other_filters_before = answer.slave_id, self._changed
        call = dump(channel, request)
        changer = None
        if self.life is Life.CHANGING:
            changer = asyncio.create_task(self._change_filter(call))
        try:
            async for raw in call:
                async with self._taking:
                    if not self._is_changing:
                        self.follower.take(raw)
                if self.life is Life.SLOW and not self._settled.is_set():
                    with suppress(TimeoutError):
                        await asyncio.wait_for(self._settled.wait(), self._between(_SLOW_SECONDS))
        except asyncio.CancelledError:
            if not self._is_changing:
                raise
        finally:
            if changer is not None:
                changer.cancel()
        is_changing, self._is_changing = self._is_changing, False
        return "" if is_changing else "the stream ended"

    async def _vanish(self) -> None:
        """Lose the connection again and again, in one of two ways, and come back later."""
        while True:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._settled.wait(), self._between(_STAY_SECONDS))
                return
            self._absent = True
            self.result.vanished += 1
            if self._random.random() < 0.5:
                self._links[-1].reset()
            else:
                # The master learns nothing, as if a cable were unplugged.
                self._links[-1].silence()
                self._open_link()
                if self._receiving is not None:
                    self._receiving.cancel()
            await asyncio.sleep(self._between(_AWAY_SECONDS))
            self._absent = False

    def _open_link(self) -> None:
        """Open a link to the master for this follower alone."""
        host, _, port = self._job.address.rpartition(":")
        self._links.append(Link(f"slave {self._number}", (host, int(port)), PLAIN))

    async def _change_filter(self, call: Any) -> None:
        """Change the filter after a time, from a place that the slave's applier could have reached.

        The client then registers again, with the new filter.
        """
        while True:
            with suppress(TimeoutError):
                await asyncio.wait_for(self._settled.wait(), self._between(_CHANGE_SECONDS))
                return
            if self.follower.remembered:
                break
        async with self._taking:
            place = self._random.choice(self.follower.remembered)
            self.follower.change_filter(place)
            self.result.pieces.append((self._filter, (place.file, place.position)))
            self._filter = self._random.randrange(NUMBER)
            self._changed = self._is_changing = True
            call.cancel()

    @property
    def has_begun(self) -> bool:
        return self.follower.chunks > 0

    def finished(self) -> dict[str, Any]:
        self.result.pieces.append((self._filter, ("", 0)))
        self.result.chunks = self.follower.chunks
        return self.result.told_by(self.follower)


class _Clients(Clients[_Client]):
    def __init__(self, job: SoakJob) -> None:
        places = asyncio.Semaphore(CALLS_AT_ONCE)
        self._settled = asyncio.Event()
        super().__init__([_Client(job, job.first + k, places, self._settled) for k in range(job.count)])

    def behind(self, file: str, position: int) -> int:
        """Return how many followers have not reached a place."""
        return sum(client.follower.place != (file, position) for client in self.clients)

    def settle(self) -> None:
        """Let nobody be slow, vanish or change a filter from now on."""
        self._settled.set()


if __name__ == "__main__":
    asyncio.run(serve(lambda given: _Clients(SoakJob(**given))))
