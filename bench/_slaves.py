"""Simulated slaves in a few processes. Each slave has a connection of its own, and may be slow, vanish or change.

:class:`Follower` keeps a digest of a master's stream instead of relay logs. It has the place from which a slave would
resume, and for this place the digest of all events before it. After a lost connection, or a change of filter, the
follower goes back to such a place.
"""

from __future__ import annotations

import asyncio
import hashlib
import random
import time
import uuid
from collections import Counter, deque
from contextlib import ExitStack, suppress
from dataclasses import dataclass, field, replace
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING, Any

import grpc

from bench._growing import BEGINNING, FILTERS, MARKS, Life, Result, Start, definition_of, sends
from bench._processes import Child, requests
from bench._raw import COPY, FOLLOW
from dumpfilter.base.waiting import until
from dumpfilter.dump.stream.message import PROTOCOL
from dumpfilter.slave import io_thread
from dumpfilter.slave.connection import CHANNEL_OPTIONS
from dumpfilter.topology.links.proxy import Link
from dumpfilter.topology.links.shape import PLAIN
from dumpfilter.v1 import dumpfilter_pb2 as pb
from dumpfilter.v1 import dumpfilter_pb2_grpc as rpc

if TYPE_CHECKING:
    from hashlib import _Hash

_PROCESSES = 2
"""The processes that the simulated slaves are spread over."""
_POLL = 0.05
_CALLS_AT_ONCE = 12
"""The most registrations that one process has under way. A master answers 32 calls of one host at once."""
_REMEMBERED = 16
"""The number of resume points that a follower remembers for changes of its filter."""
_EXACT_EVERY = 21
"""The slaves that keep digests while they catch up: every so many. Five of a hundred have all kinds of filters."""

_SHARES: dict[Life, int] = {"slow": 4, "vanishing": 2, "changing": 1, "steady": 13}
_WAYS = list(Counter(_SHARES).elements())
"""The ways of life of disturbed slaves with consecutive numbers, again and again."""
_PAUSE = 0.5
"""The time that an undisturbed slow slave takes for each message, seconds."""
_PAUSES = (0.2, 2.0)
_AWAY = (0.0, 10.0)
_RECONNECT_SECONDS = 0.2
_UNDISTURBED: dict[Life, tuple[float, float]] = {"vanishing": (15.0, 60.0), "changing": (20.0, 120.0)}
"""The shortest and the longest time between two disturbances, seconds."""
_RETRIED = io_thread._RETRIED | {grpc.StatusCode.NOT_FOUND}
"""The status codes after which a disturbed slave connects again."""


@dataclass
class Reached:
    """A place, and what a follower knows about all events before it. A resume point lies between two transactions."""

    file: str
    position: int
    transactions: int
    """The number of transactions, sent and dropped. The binlogs of the benchmarks have GTIDs from 1 on."""
    dropped: int = 0
    """The number of transactions that gaps tell of."""
    size: int = 0
    """The number of bytes of events."""
    digest: _Hash = field(default_factory=hashlib.sha256)


class Follower:
    """The state of one simulated slave. The caller passes each message of the stream to :meth:`take`.

    ``exact`` says whether the follower keeps a digest of all events. Without the digest it counts the bytes alone.
    """

    def __init__(self, start: Start, *, exact: bool = True) -> None:
        self._exact = exact
        self.remembered: deque[Reached] = deque(maxlen=_REMEMBERED)
        """The newest resume points, which a change of filter may name."""
        self.go_to(Reached(*start))

    def go_to(self, point: Reached) -> None:
        """Discard everything after a resume point, at which the next stream begins."""
        self.resume = point
        self._now = replace(point, digest=point.digest.copy())
        """The end of the last message."""

    @property
    def place(self) -> tuple[str, int]:
        """The file and the position that the follower has reached."""
        return self._now.file, self._now.position

    @property
    def reached(self) -> dict[str, object]:
        """The members of :attr:`Result.reached`."""
        here = self.resume
        found: dict[str, object] = {"digest": here.digest.hexdigest()} if self._exact else {}
        found |= {"size": here.size, "transactions": here.transactions, "dropped": here.dropped}
        return found | {"place": self.place}

    def take(self, raw: bytes) -> None:
        """Take the events of a message. Whether they were the right ones, :func:`bench._growing.check` tells."""
        chunk, now = pb.Chunk.FromString(raw), self._now
        events, complete = chunk.events, chunk.resume_bytes
        if chunk.format_description:
            self.resume = replace(self.resume, file=chunk.file, position=chunk.start_position)
        is_moved = now.size == self.resume.size and chunk.resume_position != self.resume.position
        now.transactions += sum(sum(member.runs[1::2]) for member in chunk.completed.members)
        now.dropped += sum(chunk.gaps.run_length)
        self._add(events[:complete])
        now.file, now.position = chunk.file, chunk.resume_position
        if complete or is_moved:
            self.resume = replace(now, digest=now.digest.copy())
            self.remembered.append(self.resume)
        self._add(events[complete:])
        now.position = chunk.end_position

    def _add(self, events: bytes) -> None:
        if self._exact:
            self._now.digest.update(events)
        self._now.size += len(events)


