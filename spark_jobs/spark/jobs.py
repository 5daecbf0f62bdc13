"""Running tasks: on Spark, with progress, Ctrl-C and errors that keep their types.

A job is a list of tasks and a picklable function; what a function raises of this product's errors travels back as
itself and ends the job. Spark's own retries are for tasks that die.
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
"""Seconds between two looks at a job."""

_WAVE = 64
"""Slices a core that Spark is given at once: after each wave is seen whether a task has failed."""


class SparkFailed(DumpfilterError):
    """Spark gave up on a job for a reason of its own (memory, a lost executor)."""


class Runner(Protocol):
    """Runs tasks. ``label`` says what is being done; ``slices``: how many Spark tasks they are put into (all of them).

    Gives the results in the tasks' order. Raises the DumpfilterError of the first task, in their order, that is known
    to have failed.
    """

    def __call__(
        self, function: Callable[[T], R], tasks: Sequence[T], label: str, *, slices: int | None = None
    ) -> list[R]: ...


class SparkRunner:
    """A :class:`Runner` on Spark.

    ``get_context`` is called once, when there is work for it. ``console``: where progress is shown, on a terminal.
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
        each = -(-len(tasks) // slices)  # tasks of a slice
        wave = _WAVE * max(1, context.defaultParallelism) * each
        results: list[R] = []
        with _Progress(self._console, label, slices, context) as progress:
            for begin in range(0, len(tasks), wave):
                some = tasks[begin : begin + wave]
                results += _run(context, function, some, label, -(-len(some) // each))
                progress.done += -(-len(some) // each)
        return results


@dataclass(frozen=True)
class SparkSettings:
    """Where jobs run; see :func:`~dumpfilter.spark_jobs.spark.context.spark_context`."""

    master: str = "local[*]"
    driver_memory: str = "1g"
    executor_memory: str = "1g"
    environment: str | None = None


@contextmanager
def spark_runner(settings: SparkSettings, console: Console | None = None) -> Iterator[SparkRunner]:
    """A :class:`SparkRunner` whose Spark starts with its first job and ends here. Raises SparkMissing at once where
    there is no Java."""
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

    # All talk with Spark is another thread's, so that Ctrl-C finds this one free to cancel the job: in the
    # middle of a call it would spoil the connection that cancelling needs.
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
    """A :class:`Runner` without Spark, one task after the other, in this process."""
    return [_translated(function, task) for task in tasks]


def slices_for(nbytes: int, each: int, tasks: int) -> int:
    """How many Spark tasks to make of tasks over so many bytes, of which one should take about ``each``."""
    return max(1, min(tasks, -(-nbytes // each)))


@dataclass
class _Done(Generic[R]):
    """What came of a task."""

    value: R | None = None
    error: DumpfilterError | None = None


class _Guarded(Generic[T, R]):
    """The function as Spark runs it."""

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
        # outputs are written under a name that is told (dumpfilter.binlog.writer.writing): this is about a source
        raise BinlogError(f"cannot be read: {error.strerror or error}", file=error.filename) from None


def _cancel(context: SparkContext, group: str, job: Future[Any]) -> None:
    while not job.done():  # again and again: the job may not have been submitted yet
        with suppress(Exception):
            context.cancelJobGroup(group)
        wait([job], timeout=_POLL)


class _Progress:
    """A bar that follows Spark's tasks, on a terminal. ``done``: those of waves that are over."""

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
                with suppress(Exception):  # the job may be over, or Spark
                    for stage in tracker.getActiveStageIds():
                        info = tracker.getStageInfo(stage)
                        running += 0 if info is None else info.numCompletedTasks
                bar.update(task, completed=min(self.done + running, self._total))
