"""CRC32 (zlib's) over one event at a time, for compiled code.

A call of zlib from compiled code costs more than most events' checksums, so the fold is done in place:
with carry-less multiplication where the CPU has it, eight table look-ups at a time where not.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from dumpfilter.binlog._native import HAS_CLMUL, crc32_fold, load_u8, load_u64


def _tables() -> np.ndarray:
    tables = np.zeros((8, 256), dtype=np.uint32)
    for byte in range(256):
        value = byte
        for _ in range(8):
            value = (value >> 1) ^ (0xEDB88320 if value & 1 else 0)
        tables[0, byte] = value
    for k in range(1, 8):
        previous = tables[k - 1]
        tables[k] = (previous >> 8) ^ tables[0][previous & 0xFF]
    return tables


_T = _tables()
_CLMUL = HAS_CLMUL


@njit(cache=True, nogil=True, inline="never")
def crc32(address, length):
    """The CRC32 of the ``length`` bytes at ``address`` (both uintp), as zlib.crc32 gives it."""
    crc = np.uint32(0xFFFFFFFF)
    at = np.uintp(address)
    left = np.uintp(length)
    if _CLMUL and left >= np.uintp(16):
        folded = left & ~np.uintp(15)
        crc = crc32_fold(at, folded, crc)
        at += folded
        left -= folded
    while left >= np.uintp(8):
        word = load_u64(at) ^ np.uint64(crc)
        crc = np.uint32(
            _T[7, word & np.uint64(0xFF)]
            ^ _T[6, (word >> np.uint64(8)) & np.uint64(0xFF)]
            ^ _T[5, (word >> np.uint64(16)) & np.uint64(0xFF)]
            ^ _T[4, (word >> np.uint64(24)) & np.uint64(0xFF)]
            ^ _T[3, (word >> np.uint64(32)) & np.uint64(0xFF)]
            ^ _T[2, (word >> np.uint64(40)) & np.uint64(0xFF)]
            ^ _T[1, (word >> np.uint64(48)) & np.uint64(0xFF)]
            ^ _T[0, word >> np.uint64(56)]
        )
        at += np.uintp(8)
        left -= np.uintp(8)
    while left:
        crc = np.uint32((crc >> np.uint32(8)) ^ _T[0, (crc ^ np.uint32(load_u8(at))) & np.uint32(0xFF)])
        at += np.uintp(1)
        left -= np.uintp(1)
    return np.uint32(~crc)
