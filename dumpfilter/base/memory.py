"""Bytes objects that are filled after they are made, so that no content is copied."""

from __future__ import annotations

import ctypes

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
