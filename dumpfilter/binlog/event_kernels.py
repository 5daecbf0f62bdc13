"""The compiled loop that moves events to another position of a file."""

from __future__ import annotations

import numpy as np

from dumpfilter.base.compiler.arrays import Bytes
from dumpfilter.base.compiler.kernels import kernel
from dumpfilter.binlog.crc32 import crc32
from dumpfilter.binlog.native import load_u32, store_u32

_U = np.uintp


@kernel
def rebase(data: Bytes, position: int, checksum: bool, fill: bool):
    """Rewrite the end_log_pos and the checksums of consecutive events in place, for a file in which they begin at
    ``position``.

    ``data`` (uint8) has the events. ``position`` is a byte offset in the file, and ``checksum`` tells whether events
    end in a CRC32. Without ``fill``, an end_log_pos of 0 stays 0, because MariaDB 11.8 writes 0 for the events inside a
    transaction. Return -1 when all events are whole. Otherwise return the offset in ``data`` of the first event that is
    incomplete or too short, and leave it unchanged.
    """
    base = _U(data.ctypes.data)
    at = np.int64(0)
    while at < data.size:
        if at + 19 > data.size:
            return at
        length = np.int64(load_u32(base + _U(at + 9)))
        if length < 19 + (4 if checksum else 0) or at + length > data.size:
            return at
        if fill or load_u32(base + _U(at + 13)):
            store_u32(base + _U(at + 13), np.uint32(position + at + length))
        if checksum:
            store_u32(base + _U(at + length - 4), crc32(base + _U(at), _U(length - 4)))
        at += length
    return np.int64(-1)
