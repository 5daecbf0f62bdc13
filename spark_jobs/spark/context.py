"""The Spark context of a job: local, on a cluster, or the context that spark-submit prepares.

Measured start costs with ``local[2]`` on two cores, and the measures against them:

- The JVM takes 2 s and the context another 2 s. The JVM's second compiler is off, which saves 1 s: that compiler
  pays off only in long Java work, and it would take the cores from the Python workers.
- A ``SparkSession`` takes 2.5 s. Only callers that need data frames make one (:func:`spark_session`).
- The first job takes 3.5 s. In every worker 1.2 s of them would be imports and loading the compiled kernels.
  A daemon loads both once, before it forks the workers (:mod:`~dumpfilter.spark_jobs.spark.daemon`).
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
"""Rows in an Arrow batch from Spark to a Python worker. A row is some hundred bytes."""

TASK_ATTEMPTS = 4
"""Attempts at a task before its job fails. Clusters have the same default."""

REACH_TIMEOUT = 5.0
"""Seconds to wait for a master's port to accept a connection."""

NO_WORKER_AFTER = 15.0
"""Seconds without an executor before a warning appears, and between two warnings."""

ENVIRONMENT = "environment"
"""The directory, below an executor's working directory, into which Spark unpacks the packaged environment."""

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
    """Spark cannot start on this machine. The text says what to install."""


class SparkUnreachable(ConnectionLost):
    """No Spark master answers at the given address. The text names the address."""


def check_java() -> str:
    """Return the path of the java that Spark will run. Raises SparkMissing without a java that is new enough."""
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


def under_spark_submit() -> bool:
    """Tell whether spark-submit runs this process. Then spark-submit's options set the master and the memory."""
    return "PYSPARK_GATEWAY_PORT" in os.environ


def master_with_retries(master: str) -> str:
    """Return the master's URL with task attempts added to ``local`` and ``local[N]``.

    Without that addition Spark tries a task again only on clusters.

    >>> master_with_retries("local[*]"), master_with_retries("local"), master_with_retries("spark://host:7077")
    ('local[*,4]', 'local[1,4]', 'spark://host:7077')
    """
    found = re.fullmatch(r"local(?:\[\s*(\*|\d+)\s*\])?", master)
    return f"local[{found[1] or 1},{TASK_ATTEMPTS}]" if found else master


