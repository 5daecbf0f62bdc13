"""Many simulated slaves in a process, each with a connection of its own, and the commands that the process answers.

The first line on standard input is the process's job as JSON. Each further line is a list of words as JSON: the name of
a method of :class:`Clients` and its arguments. The process answers with a line of JSON on standard output.
"""

from __future__ import annotations

import abc
import asyncio
import inspect
import json
import sys
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass, field
from typing import Any, Generic, TypeVar

from bench._follower import Follower

CALLS_AT_ONCE = 12
"""The most registrations that one process has under way. A master answers 32 calls of one host at once."""
_LONGEST_LINE = 64 << 20


@dataclass(kw_only=True)
class Result:
    """One slave's result: the place that it reached, and what it received."""

    number: int
    error: str = ""
    place: tuple[str, int] = ("", 0)
    size: int = 0
    digest: str = ""
    transactions: int = 0
    dropped: int = 0
    marks: list[int] = field(default_factory=list)

    def told_by(self, follower: Follower) -> dict[str, Any]:
        """Return the result with the state of a follower that has ended."""
        here = follower.resume
        self.place, self.size, self.digest = follower.place, here.size, here.digest.hexdigest()
        self.transactions, self.dropped = here.transactions, here.dropped
        self.marks = follower.marks.tolist()
        return asdict(self)


class Client(abc.ABC):
    """One simulated slave with its connection."""

    result: Result

    @property
    @abc.abstractmethod
    def has_begun(self) -> bool:
        """Whether the slave has received a first message."""

    @abc.abstractmethod
    async def run(self) -> None:
        """Receive until the task is cancelled, or until an error."""

    @abc.abstractmethod
    def finished(self) -> dict[str, Any]:
        """Return the result of a slave whose connection has ended."""


C = TypeVar("C", bound=Client)


class Clients(Generic[C]):
    """All simulated slaves of the process."""

    def __init__(self, clients: Sequence[C]) -> None:
        self.clients = clients
        self._tasks = [asyncio.create_task(client.run()) for client in clients]

    def state(self) -> dict[str, Any]:
        """Return how many slaves have begun and ended, and their errors."""
        for task in self._tasks:
            if task.done() and not task.cancelled():
                task.result()
        return {
            "begun": sum(client.has_begun for client in self.clients),
            "ended": sum(task.done() for task in self._tasks),
            "errors": [client.result.error for client in self.clients if client.result.error],
        }

    async def finish(self) -> list[dict[str, Any]]:
        """End all connections, and return the results."""
        for task in self._tasks:
            task.cancel()
        await asyncio.gather(*self._tasks, return_exceptions=True)
        return [client.finished() for client in self.clients]


async def serve(start: Callable[[dict[str, Any]], Clients[Any]]) -> None:
    """Answer the lines on standard input. ``start`` takes the job, and returns the slaves."""
    # The job of a copy names the sizes of all messages.
    reader = asyncio.StreamReader(limit=_LONGEST_LINE)
    await asyncio.get_running_loop().connect_read_pipe(
        lambda: asyncio.StreamReaderProtocol(reader), sys.stdin
    )
    clients = start(json.loads(await reader.readline()))
    while line := await reader.readline():
        command, *arguments = json.loads(line)
        answer = getattr(clients, command)(*arguments)
        print(json.dumps(await answer if inspect.isawaitable(answer) else answer), flush=True)
