"""Running tasks in threads of this process, without Spark and Java."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import ThreadPoolExecutor, wait
from typing import TYPE_CHECKING, Generic, TypeVar

from dumpfilter.base.errors import DumpfilterError
from dumpfilter.spark_jobs.engines.progress import LineClock, Reached, progress_bar
from dumpfilter.spark_jobs.engines.runner import TASKS, Amount, Stopped, Work, steps_of, translated

if TYPE_CHECKING:
    from rich.console import Console

T = TypeVar("T")
R = TypeVar("R")


_POLL = 0.1
"""The seconds between two looks for Ctrl-C."""


class MemoryShort(DumpfilterError):
    """An error raised when this process cannot get the memory that a task needs."""


class ThreadRunner:
    """A callable that runs tasks in threads of this process, without Spark.

    The class is a :class:`~dumpfilter.spark_jobs.engines.runner.Runner`. The tasks should spend their time in compiled
    code, which runs in parallel. ``threads`` is the number of threads, by default one for each processor that this
    process may use. ``console`` shows the progress when it is a terminal.
    """

    def __init__(self, threads: int | None = None, console: Console | None = None) -> None:
        self._threads = threads or len(os.sched_getaffinity(0))
        self._console = console
        self._clock = LineClock()

    @property
    def cores(self) -> int:
        """The number of tasks that run at the same time."""
        return self._threads

    def __call__(
        self,
        function: Callable[[T], R],
        tasks: Sequence[T],
        label: str,
        *,
        slices: int | None = None,
        amount: Amount = TASKS,
    ) -> list[R]:
        """Call ``function`` with each task, and return the results in order. ``slices`` has no effect.

        After an error or Ctrl-C no further task begins, and running tasks end at their next step.
        """
        if not tasks:
            return []
        job = _Job(function, tasks)
        threads = min(self._threads, len(tasks))
        with (
            progress_bar(self._console, label, len(tasks), amount, job.reached, self._clock),
            ThreadPoolExecutor(threads, "task") as pool,
        ):
            try:
                running = [pool.submit(job.work_off) for _ in range(threads)]
                # Another thread may receive the signal of Ctrl-C, which does not end a wait of the main thread.
                while wait(running, timeout=_POLL).not_done:
                    pass
            except BaseException:
                job.stop()
                raise
        for one in running:
            one.result()
        return job.results()


class _Job(Generic[T, R]):
    """The tasks of one job, which several threads take one after the other."""

    def __init__(self, function: Callable[[T], R], tasks: Sequence[T]) -> None:
        self._function = function
        self._tasks = tasks
        self._work = Work()
        self._numbers = iter(range(len(tasks)))
        """The numbers of the tasks. The threads share the iterator, which gives each number to one of them."""
        self._done: dict[int, R] = {}
        self._failed: dict[int, Exception] = {}

    def reached(self) -> Reached:
        """Return how far the job has come."""
        return Reached(len(self._done), self._work.done)

    def stop(self) -> None:
        """Let no further task begin, and end the running tasks at their next step."""
        self._work.stop()

    def work_off(self) -> None:
        """Take one task after the other until no task is left.

        After an error no later task begins. Earlier tasks are done, since the error of the first task is the one to
        report.
        """
        with steps_of(self._work):
            for number in self._numbers:
                if self._work.is_stopped or any(failed < number for failed in list(self._failed)):
                    return
                try:
                    self._done[number] = translated(self._function, self._tasks[number])
                except Stopped:
                    return
                except MemoryError:
                    self._failed[number] = MemoryShort(
                        "this process cannot get enough memory for its tasks: give a smaller --range-size, or let it "
                        "run on fewer processors (taskset)"
                    )
                except Exception as error:
                    self._failed[number] = error

    def results(self) -> list[R]:
        """Return the results in the order of the tasks. Raises the error of the first task that failed."""
        if self._failed:
            raise self._failed[min(self._failed)]
        return [self._done[number] for number in range(len(self._tasks))]
