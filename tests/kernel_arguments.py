"""A check of the arguments of kernels (compiled functions) against their annotations, which the compiled code itself
leaves out.
"""

from __future__ import annotations

import functools
from collections.abc import Callable
from typing import Any

import numpy as np

from dumpfilter.base.compiler import kernels
from dumpfilter.base.compiler.arrays import dtype_and_dimensions, types_of

Check = Callable[[Any], None]


def check_arguments() -> None:
    """Let each call of a kernel check its arguments, for modules that are imported from now on."""
    compiled = kernels.kernel
    kernels.kernel = lambda function: checked(function, compiled(function))


def checked(function: Callable[..., Any], compiled: Callable[..., Any]) -> Callable[..., Any]:
    """Return the function ``compiled`` with a check of its arguments against the annotations of ``function``, its
    Python form.

    A call raises TypeError for an array of another dtype or number of dimensions, or one that is not contiguous in C
    order.
    """

    @functools.cache
    def checks() -> list[Check]:
        # When the function is decorated, its module lacks the names that the annotations use.
        return [_check(f"{function.__name__}: {name}", hint) for name, hint in types_of(function).items()]

    @functools.wraps(function)
    def call(*arguments: Any) -> Any:
        for check, given in zip(checks(), arguments, strict=True):
            check(given)
        return compiled(*arguments)

    return call


def _check(name: str, hint: Any) -> Check:
    if array := dtype_and_dimensions(hint):
        return functools.partial(_check_array, name, *array)
    if hasattr(hint, "_fields"):
        fields = [_check(f"{name}.{one}", wanted) for one, wanted in types_of(hint).items()]
        return functools.partial(_check_tuple, name, hint, fields)
    return functools.partial(_check_number, name)


def _check_array(name: str, dtype: np.dtype[Any], dimensions: int, given: Any) -> None:
    if type(given) is not np.ndarray or given.dtype != dtype or given.ndim != dimensions:
        raise TypeError(f"{name} must have {dtype} and {dimensions} dimensions: {given!r}")
    if not given.flags.c_contiguous:
        raise TypeError(f"{name} is not contiguous")


def _check_tuple(name: str, wanted: type, fields: list[Check], given: tuple[Any, ...]) -> None:
    if not isinstance(given, wanted):
        raise TypeError(f"{name} must be a {wanted.__name__}: {given!r}")
    for check, value in zip(fields, given, strict=True):
        check(value)


def _check_number(name: str, given: Any) -> None:
    if not isinstance(given, int | np.integer | np.bool_):
        raise TypeError(f"{name} must be a number: {given!r}")
