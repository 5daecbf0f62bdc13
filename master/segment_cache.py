"""The columns of scanned segments, within a bound on memory."""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterable

from dumpfilter.index.segment import Segment

CACHE_BYTES = 32 << 20
"""The default bound on the cached columns, bytes."""

Key = tuple[str, int]
"""A segment's file and the position where the segment begins."""


class SegmentCache:
    """Segments by file and position. The least recently used segments leave when the bound is passed. Thread-safe."""

    def __init__(self, limit: int = CACHE_BYTES) -> None:
        self._limit = limit
        self._segments: OrderedDict[Key, Segment] = OrderedDict()
        self._bytes = 0
        self._lock = threading.Lock()

    def get(self, key: Key) -> Segment | None:
        """Return a segment, or None when the cache does not have it."""
        with self._lock:
            segment = self._segments.get(key)
            if segment is not None:
                self._segments.move_to_end(key)
            return segment

    def add(self, key: Key, segment: Segment) -> None:
        """Keep a segment. At least the newest segment stays, even one larger than the bound."""
        with self._lock:
            if key not in self._segments:
                self._segments[key] = segment
                self._bytes += segment.nbytes
            while self._bytes > self._limit and len(self._segments) > 1:
                _, oldest = self._segments.popitem(last=False)
                self._bytes -= oldest.nbytes

    def remove(self, key: Key) -> None:
        """Drop a segment, if the cache has it."""
        with self._lock:
            segment = self._segments.pop(key, None)
            if segment is not None:
                self._bytes -= segment.nbytes

    def remove_files(self, names: Iterable[str]) -> None:
        """Drop all segments of some files."""
        gone = set(names)
        with self._lock:
            for key in [key for key in self._segments if key[0] in gone]:
                self._bytes -= self._segments.pop(key).nbytes

    def status(self) -> tuple[int, int]:
        """Return the number of segments in the cache and the bytes of their columns."""
        with self._lock:
            return len(self._segments), self._bytes
