"""A process with many simulated slaves, each with a connection of its own. A benchmark runs one for each processor.

The first line on standard input is the process's :class:`Job` as JSON. Each further line is a list of words as JSON,
which the process answers by a line of JSON on standard output:

    | words    | answer |
    |----------|--------|
    | state    | how many followers have begun, and their errors |
    | missing MARK SCHEMA TABLE | how many good followers still wait for this mark, which is in this table |
    | hurry    | slow and stuck followers read at full speed from now on |
    | finish   | the checked results of all followers, whose connections end |
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Awaitable, Callable
from contextlib import suppress
from dataclasses import asdict, dataclass, field
from typing import Any

import grpc

from bench._aio_raw import COPY, FOLLOW
from bench._filters import definition_of, sends
from bench._follower import Follower, Start, WrongStream, dump, register
from bench._growing import MARK, MARK_LENGTH
from dumpfilter.slave.threads.connection import CHANNEL_OPTIONS
from dumpfilter.v1 import dumpfilter_pb2 as pb

_CALLS_AT_ONCE = 12
"""The most registrations that one process has under way. A master answers 32 calls of one host at once."""
_LONGEST_LINE = 64 << 20
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


@dataclass
class _Result:
    """One follower's result: the messages that it received, and the place that it reached."""

    number: int
    filter: int
    bad: bool
    """Whether the follower is slow or stuck."""
    error: str = ""
    refused: int = 0
    """How many times the master refused the call for the moment."""
    bytes: int = 0
    messages: int = 0
    begun: float = 0.0
    ended: float = 0.0
    place: tuple[str, int] = ("", 0)
    size: int = 0
    digest: str = ""
    transactions: int = 0
    dropped: int = 0
    marks: list[int] = field(default_factory=list)
    arrivals: list[tuple[int, float]] = field(default_factory=list)
    """The number of each mark, and the time on the monotonic clock at which it arrived, seconds."""
    sizes: list[int] = field(default_factory=list)


class _Client:
    """One simulated slave with its connection."""

    def __init__(self, job: Job, number: int, places: asyncio.Semaphore, hurry: asyncio.Event) -> None:
        self._job = job
        self._number = number
        self._places = places
        self._hurry = hurry
        self.slow = number - job.first < job.slow
        self.stuck = not self.slow and number - job.first < job.slow + job.stuck
        self.result = _Result(number, number % job.filters, bad=self.slow or self.stuck)
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

    def checked(self) -> dict[str, Any]:
        """Prove the kept messages, and return the result."""
        result, follower = self.result, self.follower
        try:
            for raw in self.kept:
                follower.take(raw)
        except WrongStream as error:
            result.error = f"wrong stream: {error}"
        self.kept.clear()
        here = follower.resume
        result.place, result.size, result.digest = follower.place, here.size, here.digest.hexdigest()
        result.transactions, result.dropped = here.transactions, here.dropped
        result.marks = follower.marks.tolist()
        return asdict(result)


class _Clients:
    """All simulated slaves of the process."""

    def __init__(self, job: Job) -> None:
        places = asyncio.Semaphore(_CALLS_AT_ONCE)
        self._hurry = asyncio.Event()
        self._clients = [_Client(job, job.first + k, places, self._hurry) for k in range(job.count)]
        self._tasks: list[asyncio.Task[None]] = []

    def start(self) -> None:
        self._tasks = [asyncio.create_task(client.run()) for client in self._clients]

    async def answer(self, command: str, *arguments: Any) -> Any:
        results = [client.result for client in self._clients]
        if command == "state":
            ended = sum(task.done() for task in self._tasks)
            errors = [result.error for result in results if result.error]
            begun = sum(1 for result in results if result.begun)
            return {"begun": begun, "ended": ended, "errors": errors}
        if command == "missing":
            mark, schema, table = arguments
            return sum(client.misses(mark, schema, table) for client in self._clients)
        if command == "hurry":
            self._hurry.set()
            return len(self._clients)
        assert command == "finish"
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        return [client.checked() for client in self._clients]


async def serve(start: Callable[[dict[str, Any]], Callable[..., Awaitable[Any]]]) -> None:
    """Answer the lines on standard input. ``start`` takes the job, and returns the function that answers."""
    # The job of a copy names the sizes of all messages.
    reader = asyncio.StreamReader(limit=_LONGEST_LINE)
    await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), sys.stdin
    )
    answer = start(json.loads(await reader.readline()))
    while line := await reader.readline():
        print(json.dumps(await answer(*json.loads(line))), flush=True)


def _start(given: dict[str, Any]) -> Callable[..., Awaitable[Any]]:
    clients = _Clients(Job(**{**given, "start": Start(*given["start"])}))
    clients.start()
    return clients.answer


if __name__ == "__main__":
    asyncio.run(serve(_start))
