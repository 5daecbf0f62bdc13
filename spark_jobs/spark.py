"""The engine that runs tasks on Spark, and the start of Spark: on this machine, on a cluster, or in the context that
spark-submit prepares.

If a task raises a DumpfilterError, for example for a damaged binlog, the job ends with this error. Spark retries a
task only after other errors, or when the task's process dies. For such errors, :func:`reason` extracts the cause
from Spark's output.

The costs of a start with ``local[2]`` on two cores were measured, and reduced where possible:

- The JVM takes 2 s and the context another 2 s. Switching off the JVM's second compiler saves 1 s. That compiler
pays off only in long Java work, and would take the cores from the Python workers.
- A ``SparkSession`` takes 2.5 s. The jobs need none.
- Each worker process would spend half a second on imports. A daemon imports once, before it forks the workers
(:mod:`~dumpfilter.spark_jobs.spark_daemon`).
"""

from __future__ import annotations

import contextlib
import functools
import logging
import os
import re
import socket
import subprocess
import sys
import tempfile
import uuid
import warnings
from collections.abc import Callable, Iterator, Mapping, Sequence
from concurrent.futures import Future, ThreadPoolExecutor, wait
from contextlib import AbstractContextManager, ExitStack, contextmanager, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any, TypeVar

from dumpfilter import __version__
from dumpfilter.base.errors import ConnectionLost, DumpfilterError, OptionError
from dumpfilter.base.options.values import whole_number
from dumpfilter.spark_jobs.engines import TASKS, Amount, Progress, translated
from dumpfilter.spark_jobs.java import JAVA_AT_LEAST, find_java, java_release
from dumpfilter.spark_jobs.options import SparkSettings
from dumpfilter.spark_jobs.spark_daemon import DRIVERS_VERSION

if TYPE_CHECKING:
    from pyspark import SparkContext
    from rich.console import Console


TASK_ATTEMPTS = 4
"""The number of times that Spark tries a task before the job fails. Spark has this default on clusters only."""

REACH_TIMEOUT = 5.0
"""The timeout of a connection to a Spark master, seconds."""

ENVIRONMENT = "environment"
"""The directory, relative to an executor's working directory, into which Spark unpacks the archive of Python
packages.
"""

_JAVA_OPTIONS = "spark.driver.extraJavaOptions"

_LOG4J = """\
status = fatal
rootLogger.level = error
rootLogger.appenderRef.stderr.ref = stderr
appender.stderr.type = Console
appender.stderr.name = stderr
appender.stderr.target = SYSTEM_ERR
appender.stderr.layout.type = PatternLayout
appender.stderr.layout.pattern = %p %c{1}: %m%n
"""


class SparkMissing(OptionError):
    """The error if Spark cannot start on this machine. The text says what to install."""


class SparkUnreachable(ConnectionLost):
    """The error if a Spark master does not answer. The text has its address."""


def check_java() -> str:
    """Check that Spark can run on this machine's Java, and return the path of the Java program.

    Raises SparkMissing if there is no Java, or if it is too old for Spark.
    """
    java = find_java()
    if java is None:
        home = os.environ.get("JAVA_HOME")
        where = f"JAVA_HOME ({home}) has no bin/java" if home else "there is no java on the PATH"
        raise SparkMissing(f"this runs on Spark, which needs Java {JAVA_AT_LEAST} or newer: {where}. {_CURE}")
    release = java_release(java)
    if release is not None and release < JAVA_AT_LEAST:
        raise SparkMissing(f"{java} is Java {release}, Spark needs {JAVA_AT_LEAST} or newer. {_CURE}")
    return java


_WITHOUT = "or use --engine local, which needs neither Spark nor Java"
_CURE = f"Install one (Debian, Ubuntu: apt-get install default-jre-headless), let JAVA_HOME point to it, {_WITHOUT}"


def under_spark_submit() -> bool:
    """Tell whether spark-submit started this process.

    If so, the options of spark-submit set the Spark master and the memory, and the job's own options do not count.
    """
    return "PYSPARK_GATEWAY_PORT" in os.environ


