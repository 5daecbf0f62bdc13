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
from array import array
from collections import deque
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass, field, replace
from multiprocessing.connection import Connection
from typing import TYPE_CHECKING, Any, NamedTuple

import grpc

from bench._check import FILTERS, Life, Result, definition_of, sends
from bench._child import Child, requests
from bench._common import dump_request
from bench._growing import MARK_LENGTH, MARKS, Start
from bench._raw import COPY, FOLLOW
from dumpfilter.base.waiting import until
from dumpfilter.dump.stream.versions import PROTOCOL
from dumpfilter.slave.threads.connection import CHANNEL_OPTIONS
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
_MOST_REFUSALS = 100
_MOST_LOST = 100
_REMEMBERED = 16
"""The number of resume points that a follower remembers for changes of its filter."""

_WAYS = [Life.SLOW] * 4 + [Life.VANISHING] * 2 + [Life.CHANGING] + [Life.STEADY] * 13
"""The ways of life of disturbed slaves with consecutive numbers, again and again."""
_PAUSE = 0.5
"""The time that an undisturbed slow slave takes for each message, seconds."""
_PAUSES = (0.2, 2.0)
_AWAY = (0.0, 10.0)
_UNDISTURBED = {Life.VANISHING: (15.0, 60.0), Life.CHANGING: (20.0, 120.0)}
"""The shortest and the longest time between two disturbances, seconds."""
START = Start()
"""The beginning of a set."""
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


def registration(number: int, definition: pb.FilterDefinition) -> pb.RegisterRequest:
    """Return the request with which the follower of a number registers, each time with the same identity."""
    return pb.RegisterRequest(
        server_id=number + 1000,
        uuid=str(uuid.UUID(int=number + 1)),
        filter=definition,
        secret=number.to_bytes(16, "little"),
        protocol=PROTOCOL,
    )


def dump(channel: Any, request: pb.DumpRequest) -> Any:
    """Begin a dump. Its messages are not decoded."""
    method = "/dumpfilter.v1.DumpFilter/Dump"
    return channel.unary_stream(method, request_serializer=pb.DumpRequest.SerializeToString)(request)


class Place(NamedTuple):
    """A resume point: a place between two transactions, and what a follower knows about all events before it."""

    file: str
    position: int
    digest: _Hash
    size: int
    """The number of bytes of events."""
    transactions: int
    """The number of transactions, sent and dropped. The binlogs of the benchmarks have GTIDs from 1 on."""
    dropped: int
    """The number of transactions that gaps tell of."""
    marks: int
    """The number of marks in the events."""


class Follower:
    """The state of one simulated slave. The caller passes each message of the stream to :meth:`take`.

    ``exact`` says whether the follower keeps a digest of all events. Without the digest it counts the bytes alone.
    """

    def __init__(self, start: Start, *, exact: bool = True) -> None:
        self._exact = exact
        self.remembered: deque[Place] = deque(maxlen=_REMEMBERED)
        """The newest resume points, which a change of filter may name."""
        self._marks = array("I")
        """The numbers of all marks in the events."""
        self._go_to(Place(start.file, start.position, hashlib.sha256(), 0, start.transactions, 0, 0))

    def _go_to(self, place: Place) -> None:
        self.resume = place
        """The place at which the next stream begins."""
        self._digest, self._size, self._tail = place.digest.copy(), place.size, b""
        self._completed, self._dropped = place.transactions, place.dropped
        del self._marks[place.marks :]
        self._next: tuple[str, int] | None = None

    @property
    def place(self) -> tuple[str, int]:
        """The file and the position that the follower has reached."""
        return self._next or (self.resume.file, self.resume.position)

    @property
    def reached(self) -> dict[str, object]:
        """The members of :attr:`Result.reached`."""
        here = self.resume
        return {
            "place": self.place,
            "size": here.size,
            "digest": here.digest.hexdigest(),
            "transactions": here.transactions,
            "dropped": here.dropped,
            "marks": self._marks.tolist(),
        }

    def begin(self) -> pb.DumpRequest:
        """Begin a new stream at the resume point. Return the request, without the id of the slave."""
        here = self.resume
        self._go_to(here)
        return dump_request(here.file, here.position)

    def change_filter(self, place: Place) -> None:
        """Discard everything after ``place``. The next stream begins there, with another filter."""
        self._go_to(place)
        self.remembered.clear()

    def take(self, raw: bytes) -> None:
        """Take the events of a message. Whether they were the right ones, :func:`bench._check.check` tells."""
        chunk = pb.Chunk.FromString(raw)
        events, complete = chunk.events, chunk.resume_bytes
        if chunk.format_description:
            self.resume = self.resume._replace(file=chunk.file, position=chunk.start_position)
        here = self.resume
        incomplete = self._size > here.size
        self._completed += sum(sum(member.runs[1::2]) for member in chunk.completed.members)
        self._dropped += sum(chunk.gaps.run_length)
        marks = self._find_marks(events, complete)
        self._add(events[:complete])
        if complete or (not incomplete and chunk.resume_position != here.position):
            self.resume = Place(
                chunk.file,
                chunk.resume_position,
                self._digest.copy(),
                self._size,
                self._completed,
                self._dropped,
                marks,
            )
            self.remembered.append(self.resume)
        self._add(events[complete:])
        self._next = (chunk.file, chunk.end_position)

    def _add(self, events: bytes) -> None:
        if self._exact:
            self._digest.update(events)
        self._size += len(events)

    def _find_marks(self, events: bytes, complete: int) -> int:
        """Note the marks in the events. Return how many marks end before or in the first ``complete`` bytes.

        A mark may be cut by the end of a chunk, since a large event is spread over several chunks.
        """
        marks, end = len(self._marks), len(self._tail) + complete
        data = self._tail + events if self._tail else events
        for found in MARKS.finditer(data):
            self._marks.append(int(found[1]))
            marks += found.end() <= end
        # The next chunk finds a mark that begins in the last bytes. A whole mark is longer than this rest.
        self._tail = data[-(MARK_LENGTH - 1) :]
        return marks


