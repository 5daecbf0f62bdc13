"""Scratch room for a scan's columns."""

from __future__ import annotations

import numpy as np


class Columns:
    """What a scan writes into, reused from segment to segment: the columns of
    :class:`~dumpfilter.binlog.index.Segment`."""

    def __init__(self, capacity: int) -> None:
        self.offset = np.empty(capacity, np.int64)
        self.size = np.empty(capacity, np.int64)
        self.time = np.empty(capacity, np.uint32)
        self.type = np.empty(capacity, np.uint8)
        self.role = np.empty(capacity, np.uint8)
        self.subject = np.empty(capacity, np.int32)
        self.txn_event = np.empty(capacity + 1, np.int64)
        self.txn_subject = np.empty(capacity + 1, np.int32)
        self.txn_source = np.empty(capacity + 1, np.int32)
        self.txn_number = np.empty(capacity + 1, np.int64)
        self.txn_server = np.empty(capacity + 1, np.uint32)
        self.txn_set = np.empty(capacity + 1, np.int64)
        self.set_subject = np.empty(capacity, np.int32)

    def grown(self, used: int) -> Columns:
        """Twice the room, with the first ``used`` events."""
        larger = Columns(2 * len(self.offset))
        for name in ("offset", "size", "time", "type", "role", "subject"):
            getattr(larger, name)[:used] = getattr(self, name)[:used]
        return larger
