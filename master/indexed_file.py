"""One open binlog file that the master serves, the index of its segments, and the cache for segments.

A segment is a run of consecutive events, scanned into columns of offsets, sizes and types: up to 8 MiB, or one larger
event. The index grows as the file is scanned. The cache evicts the least recently used segments above its limit.
"""

from __future__ import annotations

import bisect
import functools
import itertools
import math
import threading
from collections import OrderedDict
from collections.abc import Callable, Hashable
from dataclasses import dataclass
from typing import Generic, TypeVar

import numpy as np
import numpy.typing as npt

from dumpfilter.base.errors import BinlogCorrupt, BinlogError, BinlogReplaced, BinlogTruncated, PositionError
from dumpfilter.binlog.events import FLAGS_OFFSET, LOG_EVENT_BINLOG_IN_USE_F
from dumpfilter.binlog.gtid import SourceKey
from dumpfilter.binlog.gtid_events import Xid
from dumpfilter.binlog.gtid_sources import SourceNumbers
from dumpfilter.dump.chunk import Window
from dumpfilter.dump.cut import gather
from dumpfilter.index.fileset import BinlogFile, ScanPoint, SegmentReader, ends_with_rotation
from dumpfilter.index.scanner import MAX_OPENED, SEGMENT_SIZE
from dumpfilter.index.segment import Prepared, Segment
from dumpfilter.index.subjects import Subjects
from dumpfilter.master.measurements import MEASURED

K = TypeVar("K", bound=Hashable)
V = TypeVar("V")


@dataclass(frozen=True)
class CacheState:
    """The size of a cache, with the numbers of look-ups that found an entry (hits) and that did not (misses)."""

    entries: int
    hits: int
    misses: int
    bytes: int
    """The memory of the entries."""
    limit_bytes: int


class RecentCache(Generic[K, V]):
    """A least-recently-used cache whose entries have sizes. Thread-safe.

    ``size_of`` is a function that returns the size of a value, in the unit of ``limit``. When the sizes together exceed
    ``limit``, the cache removes the least recently used entries, but not the newest. An entry larger than ``largest``
    is not stored, because it would displace too many others.
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

    def add(self, key: K, value: V) -> None:
        """Add an entry, or replace the value of a key. Evict the least recently used entries above the limit.

        A value larger than ``largest`` is not stored, and the key then has no value any more.
        """
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


SegmentCache = RecentCache[tuple[int, int], Segment]
"""The cache of scanned segments (runs of events), by the number of their file and the byte offset at which they begin.

The number belongs to the content of one file. A file with other bytes that takes the same name has another number.
"""

_MERGE_BELOW = 256 << 10
"""The size of a segment (a run of events that was scanned at once) below which it may be scanned again, together with
new transactions, bytes.

Otherwise a server that writes one transaction at a time would make a tiny segment of each transaction.
"""

_MERGED_TOGETHER = 64
"""The number of small segments (runs of events, each scanned at once) after which a new scan merges them into one
segment, in a file that this process writes.
"""

_TAIL = 64
"""The number of bytes before the end of the scanned part that are compared, to notice that the file was overwritten."""

_RECENT = 3
"""The number of newest segments (runs of events, each scanned at once) whose bytes stay in memory for dumps.

