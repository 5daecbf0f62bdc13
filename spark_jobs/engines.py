"""The engines that run a job's tasks: threads of this process, or Spark.

A job is a picklable function and a list of tasks. If the function raises a DumpfilterError, for example for a
damaged binlog, the job ends with this error.

A running task calls :func:`step` between two pieces of work. The call reports progress, and ends the task if it was
cancelled. On Spark the call has no effect, because Spark itself counts and cancels its tasks.

This module has the interface of all engines, the progress display of a job's tasks, and the engine that needs neither
Spark nor Java.
"""

from __future__ import annotations

import os
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Protocol, TypeVar

from dumpfilter.analyse.report.text import human_bytes
from dumpfilter.base import logs
from dumpfilter.base.errors import BinlogError, DumpfilterError
from dumpfilter.base.waiting import watching

if TYPE_CHECKING:
    from rich.console import Console

T = TypeVar("T")
R = TypeVar("R")


@dataclass(frozen=True)
class Amount:
    """The size of a job for its progress bar: the bytes to read, and a noun for the tasks."""

    unit: str = "tasks"
    """The plural noun for the tasks, such as "files"."""
    nbytes: int | None = None
    """The bytes that all tasks read together. None: unknown."""


TASKS = Amount()
"""The size of a job whose bytes are not known. The progress bar then shows the number of completed tasks."""


class Runner(Protocol):
    """The type of a function that runs a job in threads or on Spark. Such a function calls ``function`` with each of
    ``tasks``, and returns the results in the order of ``tasks``.

    ``label`` describes the work to the user. ``amount`` has the bytes to read and a noun for the tasks, for the
    progress bar. If several tasks raise a DumpfilterError, the error of the first of these tasks is raised. An OSError
    of a task is raised as a BinlogError.
    """

    def __call__(
        self, function: Callable[[T], R], tasks: Sequence[T], label: str, *, amount: Amount = TASKS
    ) -> list[R]: ...


def for_each(function: Callable[[T], R], tasks: Iterable[T]) -> list[R]:
    """Call ``function`` with each of ``tasks``, and return the results in order. A job uses this function to run
    several small tasks as one.
    """
    return [function(task) for task in tasks]


def translated(function: Callable[[T], R], task: T) -> R:
    """Call ``function`` with a task and return the result. If the task raises an OSError, raise a BinlogError with the
    name of the file instead.

    Only the reading of binlogs raises an OSError in a task, because errors of output files are raised as OutputError.
    """
    try:
        return function(task)
    except OSError as error:
        # The function dumpfilter.base.files.writing turns errors of output files into OutputError. Any OSError left
        # comes from reading a binlog.
        raise BinlogError(f"cannot be read: {error.strerror or error}", file=error.filename) from None


class Stopped(BaseException):
    """The exception that ends a running task after Ctrl-C. Tasks must not catch the exception."""


@dataclass
class Work:
    """The state that the threads of one job share: the bytes that its tasks have read so far, and whether the job was
    cancelled.
    """

    done: int = 0
    """The bytes that all tasks have read so far, for a progress bar. An addition may be lost if two threads add at
    once.
    """
    is_stopped: bool = False
    """Whether each running task must end with :class:`Stopped` at its next call of :func:`step`."""


_thread = threading.local()
"""An object whose attribute ``work`` is the state of the job whose tasks run in the present thread. The attribute is
missing in a thread without a job.
"""


def step(nbytes: int) -> None:
    """Report for the progress bar that the task of this thread has read ``nbytes`` more bytes of binlogs. Tasks call
    this function often, between two blocks of data, so that they can also be cancelled.

    Raises Stopped if the job was cancelled. On Spark the call has no effect, because Spark itself counts and cancels
    its tasks.
    """
    work: Work | None = getattr(_thread, "work", None)
    if work is not None:
        work.done += nbytes
        if work.is_stopped:
            raise Stopped


_REFRESH = 0.2
"""The interval between updates of the progress bar, seconds."""

LINE_SECONDS = 10.0
"""The interval between progress lines without a terminal, seconds. A shorter command prints no line."""


