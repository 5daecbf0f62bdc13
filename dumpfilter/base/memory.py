"""Bytes objects and arrays whose memory nobody fills before its use."""

from __future__ import annotations

import ctypes
import mmap
from typing import Any

import numpy as np
import numpy.typing as npt

_make = ctypes.pythonapi.PyBytes_FromStringAndSize
_make.restype, _make.argtypes = ctypes.py_object, (ctypes.c_void_p, ctypes.c_ssize_t)
_view = ctypes.pythonapi.PyMemoryView_FromMemory
_view.restype, _view.argtypes = ctypes.py_object, (ctypes.c_char_p, ctypes.c_ssize_t, ctypes.c_int)
_WRITE = 0x200
"""The flag PyBUF_WRITE of Python's C API, which asks for a writable memoryview."""


def unfilled(size: int) -> tuple[bytes, memoryview]:
    """Return a bytes object of ``size`` bytes with any content, and a writable view of it.

    The caller fills all bytes before anyone else gets the object, and then no longer uses the view. Python's C API
    allows this, and no other object has the memory. A bytearray would have to be copied for gRPC.
    """
    made: bytes = _make(None, size)
    return made, _view(made, size, _WRITE) if size else memoryview(bytearray())


def lazy_zeros(shape: int | tuple[int, ...], dtype: npt.DTypeLike) -> Any:
    """Return an array of zeros like ``np.zeros``, for a large work array of which mostly few rows are used.

    The system gives memory for a page of 4 KiB when the page is first used. Memory that ``np.zeros`` gets anew from an
    earlier array is cleared whole instead, and large arrays of ``np.empty`` get pages of 2 MiB.
    """
    made = np.dtype(dtype)
    size = max(int(np.prod(shape)), 1) * made.itemsize
    memory = mmap.mmap(-1, size, flags=mmap.MAP_PRIVATE | mmap.MAP_ANONYMOUS)
    return np.ndarray(shape, made, memory)
