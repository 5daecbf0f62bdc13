"""One binlog file of the store, and the index of its segments as far as the file has been scanned."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from dataclasses import dataclass

from dumpfilter.binlog.gtid_events import Xid
from dumpfilter.binlog.gtid_sources import SourceNumbers
from dumpfilter.errors import PositionError
from dumpfilter.index.fileset import BinlogFile, SegmentReader, ends_with_rotation
from dumpfilter.index.segment import Segment
from dumpfilter.index.subjects import Subjects
from dumpfilter.index.xa import Prepared
from dumpfilter.master.segment_cache import SegmentCache

_MERGE_BELOW = 256 << 10
"""A last segment below this size is scanned again together with new transactions, bytes.

Otherwise a server that writes one transaction at a time would leave one segment for each transaction.
"""


@dataclass
class _Place:
    """A segment's place in its file. The columns themselves may be in the cache."""

    start: int
    end: int
    continues: bool
    open: bool
    rotated: bool
    prepared: Prepared
    """The transactions that are prepared where the segment begins."""


class IndexedFile:
    """A binlog file with the places of the segments that have been scanned. Thread-safe."""

    def __init__(
        self,
        file: BinlogFile,
        subjects: Subjects,
        sources: SourceNumbers,
        cache: SegmentCache,
        *,
        verify: bool,
    ) -> None:
        self.file = file
        self.name = file.name
        self.held: dict[Xid, int] = {}
        """The subjects of transactions that were prepared in an earlier file and end in this file, by XID."""
        self.bytes_scanned = 0
        self.events_scanned = 0
        self._reader = SegmentReader(file, subjects, sources, verify=verify)
        self._subjects = subjects
        self._sources = sources
        self._cache = cache
        self._places: list[_Place] = []
        self._lock = threading.Lock()

    @property
    def scanned_to(self) -> int:
        """The end of the last scanned segment, bytes."""
        return self._places[-1].end if self._places else self.file.first_event

    @property
    def is_rotated(self) -> bool:
        """Whether the last scanned segment ends with a Rotate or Stop event."""
        return bool(self._places) and self._places[-1].rotated

    def segment_at(self, position: int) -> Segment | None:
        """Return the segment that holds ``position``, or None when the file has no whole transaction there yet.

        Ends of transactions that were prepared in an earlier file are not known in the segment. Raises BinlogError
        where the file is damaged, and PositionError for a position past the end.
        """
        with self._lock:
            number = self._place(position)
            while number is None:
                if position < self.scanned_to or not self._scan_next():
                    if position > max(self.scanned_to, self.file.size):
                        raise PositionError(
                            f"lies past the end of the file, which is at {self.file.size}",
                            file=self.name,
                            position=position,
                        )
                    return None
                number = self._place(position)
            return self._load(number)

    def segments(self) -> Iterator[Segment]:
        """Yield the segments that have been scanned, in order, one at a time."""
        for number in range(len(self._places)):
            with self._lock:
                segment = self._load(number)
            yield segment

    def prepared_at_end(self) -> Prepared:
        """Scan the rest of the file, and return the transactions that are prepared at its end."""
        with self._lock:
            while self._scan_next():
                pass
            self._reader.release()
            return self._reader.prepared

    def check_end(self, *, last: bool) -> None:
        """Raise BinlogTruncated when the file does not end as a server ends a file of the set, or the last file."""
        self._reader.check_end(last=last)

    def release(self) -> None:
        """Free the reader's buffers. Otherwise memory would grow with the number of files."""
        with self._lock:
            self._reader.release()

    def _place(self, position: int) -> int | None:
        """Return the number of the place that holds ``position``. A place's end belongs to the next place."""
        low, high = 0, len(self._places)
        while low < high:
            middle = (low + high) // 2
            if self._places[middle].end <= position:
                low = middle + 1
            else:
                high = middle
        return low if low < len(self._places) else None

    def _scan_next(self) -> bool:
        """Scan one more segment, or the last one again with new transactions. Return whether anything was added."""
        reader = self._reader
        last = self._places[-1] if self._places else None
        if last is not None and not (last.open or last.continues) and last.end - last.start < _MERGE_BELOW:
            if self.file.size == last.end:
                return False
            reader.rewind(last.start, last.prepared)
        prepared = reader.prepared
        segment = reader.next()
        if last is not None and segment is not None and segment.end == last.end:
            # No whole transaction was added. The next read tells whether the rest is incomplete or damaged.
            prepared = reader.prepared
            segment = reader.next()
        if segment is None:
            return False
        if last is not None and segment.start == last.start:
            self._places.pop()
            self._cache.remove((self.name, last.start))
        else:
            self.bytes_scanned += segment.end - segment.start
            self.events_scanned += len(segment.offset)
        rotated = ends_with_rotation(segment)
        self._places.append(
            _Place(segment.start, segment.end, segment.continues, segment.open, rotated, prepared)
        )
        self._cache.add((self.name, segment.start), segment)
        return True

    def _load(self, number: int) -> Segment:
        """Return a segment from the cache, or scan it again."""
        places = self._places
        segment = self._cache.get((self.name, places[number].start))
        if segment is not None:
            return segment
        # begin where no transaction is open, because table maps come before their rows
        first = number
        while places[first].continues:
            first -= 1
        reader = SegmentReader(
            self.file, self._subjects, self._sources, verify=False, prepared=places[first].prepared
        )
        reader.position = places[first].start
        for place in places[first : number + 1]:
            reader.limit = place.end
            segment = reader.next()
            assert segment is not None
            assert (segment.start, segment.end) == (place.start, place.end)
            self._cache.add((self.name, segment.start), segment)
        assert segment is not None
        return segment
