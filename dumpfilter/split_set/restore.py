"""Events of one binlog put back to where they stood in another."""

from __future__ import annotations

import numpy as np
from numba import njit

from dumpfilter.binlog.native import load_u32
from dumpfilter.binlog.rebase import rebase


@njit(cache=True, nogil=True)
def restore(data, sizes, positions, checksum):
    """Give the events in ``data`` (uint8), which are stretches of these sizes (int64), one after the other, the
    end_log_pos that they have when each stretch stands at its position (int64), or 0 where they have none, and the
    checksum that goes with it.
    Returns how many events there are, or -1 when a stretch is not whole events."""
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
