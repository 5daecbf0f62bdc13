"""A process with many simulated slaves that follow a set, or receive it once (:mod:`bench._simulated`)."""

from __future__ import annotations

import asyncio
import time
from contextlib import suppress
from dataclasses import dataclass, field
from typing import Any

import grpc

from bench._aio_raw import COPY, FOLLOW
from bench._filters import definition_of, sends
from bench._follower import Follower, Start, WrongStream, dump, register
from bench._growing import MARK, MARK_LENGTH
from bench._simulated import CALLS_AT_ONCE, Client, Clients, Result, serve
from dumpfilter.slave.threads.connection import CHANNEL_OPTIONS
from dumpfilter.v1 import dumpfilter_pb2 as pb

_SLOW_SECONDS = 0.5
"""The time that a slow follower takes for each message, seconds."""


@dataclass(frozen=True)
class Job:
    """The followers of a process, and what they do. Follower k of the process has the number ``first + k``."""

    address: str
    count: int
    first: int = 0
    filters: int = 50
    """The number of different filters. Follower number k has the filter k modulo this number."""
    start: Start = field(default_factory=Start)
    once: bool = False
    """Whether each follower receives the set once, up to its end, instead of following the set."""
    raw: bool = False
    """Whether the server is the bare one, which needs no registration and sends no chunks."""
    sizes: dict[str, list[int]] = field(default_factory=dict)
    """For ``once`` and ``raw``: the sizes of the messages that a follower asks for, by the number of its filter."""
    exact_every: int = 1
    """The followers that keep digests of all events: every so many."""
    slow: int = 0
    """How many of the first followers take their time for each message. They begin at the set's first event."""
    stuck: int = 0
    """How many of the followers after them never read a second message. They begin at the set's first event, too."""


@dataclass(kw_only=True)
class _Result(Result):
    """One follower's result: the messages that it received, and the place that it reached."""

    filter: int
    bad: bool
    """Whether the follower is slow or stuck."""
    refused: int = 0
    """How many times the master refused the call for the moment."""
    bytes: int = 0
    messages: int = 0
    begun: float = 0.0
    ended: float = 0.0
    arrivals: list[tuple[int, float]] = field(default_factory=list)
    """The number of each mark, and the time on the monotonic clock at which it arrived, seconds."""
    sizes: list[int] = field(default_factory=list)


class _Client(Client):
    """One simulated slave with its connection."""

    def __init__(self, job: Job, number: int, places: asyncio.Semaphore, hurry: asyncio.Event) -> None:
        self._job = job
        self._number = number
        self._places = places
        self._hurry = hurry
        self.slow = number - job.first < job.slow
        self.stuck = not self.slow and number - job.first < job.slow + job.stuck
        self.result: _Result = _Result(
            number=number, filter=number % job.filters, bad=self.slow or self.stuck
        )
        start = Start() if self.result.bad else job.start
        self.follower = Follower(start, exact=number % job.exact_every == 0)
        self.kept: list[bytes] = []
        self.last_mark = -1

    async def run(self) -> None:
        result = self.result
        # The clients of a real master are on other machines: each has its own connection.
        async with grpc.aio.insecure_channel(self._job.address, options=CHANNEL_OPTIONS) as channel:
            try:
                await self._receive(channel)
            except grpc.aio.AioRpcError as error:
                result.error = f"{error.code().name}: {error.details()}"
            except WrongStream as error:
                result.error = f"wrong stream: {error}"
            result.ended = time.monotonic()

    async def _receive(self, channel: grpc.aio.Channel) -> None:
        result, once = self.result, self._job.once
        call = await self._call(channel)
        async for raw in call:
            now = time.monotonic()
            result.begun = result.begun or now
            result.messages += 1
            result.bytes += len(raw)
            if once:
                result.sizes.append(len(raw))
                if not self._job.raw:
                    self.follower.take(raw)
                continue
            at = raw.find(MARK)
            while at >= 0:
                self.last_mark = int(raw[at + len(MARK) : at + MARK_LENGTH])
                result.arrivals.append((self.last_mark, now))
                at = raw.find(MARK, at + MARK_LENGTH)
            # Checks wait until the end of the run, so that they do not add to the time at which others receive.
            if not self._job.raw:
                self.kept.append(raw)
            if self.slow and not self._hurry.is_set():
                with suppress(TimeoutError):
                    await asyncio.wait_for(self._hurry.wait(), _SLOW_SECONDS)
            elif self.stuck:
                await self._hurry.wait()

    async def _call(self, channel: grpc.aio.Channel) -> Any:
        job = self._job
        if job.raw:
            text = " ".join(map(str, job.sizes.get(str(self.result.filter), ())))
            return channel.unary_stream(COPY if job.once else FOLLOW)(text.encode())
        async with self._places:
            answer = await self._register(channel)
        request = self.follower.begin()
        request.slave_id, request.once = answer.slave_id, job.once
        return dump(channel, request)

    async def _register(self, channel: grpc.aio.Channel) -> pb.RegisterResponse:
        while True:
            try:
                return await register(channel, self._number, definition_of(self.result.filter))
            except grpc.aio.AioRpcError as error:
                if error.code() is not grpc.StatusCode.RESOURCE_EXHAUSTED or self.result.refused >= 100:
                    raise
                self.result.refused += 1
                await asyncio.sleep(0.1)

    def misses(self, mark: int, schema: str, table: str) -> bool:
        """Tell whether the follower is good and still waits for a mark in a table that its filter sends."""
        result = self.result
        is_wanted = self._job.raw or sends(result.filter, schema, table)
        return is_wanted and not result.bad and self.last_mark < mark

    @property
    def has_begun(self) -> bool:
        return self.result.begun > 0

    def finished(self) -> dict[str, Any]:
        """Prove the kept messages, and return the result."""
        try:
            for raw in self.kept:
                self.follower.take(raw)
        except WrongStream as error:
            self.result.error = f"wrong stream: {error}"
        self.kept.clear()
        return self.result.told_by(self.follower)


class _Clients(Clients[_Client]):
    def __init__(self, job: Job) -> None:
        places = asyncio.Semaphore(CALLS_AT_ONCE)
        self._hurry = asyncio.Event()
        super().__init__([_Client(job, job.first + k, places, self._hurry) for k in range(job.count)])

    def missing(self, mark: int, schema: str, table: str) -> int:
        """Return how many good followers still wait for a mark, which is in this table."""
        return sum(client.misses(mark, schema, table) for client in self.clients)

    def hurry(self) -> int:
        """Let slow and stuck followers read at full speed from now on."""
        self._hurry.set()
        return len(self.clients)


if __name__ == "__main__":
    asyncio.run(serve(lambda given: _Clients(Job(**{**given, "start": Start(*given["start"])}))))
