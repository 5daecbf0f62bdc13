"""Many simulated slaves in several processes, and a client that asks for the master's health all the time."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from contextlib import ExitStack, contextmanager
from dataclasses import dataclass, replace
from typing import Any

import grpc
from grpc_health.v1 import health_pb2, health_pb2_grpc

from bench._child import Child
from bench._slaves import Job, Life, Result, living
from dumpfilter.base.waiting import until

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

    def __init__(self, processes: Sequence[Child]) -> None:
        self._processes = processes

    def ask(self, *request: object) -> list[Any]:
        """Return each process's answer to a request."""
        for process in self._processes:
            process.tell(*request)
        return [process.answer() for process in self._processes]

    def wait_until_none(self, *request: object, seconds: float = 300.0) -> float:
        """Wait until no slave is counted in the answers to a request, and return the time that it took."""
        begin = time.monotonic()
        until(
            lambda: not any(self.ask(*request)),
            begin + seconds,
            lambda: SystemExit(
                f"after {seconds:.0f} s the simulated slaves answer {request!r}: {self.ask(*request)}"
            ),
            poll=_POLL,
        )
        return time.monotonic() - begin

    def finish(self, *lives: Life) -> list[Result]:
        """End all connections, and return the results of the slaves with these ways of life (all).

        Raises SystemExit for a slave among them that has ended with an error.
        """
        found = [result for results in self.ask("finish") for result in results]
        results = [result for result in found if result.life in (lives or Life)]
        for result in results:
            if result.error:
                raise SystemExit(f"{result.life} slave {result.number}: {result.error}")
        return results


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
            processes.append(stack.enter_context(Child(living, part)))
        yield Fleet(processes)


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


def percentiles(values: Sequence[float]) -> dict[int, float]:
    """Return the 50th, 95th, 99th and 100th percentile of at least one value."""
    ordered = sorted(values)
    return {p: ordered[min(len(ordered) - 1, len(ordered) * p // 100)] for p in (50, 95, 99, 100)}
