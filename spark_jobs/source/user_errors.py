"""Errors of the data source as a user of Spark sees them.

Spark copies the traceback of a Python data source's exception into an error of its own. Without the traceback the
user sees only the text.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from dumpfilter.errors import DumpfilterError

P = ParamSpec("P")
R = TypeVar("R")


def without_traceback(function: Callable[P, R]) -> Callable[P, R]:
    """Return the function with the traceback removed from each DumpfilterError that it raises."""

    @functools.wraps(function)
    def called(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return function(*args, **kwargs)
        except DumpfilterError as error:
            raise error.with_traceback(None) from None

    return called
