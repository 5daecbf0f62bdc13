"""Running tasks on Spark with progress, Ctrl-C, and errors that keep their types.

A job is a picklable function and a list of tasks. If the function raises a DumpfilterError, for example for a damaged
binlog, the job ends with this error. Spark tries a task again only after other errors, or when the task's process dies.
"""

from __future__ import annotations

import functools
import os
import threading
import uuid
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import ExitStack, contextmanager, suppress
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, Generic, Protocol, TypeVar

from rich.console import Console
from rich.progress import BarColumn, Progress, TextColumn, TimeElapsedColumn, TimeRemainingColumn

from dumpfilter.errors import BinlogError, DumpfilterError
from dumpfilter.spark_jobs.spark.context import SparkSettings, check_java, spark_context
from dumpfilter.spark_jobs.spark.reasons import reason

if TYPE_CHECKING:
    from pyspark import SparkContext

T = TypeVar("T")
T_co = TypeVar("T_co", covariant=True)
R = TypeVar("R")

_POLL = 0.1
"""The seconds between two attempts to cancel a Spark job after Ctrl-C. The progress bar is updated half as often."""

_WAVE = 64
"""The number of Spark tasks for each core that the driver submits at once. The driver checks for failed tasks before it
submits more, so that a long job does not run on after an error."""


class SparkFailed(DumpfilterError):
    """An error raised when Spark gives up on a job, for example because memory is short or an executor is lost."""


class Runner(Protocol):
    """A function that calls ``function`` with each of ``tasks``, on Spark or here, and returns the list of results.

    ``label`` describes the work to the user. ``slices`` is the number of Spark tasks among which the work is divided
    (None: one for each of ``tasks``). The results are in the order of ``tasks``. If some tasks raise a DumpfilterError,
    the first one in this order is raised.
    """

    def __call__(
        self, function: Callable[[T], R], tasks: Sequence[T], label: str, *, slices: int | None = None
    ) -> list[R]: ...


