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

    @functools.cache
    def are_right() -> Callable[..., bool]:
        known: dict[str, Any] = {"_array": np.ndarray, "_numbers": (int, np.integer, np.bool_)}
        types = types_of(function)
        tests = [_test(name, hint, known) for name, hint in types.items()]
        found: Callable[..., bool] = eval(f"lambda {', '.join(types)}: {' and '.join(tests)}", known)
        return found

    @functools.wraps(function)
    def call(*arguments: Any) -> Any:
        # One expression is several times faster than a function for each argument, which tells what is wrong.
        if not are_right()(*arguments):
            for check, given in zip(checks(), arguments, strict=True):
                check(given)
        return compiled(*arguments)

    return call


def _test(name: str, hint: Any, known: dict[str, Any]) -> str:
    """Return an expression that is true for an argument of the right type. ``known`` gets the values of its names."""
    if array := dtype_and_dimensions(hint):
        dtype = f"_dtype_{len(known)}"
        known[dtype] = array[0]
        is_array = f"type(_ := {name}) is _array and _.dtype is {dtype} and _.ndim == {array[1]}"
        return f"{is_array} and _.flags.c_contiguous"
    if hasattr(hint, "_fields"):
        kind = f"_type_{len(known)}"
        known[kind] = hint
        fields = [_test(f"{name}.{one}", wanted, known) for one, wanted in types_of(hint).items()]
        return " and ".join([f"type({name}) is {kind}", *fields])
    return f"isinstance({name}, _numbers)"


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