@dataclass(frozen=True)
class Job:
    """The slaves of a process, and what they do."""

    address: str
    numbers: range
    start: Start = START
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
    bad: int = 0
    """How many of the first slaves take their time for each message, and how many of the slaves after them never read a
    second message. Both begin at the set's first event."""

    def life_of(self, number: int) -> Life:
        """Return a slave's way of life."""
        if self.disturbed:
            return _WAYS[number % len(_WAYS)]
        if number < self.bad:
            return Life.SLOW
        return Life.STUCK if number < 2 * self.bad else Life.STEADY


class Slave:
    """One simulated slave with its connection. Processes ask for its methods by their names."""

    def __init__(self, job: Job, number: int, calls: asyncio.Semaphore, settled: asyncio.Event) -> None:
        self._job, self._calls, self._settled = job, calls, settled
        self._random = random.Random(number)
        chosen = number + number // len(_WAYS) if job.disturbed else number
        self._result = Result(number, job.life_of(number), chosen % FILTERS)
        is_bad = not job.disturbed and self._result.life is not Life.STEADY
        self._follower = Follower(START if is_bad else job.start, exact=number % job.exact_every == 0)
        self._kept: list[bytes] = []
        self._links: list[Link] = []
        """The links to the master. The last one is in use, and the others have gone silent."""
        self.task = asyncio.create_task(self._run())

    def waits(self) -> bool:
        """Tell whether the slave has not received a first message."""
        return not self._result.messages

    def runs(self) -> bool:
        """Tell whether the slave has neither reached the end of the set nor failed."""
        return not self.task.done()

    def misses(self, mark: int, schema: str, table: str) -> bool:
        """Tell whether a steady slave still waits for a mark in a table that its filter sends."""
        result = self._result
        is_wanted = self._job.raw or sends(result.filter, schema, table)
        has_it = result.arrivals and result.arrivals[-1][0] >= mark
        return is_wanted and result.life is Life.STEADY and not has_it

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
        result = self._result
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
        bounds = _UNDISTURBED.get(self._result.life)
        return None if bounds is None or self._settled.is_set() else self._between(bounds)

    def _between(self, bounds: tuple[float, float]) -> float:
        return self._random.uniform(*bounds) * self._job.disturbed

    def _disturb(self) -> bool:
        """Lose the connection in one of two ways, or take another filter. Return False when this is impossible yet."""
        result, follower = self._result, self._follower
        if result.life is Life.VANISHING:
            result.vanished += 1
            if self._random.random() < 0.5:
                self._links[-1].reset()
            else:
                # The master learns nothing, as if a cable were unplugged.
                self._links[-1].silence()
                self._open_link()
            return True
        if not follower.remembered:
            return False
        # The slave's applier could have reached this place.
        place = self._random.choice(follower.remembered)
        follower.change_filter(place)
        result.pieces.append((result.filter, (place.file, place.position)))
        result.filter = self._random.randrange(FILTERS)
        return True

    def _open_link(self) -> None:
        """Open a link to the master for this slave alone."""
        host, _, port = self._job.address.rpartition(":")
        self._links.append(Link(f"slave {self._result.number}", (host, int(port)), PLAIN))

    async def _receive(self) -> str:
        """Receive a stream until it ends, and return the reason."""
        result, reason = self._result, "the stream ended"
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
        return reason

    async def _call(self, channel: grpc.aio.Channel) -> Any:
        job, result = self._job, self._result
        if job.raw:
            text = " ".join(map(str, job.sizes.get(result.filter, ())))
            return channel.unary_stream(COPY if job.once else FOLLOW, None, None)(text.encode())
        async with self._calls:
            answer = await self._register(channel)
        request = self._follower.begin()
        request.slave_id, request.once = answer.slave_id, job.once
        request.other_filters_before = bool(result.pieces)
        return dump(channel, request)

    async def _register(self, channel: grpc.aio.Channel) -> pb.RegisterResponse:
        request = registration(self._result.number, definition_of(self._result.filter))
        stub: Any = rpc.DumpFilterStub(channel)
        refusals = 0
        while True:
            try:
                answer: pb.RegisterResponse = await stub.Register(request, timeout=60)
                return answer
            except grpc.aio.AioRpcError as error:
                refusals += 1
                if error.code() is not grpc.StatusCode.RESOURCE_EXHAUSTED or refusals > _MOST_REFUSALS:
                    raise
                await asyncio.sleep(0.1)

    def _take(self, raw: bytes) -> None:
        """Note a message's arrival, and take the message now or at the end of the run."""
        result, job, now = self._result, self._job, time.monotonic()
        result.begun = result.begun or now
        result.messages += 1
        result.bytes += len(raw)
        if job.once:
            result.sizes.append(len(raw))
        elif not job.disturbed:
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
        if life in (Life.SLOW, Life.STUCK):
            seconds = self._between(_PAUSES) if self._job.disturbed else _PAUSE
            with suppress(TimeoutError):
                await asyncio.wait_for(self._settled.wait(), None if life is Life.STUCK else seconds)


