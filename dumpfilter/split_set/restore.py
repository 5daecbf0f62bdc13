"""The change of events from a split's binlog back to the end_log_pos and checksum of the original binlog."""

from __future__ import annotations

import numpy as np

from dumpfilter.binlog.native import load_u32
from dumpfilter.binlog.rebase import rebase
from dumpfilter.compiler.kernels import njit


@njit(cache=True, nogil=True)
def restore(data, sizes, positions, checksum):
    """Set end_log_pos and checksum of events as if they stood at given positions of a binlog file.

    The events come in stretches (pieces of that file). The events of one stretch get consecutive positions. An
    end_log_pos of 0 stays 0. Return the number of events, or -1 if a stretch does not consist of whole events.

    Args:
        data: the events of all stretches, one after the other, uint8. They are changed in place.
        sizes: the size of each stretch, bytes, int64.
        positions: the file position that the first event of each stretch gets, int64.
        checksum: whether the events end with a checksum.
    """
    base = np.uintp(data.ctypes.data)
    events = np.int64(0)
    start = np.int64(0)
    for k in range(sizes.size):
        stop = start + sizes[k]
        if stop > data.size or rebase(data[start:stop], positions[k], checksum, False) >= 0:
            return np.int64(-1)
        while start < stop:
            start += np.int64(load_u32(base + np.uintp(start + 9)))
            events += 1
    return events if start == data.size else np.int64(-1)
