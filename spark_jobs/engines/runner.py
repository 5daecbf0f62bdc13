"""The interface of all engines: the type of a runner of tasks, and the translation of errors.

A job is a picklable function and a list of tasks. If the function raises a DumpfilterError, for example for a
damaged binlog, the job ends with this error.

A running task calls :func:`step` between two pieces of work. The call reports progress, and ends the task if it was
cancelled. On Spark the call has no effect, because Spark itself counts and cancels its tasks.
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
    """The size of a job, for its progress bar and for its division into Spark tasks: bytes, the name of its tasks, and
    the number of Spark tasks.
    """

    unit: str = "tasks"
    """The plural noun for the tasks, such as "files"."""
    nbytes: int | None = None
    """The bytes that all tasks read together. None: unknown."""
    slices: int | None = None
    """The number of Spark tasks among which the job's tasks are divided. None: one Spark task for each of them."""


TASKS = Amount()
"""The size of a job of which only the number of tasks is known."""


class Runner(Protocol):
    """A function that calls ``function`` with each of ``tasks``, in threads or on Spark, and returns the results in the
    order of ``tasks``.

    ``label`` describes the work to the user, and ``amount`` gives the job's size. If several tasks raise a
    DumpfilterError, the error of the first of these tasks is raised.
    """

    def __call__(
        self, function: Callable[[T], R], tasks: Sequence[T], label: str, *, amount: Amount = TASKS
    ) -> list[R]: ...


def run_here(
    function: Callable[[T], R], tasks: Sequence[T], label: str, *, amount: Amount = TASKS
) -> list[R]:
    """Call ``function`` with each task in this thread, one after the other, and return the results in order.

    Jobs accept this function as a :class:`Runner` if there is little work. ``label`` and ``amount`` have no effect.
    """
    return [translated(function, task) for task in tasks]


def cores_of(run: Runner) -> int:
    """Return the number of tasks that a runner executes in parallel: its attribute ``cores``, or 1."""
    return max(1, int(getattr(run, "cores", 1)))


def translated(function: Callable[[T], R], task: T) -> R:
    """Return ``function(task)``. An OSError, which comes from reading a binlog, becomes a BinlogError that names the
    file.
    """
    try:
        return function(task)
    except OSError as error:
        # The function dumpfilter.binlog.writer.writing turns errors of output files into OutputError. Any OSError left
        # comes from reading a binlog.
        raise BinlogError(f"cannot be read: {error.strerror or error}", file=error.filename) from None


class Stopped(BaseException):
    """The exception that ends a task after Ctrl-C. Tasks must not catch it; the engine that runs them does."""


@dataclass
class Work:
    """The state that the threads of one job share: the bytes read so far, and whether the job was cancelled."""

    done: int = 0
    """The bytes that all tasks have read so far, for a progress bar. An addition may be lost if two threads add at
    once.
    """
    is_stopped: bool = False
    """Whether each running task must end with :class:`Stopped` at its next step."""


_thread = threading.local()


def count_for(work: Work) -> None:
    """Assign this thread to the job whose state is ``work``. Later calls of :func:`step` in this thread add to
    ``work.done`` and obey ``work.is_stopped``.
    """
    _thread.work = work


def step(nbytes: int) -> None:
    """Report for the progress bar that this thread's task has read ``nbytes`` more bytes. Tasks call this function
    between two blocks of data.

    Raises Stopped if the job was cancelled. On Spark the call has no effect, because Spark itself counts and cancels
    its tasks.
    """
    work: Work | None = getattr(_thread, "work", None)
    if work is not None:
        work.done += nbytes
        if work.is_stopped:
            raise Stopped
