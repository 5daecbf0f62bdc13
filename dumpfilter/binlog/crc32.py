"""The CRC32 of events (zlib's function), for compiled code.

A call of a library from compiled code takes longer than the checksum of most events. So :func:`crc32` computes the
checksum of one event itself, with eight table look-ups at a time. :func:`all_sound` checks a whole buffer, much faster,
with Intel's ISA-L library (https://github.com/pycompression/python-isal).
"""

from __future__ import annotations

from itertools import accumulate

import numpy as np
import numpy.typing as npt
from isal import isal_zlib

from dumpfilter.base.compiler.arrays import Bytes
from dumpfilter.base.compiler.kernels import kernel
from dumpfilter.binlog.events import SOUND
from dumpfilter.binlog.native import load_u8, load_u32, load_u64, prefetch_ahead


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


@kernel
def crc32(address: np.uintp, length: np.uintp):
    """Return the CRC32 of the ``length`` bytes at the memory address ``address``, like zlib.crc32."""
    crc = np.uint32(0xFFFFFFFF)
    at = np.uintp(address)
    left = np.uintp(length)
    while left >= np.uintp(8):
        word = load_u64(at) ^ np.uint64(crc)
        crc = np.uint32(0)
        for k in range(8):
            crc ^= _T[7 - k, word >> np.uint64(8 * k) & np.uint64(0xFF)]
        at += np.uintp(8)
        left -= np.uintp(8)
    while left:
        crc = np.uint32((crc >> np.uint32(8)) ^ _T[0, (crc ^ np.uint32(load_u8(at))) & np.uint32(0xFF)])
        at += np.uintp(1)
        left -= np.uintp(1)
    return np.uint32(~crc)


# The checksums of many events are verified in one pass, because CRC32 is linear. Every message that ends in its own
# CRC32 has the same CRC32, the constant SOUND. Therefore the CRC32 of consecutive events is known in advance from
# the events' lengths: an exclusive or of one shifted SOUND for each event. The library computes the CRC32 of all
# bytes at the speed of memory. A single wrong event is found as surely as by its own CRC32. Several wrong
# events cancel out with the probability 1 in 2**32, which is also the probability that a wrong event has a right
# CRC32.
_BLOCK = 4096

_BYTES = _T[0].tolist()
_RESIDUES = np.array(
    [*accumulate(range(_BLOCK), lambda crc, _: crc >> 8 ^ _BYTES[crc & 0xFF], initial=SOUND)], np.uint32
)
"""Entry n is the CRC32 register (intermediate state) that follows from the register SOUND after n bytes of value 0, for
n from 0 to _BLOCK, uint32.
"""
_DIGITS = 4
"""The number of hexadecimal digits that the argument ``zeros`` of :func:`shifted` may have."""


def _shift_tables() -> np.ndarray:
    """Return the tables by which :func:`shifted` moves a CRC32 register (intermediate state) over zero bytes.

    The result is uint32 of shape (_DIGITS, 17, 4, 256). The entry ``[d, v, k, b]`` is for ``v * 16**d`` zero bytes. It
    is the register that follows from a register with the value ``b`` in byte ``k`` and zeros elsewhere.
    """
    tables = np.zeros((_DIGITS, 17, 4, 256), np.uint32)
    tables[:, 0] = np.arange(256, dtype=np.uint32) << np.arange(0, 32, 8, dtype=np.uint32)[:, None]
    step = tables[0, 0] >> 8 ^ _T[0, tables[0, 0] & 0xFF]
    for of_digit in tables:
        for value in range(16):
            byte = [of_digit[value] >> 8 * k & 0xFF for k in range(4)]
            of_digit[value + 1] = np.bitwise_xor.reduce([step[k, byte[k]] for k in range(4)])
        step = of_digit[16]
    return tables


_SHIFTS = _shift_tables()
MOST_ZEROS = 16**_DIGITS - 1
"""The largest number of zero bytes that :func:`shifted` takes."""


@kernel
def shifted(crc: np.uint32, zeros: int):
    """Return the CRC32 register (intermediate state) that follows from ``crc`` after ``zeros`` more bytes of value 0.

    No bits are inverted before or after, unlike in zlib.crc32.
    """
    for digit in range(_DIGITS):
        value = zeros >> (4 * digit) & 15
        before, crc = crc, np.uint32(0)
        for k in range(4):
            crc ^= _SHIFTS[digit, value, k, before >> np.uint32(8 * k) & np.uint32(0xFF)]
    return crc


@kernel
def _expected(data: Bytes, begin: int, size: int):
    """Compute the CRC32 that all complete events in ``data[begin:size]`` must have together, if the checksum of each
    event is right. Only the lengths of the events are needed. So a caller checks many events with a single CRC32.

    Return ``(length, zeros, crc)``. The complete events have ``length`` bytes. For speed, the last block (_BLOCK bytes)
    counts as filled up with ``zeros`` bytes of value 0, and ``crc`` includes these. The caller therefore passes the
    CRC32 of the events and ``zeros`` to :func:`shifted`, and compares the result with ``crc``.
    """
    address = np.uintp(data.ctypes.data) + np.uintp(begin)
    room = np.int64(size) - np.int64(begin)
    at = np.int64(0)
    edge = np.int64(_BLOCK)
    wanted = np.uint32(0)
    fetched = np.int64(begin)
    while at + 19 <= room:
        fetched = prefetch_ahead(data, fetched, begin + at)
        length = np.int64(load_u32(address + np.uintp(at) + np.uintp(9)))
        if length < 23 or at + length > room:
            break
        at += length
        while at > edge:
            wanted = shifted(wanted, np.int64(_BLOCK))
            edge += _BLOCK
        wanted ^= _RESIDUES[edge - at]
    return at, edge - at, wanted


def all_sound(data: npt.NDArray[np.uint8], begin: int, size: int) -> bool:
    """Tell whether the checksums of all complete events in ``data[begin:size]`` are right. One pass checks all of them
    together.

    The first event begins at offset ``begin``. The check stops without an error before an incomplete event, or before
    an event with an impossible length.
    """
    length, zeros, wanted = _expected(data, begin, size)
    return shifted(np.uint32(isal_zlib.crc32(data[begin : begin + length])), zeros) == wanted
