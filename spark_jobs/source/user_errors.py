"""Short error messages for users of the Spark data source.

When a Python data source raises an exception, Spark shows the user the whole Python traceback. This module removes the
traceback of expected errors, such as a missing file, so that the user sees only the message.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from dumpfilter.errors import DumpfilterError

P = ParamSpec("P")
R = TypeVar("R")

_IN_WORKER = "PYTHON_WORKER_FACTORY_SECRET"
"""A variable that Spark sets in the environment of its Python processes."""

_HIDE_TRACEBACK = "SPARK_HIDE_TRACEBACK"
"""The variable by which Spark knows that a Python process sends exceptions without their tracebacks."""


def without_traceback(function: Callable[P, R]) -> Callable[P, R]:
    """Wrap a method that Spark calls, so that its DumpfilterErrors carry no traceback.

    Spark then shows the user only the message of the error.
    """

    @functools.wraps(function)
    def called(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return function(*args, **kwargs)
        except DumpfilterError as error:
            raise short(error) from None

    return called


def short(error: DumpfilterError) -> DumpfilterError:
    """Return an error that is raised next, without its traceback.

    In a Python process of Spark the function also asks Spark to send no traceback. Such a process ends with the error,
    so no later exception loses its traceback.
    """
    if _IN_WORKER in os.environ:
        os.environ[_HIDE_TRACEBACK] = "1"
    return error.with_traceback(None)
