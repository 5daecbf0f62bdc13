"""The check of a kernel's arguments, which the compiled code leaves out."""

from __future__ import annotations

import functools
import typing
from collections.abc import Callable
from typing import Any

import numpy as np


def checked(function: Callable[..., Any], compiled: Callable[..., Any]) -> Callable[..., Any]:
    """Return the compiled form of a function with a check of its arguments against the function's annotations.

    Raises :class:`TypeError` for an array of another dtype or shape, or one that is not contiguous in C order.
    """

    @functools.wraps(function)
    def call(*arguments: Any) -> Any:
        for (name, wanted), given in zip(_types(function).items(), arguments, strict=True):
            _check(f"{function.__name__}: {name}", wanted, given)
        return compiled(*arguments)

    return call


@functools.cache
def _types(function: Callable[..., Any]) -> dict[str, Any]:
    hints = typing.get_type_hints(function, include_extras=True)
    hints.pop("return", None)
    return hints


_field_types = functools.cache(functools.partial(typing.get_type_hints, include_extras=True))


def dtype_and_dimensions(hint: Any) -> tuple[np.dtype[Any], int] | None:
    """Return the dtype and the number of dimensions of an annotation for an array, or None for other annotations.

    An annotation for an array with fields is ``Annotated`` with the dtype.
    """
    if typing.get_origin(hint) is typing.Annotated:
        return hint.__metadata__[0], 1
    if typing.get_origin(hint) is not np.ndarray:
        return None
    shape, dtype = typing.get_args(hint)
    return np.dtype(typing.get_args(dtype)[0]), len(typing.get_args(shape))


def _check(name: str, wanted: Any, given: Any) -> None:
    if array := dtype_and_dimensions(wanted):
        dtype, dimensions = array
        if not isinstance(given, np.ndarray) or given.dtype != dtype or given.ndim != dimensions:
            raise TypeError(f"{name} must have {dtype} and {dimensions} dimensions: {given!r}")
        if not given.flags.c_contiguous:
            raise TypeError(f"{name} is not contiguous")
    elif isinstance(given, tuple):
        if type(given) is not wanted:
            raise TypeError(f"{name} must be a {wanted.__name__}: {given!r}")
        for (field, hint), value in zip(_field_types(wanted).items(), given, strict=True):
            _check(f"{name}.{field}", hint, value)
    elif not isinstance(given, int | np.integer | np.bool_):
        raise TypeError(f"{name} must be a number: {given!r}")
