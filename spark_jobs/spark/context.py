"""A Spark context for a job: on this machine, on a cluster, or the one that spark-submit has made.

What a start costs, measured with ``local[2]`` on two cores, and what was done about it:

- The JVM, 2 s, and the context, 2 s. Its second compiler, which takes the cores from the Python workers and would pay
  off only in long Java work, is off: 1 s less.
- A ``SparkSession``, 2.5 s: only who needs one makes it (:func:`spark_session`).
- The first job, 3.5 s, of which 1.2 s are the imports and loading the compiled kernels, in every worker: now once,
  before the workers are forked (:mod:`~dumpfilter.spark_jobs.spark.daemon`).
"""

from __future__ import annotations

import contextlib
import logging
import os
import re
import socket
import subprocess
import sys
import tempfile
import threading
import warnings
from collections.abc import Iterator, Mapping
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING, Any

from dumpfilter.errors import ConnectionLost, OptionError
from dumpfilter.spark_jobs.spark.daemon import DRIVERS_CODE, code_digest
from dumpfilter.spark_jobs.spark.java import JAVA_AT_LEAST, find_java, java_release

if TYPE_CHECKING:
    from pyspark import SparkContext
    from pyspark.sql import SparkSession

ARROW_RECORDS = 4096
"""Rows in an Arrow batch from Spark to a Python worker; a row is some hundred bytes."""

TASK_ATTEMPTS = 4
"""How often a task is tried before its job fails; Spark's own default on clusters."""

REACH_TIMEOUT = 5.0
"""Seconds to wait for a master's port to accept a connection."""

NO_WORKER_AFTER = 15.0
"""Seconds without a worker after which that is told, and then told again."""

ENVIRONMENT = "environment"
"""The directory in which executors find the packaged environment, below where they run."""

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
    """Spark cannot start here; the text says what to install."""


class SparkUnreachable(ConnectionLost):
    """No Spark master answers at the address given; the text names it."""


def check_java() -> str:
    """Return the java that Spark will run. Raises SparkMissing when there is none that is new enough."""
    java = find_java()
    if java is None:
        home = os.environ.get("JAVA_HOME")
        where = f"JAVA_HOME ({home}) has no bin/java" if home else "there is no java on the PATH"
        raise SparkMissing(f"this runs on Spark, which needs Java {JAVA_AT_LEAST} or newer: {where}. {_CURE}")
    release = java_release(java)
    if release is not None and release < JAVA_AT_LEAST:
        raise SparkMissing(f"{java} is Java {release}, Spark needs {JAVA_AT_LEAST} or newer. {_CURE}")
    return java


_CURE = "Install one (Debian, Ubuntu: apt-get install default-jre-headless) or let JAVA_HOME point to it"


def submitted() -> bool:
    """Whether spark-submit runs this process: then master, memory and the rest are its options, not ours."""
    return "PYSPARK_GATEWAY_PORT" in os.environ


def master_with_retries(master: str) -> str:
    """``local`` and ``local[N]`` with the task attempts that Spark grants only to clusters unless told.

    >>> master_with_retries("local[*]"), master_with_retries("local"), master_with_retries("spark://host:7077")
    ('local[*,4]', 'local[1,4]', 'spark://host:7077')
    """
    found = re.fullmatch(r"local(?:\[\s*(\*|\d+)\s*\])?", master)
    return f"local[{found[1] or 1},{TASK_ATTEMPTS}]" if found else master


def reach(master: str, timeout: float = REACH_TIMEOUT) -> str | None:
    """The address of this host that a standalone master (``spark://host:port[,host:port …]``) is reached from.

    Spark itself would try for a minute and then say little. None for other kinds of masters. Raises OptionError
    for an address without a port, SparkUnreachable when nobody listens at any of them within ``timeout`` seconds
    each.
    """
    if not master.startswith("spark://"):
        return None
    refused: OSError | None = None
    for address in master.removeprefix("spark://").split(","):
        host, _, port = address.rpartition(":")
        if not host or not port.isdigit() or not 0 < int(port) < 65536:
            raise OptionError(f"--master {master}: a standalone master is spark://host:port, often port 7077")
        try:
            with socket.create_connection((host.strip("[]"), int(port)), timeout) as connection:
                return str(connection.getsockname()[0])
        except OSError as error:
            refused = error
    raise SparkUnreachable(
        f"no Spark master answers at {master}: {(refused and refused.strerror) or refused}"
    ) from None