class Progress:
    """The display of the progress of a command's jobs: a bar if ``console`` is a terminal, otherwise a line every 10
    seconds. Nothing is displayed if ``console`` is None.

    With a JSON log, the lines are log entries of level INFO. Otherwise they are written to ``console``, unless the log
    level hides warnings. The 10 seconds are counted across all jobs of a command, because each of many jobs may be
    shorter. ``now`` returns the time in seconds, and is replaced only by tests.
    """

    def __init__(self, console: Console | None, now: Callable[[], float] = time.monotonic) -> None:
        self._console = console
        self._now = now
        self._due = now() + LINE_SECONDS

    @contextmanager
    def of(
        self, label: str, total: int, amount: Amount, reached: Callable[[], tuple[int, int | None]]
    ) -> Iterator[None]:
        """Show the progress of a job while the body of the ``with`` statement runs.

        Parameters:
            label: the name of the work for the user, such as "indexing".
            total: the number of tasks.
            amount: the job's size in bytes, and the noun for its tasks.
            reached: a function that a thread calls repeatedly. It returns the number of completed tasks, and the bytes
                read so far (None: they are estimated from the tasks). If it raises an exception, the display stays
                unchanged.
        """
        console = self._console
        if console is None or not (console.is_terminal or logs.shows(logs.Level.WARNING)):
            yield
            return

        def now() -> tuple[float, str]:
            tasks, nbytes = reached()
            if nbytes is None:
                nbytes = (amount.nbytes or 0) * min(tasks, total) // max(total, 1)
            return nbytes if amount.nbytes else tasks, told_of(tasks, nbytes, total, amount)

        def show_bar(over: threading.Event) -> None:
            from rich.progress import BarColumn, TextColumn, TimeElapsedColumn, TimeRemainingColumn
            from rich.progress import Progress as RichProgress

            columns = (
                TextColumn("{task.description}"),
                BarColumn(bar_width=None),
                TextColumn("{task.fields[told]}"),
                TimeElapsedColumn(),
                TimeRemainingColumn(),
            )
            with RichProgress(*columns, console=console, transient=True, expand=True) as bar:
                whole = float(amount.nbytes or total or 1)
                task = bar.add_task(label, total=whole, told=told_of(0, 0, total, amount))
                while not over.wait(_REFRESH):
                    # Spark or the job may have ended in the meantime, which the job itself reports.
                    with suppress(Exception):
                        done, told = now()
                        bar.update(task, completed=min(done, whole), told=told)

        def write_lines(over: threading.Event) -> None:
            while not over.wait(max(self._due - self._now(), 0.0)):
                self._due = self._now() + LINE_SECONDS
                with suppress(Exception):
                    _, told = now()
                    if logs.is_json():
                        logs.logger("dumpfilter").info("progress", job=label, reached=told)
                    else:
                        console.print(f"{label}: {told}", markup=False, highlight=False, soft_wrap=True)

        with watching(show_bar if console.is_terminal else write_lines, "progress"):
            yield


def told_of(tasks: int, nbytes: int, total: int, amount: Amount) -> str:
    """Return the text beside the progress bar: the number of completed tasks, and the bytes read.

    ``tasks`` of ``total`` tasks are completed, and ``nbytes`` have been read. ``amount`` has the total bytes and the
    noun for tasks.

    >>> told_of(3, 5 << 28, 5, Amount("files", 2 << 30))
    '3 of 5 files, 1.25 GiB of 2 GiB'
    >>> told_of(3, 0, 5, Amount())
    '3 of 5 tasks'
    """
    told = f"{min(tasks, total):,} of {total:,} {amount.unit}"
    if not amount.nbytes:
        return told
    done = min(nbytes, amount.nbytes)
    return f"{told}, {human_bytes(done)} of {human_bytes(amount.nbytes)}"


_POLL = 0.1
"""The interval at which the main thread wakes to handle Ctrl-C, seconds."""


class MemoryShort(DumpfilterError):
    """The error if this process cannot get enough memory for a task. Its text tells which options to change."""


class ThreadRunner:
    """The engine that runs a job's tasks in threads of this process, without Spark. Calling an object with a function
    and tasks returns the results in order.

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

        If a task fails, tasks after it are not started, but earlier ones are completed, because the error of the first
        failed task is raised. An OSError of a task becomes a BinlogError with the name of the file, and a MemoryError
        becomes MemoryShort. After Ctrl-C no task is started, and running tasks end at their next call of :func:`step`.
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
            ThreadPoolExecutor(min(self.cores, len(tasks)), "task", setattr, (_thread, "work", work)) as pool,
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
