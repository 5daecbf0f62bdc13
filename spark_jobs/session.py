"""A quiet Spark session that works without a network, and the error that says what to install."""

from __future__ import annotations

import contextlib
import logging
import os
import shutil
import subprocess
import sys
import tempfile
import warnings
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import TYPE_CHECKING

from dumpfilter.errors import OptionError

if TYPE_CHECKING:
    from pyspark.sql import SparkSession

JAVA_AT_LEAST = 17
"""The oldest Java that Spark 4 runs on."""

ARROW_RECORDS = 4096
"""Rows in an Arrow batch from Spark to a Python worker; a row is some hundred bytes."""

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


def check_java() -> str:
    """The java that Spark will run. Raises SparkMissing when there is none that is new enough."""
    home = os.environ.get("JAVA_HOME")
    java = shutil.which(str(Path(home) / "bin" / "java")) if home else shutil.which("java")
    if java is None:
        where = f"JAVA_HOME ({home}) has no bin/java" if home else "there is no java on the PATH"
        raise SparkMissing(
            f"the split runs on Spark, which needs Java {JAVA_AT_LEAST} or newer: {where}. {_CURE}"
        )
    release = _java_version(java)
    if release is not None and release < JAVA_AT_LEAST:
        raise SparkMissing(f"{java} is Java {release}, Spark needs {JAVA_AT_LEAST} or newer. {_CURE}")
    return java


_CURE = "Install one (Debian, Ubuntu: apt-get install default-jre-headless) or let JAVA_HOME point to it"


def _java_version(java: str) -> int | None:
    try:
        told = subprocess.run(
            [java, "-version"], capture_output=True, text=True, timeout=60, check=False
        ).stderr
    except OSError:
        return None
    # openjdk version "17.0.21" …, java version "1.8.0_392" …
    quoted = told.split('"')[1] if told.count('"') >= 2 else ""
    numbers = [int(part) for part in quoted.replace("_", ".").split(".") if part.isdigit()]
    if not numbers:
        return None
    return numbers[1] if numbers[0] == 1 and len(numbers) > 1 else numbers[0]


@contextlib.contextmanager
def spark_session(master: str = "local[*]", *, driver_memory: str = "1g") -> Iterator[SparkSession]:
    """A session of its own, stopped at the end, also by Ctrl-C.

    Raises SparkMissing when Java or PySpark is missing, or Spark does not start (with what it printed).
    """
    check_java()
    try:
        from pyspark import SparkConf, SparkContext
        from pyspark.java_gateway import launch_gateway
        from pyspark.sql import SparkSession
    except ImportError:
        raise SparkMissing("PySpark is not installed: pip install 'dumpfilter[spark]'") from None
    # it logs with tracebacks every connection that a job's end cuts off
    logging.getLogger("py4j").setLevel(logging.CRITICAL)
    os.environ["PYSPARK_PYTHON"] = os.environ["PYSPARK_DRIVER_PYTHON"] = sys.executable
    with tempfile.TemporaryDirectory(prefix="dumpfilter-spark-") as scratch:
        log4j = Path(scratch) / "log4j2.properties"
        log4j.write_text(_LOG4J, encoding="utf-8")
        conf = SparkConf()
        for key, value in {
            "spark.app.name": "dumpfilter",
            "spark.master": master,
            "spark.driver.memory": driver_memory,
            "spark.driver.extraJavaOptions": f"-Dlog4j2.configurationFile={log4j.as_uri()}",
            "spark.ui.enabled": "false",
            "spark.ui.showConsoleProgress": "false",
            "spark.sql.adaptive.enabled": "false",
            "spark.sql.execution.arrow.maxRecordsPerBatch": str(ARROW_RECORDS),
            "spark.sql.codegen.wholeStage": "false",  # these plans are two Python functions: nothing to compile
            **(_LOCAL if master.startswith("local") else {}),
        }.items():
            conf.set(key, value)
        messages = Path(scratch) / "spark.err"
        # the JVM's own warnings (incubator modules, host names) are nothing a user could act on
        with open(messages, "wb") as stderr:

            def start() -> SparkSession:
                gateway = launch_gateway(conf, popen_kwargs={"stderr": stderr})  # type: ignore[no-untyped-call]
                return SparkSession(SparkContext(gateway=gateway, conf=conf))

            # Not in the main thread: there PySpark would install a handler for Ctrl-C that talks to the JVM on a
            # connection in use, and a Ctrl-C in the middle of the start would leave the JVM to nobody.
            with ThreadPoolExecutor(1, "spark-start") as pool:
                starting = pool.submit(start)
                try:
                    spark = starting.result()
                except KeyboardInterrupt:
                    with contextlib.suppress(Exception):
                        starting.result().stop()
                    _forget()
                    raise
                except Exception as error:
                    _forget()
                    raise SparkMissing(f"Spark does not start: {_last_line(messages) or error}") from None
            try:
                yield spark
            finally:
                with warnings.catch_warnings():
                    warnings.simplefilter("ignore", RuntimeWarning)  # a JVM that is gone already
                    spark.stop()
                _forget()


_LOCAL = {
    "spark.driver.host": "127.0.0.1",
    "spark.driver.bindAddress": "127.0.0.1",
}


def _forget() -> None:
    """End the JVM, so that a later session can have other settings."""
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


def _last_line(path: Path) -> str:
    lines = [line for line in path.read_text("utf-8", "replace").splitlines() if line.strip()]
    told = [line for line in lines if "Exception" in line or "Error" in line]
    return (told or lines or [""])[0].strip()
