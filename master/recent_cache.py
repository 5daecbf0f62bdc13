"""A cache that keeps what was used last, with a limit on the size of all entries together."""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Generic, TypeVar

from dumpfilter.master.measurements import CacheState

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")

KEPT_SECONDS = 10.0
"""The time after which an entry that nobody has used is forgotten, seconds.

Slaves that follow the binlog need an entry only for a moment. Slaves that catch up follow one another closely.
"""


@dataclass
class _Entry(Generic[V]):
    value: V
    size: int
    used_at: float


class RecentCache(Generic[K, V]):
    """A cache whose entries have sizes. Thread-safe.

    When the sizes together exceed ``limit``, the cache removes the least recently used entries, but not the newest.
    With each new entry it also removes those that were not used for ``kept_seconds``. An entry larger than ``largest``
    is not kept at all, because it would push too many others out.
    """

    def __init__(
        self,
        limit: int,
        size_of: Callable[[V], int],
        *,
        largest: float | None = None,
        kept_seconds: float = KEPT_SECONDS,
        clock: Callable[[], float] = time.monotonic,
    ) -> None:
        self.limit = limit
        self._largest = limit if largest is None else largest
        self._kept_seconds = kept_seconds
        self._size_of = size_of
        self._clock = clock
        self._entries: OrderedDict[K, _Entry[V]] = OrderedDict()
        self._lock = threading.Lock()
        self.size = 0
        """The sizes of all entries together."""
        self.hits = 0
        self.misses = 0

    def __len__(self) -> int:
        return len(self._entries)

    def __contains__(self, key: K) -> bool:
        return key in self._entries

    def get(self, key: K) -> V | None:
        """Return the value of a key, or None if the cache does not have it."""
        with self._lock:
            found = self._entries.get(key)
            if found is None:
                self.misses += 1
                return None
            self.hits += 1
            found.used_at = self._clock()
            self._entries.move_to_end(key)
            return found.value

    def peek(self, key: K) -> V | None:
        """Return the value of a key as :meth:`get`, but not as a use of the entry."""
        found = self._entries.get(key)
        return None if found is None else found.value

    def add(self, key: K, value: V) -> None:
        """Add an entry, or replace the entry of a key."""
        size = self._size_of(value)
        now = self._clock()
        with self._lock:
            self._remove(key)
            if size > self._largest:
                return
            self._entries[key] = _Entry(value, size, now)
            self.size += size
            while len(self._entries) > 1:
                oldest = next(iter(self._entries))
                if self.size <= self.limit and self._entries[oldest].used_at >= now - self._kept_seconds:
                    return
                self._remove(oldest)

    def remove(self, key: K) -> None:
        """Remove an entry, if the cache has it."""
        with self._lock:
            self._remove(key)

    def state(self) -> CacheState:
        """Return the cache's size, and how often a look-up found its entry."""
        with self._lock:
            return CacheState(len(self._entries), self.hits, self.misses, self.size, self.limit)

    def remove_if(self, unwanted: Callable[[K], bool]) -> None:
        """Remove the entries whose keys are unwanted."""
        with self._lock:
            for key in [key for key in self._entries if unwanted(key)]:
                self._remove(key)

    def _remove(self, key: K) -> None:
        gone = self._entries.pop(key, None)
        if gone is not None:
            self.size -= gone.size
