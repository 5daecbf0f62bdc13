"""The CRC32 of events (zlib's function), for compiled code.

Intel's ISA-L library computes the checksum. The package isal brings the library
(https://github.com/pycompression/python-isal). Compiled code calls it by the name of its function, at the cost of 2 ns.
"""

from __future__ import annotations

import numpy as np
import numpy.typing as npt
from isal import isal_zlib
from llvmlite import binding as llvm
from numba import types

from dumpfilter.base.compiler.kernels import njit
from dumpfilter.binlog.events import CHECKSUM_LENGTH, HEADER_LENGTH
from dumpfilter.binlog.native import load_u32

# Compiled code, also from the cache, finds the functions of this library by their names.
llvm.load_library_permanently(isal_zlib.__file__)
_crc32_of_library = types.ExternalFunction(
    "crc32_gzip_refl", types.uint32(types.uint32, types.uintp, types.uint64)
)
_SHORTEST = HEADER_LENGTH + CHECKSUM_LENGTH


@njit(cache=True, nogil=True, inline="never")
def crc32(address, length):
    """Return the CRC32 of the ``length`` bytes at ``address`` (both uintp), like zlib.crc32."""
    return _crc32_of_library(np.uint32(0), np.uintp(address), np.uint64(length))


@njit(cache=True, nogil=True)
def _all_sound(address, begin, size):
    at = np.int64(begin)
    while at + HEADER_LENGTH <= size:
        event = np.uintp(address) + np.uintp(at)
        length = np.int64(load_u32(event + np.uintp(9)))
        if length < _SHORTEST or at + length > size:
            break
        covered = np.uintp(length - CHECKSUM_LENGTH)
        if crc32(event, covered) != load_u32(event + covered):
            return False
        at += length
    return True


def all_sound(data: npt.NDArray[np.uint8], begin: int, size: int) -> bool:
    """Tell whether the checksums of all whole events in a buffer are right.

    The first event begins at offset ``begin`` of ``data``, of which ``size`` bytes count. The check ends at an
    incomplete event, or at an event with an impossible length.
    """
    return bool(_all_sound(data.ctypes.data, begin, size))
