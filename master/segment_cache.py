"""A cache of scanned parts of binlog files (segments), with a limit on its memory."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterable

from dumpfilter.index.segment import Segment
from dumpfilter.master.measurements import CacheState

CACHE_BYTES = 32 << 20
"""The default limit on the memory of the segment cache, bytes."""

Key = tuple[int, int]
"""The key of a cached segment: the number of its binlog file, and the position at which the segment begins.

The number belongs to one file on the disk. A file that replaces another file under the same name has another number.
"""


class SegmentCache:
    """A cache of segments, the scanned parts of binlog files. Thread-safe.

    When the cache holds more than ``limit`` bytes, it removes the least recently used segments.
    """

    def __init__(self, limit: int = CACHE_BYTES) -> None:
        self._limit = limit
        self._segments: OrderedDict[Key, Segment] = OrderedDict()
        self._bytes = 0
        self._hits = self._misses = 0
        self._lock = threading.Lock()

    def get(self, key: Key) -> Segment | None:
        with self._lock:
            segment = self._segments.get(key)
            if segment is None:
                self._misses += 1
            else:
                self._hits += 1
                self._segments.move_to_end(key)
            return segment

    def add(self, key: Key, segment: Segment) -> None:
        """Add a segment, and remove others above the limit. The added segment stays even if it alone is too large."""
        with self._lock:
            if key not in self._segments:
                self._segments[key] = segment
                self._bytes += segment.nbytes
            while self._bytes > self._limit and len(self._segments) > 1:
                _, oldest = self._segments.popitem(last=False)
                self._bytes -= oldest.nbytes

    def remove(self, key: Key) -> None:
        with self._lock:
            segment = self._segments.pop(key, None)
            if segment is not None:
                self._bytes -= segment.nbytes

    def remove_files(self, numbers: Iterable[int]) -> None:
        """Remove the segments of the binlog files with these numbers, for example because a purge deleted the files."""
        gone = set(numbers)
        with self._lock:
            for key in [key for key in self._segments if key[0] in gone]:
                self._bytes -= self._segments.pop(key).nbytes

    def status(self) -> tuple[int, int]:
        """Return the number of segments in the cache, and the bytes that they occupy."""
        with self._lock:
            return len(self._segments), self._bytes

    def state(self) -> CacheState:
        """Return the cache's size, and how often a look-up found its segment."""
        with self._lock:
            return CacheState(len(self._segments), self._hits, self._misses, self._bytes, self._limit)
