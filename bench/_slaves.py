"""Many simulated slaves in a child process, each with a connection of its own, and the requests that it answers."""

from __future__ import annotations

import asyncio
import inspect
import random
import time
from contextlib import suppress
from dataclasses import dataclass, field
from enum import StrEnum
from multiprocessing.connection import Connection
from typing import Any

import grpc

from bench._child import requests
from bench._filters import NUMBER, definition_of, sends
from bench._follower import Follower, Start, WrongStream, dump, registration
from bench._growing import MARK, MARK_LENGTH
from bench._raw import COPY, FOLLOW
from dumpfilter.slave.threads.connection import CHANNEL_OPTIONS
from dumpfilter.topology.links.proxy import Link
from dumpfilter.topology.links.shape import PLAIN
from dumpfilter.v1 import dumpfilter_pb2 as pb
from dumpfilter.v1 import dumpfilter_pb2_grpc as rpc

_CALLS_AT_ONCE = 12
"""The most registrations that one process has under way. A master answers 32 calls of one host at once."""
_MOST_REFUSALS = 100
_MOST_LOST = 100

_ROUND = 20
"""The disturbed slaves of 20 consecutive numbers have all ways of life: 4 are slow, 2 vanish, 1 changes its filter."""
_PAUSE = 0.5
"""The time that an undisturbed slow slave takes for each message, seconds."""
_PAUSES = (0.2, 2.0)
_STAYS = (15.0, 60.0)
_AWAY = (0.0, 10.0)
_CHANGES = (20.0, 120.0)
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


class Life(StrEnum):
    """The ways in which a simulated slave lives."""

    STEADY = "steady"
    SLOW = "slow"
    STUCK = "stuck"
    VANISHING = "vanishing"
    CHANGING = "changing"


@dataclass(frozen=True)
class Job:
    """The slaves of a process, and what they do. Slave k of the process has the number ``first + k``."""

    address: str
    count: int
    first: int = 0
    start: Start = field(default_factory=Start)
    disturbed: float = 0.0
    """The factor for all times between disturbances. A short run has a smaller factor. 0: nothing is disturbed."""
    once: bool = False
    """Whether each slave receives the set once, up to its end, instead of following the set."""
    raw: bool = False
    """Whether the server is the bare one, which needs no registration and sends no chunks."""
    sizes: dict[int, list[int]] = field(default_factory=dict)
    """For ``once`` and ``raw``: the sizes of the messages that a slave asks for, by the number of its filter."""
    exact_every: int = 1
    """The slaves that keep digests of all events: every so many."""
    slow: int = 0
    """How many of the first slaves take their time for each message. They begin at the set's first event."""
    stuck: int = 0
    """How many of the slaves after them never read a second message. They begin at the set's first event, too."""

    def life_of(self, number: int) -> Life:
        """Return a slave's way of life."""
        if self.disturbed:
            ways = [Life.SLOW] * 4 + [Life.VANISHING] * 2 + [Life.CHANGING] + [Life.STEADY] * (_ROUND - 7)
            return ways[number % _ROUND]
        place = number - self.first
        if place < self.slow:
            return Life.SLOW
        return Life.STUCK if place < self.slow + self.stuck else Life.STEADY


@dataclass(kw_only=True)
class Result:
    """One slave's result: what it received, and the place that it reached."""

    number: int
    life: Life
    filter: int
    error: str = ""
    begun: float = 0.0
    ended: float = 0.0
    bytes: int = 0
    messages: int = 0
    sizes: list[int] = field(default_factory=list)
    """For ``once``: the sizes of all messages, bytes."""
    arrivals: list[tuple[int, float]] = field(default_factory=list)
    """The number of each mark, and the time on the monotonic clock at which it arrived, seconds."""
    lost: list[str] = field(default_factory=list)
    """The reasons for which calls ended, except the ones that the slave brought about."""
    vanished: int = 0
    pieces: list[tuple[int, tuple[str, int]]] = field(default_factory=list)
    """Each earlier filter's number, and the place up to which this filter chose the events."""
    place: tuple[str, int] = ("", 0)
    size: int = 0
    digest: str = ""
    transactions: int = 0
    dropped: int = 0
    marks: list[int] = field(default_factory=list)


