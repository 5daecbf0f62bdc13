"""A least-recently-used cache with a limit on the total size of its entries."""

from __future__ import annotations

import math
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from typing import Generic, TypeVar

from dumpfilter.master.measurements import CacheState

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


class RecentCache(Generic[K, V]):
    """A least-recently-used cache whose entries have sizes. Thread-safe.

    ``size_of`` returns the size of a value. When the sizes together exceed ``limit``, the cache removes the least
    recently used entries, but not the newest. An entry larger than ``largest`` is not stored, because it would
    displace too many others.
    """

    def __init__(self, limit: int, size_of: Callable[[V], int], *, largest: float = math.inf) -> None:
        self.limit = limit
        self._largest = largest
        self._size_of = size_of
        self._entries: OrderedDict[K, tuple[V, int]] = OrderedDict()
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
        """Return the value of a key, or None if the cache does not have it. The look-up counts as a hit or miss."""
        with self._lock:
            found = self._entries.get(key)
            if found is None:
                self.misses += 1
                return None
            self.hits += 1
            self._entries.move_to_end(key)
            return found[0]

    def peek(self, key: K) -> V | None:
        """Return the value of a key, or None. The look-up counts neither as hit nor as miss, and does not delay the
        entry's eviction.
        """
        return self._entries.get(key, (None, 0))[0]

    def add(self, key: K, value: V) -> None:
        """Add an entry, or replace the value of a key. Evict the least recently used entries above the limit."""
        size = self._size_of(value)
        with self._lock:
            self.size -= self._entries.pop(key, (None, 0))[1]
            if size > self._largest:
                return
            self._entries[key] = value, size
            self.size += size
            while self.size > self.limit and len(self._entries) > 1:
                self.size -= self._entries.popitem(last=False)[1][1]

    def remove(self, *keys: K) -> None:
        """Remove the entries of these keys. Keys that the cache does not have are ignored."""
        with self._lock:
            for key in keys:
                self.size -= self._entries.pop(key, (None, 0))[1]

    def remove_if(self, unwanted: Callable[[K], bool]) -> None:
        """Remove the entries whose key makes the function ``unwanted`` return true."""
        with self._lock:
            gone = [key for key in self._entries if unwanted(key)]
        # An entry that another thread has removed meanwhile is no entry any more.
        self.remove(*gone)

    def state(self) -> CacheState:
        """Return the cache's number of entries, size and limit, and the numbers of hits and misses."""
        with self._lock:
            return CacheState(len(self._entries), self.hits, self.misses, self.size, self.limit)
