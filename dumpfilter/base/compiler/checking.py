"""A check of the arguments of kernels (compiled functions) against their annotations, which the compiled code itself
leaves out. Tests enable it.
"""

from __future__ import annotations

import functools
import typing
from collections.abc import Callable
from typing import Any

import numpy as np

Check = Callable[[Any], None]


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


def types_of(of: Callable[..., Any]) -> dict[str, Any]:
    """Return the type annotations of a function's arguments, or of a NamedTuple's fields, by name. The annotation of
    the result is left out.
    """
    hints = typing.get_type_hints(of, include_extras=True)
    hints.pop("return", None)
    return hints


def dtype_and_dimensions(hint: Any) -> tuple[np.dtype[Any], int] | None:
    """Return the dtype and the number of dimensions of an array annotation, or None for an annotation of another type.

    The annotation of a structured array (with named fields) is ``Annotated`` with its dtype, and counts as one
    dimension.
    """
    if typing.get_origin(hint) is typing.Annotated:
        return hint.__metadata__[0], 1
    if typing.get_origin(hint) is not np.ndarray:
        return None
    shape, dtype = typing.get_args(hint)
    return np.dtype(typing.get_args(dtype)[0]), len(typing.get_args(shape))


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
