"""The binlog files of a topology's nodes, and how far the readers of these files are behind.

A :class:`WatchedSet` has the paths and sizes of a node's files, and records the times at which the end of the binlog
advanced. From these times the lags of readers are computed. A real replica's reported position can be too early, so its
position is found by its GTIDs.
"""

from __future__ import annotations

import bisect
import contextlib
import threading
import time
from pathlib import Path

from dumpfilter.base.errors import BinlogError, BinlogTruncated, GtidError
from dumpfilter.binlog.events import GTIDS, OF_FILES
from dumpfilter.binlog.gtid import GtidSet, parse_gtid_set
from dumpfilter.binlog.gtid_events import decode_gtid
from dumpfilter.binlog.reader import iter_events
from dumpfilter.index.fileset import BinlogSet
from dumpfilter.testbed.values import NO_LAG, NOWHERE, Lag, Place

Files = list[tuple[Path, int]]
"""The paths and sizes of a binlog set's files, in order."""

_MOST_ENDS = 200_000
"""The maximum number of recorded ends (positions) of a growing binlog. Beyond it older ends are thinned out, so that
the times of old positions get less exact.
"""


class WatchedSet:
    """The binlog files of one node of a topology, with a record of the times at which their end advanced. The lags of
    the node's readers are computed from this record. Any thread may call the methods.

    ``source`` is the path of the set's index file or directory. It need not exist yet.
    """

    def __init__(self, source: Path) -> None:
        self.source = source
        self._lock = threading.RLock()
        self._opened: BinlogSet | None = None
        self._keys: list[tuple[int, int]] = []
        """The ends (positions) that the growing binlog has had, in order, each as its sort key (:attr:`Place.key`)."""
        self._times: list[float] = []
        """For each end in ``_keys``, the time at which it was noticed, seconds of ``time.monotonic``."""

    def opened(self) -> BinlogSet | None:
        """Open the node's binlog files as they are at this moment, and return them. None if there are none yet. If the
        index cannot be read at this moment, the files of an earlier call are returned.
        """
        with self._lock:
            # The server may not have made the set yet, or be just writing the index file.
            with contextlib.suppress(BinlogError):
                if self._opened is None:
                    self._opened = BinlogSet.open(self.source)
                else:
                    self._opened.refresh()
            return self._opened

    def files(self) -> Files:
        """Return the paths and the sizes (bytes) of the node's binlog files, oldest first."""
        found: Files = []
        opened = self.opened()
        if opened is not None:
            for name, path in opened.paths.items():
                # A server may have purged the file meanwhile.
                with contextlib.suppress(BinlogError):
                    found.append((path, opened.size(name)))
        return found

    def note(self) -> Files:
        """Record the present time and the end of the node's binlog, from which lags are computed later. Return the
        paths and sizes (bytes) of all binlog files.
        """
        # Another thread's newer end must not come first, since an earlier end counts as a truncation.
        with self._lock:
            if files := self.files():
                self.note_end(end_of(files), time.monotonic())
        return files

    def note_end(self, end: Place, now: float) -> None:
        """Record that the node's binlog has had the end ``end`` since the time ``now`` (of ``time.monotonic``).

        If an earlier call has recorded ``end``, or an end beyond ``end``, the time of the first such call is kept
        instead of ``now``. Recorded ends beyond ``end`` are forgotten, because the log has been truncated. If there are
        too many ends, every second end of the older half is forgotten.
        """
        with self._lock:
            at = bisect.bisect_left(self._keys, end.key)
            # A log that is truncated has had the rest since the time of the first end beyond it.
            self._times[at:] = self._times[at : at + 1] or [now]
            self._keys[at:] = [end.key]
            if len(self._keys) > _MOST_ENDS:
                half = len(self._keys) // 2
                self._keys[:half] = self._keys[1:half:2]
                self._times[:half] = self._times[1:half:2]

    def reached(self, place: Place) -> float | None:
        """Return the time (of ``time.monotonic``) since when the binlog has had all bytes before the position
        ``place``. None if it did not have them at the last :meth:`note`.

        >>> watched = WatchedSet(Path("b.index"))
        >>> for at, end in ((1.0, 4), (2.0, 100), (3.0, 50), (4.0, 100)):
        ...     watched.note_end(Place("b.1", end), at)
        >>> [watched.reached(Place("b.1", end)) for end in (4, 50, 60, 101)]
        [1.0, 2.0, 4.0, None]
        """
        with self._lock:
            at = bisect.bisect_left(self._keys, place.key)
            return self._times[at] if at < len(self._times) else None

    def lag_of(self, place: Place) -> Lag:
        """Return how far a reader at the position ``place`` (file and byte offset) is behind the present end of the
        node's binlog, in seconds and bytes. The seconds are the time since the first byte after ``place`` was noticed.
        """
        behind = bytes_after(self.note(), place)
        since = self.reached(Place(place.file, place.position + 1))
        return Lag(0.0 if since is None else time.monotonic() - since, behind) if behind else NO_LAG