def master_with_retries(master: str) -> str:
    """Return the Spark master URL ``master``, completed by the number of attempts per task if ``master`` is ``local``,
    ``local[N]`` or ``local[*]``. Other URLs are returned unchanged.

    Without this number, a local Spark never retries a failed task.

    >>> master_with_retries("local[*]"), master_with_retries("local"), master_with_retries("spark://host:7077")
    ('local[*,4]', 'local[1,4]', 'spark://host:7077')
    """
    found = re.fullmatch(r"local(?:\[\s*(\*|\d+)\s*\])?", master)
    return f"local[{found[1] or 1},{TASK_ATTEMPTS}]" if found else master


def driver_address(master: str) -> str | None:
    """Connect to a standalone Spark master, and return the local IP address of the connection. Spark's workers later
    connect to the driver by this address.

    ``master`` is ``spark://host:port[,host:port …]``. Return None for any other kind of master. The connection
    also shows quickly whether a master answers; Spark would retry for a minute and then fail with an unclear message.

    Raises OptionError for an address without a port. Raises SparkUnreachable if no address accepts a connection
    within 5 seconds.
    """
    if not master.startswith("spark://"):
        return None
    refused: OSError | UnicodeError | None = None
    for address in master.removeprefix("spark://").split(","):
        host, _, digits = address.rpartition(":")
        port = whole_number(digits)
        if not host or port is None or not 0 < port < 65536:
            raise OptionError(
                f"--spark-master {master}: a standalone master is spark://host:port, often port 7077"
            )
        try:
            with socket.create_connection((host.strip("[]"), port), REACH_TIMEOUT) as connection:
                return str(connection.getsockname()[0])
        except (OSError, UnicodeError) as error:
            refused = error
    raise SparkUnreachable(
        f"no Spark master answers at {master}: {getattr(refused, 'strerror', None) or refused}"
    ) from None


def context_settings(settings: SparkSettings) -> dict[str, str]:
    """Return all Spark settings, by name, for a Spark context that this process starts.

    Raises SparkUnreachable if no Spark master answers. Raises OptionError for an address without a port, or for a
    bad setting. Also raises OptionError for an archive of Python packages that is missing or given with a local
    master.
    """
    master, environment = settings.master, settings.environment
    host = driver_address(master)
    if master.startswith("local"):
        host = "127.0.0.1"
    given = {
        **JOB_SETTINGS,
        "spark.master": master_with_retries(master),
        "spark.driver.memory": f"{settings.driver_memory >> 20}m",
        "spark.executor.memory": f"{settings.executor_memory >> 20}m",
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }
    if host is not None:
        # Workers connect to the driver. They may be unable to resolve its host name, so Spark gets an IP address.
        in_urls = f"[{host}]" if ":" in host else host
        given |= {"spark.driver.host": in_urls, "spark.driver.bindAddress": host}
    if environment is not None:
        given["spark.archives"] = f"{_archive(environment, master)}#{ENVIRONMENT}"
    return given | dict(map(_setting, settings.conf))


def _setting(text: str) -> tuple[str, str]:
    name, equals, value = text.partition("=")
    if not equals or not name.startswith("spark."):
        raise OptionError(f"--conf {text}: write spark.NAME=VALUE, as for spark-submit")
    if name in _OPTIONS:
        raise OptionError(f"--conf {text}: give it with {_OPTIONS[name]}")
    return name, value


_OPTIONS = {
    "spark.master": "--spark-master",
    "spark.driver.memory": "--driver-memory",
    "spark.executor.memory": "--executor-memory",
    "spark.archives": "--environment",
}
"""The Spark settings that dumpfilter sets with its own options, and these options."""


JOB_SETTINGS = {
    f"spark.executorEnv.{DRIVERS_VERSION}": __version__,
    "spark.app.name": "dumpfilter",
    "spark.python.daemon.module": "dumpfilter.spark_jobs.spark_daemon",
}
"""The Spark settings that jobs need however Spark is started. The options of spark-submit override them."""


def _archive(environment: str, master: str) -> str:
    if master.startswith("local"):
        raise OptionError("--environment is for a cluster's workers: with a local master there are none")
    if "://" in environment:
        return environment
    path = Path(environment).resolve()
    if not path.is_file():
        raise OptionError(f"--environment {environment}: no such file; docs/cluster.md shows how to pack one")
    return str(path)


