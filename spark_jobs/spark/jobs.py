"""Running tasks on Spark with progress, Ctrl-C, and errors that keep their types.

A job is a picklable function and a list of tasks. A DumpfilterError that the function raises travels back as a value
and ends the job. Spark tries a task again only when the task's process dies or raises another error.
"""

from __future__ import annotations

import functools
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
from dumpfilter.spark_jobs.spark.context import check_java, spark_context
from dumpfilter.spark_jobs.spark.reasons import reason

if TYPE_CHECKING:
    from pyspark import SparkContext

T = TypeVar("T")
R = TypeVar("R")

_POLL = 0.1
"""Seconds between two attempts to cancel a job. The progress bar is updated half as often."""

_WAVE = 64
"""Spark tasks for each core that are submitted at once. After each wave the driver checks whether a task has failed.
"""


class SparkFailed(DumpfilterError):
    """Spark gave up on a job for a reason of its own, such as memory or a lost executor."""


class Runner(Protocol):
    """A function that runs tasks.

    ``label`` describes the work to the user. ``slices`` is the number of Spark tasks that share the work (None: as
    many as tasks). The results come in the order of the tasks. Raises the DumpfilterError of the first failed task in
    that order.
    """

    def __call__(
        self, function: Callable[[T], R], tasks: Sequence[T], label: str, *, slices: int | None = None
    ) -> list[R]: ...


class SparkRunner:
    """A :class:`Runner` on Spark.

    ``get_context`` is called once, before the first task. ``console`` shows the progress when it is a terminal.
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
        wave = _WAVE * max(1, context.defaultParallelism) * tasks_in_slice
        results: list[R] = []
        with _Progress(self._console, label, slices, context) as progress:
            for begin in range(0, len(tasks), wave):
                some = tasks[begin : begin + wave]
                slices_of_wave = -(-len(some) // tasks_in_slice)
                results += _run(context, function, some, label, slices_of_wave)
                progress.done += slices_of_wave
        return results


@dataclass(frozen=True)
class SparkSettings:
    """The options of :func:`~dumpfilter.spark_jobs.spark.context.spark_context` as one value."""

    master: str = "local[*]"
    driver_memory: str = "1g"
    executor_memory: str = "1g"
    environment: str | None = None


@contextmanager
def spark_runner(settings: SparkSettings, console: Console | None = None) -> Iterator[SparkRunner]:
    """Yield a :class:`SparkRunner` whose Spark starts with the first job, and stop Spark at the end.

    Raises SparkMissing at once when there is no Java.
    """
    check_java()
    with ExitStack() as stack:
        yield SparkRunner(
            lambda: stack.enter_context(
                spark_context(
                    settings.master,
                    driver_memory=settings.driver_memory,
                    executor_memory=settings.executor_memory,
                    environment=settings.environment,
                )
            ),
            console,
        )


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
    """Run the tasks in this process, one after the other. A :class:`Runner` without Spark."""
    return [_translated(function, task) for task in tasks]


def slices_for(nbytes: int, each: int, tasks: int) -> int:
    """Return the number of Spark tasks that share ``tasks`` tasks.

    The tasks together read ``nbytes`` bytes. A Spark task should read about ``each`` bytes.
    """
    return max(1, min(tasks, -(-nbytes // each)))


@dataclass
class _Done(Generic[R]):
    """The value or the error of a task."""

    value: R | None = None
    error: DumpfilterError | None = None


class _Guarded(Generic[T, R]):
    """A function that returns its DumpfilterErrors as values."""

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
        # dumpfilter.binlog.writer.writing turns errors of outputs into OutputError. An OSError therefore
        # concerns an input.
        raise BinlogError(f"cannot be read: {error.strerror or error}", file=error.filename) from None


def _cancel(context: SparkContext, group: str, job: Future[Any]) -> None:
    while not job.done():  # Repeat, since Spark ignores the call until the job is submitted.
        with suppress(Exception):
            context.cancelJobGroup(group)
        wait([job], timeout=_POLL)


class _Progress:
    """A bar on a terminal that follows Spark's tasks. ``done`` counts the tasks of completed waves."""

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
                with suppress(Exception):  # The job or Spark may have ended meanwhile.
                    for stage in tracker.getActiveStageIds():
                        info = tracker.getStageInfo(stage)
                        running += 0 if info is None else info.numCompletedTasks
                bar.update(task, completed=min(self.done + running, self._total))