class SparkRunner:
    """A callable that runs tasks on Spark and returns their results (a :class:`Runner`).

    ``get_context`` starts Spark and is called once, before the first task. ``console`` shows the progress when it is a
    terminal.
    """

    def __init__(self, get_context: Callable[[], SparkContext], console: Console | None = None) -> None:
        self._get_context = functools.cache(get_context)
        self._console = console

    def __call__(
        self, function: Callable[[T], R], tasks: Sequence[T], label: str, *, slices: int | None = None
    ) -> list[R]:
        if not tasks:
            return []
        context = self._get_context()
        slices = min(slices or len(tasks), len(tasks))
        tasks_in_slice = -(-len(tasks) // slices)
        wave = _WAVE * self.cores * tasks_in_slice
        results: list[R] = []
        with _Progress(self._console, label, slices, context) as progress:
            for begin in range(0, len(tasks), wave):
                some = tasks[begin : begin + wave]
                slices_of_wave = -(-len(some) // tasks_in_slice)
                results += _run(context, function, some, label, slices_of_wave)
                progress.done += slices_of_wave
        return results

    @property
    def cores(self) -> int:
        """The number of tasks that Spark runs at the same time."""
        return max(1, int(self._get_context().defaultParallelism))

    def share(self, value: T) -> Shared[T]:
        """Send a picklable value to all processes of Spark, each once. Tasks that hold the result can read it."""
        shared: Shared[T] = self._get_context().broadcast(value)
        return shared


class Shared(Protocol[T_co]):
    """A value that all processes of Spark have (a broadcast variable)."""

    @property
    def value(self) -> T_co: ...

    def destroy(self) -> None:
        """Free the value everywhere."""


@contextmanager
def spark_runner(settings: SparkSettings, console: Console | None = None) -> Iterator[SparkRunner]:
    """Provide a function that runs tasks on Spark, for the body of a ``with`` statement, and stop Spark at the end.

    Spark starts only with the first job, because the start takes seconds. Raises SparkMissing at once when there is no
    Java.
    """
    check_java()
    with ExitStack() as stack:
        yield SparkRunner(lambda: stack.enter_context(spark_context(settings)), console)


def _run(
    context: SparkContext, function: Callable[[T], R], tasks: Sequence[T], label: str, slices: int
) -> list[R]:
    group = uuid.uuid4().hex

    def collect() -> list[_Done[R]]:
        context.setJobGroup(group, label, interruptOnCancel=False)
        return context.parallelize(tasks, slices).map(_Guarded(function)).collect()

    # A second thread does all calls to Spark, so that after Ctrl-C the main thread can cancel the job. An
    # interrupted call would spoil the connection that cancelling needs.
    with ThreadPoolExecutor(1, "spark-job") as pool:
        job = pool.submit(collect)
        try:
            found = job.result()
        except KeyboardInterrupt:
            _cancel(context, group, job)
            raise
        except Exception as error:
            raise SparkFailed(f"the Spark job failed: {reason(error)}") from error
    for one in found:
        if one.error is not None:
            raise one.error
    return [one.value for one in found]  # type: ignore[misc]


def run_here(
    function: Callable[[T], R], tasks: Sequence[T], label: str, *, slices: int | None = None
) -> list[R]:
    """Call ``function`` with each task in this process, one after the other, without Spark. Return the results.

    This function is a :class:`Runner`. ``label`` and ``slices`` have no effect.
    """
    return [_translated(function, task) for task in tasks]


class ThreadRunner:
    """A callable that runs tasks in threads of this process, without Spark (a :class:`Runner`).

    The tasks should spend their time in compiled code, which runs in parallel.
    """

    def __init__(self, threads: int | None = None) -> None:
        self._threads = threads or len(os.sched_getaffinity(0))

    def __call__(
        self, function: Callable[[T], R], tasks: Sequence[T], label: str, *, slices: int | None = None
    ) -> list[R]:
        """Call ``function`` with each task. Return the results in order. ``label`` and ``slices`` have no effect."""
        if len(tasks) < 2 or self._threads < 2:
            return run_here(function, tasks, label)
        with ThreadPoolExecutor(min(self._threads, len(tasks)), "task") as pool:
            try:
                return list(pool.map(functools.partial(_translated, function), tasks))
            except BaseException:
                pool.shutdown(wait=False, cancel_futures=True)
                raise


def slices_for(nbytes: int, each: int, tasks: int) -> int:
    """Return into how many Spark tasks to divide ``tasks`` pieces of work that together read ``nbytes`` bytes.

    A Spark task should read about ``each`` bytes, because the start of a Spark task has a fixed cost.
    """
    return max(1, min(tasks, -(-nbytes // each)))


@dataclass
class _Done(Generic[R]):
    """The result of one task: the value that it returned, or the DumpfilterError that it raised."""

    value: R | None = None
    error: DumpfilterError | None = None


class _Guarded(Generic[T, R]):
    """A picklable wrapper of a function that returns a raised DumpfilterError as a value.

    Spark would try a task again after a raised error, although a damaged binlog stays damaged.
    """

    def __init__(self, function: Callable[[T], R]) -> None:
        self._function = function

    def __call__(self, task: T) -> _Done[R]:
        try:
            return _Done(value=_translated(self._function, task))
        except DumpfilterError as error:
            return _Done(error=error)


def _translated(function: Callable[[T], R], task: T) -> R:
    try:
        return function(task)
    except OSError as error:
        # The function dumpfilter.binlog.writer.writing turns errors of output files into OutputError. Any OSError left
        # comes from reading a binlog.
        raise BinlogError(f"cannot be read: {error.strerror or error}", file=error.filename) from None


def _cancel(context: SparkContext, group: str, job: Future[Any]) -> None:
    # Spark ignores a request to cancel a job that is not submitted yet, so the driver repeats the request.
    while not job.done():
        with suppress(Exception):
            context.cancelJobGroup(group)
        wait([job], timeout=_POLL)


class _Progress:
    """A progress bar on the terminal that shows how many Spark tasks are done.

    The driver submits the tasks in groups, one after the other. ``done`` is the number of tasks in completed groups.
    """

    def __init__(self, console: Console | None, label: str, total: int, context: SparkContext) -> None:
        self._shown = console is not None and console.is_terminal
        self._console, self._label, self._total, self._context = console, label, total, context
        self.done = 0
        self._stop = threading.Event()
        self._thread = threading.Thread(target=self._follow, name="spark-progress", daemon=True)

    def __enter__(self) -> _Progress:
        if self._shown:
            self._thread.start()
        return self

    def __exit__(self, *_: object) -> None:
        self._stop.set()
        if self._shown:
            self._thread.join()

    def _follow(self) -> None:
        tracker = self._context.statusTracker()
        with Progress(
            TextColumn("{task.description}"),
            BarColumn(),
            TextColumn("{task.completed} of {task.total}"),
            TimeElapsedColumn(),
            TimeRemainingColumn(),
            console=self._console,
            transient=True,
        ) as bar:
            task = bar.add_task(self._label, total=self._total)
            while not self._stop.wait(2 * _POLL):
                running = 0
                # PySpark may raise an error here, because the job or Spark may have ended in the meantime.
                with suppress(Exception):
                    for stage in tracker.getActiveStageIds():
                        info = tracker.getStageInfo(stage)
                        running += 0 if info is None else info.numCompletedTasks
                bar.update(task, completed=min(self.done + running, self._total))