class Slave:
    """One simulated slave with its connection."""

    def __init__(self, job: Job, number: int, calls: asyncio.Semaphore, settled: asyncio.Event) -> None:
        self._job, self._calls, self._settled = job, calls, settled
        self._random = random.Random(number)
        chosen = number + number // _ROUND if job.disturbed else number
        self.result = Result(number=number, life=job.life_of(number), filter=chosen % NUMBER)
        is_bad = not job.disturbed and self.result.life is not Life.STEADY
        exact = number % job.exact_every == 0
        self.follower = Follower(Start() if is_bad else job.start, exact=exact)
        self._kept: list[bytes] = []
        self._links: list[Link] = []
        """The links to the master. The last one is in use, and the others have gone silent."""

    async def run(self) -> None:
        """Receive until the task is cancelled, or until an error that no new connection can cure."""
        result = self.result
        if result.life is Life.VANISHING:
            self._open_link()
        try:
            while not (result.error or result.ended):
                if await self._connect():
                    await asyncio.sleep(0.2)
                elif result.life is Life.VANISHING:
                    await asyncio.sleep(self._between(_AWAY))
        finally:
            for link in self._links:
                link.close()

    async def _connect(self) -> bool:
        """Receive until the connection ends. Return False when the slave itself ended the connection."""
        result = self.result
        receiving = asyncio.create_task(self._receive())
        try:
            while not (await asyncio.wait([receiving], timeout=self._undisturbed_seconds()))[0]:
                if not self._settled.is_set() and self._disturb():
                    return False
            reason = receiving.result()
        finally:
            receiving.cancel()
            await asyncio.gather(receiving, return_exceptions=True)
        if not self._job.disturbed:
            result.ended = time.monotonic()
            return True
        result.lost.append(reason)
        if not result.error and len(result.lost) >= _MOST_LOST:
            result.error = f"lost {_MOST_LOST} connections, the last time: {reason}"
        return True

    def _undisturbed_seconds(self) -> float | None:
        bounds = {Life.VANISHING: _STAYS, Life.CHANGING: _CHANGES}.get(self.result.life)
        return None if bounds is None or self._settled.is_set() else self._between(bounds)

    def _between(self, bounds: tuple[float, float]) -> float:
        return self._random.uniform(*bounds) * self._job.disturbed

    def _disturb(self) -> bool:
        """Lose the connection in one of two ways, or take another filter. Return False when this is impossible yet."""
        result = self.result
        if result.life is Life.VANISHING:
            result.vanished += 1
            if self._random.random() < 0.5:
                self._links[-1].reset()
            else:
                # The master learns nothing, as if a cable were unplugged.
                self._links[-1].silence()
                self._open_link()
            return True
        if not self.follower.remembered:
            return False
        # The slave's applier could have reached this place.
        place = self._random.choice(self.follower.remembered)
        self.follower.change_filter(place)
        result.pieces.append((result.filter, (place.file, place.position)))
        result.filter = self._random.randrange(NUMBER)
        return True

    def _open_link(self) -> None:
        """Open a link to the master for this slave alone."""
        host, _, port = self._job.address.rpartition(":")
        self._links.append(Link(f"slave {self.result.number}", (host, int(port)), PLAIN))

    async def _receive(self) -> str:
        """Receive a stream until it ends, and return the reason."""
        result, reason = self.result, "the stream ended"
        address = f"127.0.0.1:{self._links[-1].port}" if self._links else self._job.address
        try:
            # The clients of a real master are on other machines: each has its own connection.
            async with grpc.aio.insecure_channel(address, options=CHANNEL_OPTIONS) as channel:
                async for raw in await self._call(channel):
                    self._take(raw)
                    await self._pause()
        except grpc.aio.AioRpcError as error:
            reason = f"{error.code().name}: {error.details()}"
            if not self._job.disturbed or error.code() not in _RETRIED:
                result.error = reason
        except WrongStream as error:
            result.error = f"wrong stream: {error}"
        return reason

    async def _call(self, channel: grpc.aio.Channel) -> Any:
        job, result = self._job, self.result
        if job.raw:
            text = " ".join(map(str, job.sizes.get(result.filter, ())))
            return channel.unary_stream(COPY if job.once else FOLLOW)(text.encode())
        async with self._calls:
            answer = await self._register(channel)
        request = self.follower.begin()
        request.slave_id, request.once = answer.slave_id, job.once
        request.other_filters_before = bool(result.pieces)
        return dump(channel, request)

    async def _register(self, channel: grpc.aio.Channel) -> pb.RegisterResponse:
        refusals = 0
        while True:
            try:
                definition = definition_of(self.result.filter)
                stub = rpc.DumpFilterStub(channel)
                return await stub.Register(registration(self.result.number, definition), timeout=60)
            except grpc.aio.AioRpcError as error:
                refusals += 1
                if error.code() is not grpc.StatusCode.RESOURCE_EXHAUSTED or refusals > _MOST_REFUSALS:
                    raise
                await asyncio.sleep(0.1)

    def _take(self, raw: bytes) -> None:
        """Note a message's arrival, and prove the message now or at the end of the run."""
        result, job, now = self.result, self._job, time.monotonic()
        result.begun = result.begun or now
        result.messages += 1
        result.bytes += len(raw)
        if job.once:
            result.sizes.append(len(raw))
        elif not job.disturbed:
            at = raw.find(MARK)
            while at >= 0:
                result.arrivals.append((int(raw[at + len(MARK) : at + MARK_LENGTH]), now))
                at = raw.find(MARK, at + MARK_LENGTH)
        if job.raw:
            return
        if job.once or job.disturbed:
            self.follower.take(raw)
        else:
            # Checks wait until the end of the run, so that they do not add to the time at which others receive.
            self._kept.append(raw)

    async def _pause(self) -> None:
        """Wait as a slow or a stuck slave does before the next message."""
        life = self.result.life
        if life in (Life.SLOW, Life.STUCK):
            seconds = self._between(_PAUSES) if self._job.disturbed else _PAUSE
            with suppress(TimeoutError):
                await asyncio.wait_for(self._settled.wait(), None if life is Life.STUCK else seconds)

    def misses(self, mark: int, schema: str, table: str) -> bool:
        """Tell whether a steady slave still waits for a mark in a table that its filter sends."""
        result = self.result
        is_wanted = self._job.raw or sends(result.filter, schema, table)
        return (
            is_wanted
            and result.life is Life.STEADY
            and (not result.arrivals or result.arrivals[-1][0] < mark)
        )

    def finished(self) -> Result:
        """Prove the kept messages, and return the result."""
        result, follower = self.result, self.follower
        try:
            for raw in self._kept:
                follower.take(raw)
        except WrongStream as error:
            result.error = f"wrong stream: {error}"
        here = follower.resume
        result.place, result.size, result.digest = follower.place, here.size, here.digest.hexdigest()
        result.transactions, result.dropped = here.transactions, here.dropped
        result.marks = follower.marks.tolist()
        return result