@contextlib.contextmanager
def spark_context(settings: SparkSettings) -> Iterator[SparkContext]:
    """Start Spark for the body of a ``with`` statement, yield its context, and stop Spark at the end, even after
    Ctrl-C. The environment variables PYSPARK_PYTHON and PYSPARK_DRIVER_PYTHON are set for this process.

    Raises SparkMissing if Java or PySpark is missing, if this process has a Spark context already, or if Spark does not
    start, with Spark's message. Raises SparkUnreachable if no Spark master answers, and OptionError for unusable
    settings.
    """
    if not under_spark_submit():
        check_java()
    try:
        import pyspark
    except ImportError:
        raise SparkMissing(f"PySpark is not installed: pip install 'dumpfilter[spark]', {_WITHOUT}") from None
    # The end of a job closes connections to Java, and py4j would log a traceback for each of them.
    logging.getLogger("py4j").setLevel(logging.CRITICAL)
    if under_spark_submit():
        started: AbstractContextManager[SparkContext] = contextlib.nullcontext(_submitted_context())
    else:
        given = context_settings(settings)
        if pyspark.SparkContext._active_spark_context is not None:
            raise SparkMissing("this process has a Spark context already; Spark allows one")
        os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
        packaged = f"./{ENVIRONMENT}/bin/python"
        os.environ["PYSPARK_PYTHON"] = sys.executable if settings.environment is None else packaged
        started = _launched_context(given)
    with started as context:
        try:
            yield context
        finally:
            with warnings.catch_warnings():
                # After Ctrl-C the JVM may end before the context is stopped, and PySpark would warn the user about it.
                warnings.simplefilter("ignore", RuntimeWarning)
                context.stop()


def _submitted_context() -> SparkContext:
    from pyspark import SparkConf, SparkContext

    # With a local master the executors must run the same Python interpreter as the driver.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    # The settings of spark-submit are properties of its JVM, so this process connects to the JVM first.
    SparkContext._ensure_initialized()
    conf = SparkConf(_jvm=SparkContext._jvm)
    for key, value in JOB_SETTINGS.items():
        if not conf.contains(key):
            conf.set(key, value)
    try:
        return SparkContext(conf=conf)
    except Exception as error:
        raise SparkMissing(f"Spark does not start: {_first_line(str(error))}") from None


@contextlib.contextmanager
def _launched_context(given: Mapping[str, str]) -> Iterator[SparkContext]:
    """Start a JVM with a Spark context, yield the context, and end the JVM after the body of the ``with`` statement.
    ``given`` has the values of Spark's settings by name. Raises SparkMissing if Spark does not start.
    """
    from pyspark import SparkConf, SparkContext
    from pyspark.java_gateway import launch_gateway

    with tempfile.TemporaryDirectory(prefix="dumpfilter-spark-") as scratch:
        log4j, messages = Path(scratch, "log4j2.properties"), Path(scratch, "spark.err")
        log4j.write_text(_LOG4J, encoding="utf-8")
        java = f'-XX:TieredStopAtLevel=1 "-Djava.io.tmpdir={scratch}" -Dlog4j2.configurationFile={log4j.as_uri()}'
        settings = {
            # A killed JVM leaves Spark's directories behind. They lie in one directory that this process removes.
            "spark.local.dir": scratch,
            **given,
            _JAVA_OPTIONS: f"{java} {given.get(_JAVA_OPTIONS, '')}".rstrip(),
        }
        conf = SparkConf(loadDefaults=False).setAll(list(settings.items()))

        def start() -> SparkContext:
            # The JVM's warnings about incubator modules and host names go to a file, since users cannot act on them.
            with open(messages, "wb") as stderr:
                gateway = launch_gateway(conf, popen_kwargs={"stderr": stderr})  # type: ignore[no-untyped-call]
            return SparkContext(gateway=gateway, conf=conf)

        # A second thread starts the context, because in the main thread PySpark would install a handler for Ctrl-C.
        # PySpark's handler uses a connection to the JVM that may be busy, and a Ctrl-C during the start would leave a
        # JVM that no process ends.
        try:
            with ThreadPoolExecutor(1, "spark-start") as pool:
                starting = pool.submit(start)
                try:
                    context = starting.result()
                except KeyboardInterrupt:
                    with contextlib.suppress(Exception):
                        starting.result().stop()
                    raise
                except Exception as error:
                    told = _first_line(messages.read_text("utf-8", "replace")) or str(error)
                    raise SparkMissing(f"Spark does not start: {told}") from None
            yield context
        finally:
            _end_jvm()


