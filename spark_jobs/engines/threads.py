"""The engine that runs tasks in threads of this process, without Spark and Java."""

from __future__ import annotations

import os
from collections.abc import Callable, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from typing import TYPE_CHECKING, TypeVar

from dumpfilter.base.errors import DumpfilterError
from dumpfilter.spark_jobs.engines.progress import Progress
from dumpfilter.spark_jobs.engines.runner import TASKS, Amount, Stopped, Work, count_for, translated

if TYPE_CHECKING:
    from rich.console import Console

T = TypeVar("T")
R = TypeVar("R")


_POLL = 0.1
"""The interval at which the main thread wakes to handle Ctrl-C, seconds."""


class MemoryShort(DumpfilterError):
    """The error if this process cannot get enough memory for a task. Its text tells which options to change."""


class ThreadRunner:
    """Runs tasks in threads of this process, without Spark. Calling an instance with a function and tasks returns the
    results in order (:class:`~dumpfilter.spark_jobs.engines.runner.Runner`).

    Tasks should spend their time in compiled code, which runs in parallel. ``threads`` is the number of threads; by
    default one per processor that this process may use. ``console`` shows the progress (None: no progress).
    """

    def __init__(self, threads: int | None = None, console: Console | None = None) -> None:
        self.cores = threads or len(os.sched_getaffinity(0))
        """The number of tasks that run in parallel."""
        self._progress = Progress(console)

    def __call__(
        self, function: Callable[[T], R], tasks: Sequence[T], label: str, *, amount: Amount = TASKS
    ) -> list[R]:
        """Call ``function`` with each task, and return the results in order.

        If a task fails, tasks after it are not started, but earlier ones are completed, because the error of the
        first failed task is raised. After Ctrl-C no task is started, and running tasks end at their next step.
        """
        if not tasks:
            return []
        work = Work()
        failed: list[int] = []

        def one(number: int) -> R:
            if work.is_stopped or any(earlier < number for earlier in failed):
                raise Stopped
            try:
                return translated(function, tasks[number])
            except MemoryError:
                failed.append(number)
                raise MemoryShort(
                    "this process cannot get enough memory for its tasks: give a smaller --range-size, or let it "
                    "run on fewer processors (taskset)"
                ) from None
            except BaseException:
                failed.append(number)
                raise

        running: list[Future[R]] = []
        with (
            self._progress.of(label, len(tasks), amount, lambda: (sum(map(Future.done, running)), work.done)),
            ThreadPoolExecutor(min(self.cores, len(tasks)), "task", count_for, (work,)) as pool,
        ):
            try:
                running += [pool.submit(one, number) for number in range(len(tasks))]
                for future in running:
                    # Another thread may receive the signal of Ctrl-C, which does not end a wait of the main thread.
                    while wait([future], timeout=_POLL).not_done:
                        pass
            except BaseException:
                work.is_stopped = True
                raise
        return [future.result() for future in running]
