"""The binlog files of the nodes that write them: names, sizes, the end, and the times at which the end advanced."""

from __future__ import annotations

import bisect
import contextlib
import threading
import time
from pathlib import Path

from dumpfilter.base.errors import BinlogError
from dumpfilter.index.fileset import BinlogSet
from dumpfilter.testbed.values import NO_LAG, NOWHERE, Lag, Place

Files = list[tuple[str, int]]
"""The names and sizes of a binlog set's files, in order."""

_MOST_ENDS = 200_000
"""The limit of remembered ends. Beyond it older ends are thinned out, so that the times of old positions get less
exact.
"""


class WatchedSet:
    """A binlog set that a node writes, with the positions of its end over time. Any thread may call the methods."""

    def __init__(self, source: Path) -> None:
        self.source = source
        self._lock = threading.Lock()
        self._opened: BinlogSet | None = None
        self.history = EndHistory()

    def opened(self) -> BinlogSet | None:
        """Return the set with its current files, or None if the set does not exist yet."""
        with self._lock:
            try:
                if self._opened is None:
                    self._opened = BinlogSet.open(self.source)
                else:
                    self._opened.refresh()
            except BinlogError:
                # The server has not made the set yet, or is just writing the index file.
                return self._opened
            return self._opened

    def files(self) -> Files:
        """Return the names and sizes of the files."""
        opened = self.opened()
        found = []
        for name in opened.names if opened is not None else ():
            # A server may have purged the file meanwhile.
            with contextlib.suppress(BinlogError):
                assert opened is not None
                found.append((name, opened.size(name)))
        return found

    def paths(self) -> dict[str, Path]:
        """Return the paths of the files by their names."""
        opened = self.opened()
        return {} if opened is None else {name: opened.path(name) for name in opened.names}

    def note(self) -> Files:
        """Record the binlog set's end with the present time, from which lags are computed later. Return all files of
        the set.
        """
        files = self.files()
        if files:
            self.history.note(end_of(files), time.monotonic())
        return files


def end_of(files: Files) -> Place:
    """Return the end of a binlog set: its last file and that file's size. Without files the result is NOWHERE."""
    return Place(*files[-1]) if files else NOWHERE


def bytes_after(files: Files, place: Place) -> int:
    """Return the number of bytes of a binlog set after a position.

    >>> bytes_after([("b.1", 100), ("b.2", 50)], Place("b.1", 90))
    60
    """
    number = place.key[0]
    total = 0
    for name, size in files:
        its_number = Place(name, 0).key[0]
        if its_number > number:
            total += size
        elif its_number == number:
            total += max(size - place.position, 0)
    return total


class EndHistory:
    """The history of a binlog set's end: the position at each moment. It tells how long data has been in the binlog."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._keys: list[tuple[int, int]] = []
        self._times: list[float] = []

    def note(self, end: Place, now: float) -> None:
        """Record the end of the set at a time (``time.monotonic``)."""
        with self._lock:
            if self._keys and end.key <= self._keys[-1]:
                return
            self._keys.append(end.key)
            self._times.append(now)
            if len(self._keys) > _MOST_ENDS:
                half = len(self._keys) // 2
                self._keys[:half] = self._keys[1:half:2]
                self._times[:half] = self._times[1:half:2]

    def age_after(self, place: Place, now: float) -> float:
        """Return the time since the set's end advanced beyond a position, seconds; 0 if the position is the end.

        >>> history = EndHistory()
        >>> history.note(Place("b.1", 100), 1.0); history.note(Place("b.1", 200), 2.0)
        >>> history.age_after(Place("b.1", 100), 5.0), history.age_after(Place("b.1", 200), 5.0)
        (3.0, 0.0)
        """
        with self._lock:
            at = bisect.bisect_right(self._keys, place.key)
            return max(now - self._times[at], 0.0) if at < len(self._times) else 0.0


def lag_behind(files: Files, history: EndHistory, place: Place, now: float) -> Lag:
    """Return how far a position is behind the end of a binlog set, in seconds and bytes."""
    behind = bytes_after(files, place)
    return Lag(history.age_after(place, now), behind) if behind else NO_LAG
