"""The common parts of all engines: the form of a runner of tasks, and errors that keep their types.

A job is a picklable function and a list of tasks. If the function raises a DumpfilterError, for example for a damaged
binlog, the job ends with this error.

Between two pieces of work a running task calls :func:`step`. The call reports how far the task has come, and ends the
task if it must stop. On Spark the call has no effect, since Spark itself counts and ends its tasks.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Protocol, TypeVar

from dumpfilter.base.errors import BinlogError

T = TypeVar("T")
R = TypeVar("R")


@dataclass(frozen=True)
class Amount:
    """The amount of work of a job, which a progress bar shows."""

    unit: str = "tasks"
    """The noun for the tasks, in the plural, such as "files"."""
    nbytes: int | None = None
    """The bytes that all tasks together read. None: unknown."""
    slices: int | None = None
    """The number of Spark tasks among which the work is divided; None: one for each of the job's tasks."""


TASKS = Amount()
"""The amount of work of tasks about which nothing is known but their number."""


class Runner(Protocol):
    """A function that calls ``function`` with each of ``tasks``, on Spark or here, and returns the list of results.

    ``label`` describes the work to the user, and ``amount`` says how much work it is. The results are in the order of
    ``tasks``. If some tasks raise a DumpfilterError, the first one in this order is raised.
    """

    def __call__(
        self, function: Callable[[T], R], tasks: Sequence[T], label: str, *, amount: Amount = TASKS
    ) -> list[R]: ...


def run_here(
    function: Callable[[T], R], tasks: Sequence[T], label: str, *, amount: Amount = TASKS
) -> list[R]:
    """Call ``function`` with each task in this process, one after the other, without Spark. Return the results.

    This function is a :class:`Runner`. ``label`` and ``amount`` have no effect.
    """
    return [translated(function, task) for task in tasks]


def cores_of(run: Runner) -> int:
    """Return how many tasks a runner runs at the same time, which its attribute ``cores`` tells (default 1)."""
    return max(1, int(getattr(run, "cores", 1)))


def translated(function: Callable[[T], R], task: T) -> R:
    """Call ``function`` with a task, and return its result. An OSError becomes a BinlogError that names the file."""
    try:
        return function(task)
    except OSError as error:
        # The function dumpfilter.binlog.writer.writing turns errors of output files into OutputError. Any OSError left
        # comes from reading a binlog.
        raise BinlogError(f"cannot be read: {error.strerror or error}", file=error.filename) from None


class Stopped(BaseException):
    """An exception that ends a task whose result is no longer wanted. No code but the engine may catch it."""


@dataclass
class Work:
    """The work of several tasks in threads of this process."""

    done: int = 0
    """The bytes that all tasks have read so far, for a progress bar. If two threads add at the same time, one addition
    may be lost.
    """
    is_stopped: bool = False
    """Whether each running task must end with Stopped at its next step."""


class _Thread(threading.local):
    work: Work | None = None


_thread = _Thread()


def count_for(work: Work) -> None:
    """Let the steps of this thread count for ``work`` from now on."""
    _thread.work = work


def step(nbytes: int) -> None:
    """Report that this thread's task has read ``nbytes`` more bytes. Raises Stopped if the task must end."""
    work = _thread.work
    if work is not None:
        work.done += nbytes
        if work.is_stopped:
            raise Stopped