def end_of(files: Files) -> Place:
    """Return the end of a binlog set: its last file and that file's size. Without files the result is NOWHERE, the
    position without a file.
    """
    return Place(files[-1][0].name, files[-1][1]) if files else NOWHERE


def bytes_after(files: Files, place: Place) -> int:
    """Return the number of bytes of a binlog after the position ``place``. ``files`` has pairs of the path and the size
    (bytes) of each binlog file.

    >>> bytes_after([(Path("b.1"), 100), (Path("b.2"), 50)], Place("b.1", 90))
    60
    """
    number, position = place.key
    later = ((Place(path.name, 0).key[0], size) for path, size in files)
    return sum(max(size - position, 0) if its == number else size for its, size in later if its >= number)


def applied_place(
    files: Files, told: Place, gtids: str, known: tuple[str, Place] | None = None
) -> Place | None:
    """Return the position of the first transaction in a binlog that a replication channel has not applied, or the
    binlog's end if all are applied.

    ``files`` has the paths and sizes of the binlog files of the node that wrote the binlog. ``told`` is the position
    that the replica reports, and ``gtids`` are the GTIDs that the channel has applied. ``known`` is a pair of these
    GTIDs and the result in an earlier call, from which the search can continue. The result is None if the binlog cannot
    be read, or does not have the file of ``told``.

    The position that a replica reports can lie far before the position that the replica has reached. MariaDB goes back
    to the beginning of a file when its threads start again by GTID, and stays there while the next transaction is
    delayed. Every server stays before transactions that a filter has dropped at the end of the stream.
    """
    try:
        applied = parse_gtid_set(gtids)
        if known is not None and known[0] and known[1] > told and parse_gtid_set(known[0]).issubset(applied):
            told = known[1]
        return _first_missing(files, told, applied)
    except (BinlogError, GtidError, OSError):
        return None


def _first_missing(files: Files, begin: Place, applied: GtidSet) -> Place | None:
    names = [path.name for path, _ in files]
    if begin.file and begin.file not in names:
        return None
    place = begin
    is_applied = False
    for path, size in files[names.index(begin.file) if begin.file else 0 :]:
        name, start = path.name, begin.position if path.name == begin.file else 0
        place = Place(name, start)
        try:
            with path.open("rb") as file:
                for event in iter_events(file, file=name, start=max(start, 4), verify=False, end=size):
                    if event.type in GTIDS:
                        gtid: object = decode_gtid(event.header, event.body).gtid
                        is_applied = bool(applied) and gtid is not None and gtid in applied
                    if not is_applied and event.type not in OF_FILES:
                        return Place(name, event.offset)
                    place = Place(name, event.offset + len(event.raw))
        except BinlogTruncated:
            # The server is just writing the event.
            return place
        place = Place(name, size)
    return place
