"""Many simulated slaves in several processes, and a client that asks for the master's health all the time."""

from __future__ import annotations

import json
import threading
import time
from collections.abc import Iterator, Mapping, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import asdict, dataclass, replace
from typing import Any

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

from bench._common import Child, child
from bench._slaves import Job

PROCESSES = 2
"""The processes that the simulated slaves are spread over."""
_SHARED = ("count", "slow", "stuck")
"""The numbers in a job of which each process gets its share."""
_POLL = 0.05
_HEALTH_PERIOD = 0.1
"""The time between two questions for the master's health, seconds."""
_HEALTH_TIMEOUT = 10.0


class Fleet:
    """Simulated slaves in several processes. :func:`fleet` starts them."""

    def __init__(self, processes: Sequence[Child], count: int) -> None:
        self._processes = processes
        self.count = count

    def ask(self, *words: object) -> list[Any]:
        """Return each process's answer to a list of words."""
        for process in self._processes:
            process.tell(json.dumps(words))
        return [process.answer() for process in self._processes]

    def wait_until_begun(self, count: int | None = None, *, seconds: float = 300.0) -> float:
        """Wait until so many slaves (all) have received a first message, and return the time that it took."""
        wanted = self.count if count is None else count
        return self._wait(["state"], lambda answers: sum(a["begun"] for a in answers) >= wanted, seconds)

    def wait_until_ended(self, *, seconds: float = 900.0) -> float:
        """Wait until all slaves have reached the end of the set, and return the time that it took."""
        return self._wait(["state"], lambda answers: sum(a["ended"] for a in answers) >= self.count, seconds)

    def wait_until_arrived(self, mark: int, schema: str, table: str, *, seconds: float = 120.0) -> float:
        """Wait until all steady slaves whose filter sends a table have its mark, and return the time that it took."""
        return self._wait(["missing", mark, schema, table], lambda answers: not any(answers), seconds)

    def wait_until_at(self, place: tuple[str, int], *, seconds: float = 180.0) -> float:
        """Wait until all slaves have reached a place, and return the time that it took."""
        return self._wait(["behind", *place], lambda answers: not any(answers), seconds)

    def _wait(self, question: list[object], is_reached: Any, seconds: float) -> float:
        begin = time.monotonic()
        while not is_reached(answers := self.ask(*question)):
            if time.monotonic() - begin > seconds:
                raise SystemExit(
                    f"after {seconds:.0f} s the simulated slaves answer to {question!r}: {answers}"
                )
            time.sleep(_POLL)
        return time.monotonic() - begin

    def finish(self) -> list[dict[str, Any]]:
        """End all connections, and return the checked result of each slave."""
        return [result for results in self.ask("finish") for result in results]


@contextmanager
def fleet(job: Job) -> Iterator[Fleet]:
    """Run the slaves of a job in several processes. Slow and stuck slaves are spread over the processes, too."""
    with ExitStack() as stack:
        processes = []
        for number in range(PROCESSES):
            part = replace(
                job,
                first=job.first + sum(_share(job.count, before) for before in range(number)),
                **{name: _share(getattr(job, name), number) for name in _SHARED},
            )
            process = stack.enter_context(child(["-m", "bench._slaves"], quiet=False))
            process.tell(json.dumps(asdict(part)))
            processes.append(process)
        yield Fleet(processes, job.count)


def _share(count: int, number: int) -> int:
    return count // PROCESSES + (number < count % PROCESSES)


@dataclass
class Health:
    """The answers that a client got, which asked for the master's health all the time."""

    asked: int = 0
    failed: int = 0
    longest: float = 0.0
    """The longest time to an answer, seconds."""
    error: str = ""
    paused: bool = False
    """Whether the client asks nothing for the moment, so that the master is idle."""


@contextmanager
def asking_for_health(address: str) -> Iterator[Health]:
    """Ask for the master's health ten times a second in a thread, while the ``with`` block runs."""
    found, done = Health(), threading.Event()

    def ask() -> None:
        with grpc.insecure_channel(address, options=(("grpc.use_local_subchannel_pool", 1),)) as channel:
            stub = health_pb2_grpc.HealthStub(channel)
            while not done.wait(_HEALTH_PERIOD):
                if found.paused:
                    continue
                begin = time.monotonic()
                found.asked += 1
                try:
                    answer = stub.Check(health_pb2.HealthCheckRequest(), timeout=_HEALTH_TIMEOUT)
                except grpc.RpcError as error:
                    found.failed += 1
                    found.error = f"{error.code().name}: {error.details()}"
                    continue
                if answer.status != health_pb2.HealthCheckResponse.SERVING:
                    found.failed += 1
                    found.error = "not serving"
                found.longest = max(found.longest, time.monotonic() - begin)

    thread = threading.Thread(target=ask, name="health", daemon=True)
    thread.start()
    try:
        yield found
    finally:
        done.set()
        thread.join()


def percentiles(values: Sequence[float]) -> Mapping[int, float]:
    """Return the 50th, 95th, 99th and 100th percentile of at least one value."""
    ordered = sorted(values)
    return {p: ordered[min(len(ordered) - 1, len(ordered) * p // 100)] for p in (50, 95, 99, 100)}