def settings(
    master: str, *, driver_memory: str = "1g", executor_memory: str = "1g", environment: str | None = None
) -> dict[str, str]:
    """Spark's settings for a context that we start, and those of :func:`needed`.

    ``environment``: see :func:`spark_context`. Raises what :func:`reach` does, and OptionError for an environment
    that is not there or has nobody to use it.
    """
    host = reach(master)
    if master.startswith("local"):
        host = "127.0.0.1"
    given = {
        **needed(master),
        "spark.master": master_with_retries(master),
        "spark.driver.memory": driver_memory,
        "spark.executor.memory": executor_memory,
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }
    if host is not None:
        # where the workers find the driver: not by its name, which need not lead here
        given |= {"spark.driver.host": host, "spark.driver.bindAddress": host}
    if environment is not None:
        given["spark.archives"] = f"{_found(environment, master)}#{ENVIRONMENT}"
    return given


def needed(master: str) -> dict[str, str]:
    """The settings that the jobs want whoever makes the context; spark-submit's options go before them."""
    # workers of this machine run this code, though somebody may be editing it
    code = {} if master.startswith("local") else {f"spark.executorEnv.{DRIVERS_CODE}": code_digest()}
    return {
        **code,
        "spark.app.name": "dumpfilter",
        "spark.python.daemon.module": "dumpfilter.spark_jobs.spark.daemon",
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.execution.arrow.maxRecordsPerBatch": str(ARROW_RECORDS),
        "spark.sql.codegen.wholeStage": "false",  # these plans are Python functions: nothing to compile
    }


def _found(environment: str, master: str) -> str:
    if master.startswith("local"):
        raise OptionError("--environment is for a cluster's workers: with a local master there are none")
    if "://" in environment:
        return environment
    path = Path(environment).resolve()
    if not path.is_file():
        raise OptionError(
            f"--environment {environment}: no such file; dumpfilter package-environment makes one"
        )
    return str(path)


@contextlib.contextmanager
def spark_context(
    master: str = "local[*]",
    *,
    driver_memory: str = "1g",
    executor_memory: str = "1g",
    environment: str | None = None,
) -> Iterator[SparkContext]:
    """A context of its own, stopped at the end, also by Ctrl-C.

    ``master``: ``local[N]``, ``spark://host:port``, or what else Spark knows. ``environment``: the packaged
    environment (``environment.py``) that has the executors' Python: a path, or a URL that the executors can read.
    Without ``environment`` the executors run the path of this interpreter.
    Under spark-submit its own options count, and these do not.

    Raises SparkMissing when Java or PySpark is missing, or Spark does not start (with what it printed), and what
    :func:`settings` does.
    """
    if not submitted():
        check_java()
    try:
        import pyspark
    except ImportError:
        raise SparkMissing("PySpark is not installed: pip install 'dumpfilter[spark]'") from None
    # it logs with tracebacks every connection that a job's end cuts off
    logging.getLogger("py4j").setLevel(logging.CRITICAL)
    if submitted():
        with _submitted_context() as context:
            yield context
        return
    given = settings(
        master, driver_memory=driver_memory, executor_memory=executor_memory, environment=environment
    )
    if pyspark.SparkContext._active_spark_context is not None:
        raise SparkMissing("this process has a Spark context already; Spark allows one")
    os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    os.environ["PYSPARK_PYTHON"] = sys.executable if environment is None else f"./{ENVIRONMENT}/bin/python"
    with _launched_context(given) as context, _told_when_idle(context, given):
        yield context


@contextlib.contextmanager
def spark_session(
    master: str = "local[*]",
    *,
    driver_memory: str = "1g",
    executor_memory: str = "1g",
    environment: str | None = None,
) -> Iterator[SparkSession]:
    """The same with a SparkSession, for who reads data frames."""
    with spark_context(
        master, driver_memory=driver_memory, executor_memory=executor_memory, environment=environment
    ) as context:
        from pyspark.sql import SparkSession

        session = SparkSession(context)
        try:
            yield session
        finally:
            with _quietly():
                session.stop()


