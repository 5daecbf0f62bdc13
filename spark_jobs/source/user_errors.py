"""What a user of Spark sees of our errors: their text. Spark puts the traceback of whatever a Python source raises into
its own error; here it is cut down to a frame."""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import ParamSpec, TypeVar

from dumpfilter.errors import DumpfilterError

P = ParamSpec("P")
R = TypeVar("R")


def plainly(function: Callable[P, R]) -> Callable[P, R]:
    """The same function; what it raises of this product's errors comes without the way there."""

    @functools.wraps(function)
    def called(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return function(*args, **kwargs)
        except DumpfilterError as error:
            raise error.with_traceback(None) from None

    return called
