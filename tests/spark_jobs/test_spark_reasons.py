"""The one-line reason of a Spark error. The texts are Spark 4.3's, with shorter stacks."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from dumpfilter.spark_jobs.spark import reason

CALLING = "An error occurred while calling z:org.apache.spark.api.python.PythonRDD.collectAndServe.\n"
LOST = (
    ": org.apache.spark.SparkException: Job aborted due to stage failure: Task 0 in stage 1.0 failed 4 times, "
    "most recent failure: Lost task 0.3 in stage 1.0 (TID 7) (192.0.2.2 executor driver): "
)
DRIVER = """

Driver stacktrace:
	at org.apache.spark.scheduler.DAGScheduler.$anonfun$abortStage$3(DAGScheduler.scala:4568)
Caused by: java.io.IOException: error=2, No such file or directory
	... 20 more
"""
CURE = "package the environment for the workers (docs/cluster.md)"


@pytest.mark.parametrize(
    ("text", "told"),
    [
        pytest.param(
            CALLING
            + LOST
            + 'java.io.IOException: Cannot run program "./environment/bin/python": error=2, No such file or '
            + "directory\n\tat java.base/java.lang.ProcessBuilder.start(ProcessBuilder.java:1143)\n"
            + "Caused by: java.io.IOException: error=2, No such file or directory\n\t... 20 more"
            + DRIVER,
            f"a worker has no ./environment/bin/python (No such file or directory): {CURE}",
            id="no environment",
        ),
        pytest.param(
            CALLING
            + LOST
            + """org.apache.spark.SparkException:\x20
Error from python worker:
  Traceback (most recent call last):
    File "<frozen runpy>", line 198, in _run_module_as_main
    File "dumpfilter/binlog/_kernels.py", line 12, in <module>
      from numba import njit
  ModuleNotFoundError: No module named 'numba'
PYTHONPATH was:
  pyspark/python/lib/pyspark.zip:pyspark/python/lib/py4j-0.10.9.9-src.zip
org.apache.spark.SparkException: EOFException occurred while reading the port number from spark_jobs.daemon's stdout.
"""
            + DRIVER,
            f"ModuleNotFoundError: No module named 'numba': {CURE}",
            id="another environment",
        ),
        pytest.param(
            CALLING
            + LOST
            + "org.apache.spark.SparkException: Python worker exited unexpectedly (crashed). Consider setting "
            "'spark.sql.execution.pyspark.udf.faulthandler.enabled' or'spark.python.worker.faulthandler.enabled' "
            "configuration to 'true' for the better Python traceback.\n"
            "\tat org.apache.spark.api.python.BasePythonRunner$ReaderIterator.hasNext(PythonRunner.scala:1034)"
            + DRIVER,
            "SparkException: Python worker exited unexpectedly (crashed).",
            id="a worker that dies",
        ),
        pytest.param(
            CALLING
            + ": org.apache.spark.api.python.PythonException: [PYTHON_EXCEPTION] An exception was thrown from the "
            """Python worker: Traceback (most recent call last):
  File "pyspark.zip/pyspark/worker.py", line 4327, in invoke_udf
    run_process()
  File "job.py", line 5, in div
    def div(x): return 1/0
                       ~^~
ZeroDivisionError: division by zero
 SQLSTATE: 38000
	at org.apache.spark.api.python.BasePythonRunner$ReaderIterator.handlePythonException(PythonRunner.scala:772)
""" + DRIVER,
            "ZeroDivisionError: division by zero",
            id="an exception",
        ),
        pytest.param(
            "An error occurred while calling o97.saveAsTextFile.\n"
            ': org.apache.hadoop.fs.UnsupportedFileSystemException: No FileSystem for scheme "nowhere"\n'
            "\tat org.apache.hadoop.fs.FileSystem.getFileSystemClass(FileSystem.java:3574)",
            'UnsupportedFileSystemException: No FileSystem for scheme "nowhere"',
            id="before there are tasks",
        ),
        pytest.param(
            CALLING
            + LOST
            + """org.apache.spark.SparkException:\x20
Error from python worker:
  the worker's dumpfilter is not the driver's: package the environment again
PYTHONPATH was:
  pyspark/python/lib/pyspark.zip:pyspark/python/lib/py4j-0.10.9.9-src.zip
org.apache.spark.SparkException: EOFException occurred while reading the port number from spark_jobs.daemon's stdout.
"""
            + DRIVER,
            "the worker's dumpfilter is not the driver's: package the environment again",
            id="an old environment",
        ),
        pytest.param("", "Exception", id="nothing"),
        pytest.param(":", "Exception", id="only a colon"),
        pytest.param("Error from python worker:\n", "Exception", id="a worker that says nothing"),
    ],
)
def test_the_line_that_helps(text: str, told: str) -> None:
    assert reason(Exception(text)) == told


@given(st.text())
def test_any_text_gives_one_line(text: str) -> None:
    assert reason(Exception(text)).splitlines() == [reason(Exception(text))]