def living(pipe: Connection, job: Job) -> None:
    """Run the slaves of a job. Each request is the name of a method of :class:`Slave`, and its arguments."""
    asyncio.run(_live(pipe, job))


async def _live(pipe: Connection, job: Job) -> None:
    calls, settled = asyncio.Semaphore(_CALLS_AT_ONCE), asyncio.Event()
    slaves = [Slave(job, number, calls, settled) for number in job.numbers]
    async for verb, *arguments in requests(pipe):
        if verb == "finish":
            for slave in slaves:
                slave.task.cancel()
            await asyncio.gather(*(slave.task for slave in slaves), return_exceptions=True)
        pipe.send([getattr(slave, verb)(*arguments) for slave in slaves])


class Fleet:
    """Simulated slaves in several processes. :func:`fleet` starts them."""

    def __init__(self, processes: Sequence[Child]) -> None:
        self._processes = processes

    def ask(self, *request: object) -> list[Any]:
        """Return each slave's answer to a request, in no order."""
        for process in self._processes:
            process.tell(*request)
        return [answer for process in self._processes for answer in process.answer()]

    def wait_until_none(self, *request: object, seconds: float = 300.0) -> float:
        """Wait until no slave answers True to a request, and return the time that it took."""
        begin = time.monotonic()
        until(
            lambda: not any(self.ask(*request)),
            begin + seconds,
            lambda: SystemExit(
                f"after {seconds:.0f} s {sum(self.ask(*request))} simulated slaves: {request!r}"
            ),
            poll=_POLL,
        )
        return time.monotonic() - begin

    def finish(self, *lives: Life) -> list[Result]:
        """End all connections, and return the results of the slaves with these ways of life (all).

        Raises SystemExit for a slave among them that has ended with an error.
        """
        results = [result for result in self.ask("finish") if result.life in (lives or Life)]
        for result in results:
            if result.error:
                raise SystemExit(f"{result.life} slave {result.number}: {result.error}")
        return results


@contextmanager
def fleet(job: Job) -> Iterator[Fleet]:
    """Run the slaves of a job in several processes, which take the slaves' numbers by turns."""
    with ExitStack() as stack:
        parts = [replace(job, numbers=job.numbers[part::_PROCESSES]) for part in range(_PROCESSES)]
        yield Fleet([stack.enter_context(Child(living, part)) for part in parts])