def driver_address(master: str, timeout: float = REACH_TIMEOUT) -> str | None:
    """Connect to a standalone master and return this host's address on that connection.

    ``master`` is ``spark://host:port[,host:port …]``; for any other kind of master the answer is None. Spark itself
    would try for a minute and then fail with an unclear message.

    Raises OptionError for an address without a port, and SparkUnreachable when none of the addresses accepts a
    connection within ``timeout`` seconds.
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


def context_settings(
    master: str, *, driver_memory: str = "1g", executor_memory: str = "1g", environment: str | None = None
) -> dict[str, str]:
    """Return Spark's settings for a context that this process starts, including those of :func:`job_settings`.

    ``environment`` is explained at :func:`spark_context`. Raises the errors of :func:`driver_address`. Raises
    OptionError when the environment's file is missing or the master is local.
    """
    host = driver_address(master)
    if master.startswith("local"):
        host = "127.0.0.1"
    given = {
        **job_settings(master),
        "spark.master": master_with_retries(master),
        "spark.driver.memory": driver_memory,
        "spark.executor.memory": executor_memory,
        "spark.ui.enabled": "false",
        "spark.ui.showConsoleProgress": "false",
    }
    if host is not None:
        # Workers must be able to resolve the driver's address. A host name may not resolve on the workers.
        given |= {"spark.driver.host": host, "spark.driver.bindAddress": host}
    if environment is not None:
        given["spark.archives"] = f"{_archive(environment, master)}#{ENVIRONMENT}"
    return given


def job_settings(master: str) -> dict[str, str]:
    """Return the settings that the jobs need in every context. Options of spark-submit override them."""
    # Local workers import the driver's own files. A check would fail only for a developer who edits them
    # during a job.
    code = {} if master.startswith("local") else {f"spark.executorEnv.{DRIVERS_CODE}": code_digest()}
    return {
        **code,
        "spark.app.name": "dumpfilter",
        "spark.python.daemon.module": "dumpfilter.spark_jobs.spark.daemon",
        "spark.sql.adaptive.enabled": "false",
        "spark.sql.execution.arrow.maxRecordsPerBatch": str(ARROW_RECORDS),
        "spark.sql.codegen.wholeStage": "false",  # Spark cannot compile Python functions.
    }


def _archive(environment: str, master: str) -> str:
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
    """Start a Spark context, and stop it at the end, also after Ctrl-C.

    ``master`` is ``local[N]``, ``spark://host:port``, or any other URL that Spark knows. ``environment`` is the
    packaged environment (:mod:`~dumpfilter.spark_jobs.spark.environment`) with the executors' Python. It is a path,
    or a URL that the executors can read. Without ``environment`` the executors run the path of this interpreter.
    Under spark-submit all these parameters are ignored, since spark-submit has options of its own.

    Raises SparkMissing when Java or PySpark is missing, or when Spark does not start (with Spark's message). Raises
    what :func:`context_settings` raises.
    """
    if not under_spark_submit():
        check_java()
    try:
        import pyspark
    except ImportError:
        raise SparkMissing("PySpark is not installed: pip install 'dumpfilter[spark]'") from None
    # py4j logs a traceback for every connection that the end of a job closes.
    logging.getLogger("py4j").setLevel(logging.CRITICAL)
    if under_spark_submit():
        with _submitted_context() as context:
            yield context
        return
    given = context_settings(
        master, driver_memory=driver_memory, executor_memory=executor_memory, environment=environment
    )
    if pyspark.SparkContext._active_spark_context is not None:
        raise SparkMissing("this process has a Spark context already; Spark allows one")
    os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    os.environ["PYSPARK_PYTHON"] = sys.executable if environment is None else f"./{ENVIRONMENT}/bin/python"
    with _launched_context(given) as context, _warn_without_executor(context, given):
        yield context


@contextlib.contextmanager
def spark_session(
    master: str = "local[*]",
    *,
    driver_memory: str = "1g",
    executor_memory: str = "1g",
    environment: str | None = None,
) -> Iterator[SparkSession]:
    """Start a Spark context like :func:`spark_context`, with a SparkSession for data frames."""
    with spark_context(
        master, driver_memory=driver_memory, executor_memory=executor_memory, environment=environment
    ) as context:
        from pyspark.sql import SparkSession

        session = SparkSession(context)
        try:
            yield session
        finally:
            with _without_warnings():
                session.stop()


@contextlib.contextmanager
def _submitted_context() -> Iterator[SparkContext]:
    from pyspark import SparkConf, SparkContext

    # With a local master the executors must run the driver's Python.
    os.environ.setdefault("PYSPARK_PYTHON", sys.executable)
    # Connect to the JVM of spark-submit, whose properties are the settings.
    SparkContext._ensure_initialized()
    conf = SparkConf(_jvm=SparkContext._jvm)
    for key, value in job_settings(conf.get("spark.master", "") or "").items():
        if not conf.contains(key):
            conf.set(key, value)
    try:
        context = SparkContext(conf=conf)
    except Exception as error:
        raise SparkMissing(f"Spark does not start: {_first_line(str(error))}") from None
    try:
        yield context
    finally:
        with _without_warnings():
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
        # Spark leaves directories behind when its JVM is killed, and scratch is removed as a whole.
        conf.set("spark.local.dir", scratch)
        conf.set(
            "spark.driver.extraJavaOptions",
            f"-XX:TieredStopAtLevel=1 -Djava.io.tmpdir={scratch} -Dlog4j2.configurationFile={log4j.as_uri()}",
        )
        messages = Path(scratch) / "spark.err"
        # The JVM warns of incubator modules and host names, and a user can do nothing about either.
        with open(messages, "wb") as stderr:

            def start() -> SparkContext:
                gateway = launch_gateway(conf, popen_kwargs={"stderr": stderr})  # type: ignore[no-untyped-call]
                return SparkContext(gateway=gateway, conf=conf)

            # A second thread starts the context, because in the main thread PySpark would install a handler for
            # Ctrl-C. PySpark's handler uses a connection to the JVM that may be busy, and a Ctrl-C during the
            # start would leave a JVM that no process ends.
            with ThreadPoolExecutor(1, "spark-start") as pool:
                starting = pool.submit(start)
                try:
                    context = starting.result()
                except KeyboardInterrupt:
                    with contextlib.suppress(Exception):
                        starting.result().stop()
                    _end_jvm()
                    raise
                except Exception as error:
                    _end_jvm()
                    told = _first_line(messages.read_text("utf-8", "replace")) or str(error)
                    raise SparkMissing(f"Spark does not start: {told}") from None
            try:
                yield context
            finally:
                with _without_warnings():
                    context.stop()
                _end_jvm()


@contextlib.contextmanager
def _warn_without_executor(context: SparkContext, given: Mapping[str, str]) -> Iterator[None]:
    """Warn on stderr while the cluster gives the job no executor. Spark itself waits in silence."""
    if given["spark.master"].startswith("local"):
        yield
        return
    over = threading.Event()

    def watch() -> None:
        # The list of executors includes the driver.
        while not over.wait(NO_WORKER_AFTER):
            try:
                if len(_jvm_context(context).statusTracker().getExecutorInfos()) > 1:
                    return
            except Exception:  # The context is stopping, or the JVM has ended. The job itself reports either.
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
def _without_warnings() -> Iterator[None]:
    with warnings.catch_warnings():
        # PySpark warns when the JVM has ended before the context is stopped.
        warnings.simplefilter("ignore", RuntimeWarning)
        yield


def _end_jvm() -> None:
    """End the JVM, so that a later context can have other settings."""
    from pyspark import SparkContext

    gateway = SparkContext._gateway
    if gateway is None:
        return
    process = getattr(gateway, "proc", None)
    with contextlib.suppress(Exception):
        gateway.shutdown()
    if process is not None:
        # The JVM ends when its standard input is closed.
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
    """Return the first line of Spark's output that names an error. Without such a line, return the first line."""
    lines = [line.strip() for line in text.splitlines() if line.strip()]
    told = [line for line in lines if "Exception" in line or "Error" in line]
    return (told or lines or [""])[0]