@dataclass(frozen=True)
class Job:
    """The slaves of a process, and what they do."""

    address: str
    numbers: range
    start: Start = BEGINNING
    disturbed: float = 0.0
    """The factor for all times between disturbances. A short run has a smaller factor. 0: nothing is disturbed."""
    once: bool = False
    """Whether each slave receives the set once, up to its end, instead of following the set."""
    raw: bool = False
    """Whether the server is the bare one, which needs no registration and sends no chunks."""
    sizes: dict[int, list[int]] = field(default_factory=dict)
    """For ``once`` and ``raw``: the sizes of the messages that a slave asks for, by the number of its filter."""
    bad: int = 0
    """How many of the first slaves take their time for each message, and how many of the slaves after them never read a
    second message. Both begin at the set's first event."""

    def life_of(self, number: int) -> Life:
        """Return a slave's way of life."""
        if self.disturbed:
            return _WAYS[number % len(_WAYS)]
        if number < self.bad:
            return "slow"
        return "stuck" if number < 2 * self.bad else "steady"


class Slave:
    """One simulated slave with its connection. Processes ask for its methods by their names."""

    def __init__(self, job: Job, number: int, calls: asyncio.Semaphore, settled: asyncio.Event) -> None:
        self._job, self._calls, self._settled = job, calls, settled
        self._random = random.Random(number)
        chosen = number + number // len(_WAYS) if job.disturbed else number
        self._result = result = Result(number, job.life_of(number), chosen % FILTERS)
        start = job.start if result.life == "steady" else BEGINNING
        self._follower = Follower(start, exact=not job.once or number % _EXACT_EVERY == 0)
        self._kept: list[bytes] = []
        self._link = self._new_link() if result.life == "vanishing" else None
        """A link to the master for this slave alone."""
        self.task = asyncio.create_task(self._run())

    def waits(self) -> bool:
        """Tell whether the slave has not received a first message."""
        return not self._result.sizes

    def runs(self) -> bool:
        """Tell whether the slave has neither reached the end of the set nor failed."""
        return not self.task.done()

    def misses(self, mark: int, schema: str, table: str) -> bool:
        """Tell whether a steady slave still waits for a mark in a table that its filter sends."""
        result = self._result
        is_wanted = self._job.raw or sends(result.filter, schema, table)
        has_it = result.arrivals and result.arrivals[-1][0] >= mark
        return is_wanted and result.life == "steady" and not has_it

    def is_behind(self, file: str, position: int) -> bool:
        """Tell whether the slave has not reached a place."""
        return self._follower.place != (file, position)

    def error(self) -> str:
        """Return the error with which the slave ended, or an empty text."""
        if self.task.done():
            self.task.result()
        return self._result.error

    def settle(self) -> None:
        """Let no slave of the process be slow, vanish or change a filter from now on."""
        self._settled.set()

    def finish(self) -> Result:
        """Take the kept messages, and return the result."""
        for raw in self._kept:
            self._follower.take(raw)
        self._result.reached = self._follower.reached
        return self._result

    async def _run(self) -> None:
        """Receive until the task is cancelled, or until an error that no new connection can cure."""
        result = self._result
        while not (result.error or result.ended):
            receiving = asyncio.create_task(self._receive())
            try:
                await asyncio.wait([receiving], timeout=self._undisturbed_seconds())
                if receiving.done():
                    receiving.result()
                    result.lost += 1
                    result.ended = 0.0 if self._job.disturbed else time.monotonic()
                    away = _RECONNECT_SECONDS
                else:
                    away = self._disturb()
            finally:
                receiving.cancel()
                await asyncio.gather(receiving, return_exceptions=True)
            await asyncio.sleep(away)

    def _undisturbed_seconds(self) -> float | None:
        bounds = _UNDISTURBED.get(self._result.life)
        return None if bounds is None or self._settled.is_set() else self._between(bounds)

    def _between(self, bounds: tuple[float, float]) -> float:
        return self._random.uniform(*bounds) * self._job.disturbed

    def _disturb(self) -> float:
        """Lose the connection in one of two ways, or take another filter. Return the time to stay away, seconds."""
        result, follower = self._result, self._follower
        if self._settled.is_set():
            return 0.0
        if self._link is not None:
            result.vanished += 1
            if self._random.random() < 0.5:
                self._link.reset()
            else:
                # The master learns nothing, as if a cable were unplugged.
                self._link.silence()
                self._link = self._new_link()
            return self._between(_AWAY)
        if follower.remembered:
            # The slave's applier could have reached this point.
            point = self._random.choice(follower.remembered)
            follower.go_to(point)
            follower.remembered.clear()
            result.pieces += ((result.filter, (point.file, point.position)),)
            result.filter = self._random.randrange(FILTERS)
        return 0.0

    def _new_link(self) -> Link:
        host, _, port = self._job.address.rpartition(":")
        return Link(f"slave {self._result.number}", (host, int(port)), PLAIN)

    async def _receive(self) -> None:
        """Receive a stream until it ends. Note an error that no new connection can cure."""
        address = f"127.0.0.1:{self._link.port}" if self._link else self._job.address
        try:
            # The clients of a real master are on other machines: each has its own connection.
            async with grpc.aio.insecure_channel(address, options=CHANNEL_OPTIONS) as channel:
                async for raw in await self._call(channel):
                    self._take(raw)
                    await self._pause()
        except grpc.aio.AioRpcError as error:
            if not self._job.disturbed or error.code() not in _RETRIED:
                self._result.error = f"{error.code().name}: {error.details()}"

    async def _call(self, channel: grpc.aio.Channel) -> Any:
        """Return the stream of messages, which are not decoded."""
        job, result, follower = self._job, self._result, self._follower
        if job.raw:
            text = " ".join(map(str, job.sizes.get(result.filter, ())))
            return channel.unary_stream(COPY if job.once else FOLLOW, None, None)(text.encode())
        registration = pb.RegisterRequest(
            server_id=result.number + 1000,
            uuid=str(uuid.UUID(int=result.number + 1)),
            filter=definition_of(result.filter),
            secret=result.number.to_bytes(16, "little"),
            protocol=PROTOCOL,
        )
        stub: Any = rpc.DumpFilterStub(channel)
        async with self._calls:
            answer = await stub.Register(registration, timeout=60)
        here = follower.resume
        follower.go_to(here)
        request = pb.DumpRequest(slave_id=answer.slave_id, once=job.once)
        request.other_filters_before = bool(result.pieces)
        # "from" is no name in Python.
        getattr(request, "from").CopyFrom(pb.BinlogPosition(file=here.file, position=here.position))
        dump = channel.unary_stream("/dumpfilter.v1.DumpFilter/Dump", None, None)
        return dump(request.SerializeToString())

    def _take(self, raw: bytes) -> None:
        """Note a message's arrival, and take the message now or at the end of the run."""
        result, job, now = self._result, self._job, time.monotonic()
        result.begun = result.begun or now
        result.sizes.append(len(raw))
        if not job.once:
            result.arrivals += [(int(number), now) for number in MARKS.findall(raw)]
        if job.raw:
            return
        if job.once or job.disturbed:
            self._follower.take(raw)
        else:
            # Checks wait until the end of the run, so that they do not add to the time at which others receive.
            self._kept.append(raw)

    async def _pause(self) -> None:
        """Wait as a slow or a stuck slave does before the next message."""
        life = self._result.life
        if life in ("slow", "stuck"):
            seconds = self._between(_PAUSES) if self._job.disturbed else _PAUSE
            with suppress(TimeoutError):
                await asyncio.wait_for(self._settled.wait(), None if life == "stuck" else seconds)


