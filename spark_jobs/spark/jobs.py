"""The engine that runs tasks on Spark, with progress, Ctrl-C, and errors that keep their types.

If a task raises a DumpfilterError, for example for a damaged binlog, the job ends with this error. Spark retries a
task only after other errors, or when the task's process dies. For such errors, :func:`reason` extracts the cause
from Spark's output.
"""

from __future__ import annotations

import functools
import re
import uuid
from collections.abc import Callable, Iterator, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import ExitStack, contextmanager, suppress
from typing import TYPE_CHECKING, Any, TypeVar

from dumpfilter.base.errors import DumpfilterError
from dumpfilter.spark_jobs.engines import TASKS, Amount, Progress, translated
from dumpfilter.spark_jobs.spark.context import SparkSettings, spark_context

if TYPE_CHECKING:
    from pyspark import SparkContext
    from rich.console import Console

_CURE = "package the environment for the workers (docs/cluster.md)"


def reason(error: BaseException) -> str:
    r"""Return the one line of a Spark error's long text that tells the user why the job failed.

    It describes the last attempt of the failed task. If that has a Python traceback, the traceback's last line is
    returned.

    >>> reason(Exception("Task 0 failed 4 times, most recent failure: Lost task 0.3 in stage 1.0 (TID 7) "
    ...     "(host1 executor 3): ExecutorLostFailure (executor 3 exited): Reason: killed\n\nDriver stacktrace:"))
    'ExecutorLostFailure (executor 3 exited): Reason: killed'
    """
    return _line(str(error)) or type(error).__name__


def _line(text: str) -> str:
    last = re.search(r"most recent failure: Lost task [^:]*?\((?P<host>[^()]*)\): (?P<what>.*)", text, re.S)
    if last is not None:
        text = last["what"].split("Driver stacktrace:")[0]
    program = re.search(r'Cannot run program "([^"]*)"(?:[^:]*: error=\d+, ([^\n]*))?', text)
    if program is not None:
        return f"a worker has no {program[1]} ({program[2] or 'it cannot be run'}): {_CURE}"
    started = re.search(r"Error from python worker:\n(.*?)(?:\nPYTHONPATH was:|\Z)", text, re.S)
    if started is not None:
        told = _last_line(started[1])
        return f"{told}: {_CURE}" if "No module named" in told else told
    traceback = re.search(
        r"(Traceback \(most recent call last\):.*?)(?:\n\s*SQLSTATE:|\n\s*\n|\n\tat |\Z)", text, re.S
    )
    if traceback is not None:
        return _last_line(traceback[1])
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    lines = [line for line in lines if not line.startswith(("at ", "..."))] or lines
    if not lines:
        return ""
    # The first line of a py4j error, "An error occurred while calling …", does not give the reason.
    told = lines[1] if len(lines) > 1 and lines[0].startswith("An error occurred while calling") else lines[0]
    told = told.split(" Consider setting ")[
        0
    ]  # Spark's advice names settings for PySpark's developers, not for users.
    return re.sub(r"^:?\s*(?:[a-z][\w$]*\.)+(\w+(?:Exception|Error): )", r"\1", told.lstrip(": "))


def _last_line(text: str) -> str:
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    return lines[-1] if lines else ""


T = TypeVar("T")
R = TypeVar("R")

_POLL = 0.1
"""The interval between attempts to cancel a Spark job after Ctrl-C, seconds."""

_WAVE = 64
"""The number of Spark tasks per core that the driver submits at once. It checks for failed tasks before it submits
more, so that a long job ends soon after an error.
"""


class SparkFailed(DumpfilterError):
    """The error for a job that Spark gave up, for example because memory was short or an executor was lost."""


class SparkRunner:
    """The engine that runs a job's tasks on Spark. Calling an object with a function and tasks returns the results in
    order.

    ``get_context`` is a function that starts Spark. It is called once, before the first task. ``console`` shows the
    progress (None: no progress).
    """

    def __init__(self, get_context: Callable[[], SparkContext], console: Console | None = None) -> None:
        self._get_context = functools.cache(get_context)
        self._progress = Progress(console)

    def __call__(
        self, function: Callable[[T], R], tasks: Sequence[T], label: str, *, amount: Amount = TASKS
    ) -> list[R]:
        if not tasks:
            return []
        context = self._get_context()
        in_slice = -(-len(tasks) // min(amount.slices or len(tasks), len(tasks)))
        wave = _WAVE * self.cores * in_slice
        results: list[R] = []

        def reached() -> tuple[int, None]:
            return len(results) + _completed(context) * in_slice, None

        with self._progress.of(label, len(tasks), amount, reached):
            for begin in range(0, len(tasks), wave):
                some = tasks[begin : begin + wave]
                results += _run(context, function, some, label, -(-len(some) // in_slice))
        return results

    @property
    def cores(self) -> int:
        """The number of tasks that Spark runs in parallel."""
        return max(1, int(self._get_context().defaultParallelism))


@contextmanager
def spark_runner(settings: SparkSettings, console: Console | None = None) -> Iterator[SparkRunner]:
    """Yield a callable that runs tasks on Spark, for the body of a ``with`` statement, and stop Spark at the end.

    Spark starts only with the first job, because its start takes seconds. ``settings`` are the user's options for this
    start, and ``console`` shows the progress (None: no progress).
    """
    with ExitStack() as stack:
        yield SparkRunner(lambda: stack.enter_context(spark_context(settings)), console)


def _run(
    context: SparkContext, function: Callable[[T], R], tasks: Sequence[T], label: str, slices: int
) -> list[R]:
    group = uuid.uuid4().hex

    def collect() -> list[R | DumpfilterError]:
        context.setJobGroup(group, label, interruptOnCancel=False)
        return context.parallelize(tasks, slices).map(functools.partial(_guarded, function)).collect()

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
        if isinstance(one, DumpfilterError):
            raise one
    return [one for one in found if not isinstance(one, DumpfilterError)]


def _guarded(function: Callable[[T], R], task: T) -> R | DumpfilterError:
    """Return the result of a task. A DumpfilterError that the task raises is returned, too, instead of raised.

    Spark would retry the task after a raised error, although a damaged binlog stays damaged.
    """
    try:
        return translated(function, task)
    except DumpfilterError as error:
        return error


def _cancel(context: SparkContext, group: str, job: Future[Any]) -> None:
    # Spark ignores a request to cancel a job that is not submitted yet, so the driver repeats the request.
    while not job.done():
        with suppress(Exception):
            context.cancelJobGroup(group)
        wait([job], timeout=_POLL)


def _completed(context: SparkContext) -> int:
    """Return the number of completed Spark tasks in the currently running stages."""
    tracker = context.statusTracker()
    running = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
    return sum(info.numCompletedTasks for info in running if info is not None)