@contextlib.contextmanager
def _submitted_context() -> Iterator[SparkContext]:
    from pyspark import SparkConf, SparkContext

    # the executors' Python when nobody said which: with a local master it must be this one
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    SparkContext._ensure_initialized()  # the JVM that is there; its properties are the settings
    conf = SparkConf(_jvm=SparkContext._jvm)
    for key, value in needed(conf.get("spark.master", "") or "").items():
        if not conf.contains(key):
            conf.set(key, value)
    try:
        context = SparkContext(conf=conf)
    except Exception as error:
        raise SparkMissing(f"Spark does not start: {_first_line(str(error))}") from None
    try:
        yield context
    finally:
        with _quietly():
            context.stop()


@contextlib.contextmanager
def _launched_context(given: Mapping[str, str]) -> Iterator[SparkContext]:
    from pyspark import SparkConf, SparkContext
    from pyspark.java_gateway import launch_gateway

    with tempfile.TemporaryDirectory(prefix="dumpfilter-spark-") as scratch:
        log4j = Path(scratch) / "log4j2.properties"
        log4j.write_text(_LOG4J, encoding="utf-8")
        conf = SparkConf(loadDefaults=False)
        for key, value in given.items():
            conf.set(key, value)
        conf.set(
            "spark.driver.extraJavaOptions",
            f"-XX:TieredStopAtLevel=1 -Dlog4j2.configurationFile={log4j.as_uri()}",
        )
        messages = Path(scratch) / "spark.err"
        # the JVM's own warnings (incubator modules, host names) are nothing a user could act on
        with open(messages, "wb") as stderr:

            def start() -> SparkContext:
                gateway = launch_gateway(conf, popen_kwargs={"stderr": stderr})  # type: ignore[no-untyped-call]
                return SparkContext(gateway=gateway, conf=conf)

            # Not in the main thread: there PySpark would install a handler for Ctrl-C that talks to the JVM on a
            # connection in use, and a Ctrl-C in the middle of the start would leave the JVM to nobody.
            with ThreadPoolExecutor(1, "spark-start") as pool:
                starting = pool.submit(start)
                try:
                    context = starting.result()
                except KeyboardInterrupt:
                    with contextlib.suppress(Exception):
                        starting.result().stop()
                    _forget()
                    raise
                except Exception as error:
                    _forget()
                    told = _first_line(messages.read_text("utf-8", "replace")) or str(error)
                    raise SparkMissing(f"Spark does not start: {told}") from None
            try:
                yield context
            finally:
                with _quietly():
                    context.stop()
                _forget()


@contextlib.contextmanager
def _told_when_idle(context: SparkContext, given: Mapping[str, str]) -> Iterator[None]:
    """Say so on stderr while a cluster gives no executor: the job would wait for one in silence."""
    if given["spark.master"].startswith("local"):
        yield
        return
    over = threading.Event()

    def watch() -> None:
        # the driver is listed too
        while not over.wait(NO_WORKER_AFTER):
            try:
                if len(_jvm_context(context).statusTracker().getExecutorInfos()) > 1:
                    return
            except Exception:  # the context is stopping, or the JVM is gone: others tell
                return
            print(
                f"dumpfilter: no executor of {given['spark.master']} is ready yet. It takes a worker with a core and "
                f"{given['spark.executor.memory']} of memory free (--executor-memory). Waiting.",
                file=sys.stderr,
                flush=True,
            )

    thread = threading.Thread(target=watch, name="spark-idle", daemon=True)
    thread.start()
    try:
        yield
    finally:
        over.set()
        thread.join()


def _jvm_context(context: SparkContext) -> Any:
    return context._jsc.sc()


@contextlib.contextmanager
def _quietly() -> Iterator[None]:
    with warnings.catch_warnings():
        warnings.simplefilter("ignore", RuntimeWarning)  # a JVM that is gone already
        yield


def _forget() -> None:
    """End the JVM, so that a later context can have other settings."""
    from pyspark import SparkContext

    gateway = SparkContext._gateway
    if gateway is None:
        return
    process = getattr(gateway, "proc", None)
    with contextlib.suppress(Exception):
        gateway.shutdown()
    if process is not None:
        # it ends when its standard input does
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
    """The line that says most in what Spark printed."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    told = [line for line in lines if "Exception" in line or "Error" in line]
    return (told or lines or [""])[0]