async def living(pipe: Connection, job: Job) -> None:
    """Run the slaves of a job. Each request is the name of a method of :class:`Slave`, and its arguments."""
    calls, settled = asyncio.Semaphore(_CALLS_AT_ONCE), asyncio.Event()
    slaves = [Slave(job, number, calls, settled) for number in job.numbers]
    async for verb, *arguments in requests(pipe):
        if verb == "finish":
            for slave in slaves:
                slave.task.cancel()
            await asyncio.gather(*(slave.task for slave in slaves), return_exceptions=True)
        pipe.send([getattr(slave, verb)(*arguments) for slave in slaves])


class Fleet(ExitStack):
    """The running slaves of a job, in several processes, which take the slaves' numbers by turns."""

    def __init__(self, job: Job) -> None:
        super().__init__()
        parts = [replace(job, numbers=job.numbers[part::_PROCESSES]) for part in range(_PROCESSES)]
        self._processes = [self.enter_context(Child(living, part)) for part in parts]

    def ask(self, *request: object) -> list[Any]:
        """Return each slave's answer to a request, in no order."""
        for process in self._processes:
            process.tell(*request)
        return [answer for process in self._processes for answer in process.answer()]

    def wait_until_none(self, *request: object, seconds: float = 300.0) -> float:
        """Wait until no slave answers True to a request, and return the time that it took."""
        begin = time.monotonic()

        def failed() -> SystemExit:
            number = sum(self.ask(*request))
            return SystemExit(f"after {seconds:.0f} s {number} simulated slaves: {request!r}")

        until(lambda: not any(self.ask(*request)), begin + seconds, failed, poll=_POLL)
        return time.monotonic() - begin

    def finish(self, *lives: Life) -> list[Result]:
        """End all connections, and return the results of the slaves with these ways of life (all).

        Raises SystemExit for a slave among them that has ended with an error.
        """
        results = [result for result in self.ask("finish") if not lives or result.life in lives]
        for result in results:
            if result.error:
                raise SystemExit(f"{result.life} slave {result.number}: {result.error}")
        return results
