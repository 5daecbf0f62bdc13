"""Short error messages for users of the Spark data source.

When a Python data source raises an exception, Spark shows the user the whole Python traceback. This module removes the
traceback of expected errors, such as a missing file, so that the user sees only the message.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from dumpfilter.errors import DumpfilterError

P = ParamSpec("P")
R = TypeVar("R")


def without_traceback(function: Callable[P, R]) -> Callable[P, R]:
    """Wrap a method that Spark calls, so that its DumpfilterErrors carry no traceback.

    Spark then shows the user only the message of the error.
    """

    @functools.wraps(function)
    def called(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return function(*args, **kwargs)
        except DumpfilterError as error:
            raise error.with_traceback(None) from None

    return called