While a dump sends one segment, the filter decides about the next one, and the one after that is scanned.
"""

_SMALL = 64 << 10
"""The largest size of a segment (a run of events that was scanned at once) that is copied out of the scan's buffer,
bytes. The next scan can then use the buffer again.
"""

_COMPARED = 1 << 20
"""The block size, bytes, in which an open file is compared with another file that has taken its name."""

_REPLACED = (
    "another file with other events has taken this file's name; start the slave again at a position or GTID set of the "
    "new file, or set the slave up from a backup if the server began its binlogs anew (RESET MASTER)"
)

_LONGEST_CACHED = 8 << 20
"""The largest number of bytes that are read from the page cache in the asyncio loop."""

_numbers = itertools.count(1)


class NotCached(Exception):
    """The exception for bytes of a file that the asyncio loop must not read, because the read would wait for the disk
    or take long. A worker thread reads them instead.
    """


@dataclass
class _Place:
    """The start and end of a segment as byte offsets in its binlog file, and the state needed to scan the segment
    again. A segment is a run of events that was scanned at once. A segment that the cache has evicted is scanned a
    second time.

    ``continues`` says that the segment's first transaction began in the segment before. ``open`` says that the
    segment's last transaction continues in the next segment. ``rotated`` says that the segment ends with a Rotate or
    Stop event.
    """

    start: int
    end: int
    continues: bool
    open: bool
    rotated: bool
    point: ScanPoint
    """The state of the scanner at the beginning of the segment, from which the segment can be scanned again."""


class IndexedFile:
    """An open binlog file with an index of its segments (runs of events) that have been scanned so far. Thread-safe.

    Parameters:
        subjects, sources: the registers that number the binlog set's tables and statements, and its GTID sources. A
            scan adds new ones.
        cache: the cache of scanned segments, which all files of the set share.
        verify: whether the checksums of events are verified.
        max_opened: the uncompressed size up to which compressed transactions are opened, bytes.
        is_written_here: a function that tells whether this process writes the file, so that nobody else can change it.
    """

    def __init__(
        self,
        file: BinlogFile,
        subjects: Subjects,
        sources: SourceNumbers,
        cache: SegmentCache,
        *,
        verify: bool,
        max_opened: int = MAX_OPENED,
        is_written_here: Callable[[], bool] = lambda: False,
    ) -> None:
        self.file = file
        self._is_written_here = is_written_here
        self.name = file.name
        self.number = next(_numbers)
        """A number that no other indexed file of this process has. It is part of the keys in the cache of scanned
        events.
        """
        self.identity = file.identity
        """The device and the inode of the open file."""
        self._lost: BinlogError | None = None
        self.held: dict[Xid, int] = {}
        """The set of tables and statements of each XA transaction that was prepared in an earlier file and ends in
        this one, by XID.

        The value is the set's number (:meth:`Subjects.any_of`). A filter's decision about the set decides about the XA
        COMMIT or XA ROLLBACK.
        """
        self._read_segments = functools.partial(
            SegmentReader, subjects=subjects, sources=sources, max_opened=max_opened
        )
        self._reader = self._read_segments(file, verify=verify)
        self._rereader: SegmentReader | None = None
        """The reader of segments (runs of events) that the cache has evicted and that a dump needs again. The reader
        keeps its buffers from one segment to the next.
        """
        self._sources = sources
        self._cache = cache
        self._places: list[_Place] = []
        self._head = _without_flag(file.read(0, file.first_event))
        self._recent: tuple[Window, ...] = ()
        """The bytes of the newest segments (runs of events, each scanned at once), in the order of the file."""
        self._lock = threading.Lock()

    def position_of(self, offset: int) -> int:
        """Return the position of an event in the writer's binlog. ``offset`` is the event's byte offset in this file,
        or the offset of the file's end.

        The writer is the server that wrote the events. In its own binlog file the position equals ``offset``; in a
        slave's relay log it differs. Raises BinlogError where the file is damaged, and PositionError for an offset past
        the end.
        """
        file = self.file
        if not file.is_relay_log:
            return offset
        segment = self.segment_at(max(offset, file.first_event))
        if segment is None and self._places:
            with self._lock:
                segment = self._load(self._places[-1])
        return file.begin.position if segment is None else segment.position_of(offset)

    def boundary_before(self, position: int) -> int:
        """Return the byte offset in this file of the last known transaction boundary at or before ``position``.

        ``position`` is a position in the binlog of the server that wrote the events. The file is scanned in segments
        (runs of events of up to 8 MiB), and only the boundaries between the segments scanned so far are known. If none
        of these lies before ``position``, return the offset of the first event.
        """
        for place in reversed(self._places):
            writer = place.point.writer
            begin = place.start if writer is None else writer.position
            if begin <= position and not place.continues:
                return place.start
        return self.file.first_event

    @property
    def scanned_to(self) -> int:
        """The byte offset in the file up to which events have been scanned."""
        return self._places[-1].end if self._places else self.file.first_event

    @property
    def is_rotated(self) -> bool:
        """Whether the last scanned event is a Rotate or Stop event, after which a server writes nothing more to the
        file.
        """
        return bool(self._places) and self._places[-1].rotated

    def segment_at(self, position: int) -> Segment | None:
        """Return the segment (a run of events, scanned at once) with the event at the byte offset ``position``. Scan
        the file up to there if necessary.

        Return None when no whole transaction has been written at ``position`` yet. A segment tells the tables of its
        transactions, but not those of an XA COMMIT or XA ROLLBACK whose transaction was prepared in an earlier file.
        Raises BinlogError where the file is damaged, and PositionError for a position past the end.
        """
        place = self._place(position)
        if place is not None and (self.number, place.start) in self._cache:
            # Another thread may be scanning what follows.
            segment = self._cache.get((self.number, place.start))
            if segment is not None:
                return segment
        with self._lock:
            place = self._place(position)
            while place is None:
                if position < self.scanned_to or not self._scan_next():
                    if position > max(self.scanned_to, self.file.size):
                        raise PositionError(
                            f"lies past the end of the file, which is at {self.file.size}",
                            file=self.name,
                            position=position,
                        )
                    return None
                place = self._place(position)
            return self._load(place)

    def has_unknown_ends(self, position: int) -> bool:
        """Tell whether earlier files must be searched for an XA transaction that was prepared there and ends here. Its
        XA COMMIT or XA ROLLBACK stands in the segment (a run of events, scanned at once) at ``position``, a byte
        offset. Raises the errors of :meth:`segment_at`.
        """
        segment = self.segment_at(position)
        return segment is not None and not self.held.keys() >= set(segment.unknown_ends.values())

    def segment_start(self, position: int) -> int:
        """Return the byte offset at which the segment (a run of events that was scanned at once) with the event at
        ``position`` begins. Return ``position`` if the event is not scanned yet.
        """
        place = self._place(position)
        return position if place is None else place.start

    @property
    def gone(self) -> bool:
        """Whether reads of the file fail, because the file no longer has the scanned events. A check has found it
        truncated or overwritten, or :meth:`give_up` was called.
        """
        return self._lost is not None

    def gtid_source(self, number: int) -> SourceKey:
        """Return the GTID source that the index stores as ``number``: (server UUID, tag) for MySQL, (domain id, server
        id) for MariaDB.
        """
        return self._sources.key(number)

    def read(self, offset: int, length: int) -> bytes:
        """Return exactly ``length`` bytes of the scanned part of the file from the byte offset ``offset`` on. Raises
        BinlogError if the file no longer has these bytes, or cannot be read.
        """
        try:
            return self.file.read(offset, length)
        except BinlogTruncated:
            self.check()
            raise

    def recent(self, low: int, high: int) -> Window | None:
        """Return a window (bytes with their offset in the file) of newly scanned bytes that are still in memory. Return
        None if no window has all bytes from the byte offset ``low`` to ``high``.
        """
        return next((window for window in self._recent if window.has(low, high)), None)

    def fill(self, room: npt.NDArray[np.uint8], ranges: npt.NDArray[np.int64], *, cached: bool) -> None:
        """Copy byte ranges of the scanned part of the file into ``room`` (uint8). Each row of ``ranges`` is one range:
        its offset in the file, its size, and its offset in ``room``, all in bytes. The rows are in the order of the
        file. Raises BinlogError if the file no longer has these bytes, or cannot be read.

        With ``cached`` the method does not wait for the disk. NotCached is raised if some bytes are not in the page
        cache, or if ``room`` has more than 8 MiB.
        """
        if not len(ranges):
            return
        low, high = int(ranges[0, 0]), int(ranges[-1, 0] + ranges[-1, 1])
        recent = self.recent(low, high)
        if recent is not None:
            gather(ranges, recent.data, recent.offset, room)
            return
        if cached and len(room) > _LONGEST_CACHED:
            raise NotCached
        if not self.file.read_ranges(room, ranges, cached=cached):
            if cached:
                raise NotCached
            for offset, size, at in ranges.tolist():
                room.data[at : at + size] = self.read(offset, size)
        self.check()

    def lost(self) -> BinlogError:
        """Mark the file as no longer having the events that were scanned, so that later reads fail. Return the error
        for the dump that has found this out.

        The error says that the file was replaced, unless another reason is already recorded. Each call returns a new
        object.
        """
        found = self._lost or BinlogReplaced(_REPLACED, file=self.name, position=self.scanned_to)
        self._lost = found
        # Several threads raise the error, and each needs an object of its own for its traceback.
        return found.located(self.name)

    def give_up(self, error: BinlogError) -> None:
        """Mark the file as unreadable, for example because it changes while dumps read it. Each later read raises
        ``error``, unless another such error is set.
        """
        self._lost = self._lost or error

    def check(self) -> None:
        """Check that the scanned part of the file is still there, and that the file begins with the same bytes as at
        its opening.

        Raises BinlogReplaced when another file was written over this one, and BinlogTruncated when the file is shorter
        than the part that was scanned. If an earlier check or :meth:`give_up` has marked the file as lost, raises the
        recorded error. A file that this process writes is not read, since nobody else changes it.
        """
        if self.gone:
            raise self.lost()
        if self._is_written_here():
            return
        # Another thread may scan what a server appends meanwhile. So the scanned part is noted before the size.
        scanned_to = self.scanned_to
        head, size = self.file.read_up_to(0, len(self._head)), self.file.size
        if size < scanned_to:
            self._lost = BinlogTruncated(
                f"the file was truncated: it ends at {size}, and it had events up to {scanned_to}; "
                "copy it again from the server",
                file=self.name,
                position=size,
            )
        if self.gone or _without_flag(head) != self._head:
            raise self.lost()

    def adopt(self, file: BinlogFile) -> bool:
        """Replace the open file by ``file``, a newer file of the same name, if ``file`` begins with the bytes that were
        scanned in the open file. Return whether the open file was replaced.

        A copying program such as rsync replaces a binlog by a newer copy of the same binlog. If the bytes differ, or
        the old file can no longer be read, mark this :class:`IndexedFile` as having lost its events.
        """
        with self._lock:
            if self.gone or not _same_bytes(self.file, file, self.scanned_to):
                self.lost()
                return False
            self.file = self._reader.file = file
            self._rereader = None
            self.identity = file.identity
            return True

    def prepared_at_end(self) -> Prepared:
        """Scan the rest of the file. Return a mapping with the XA transactions that are still prepared at the file's
        end. A later file may commit them or roll them back.

        The key is the XID. The value is a number that stands for the set of all tables and statements that the XA
        transaction has changed (:meth:`Subjects.any_of`). Raises BinlogError where the file is damaged.
        """
        with self._lock:
            while self._scan_next():
                pass
            self._reader.release()
            return self._reader.prepared

    def check_end(self, *, last: bool) -> None:
        """Check that the file does not end inside an event or a transaction. Raises BinlogTruncated otherwise.

        ``last`` says that the file is the last of its set. Such a file may end anywhere while a server is writing it.
        """
        self._reader.check_end(last=last)

    def release(self) -> None:
        """Free the buffers that a scan of this file needs, because the file was read to its end. A later scan allocates
        them again.

        Without this, memory would grow with the number of open binlog files.
        """
        with self._lock:
            self._reader.release()
            self._rereader = None
            self._recent = tuple(
                Window(data[-_TAIL:].copy(), offset + len(data[:-_TAIL]))
                for data, offset in self._recent[-1:]
            )

    def _place(self, position: int) -> _Place | None:
        """Return the start and end of the scanned segment (run of events) that contains the byte offset ``position``.
        Return None when the offset is not scanned yet.
        """
        # A scan may replace the list meanwhile.
        places = self._places
        found = bisect.bisect_right(places, position, key=lambda place: place.end)
        return places[found] if found < len(places) else None

    def _check_scanned(self) -> None:
        """Check that the scanned part of the file still begins and ends with the same bytes. Raises BinlogReplaced or
        BinlogTruncated otherwise. After :meth:`give_up` or an earlier failed check, raises the recorded error.
        """
        self.check()
        tail = self._recent[-1].data[-_TAIL:].tobytes() if self._recent else b""
        if tail and self.file.read(self.scanned_to - len(tail), len(tail)) != tail:
            raise self.lost()

    def _scan_next(self) -> bool:
        """Scan the next events of the file, and add them to the index as a new segment (run of events). Return whether
        there were any. Raises BinlogError where the file is damaged, or has been overwritten.

        Small segments at the end of the index are scanned again together with the new events, and replaced by one
        segment.
        """
        is_written_here = self._is_written_here()
        if not is_written_here:
            self._check_scanned()
        reader = self._reader
        size = self.file.size
        last = self._places[-1] if self._places else None
        if last is not None and size == last.end:
            return False
        merged = self._mergeable(size - self.scanned_to)
        if is_written_here and len(merged) < _MERGED_TOGETHER:
            merged = []
        if merged:
            reader.rewind(merged[0].start, merged[0].point)
        try:
            point = reader.point
            segment = reader.next()
            if last is not None and segment is not None and segment.end == last.end:
                # The bytes after the segment are only a part of a transaction. The next read tells whether this part is
                # incomplete because the server is writing it, or damaged.
                point = reader.point
                segment = reader.next()
        except BinlogError:
            # Somebody may have written another file over this one since the check.
            self._check_scanned()
            raise
        if segment is None:
            return False
        if merged and segment.start == merged[0].start:
            # Another thread may be looking for a place in the old list.
            self._places = self._places[: -len(merged)]
            for place in merged:
                self._cache.remove((self.number, place.start))
        before = segment.start if last is None else last.end
        MEASURED.count_scan(segment.end - before, int(np.count_nonzero(segment.offset >= before)))
        rotated = ends_with_rotation(segment)
        self._places.append(
            _Place(segment.start, segment.end, segment.continues, segment.open, rotated, point)
        )
        scanned = reader.data[: segment.end - segment.start]
        if len(scanned) <= _SMALL:
            scanned = scanned.copy()
        elif len(scanned) <= SEGMENT_SIZE:
            reader.give_away()
        else:
            scanned = scanned[-_TAIL:].copy()
        self._recent = (*self._recent[1 - _RECENT :], Window(scanned, segment.end - len(scanned)))
        self._cache.add((self.number, segment.start), segment)
        return True

    def _mergeable(self, new: int) -> list[_Place]:
        """Return the segments at the end of the index that the next scan shall scan again and join with the new events.
        A segment is a run of events that was scanned at once. ``new`` is the number of bytes by which the file has
        grown.

        Beginning with the last one, a segment is chosen if it is not larger than all bytes after it together, is below
        256 KiB, and has only whole transactions. Thus few small segments are left. If a file grows by single
        transactions, each byte is scanned again only a logarithmic number of times.
        """
        first = len(self._places)
        while first:
            place = self._places[first - 1]
            length = place.end - place.start
            if place.open or place.continues or length > new or length >= _MERGE_BELOW:
                break
            new += length
            first -= 1
        return self._places[first:]

    def _load(self, wanted: _Place) -> Segment:
        """Return the segment (a run of events that was scanned at once) whose start and end in the file are ``wanted``.
        It comes from the cache, or from a new scan of this part of the file. Raises BinlogError if the file no longer
        has the same events there.
        """
        segment = self._cache.get((self.number, wanted.start))
        if segment is not None:
            return segment
        # A scan begins where no transaction is open, because rows events refer to table maps before them.
        number = first = bisect.bisect_left(self._places, wanted.start, key=lambda place: place.start)
        while self._places[first].continues:
            first -= 1
        reader = self._rereader = self._rereader or self._read_segments(self.file, verify=False)
        reader.rewind(self._places[first].start, self._places[first].point)
        for place in self._places[first : number + 1]:
            segment = reader.next_until(place.end)
            if segment is None or (segment.start, segment.end) != (place.start, place.end):
                self.check()
                raise BinlogCorrupt(
                    "the events from here on are not those that the file had before; copy it again from the server",
                    file=self.name,
                    position=place.start,
                )
            self._cache.add((self.number, segment.start), segment)
        assert segment is not None
        return segment


def _without_flag(head: bytes) -> bytes:
    """Return ``head``, the first bytes of a binlog file, without the flag LOG_EVENT_BINLOG_IN_USE_F of the format
    description event.

    A server clears the flag when it closes the file.
    """
    if len(head) <= FLAGS_OFFSET:
        return head
    flags = head[FLAGS_OFFSET] & ~LOG_EVENT_BINLOG_IN_USE_F
    return head[:FLAGS_OFFSET] + bytes([flags]) + head[FLAGS_OFFSET + 1 :]


def _same_bytes(old: BinlogFile, new: BinlogFile, end: int) -> bool:
    """Tell whether two files have the same bytes before the byte offset ``end``, apart from LOG_EVENT_BINLOG_IN_USE_F.
    Return False if one of the files cannot be read.
    """
    try:
        for offset in range(0, end, _COMPARED):
            length = min(_COMPARED, end - offset)
            one, other = old.read(offset, length), new.read(offset, length)
            if one != other and (offset or _without_flag(one) != _without_flag(other)):
                return False
    except BinlogError:
        return False
    return True
