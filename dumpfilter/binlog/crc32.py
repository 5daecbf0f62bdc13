"""CRC32 (zlib's) over one event at a time, for compiled code.

A call of zlib from compiled code costs more than most events' checksums, so the fold is done in place:
with carry-less multiplication where the CPU has it, eight table look-ups at a time where not.
"""

from __future__ import annotations

import numpy as np
from numba import njit

from dumpfilter.binlog.native import (
    HAS_CLMUL,
    HAS_WIDE_CLMUL,
    crc32_fold,
    crc32_fold_wide,
    load_u8,
    load_u32,
    load_u64,
)


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
    return np.uint32(~_append(np.uint32(0xFFFFFFFF), address, length))


@njit(cache=True, nogil=True, inline="always")
def _append(crc, address, length):
    """The raw register ``crc`` after ``length`` bytes more."""
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
    return crc


@njit(cache=True, nogil=True)
def _crc32_wide(address, length):
    crc = np.uint32(0xFFFFFFFF)
    at = np.uintp(address)
    left = np.uintp(length)
    wide = left & ~np.uintp(255)
    if wide:
        folded = np.empty(64, np.uint8)
        crc32_fold_wide(at, wide, crc, np.uintp(folded.ctypes.data))
        crc = _append(np.uint32(0), np.uintp(folded.ctypes.data), np.uintp(64))
    return np.uint32(~_append(crc, at + wide, left - wide))


crc32_of_many = _crc32_wide if HAS_WIDE_CLMUL else crc32
"""As :func:`crc32`, for many kilobytes."""


# Many events at once. A message that ends in its own CRC32 has the CRC32 _RESIDUE, whatever it is; and CRC32
# is linear. So the CRC32 of events back to back is the sum (exclusive or) over the events of _RESIDUE
# shifted past the bytes that come after the event. One run over all bytes, which carry-less
# multiplication does at the speed of memory, then verifies them all. One wrong event is found as surely as
# by its own CRC32; of several wrong ones, that they cancel out has the chance of any wrong event to pass: 1 in 2**32.
_RESIDUE = np.uint32(0x2144DF1C)
_BLOCK = 4096


def _shifted_residues() -> np.ndarray:
    """``_RESIDUE`` shifted past 0 to ``_BLOCK`` bytes."""
    shifted = np.zeros(_BLOCK + 1, np.uint32)
    value = int(_RESIDUE)
    table = _T[0].tolist()
    for k in range(_BLOCK + 1):
        shifted[k] = value
        value = (value >> 8) ^ table[value & 0xFF]
    return shifted


def _shift_tables() -> np.ndarray:
    """A register shifted past ``2**k`` bytes, k from 0 to 12: the sum of four look-ups, one a byte of it."""
    one = np.arange(32, dtype=np.uint32)
    images = np.uint32(1) << one  # of single bits, shifted past 1 byte
    images = (images >> np.uint32(8)) ^ _T[0][images & np.uint32(0xFF)]
    tables = np.zeros((13, 4, 256), np.uint32)
    for k in range(13):
        for bit in range(32):
            mask = (np.arange(256) >> (bit & 7)) & 1 == 1
            tables[k, bit >> 3, mask] ^= images[bit]
        # shifted twice as far: the map applied to its own images
        images = (
            tables[k, 0][images & np.uint32(0xFF)]
            ^ tables[k, 1][(images >> np.uint32(8)) & np.uint32(0xFF)]
            ^ tables[k, 2][(images >> np.uint32(16)) & np.uint32(0xFF)]
            ^ tables[k, 3][images >> np.uint32(24)]
        )
    return tables


_SHIFTED = _shifted_residues()
_SHIFT = _shift_tables()


@njit(cache=True, nogil=True, inline="always")
def _shift(value, k):
    return (
        _SHIFT[k, 0, value & np.uint32(0xFF)]
        ^ _SHIFT[k, 1, (value >> np.uint32(8)) & np.uint32(0xFF)]
        ^ _SHIFT[k, 2, (value >> np.uint32(16)) & np.uint32(0xFF)]
        ^ _SHIFT[k, 3, value >> np.uint32(24)]
    )


@njit(cache=True, nogil=True)
def all_sound(base, begin, size):
    """Whether the checksums hold of all whole events from ``begin`` on in the ``size`` bytes at ``base`` (up to
    one whose length cannot be)."""
    address = np.uintp(base) + np.uintp(begin)
    room = np.int64(size) - np.int64(begin)
    at = np.int64(0)
    edge = np.int64(_BLOCK)  # the sum is shifted to here
    wanted = np.uint32(0)
    while at + 19 <= room:
        length = np.int64(load_u32(address + np.uintp(at) + np.uintp(9)))
        if length < 23 or at + length > room:
            break
        at += length
        while at > edge:
            wanted = _shift(wanted, 12)
            edge += _BLOCK
        wanted ^= _SHIFTED[edge - at]
    found = crc32_of_many(address, np.uintp(at))
    # what was found ends at `at`, not at the edge
    past = edge - at
    for k in range(13):
        if (past >> k) & 1:
            found = _shift(found, k)
    return found == wanted
