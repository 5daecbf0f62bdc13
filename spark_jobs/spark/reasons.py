"""The search for the one line, in pages of Spark's error output, that says why a Spark job failed."""

from __future__ import annotations

import re

_CURE = "package the environment for the workers (docs/cluster.md)"


def reason(error: BaseException) -> str:
    r"""Return the one line of a Spark error that tells the user why the job failed.

    The error text describes the last attempt at the failed task. If it holds a Python traceback, the last line of the
    traceback is returned.

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