class Slaves:
    """All simulated slaves of the process."""

    def __init__(self, job: Job) -> None:
        calls, self._settled = asyncio.Semaphore(_CALLS_AT_ONCE), asyncio.Event()
        self._slaves = [Slave(job, job.first + k, calls, self._settled) for k in range(job.count)]
        self._tasks = [asyncio.create_task(slave.run()) for slave in self._slaves]

    def waiting(self) -> int:
        """Return how many slaves have not received a first message."""
        return sum(not slave.result.messages for slave in self._slaves)

    def running(self) -> int:
        """Return how many slaves have neither reached the end of the set nor failed."""
        return sum(not task.done() for task in self._tasks)

    def errors(self) -> list[str]:
        """Return the errors of the slaves."""
        for task in self._tasks:
            if task.done() and not task.cancelled():
                task.result()
        return [slave.result.error for slave in self._slaves if slave.result.error]

    def missing(self, mark: int, schema: str, table: str) -> int:
        """Return how many steady slaves still wait for a mark, which is in this table."""
        return sum(slave.misses(mark, schema, table) for slave in self._slaves)

    def behind(self, file: str, position: int) -> int:
        """Return how many slaves have not reached a place."""
        return sum(slave.follower.place != (file, position) for slave in self._slaves)

    def settle(self) -> None:
        """Let nobody be slow, vanish or change a filter from now on."""
        self._settled.set()

    async def finish(self) -> list[Result]:
        """End all connections, and return the results."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        return [slave.finished() for slave in self._slaves]


def living(pipe: Connection, job: Job) -> None:
    """Run the slaves of a job. Each request is the name of a method of :class:`Slaves`, and its arguments."""
    asyncio.run(_serve(pipe, job))


async def _serve(pipe: Connection, job: Job) -> None:
    slaves = Slaves(job)
    async for verb, *arguments in requests(pipe):
        answer = getattr(slaves, verb)(*arguments)
        pipe.send(await answer if inspect.isawaitable(answer) else answer)
