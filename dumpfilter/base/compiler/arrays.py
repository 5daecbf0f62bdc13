"""Types of numpy arrays for the annotations of kernels (compiled functions), and the reading of such annotations.

Each type has a dtype and a number of dimensions, and means contiguous in C order.
"""

from __future__ import annotations

import typing
from collections.abc import Callable
from typing import Any

import numpy as np

Bools = np.ndarray[tuple[int], np.dtype[np.bool_]]
Bytes = np.ndarray[tuple[int], np.dtype[np.uint8]]
Bytes2 = np.ndarray[tuple[int, int], np.dtype[np.uint8]]
Float64s2 = np.ndarray[tuple[int, int], np.dtype[np.float64]]
Int32s = np.ndarray[tuple[int], np.dtype[np.int32]]
Int32s2 = np.ndarray[tuple[int, int], np.dtype[np.int32]]
Int64s = np.ndarray[tuple[int], np.dtype[np.int64]]
Int64s2 = np.ndarray[tuple[int, int], np.dtype[np.int64]]
UInt32s = np.ndarray[tuple[int], np.dtype[np.uint32]]
UInt64s = np.ndarray[tuple[int], np.dtype[np.uint64]]
UInt64s2 = np.ndarray[tuple[int, int], np.dtype[np.uint64]]


def types_of(of: Callable[..., Any]) -> dict[str, Any]:
    """Return the type annotations of a function's parameters, or of a NamedTuple's fields, as a dictionary from name to
    type. The annotation of a function's return value is left out.
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