def _end_jvm() -> None:
    """End Spark's Java process, so that a later Spark context in this process can have other settings."""
    from pyspark import SparkContext

    gateway = SparkContext._gateway
    if gateway is None:
        return
    process = getattr(gateway, "proc", None)
    with contextlib.suppress(Exception):
        gateway.shutdown()
    if process is not None:
        # PySpark's JVM ends by itself when its standard input is closed.
        with contextlib.suppress(OSError):
            process.stdin.close()
        try:
            process.wait(timeout=10)
        except subprocess.TimeoutExpired:
            process.kill()
            process.wait()
    SparkContext._gateway = None
    SparkContext._jvm = None


def _first_line(text: str) -> str:
    """Return the line of Spark's output that tells the user why Spark did not start. The result is the first line that
    names an error, else the first line, else an empty text.
    """
    lines = _lines(text)
    told = [line for line in lines if "Exception" in line or "Error" in line]
    return (told or lines or [""])[0]


def _lines(text: str) -> list[str]:
    return [line.strip() for line in text.splitlines() if line.strip()]


_PACKAGED = "package the environment for the workers (docs/cluster.md)"


def reason(error: BaseException) -> str:
    r"""Return the one line of a Spark error's long text that tells the user why the job failed.

    The line describes the last attempt of the failed task. If the text has a Python traceback, the traceback's last
    line is returned.

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
        return f"a worker has no {program[1]} ({program[2] or 'it cannot be run'}): {_PACKAGED}"
    started = re.search(r"Error from python worker:\n(.*?)(?:\nPYTHONPATH was:|\Z)", text, re.S)
    if started is not None:
        told = ["", *_lines(started[1])][-1]
        return f"{told}: {_PACKAGED}" if "No module named" in told else told
    traceback = re.search(
        r"(Traceback \(most recent call last\):.*?)(?:\n\s*SQLSTATE:|\n\s*\n|\n\tat |\Z)", text, re.S
    )
    if traceback is not None:
        return _lines(traceback[1])[-1]
    lines = _lines(text)
    lines = [line for line in lines if not line.startswith(("at ", "..."))] or lines
    if not lines:
        return ""
    # The first line of a py4j error, "An error occurred while calling …", does not give the reason.
    told = lines[1] if len(lines) > 1 and lines[0].startswith("An error occurred while calling") else lines[0]
    # Spark's advice names settings for PySpark's developers, not for users.
    told = told.split(" Consider setting ")[0]
    return re.sub(r"^:?\s*(?:[a-z][\w$]*\.)+(\w+(?:Exception|Error): )", r"\1", told.lstrip(": "))


T = TypeVar("T")
R = TypeVar("R")

_POLL = 0.1
"""The interval between attempts to cancel a Spark job after Ctrl-C, seconds."""

_WAVE = 64
"""The number of Spark tasks per core that the driver submits at once. Before the driver submits more, it checks for
failed tasks, so that a long job ends soon after an error.
"""


class SparkFailed(DumpfilterError):
    """The error for a job that Spark gave up, for example because memory was short or an executor was lost."""


class SparkRunner:
    """The engine that runs a job's tasks on Spark. Calling an object with a function and tasks returns the results in
    order.

    ``get_context`` is a function that starts Spark, and is called once, before the first task. ``console`` shows the
    progress (None: no progress). A call raises the DumpfilterError of the first task that raised one, and SparkFailed
    if Spark gives up the job.
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
        wave = _WAVE * self.cores
        results: list[R] = []

        def reached() -> tuple[int, None]:
            return len(results) + _completed(context), None

        with self._progress.of(label, len(tasks), amount, reached):
            for begin in range(0, len(tasks), wave):
                results += _run(context, function, tasks[begin : begin + wave], label)
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


def _run(context: SparkContext, function: Callable[[T], R], tasks: Sequence[T], label: str) -> list[R]:
    group = uuid.uuid4().hex

    def collect() -> list[R | DumpfilterError]:
        context.setJobGroup(group, label, interruptOnCancel=False)
        return context.parallelize(tasks, len(tasks)).map(functools.partial(_guarded, function)).collect()

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
    """Return the result of a task. If the task raises a DumpfilterError, return this error. An OSError of the task is
    returned as a BinlogError.

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
    """Return the number of completed Spark tasks in the currently running stages, for the progress bar."""
    tracker = context.statusTracker()
    running = [tracker.getStageInfo(stage) for stage in tracker.getActiveStageIds()]
    return sum(info.numCompletedTasks for info in running if info is not None)
