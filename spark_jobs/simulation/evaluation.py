"""The evaluation of a simulation's nodes, on threads of this process or on Spark.

The traffic is read once, and is the same for all nodes. Spark sends it once to each of its processes.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from dataclasses import dataclass, replace
from typing import Any, Protocol, TypeVar, cast

from dumpfilter.simulation.simulate import Runner as Evaluator
from dumpfilter.simulation.simulate import Schedules
from dumpfilter.spark_jobs.engines.runner import Runner
from dumpfilter.spark_jobs.spark.jobs import Shared, SparkRunner

A = TypeVar("A")
B = TypeVar("B")

_CHUNKS = 8
"""The number of Spark tasks for each core among which the nodes are divided.

Neighbouring nodes have the same traffic, which is looked up once for all nodes of a task. Few nodes are not worth a
task for each of them, because the start of a task takes as long as the evaluation of some nodes.
"""

_LEAST = 4
"""The least number of nodes of a Spark task."""

_LABEL = "simulating"


class Task(Protocol):
    """A dataclass of :mod:`dumpfilter.simulation.simulate` that evaluates nodes. ``schedules`` has the traffic."""

    schedules: Schedules

    def __call__(self, item: Any) -> Any: ...


def evaluator(run: Runner) -> Evaluator:
    """Return a function that evaluates nodes in the threads or processes in which ``run`` runs its tasks."""
    if isinstance(run, SparkRunner):
        return _OnSpark(run)
    return lambda function, items: run(function, items, _LABEL)


class _OnSpark:
    """Runs evaluations on Spark. The traffic goes to each process once, and not with each task."""

    def __init__(self, run: SparkRunner) -> None:
        self._run = run
        self._schedules: Schedules | None = None
        self._shared: Shared[Schedules] | None = None

    def __call__(self, function: Callable[[A], B], items: Sequence[A]) -> list[B]:
        if not items:
            return []
        task = cast(Task, function)
        length = max(-(-len(items) // (_CHUNKS * self._run.cores)), _LEAST)
        chunks = [tuple(items[first : first + length]) for first in range(0, len(items), length)]
        found = self._run(_Chunk(_without(task), self._share(task.schedules)), chunks, _LABEL)
        return [one for chunk in found for one in chunk]

    def _share(self, schedules: Schedules) -> Shared[Schedules]:
        if self._shared is None or self._schedules != schedules:
            if self._shared is not None:
                self._shared.destroy()
            # Later loads are added to the mapping, so a copy tells whether the processes have all of them.
            self._schedules = dict(schedules)
            self._shared = self._run.share(self._schedules)
        return self._shared


def _without(task: Task) -> Task:
    return cast(Task, replace(cast(Any, task), schedules={}))


@dataclass(frozen=True)
class _Chunk:
    """A Spark task that evaluates several nodes."""

    task: Task
    schedules: Shared[Schedules]

    def __call__(self, items: Iterable[Any]) -> list[Any]:
        """Return the outcome of each item."""
        task = replace(cast(Any, self.task), schedules=self.schedules.value)
        return [task(item) for item in items]
