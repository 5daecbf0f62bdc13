"""The compiled loop that moves events to another position of a file."""

from __future__ import annotations

import numpy as np

from dumpfilter.base.compiler.arrays import Bytes
from dumpfilter.base.compiler.kernels import kernel
from dumpfilter.binlog.crc32 import MOST_ZEROS, crc32, shifted
from dumpfilter.binlog.native import load_u32, prefetch_ahead, store_u32

_U = np.uintp


@kernel
def rebase(data: Bytes, position: int, checksum: bool, is_new: bool):
    """Rewrite the end_log_pos and the checksums of consecutive events in place, for a file in which they begin at
    ``position``.

    ``data`` (uint8) has the events. ``position`` is a byte offset in the file, and ``checksum`` tells whether events
    end in a CRC32. With ``is_new`` each end_log_pos and checksum is computed anew. Otherwise an end_log_pos of 0 stays
    0, because MariaDB 11.8 writes 0 for the events inside a transaction. Then also a wrong checksum stays wrong.

    Return -1 when all events are whole. Otherwise return the offset in ``data`` of the first event that is incomplete
    or too short. This event and those after it stay unchanged.
    """
    base = _U(data.ctypes.data)
    at = np.int64(0)
    fetched = np.int64(0)
    while at < data.size:
        if at + 19 > data.size:
            return at
        fetched = prefetch_ahead(data, fetched, at)
        length = np.int64(load_u32(base + _U(at + 9)))
        if length < 19 + (4 if checksum else 0) or at + length > data.size:
            return at
        before = load_u32(base + _U(at + 13))
        after = np.uint32(position + at + length) if is_new or before else before
        store_u32(base + _U(at + 13), after)
        end = base + _U(at + length - 4)
        if checksum and is_new:
            store_u32(end, crc32(base + _U(at), _U(length - 4)))
        elif checksum:
            # CRC32 is linear: the change of a field changes the checksum, whatever the other bytes are.
            change, zeros = before ^ after, length - 17
            while zeros > MOST_ZEROS:
                change = shifted(change, MOST_ZEROS)
                zeros -= MOST_ZEROS
            store_u32(end, load_u32(end) ^ shifted(change, zeros))
        at += length
    return np.int64(-1)
