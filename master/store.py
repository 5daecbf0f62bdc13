"""The binlog store: one index over a binlog set, shared by all dump threads.

A file is scanned when the first dump thread gets there, a segment at a time; the columns are kept, within a bound,
for the slaves that come after. What was dropped from the cache is scanned again when asked for.
"""

from __future__ import annotations

import contextlib
import threading
from collections import OrderedDict
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass
from pathlib import Path

from dumpfilter.binlog.format import Family, NameRules
from dumpfilter.binlog.gtid import GtidSet
from dumpfilter.binlog.gtid_events import Xid
from dumpfilter.binlog.gtid_sources import SourceNumbers, add_numbers
from dumpfilter.errors import BinlogTruncated, DumpfilterError, PositionError
from dumpfilter.index.fileset import BinlogFile, BinlogSet, SegmentReader, ends_with_rotation
from dumpfilter.index.previous_gtids import previous_gtids
from dumpfilter.index.scanner import SEGMENT_SIZE
from dumpfilter.index.segment import Segment
from dumpfilter.index.subjects import Subjects
from dumpfilter.index.xa import ALWAYS, Prepared
from dumpfilter.master.watcher import Watcher

CACHE_BYTES = 32 << 20
"""How much the columns of scanned segments may take together, bytes."""

_MERGE_BELOW = 256 << 10
"""A last segment smaller than this is scanned again with what has been written since, so that a
binlog written a transaction at a time does not become a segment a transaction."""


@dataclass
class _Place:
    """A segment's place in its file; the segment itself is in the cache, or not."""

    start: int
    end: int
    continues: bool
    open: bool
    rotated: bool
    prepared: Prepared
    """The XA transactions that are prepared where it begins."""


class _IndexedFile:
    """One file's segments, found so far."""

    def __init__(self, file: BinlogFile, reader: SegmentReader) -> None:
        self.file = file
        self.reader = reader
        self.places: list[_Place] = []
        self.lock = threading.Lock()
        self.held: dict[Xid, int] = {}
        """What XA transactions hold that were prepared in earlier files, and end in this one."""

    @property
    def scanned_to(self) -> int:
        return self.places[-1].end if self.places else self.file.first_event

    def place(self, position: int) -> int | None:
        """The number of the place that holds ``position`` (its end excluded)."""
        low, high = 0, len(self.places)
        while low < high:
            middle = (low + high) // 2
            if self.places[middle].end <= position:
                low = middle + 1
            else:
                high = middle
        return low if low < len(self.places) else None


class BinlogStore:
    """A binlog set with its index. Thread-safe.

    Parameters:
        source: index file, directory, or files (see BinlogSet.open).
        verify: whether checksums are verified on reading.
        cache_bytes: the bound on cached columns.
    """

    def __init__(
        self,
        source: str | Path | Sequence[str | Path],
        *,
        verify: bool = True,
        cache_bytes: int = CACHE_BYTES,
    ) -> None:
        self.binlogs = BinlogSet.open(source)
        self.subjects = Subjects()
        self.sources = SourceNumbers()
        self._verify = verify
        self._files: dict[str, _IndexedFile] = {}
        self._lock = threading.Lock()
        self._cache: OrderedDict[tuple[str, int], Segment] = OrderedDict()
        self._cache_bytes = 0
        self._cache_limit = cache_bytes
        self._watcher = Watcher(self._size)
        self._ahead = ThreadPoolExecutor(1, "binlog-scan-ahead")
        self.bytes_scanned = 0
        self.events_scanned = 0
        # the newest file says what wrote the set
        self.format_description = self.open_file(self.binlogs.names[-1]).file.format_description

    @property
    def family(self) -> Family:
        """``mysql`` or ``mariadb``."""
        return self.format_description.family

    @property
    def names(self) -> NameRules:
        """The family and the collation of the server that wrote the newest file when the store was opened."""
        return self.format_description.names

    def open_file(self, name: str) -> _IndexedFile:
        """The file with its index, opened when it is first asked for."""
        with self._lock:
            found = self._files.get(name)
            if found is None:
                file = self.binlogs.file(name)
                found = _IndexedFile(
                    file, SegmentReader(file, self.subjects, self.sources, verify=self._verify)
                )
                self._files[name] = found
            return found

    def first_position(self, name: str) -> int:
        """Where the first event after the format description event stands."""
        return self.open_file(name).file.first_event

    def segment_at(self, name: str, position: int) -> Segment | None:
        """The segment that holds ``position``, or None when the file has no whole transaction there yet.

        Raises BinlogError with file and position when what stands there is damaged, PositionError for a
        position past the end.
        """
        segment = self._indexed_segment_at(name, position)
        return segment if segment is None else self._with_ends(name, segment)

    def _indexed_segment_at(self, name: str, position: int) -> Segment | None:
        """As :meth:`segment_at`, by this file alone."""
        indexed = self.open_file(name)
        with indexed.lock:
            number = indexed.place(position)
            while number is None:
                if position < indexed.scanned_to or not self._scan_next(name, indexed):
                    if position > max(indexed.scanned_to, indexed.file.size):
                        raise PositionError(
                            f"lies past the end of the file, which is at {indexed.file.size}",
                            file=name,
                            position=position,
                        )
                    return None
                number = indexed.place(position)
            return self._load(name, indexed, number)

    def _with_ends(self, name: str, segment: Segment) -> Segment:
        """The segment with ends of XA transactions known that were prepared in an earlier file.

        They are looked for in the files before, the newest first; what is in none of them was purged.
        """
        if not segment.unknown_ends:
            return segment
        held = self.open_file(name).held
        missing = set(segment.unknown_ends.values()) - held.keys()
        names = self.binlogs.names
        earlier = names[: names.index(name)] if missing and name in names else []
        # what is wrong with a file before is not this one's matter
        with contextlib.suppress(DumpfilterError):
            for before in reversed(earlier):
                prepared = self._prepared_after(before)
                held.update({xid: prepared[xid] for xid in missing & prepared.keys()})
                missing -= held.keys()
                if not missing:
                    break
        held.update(dict.fromkeys(missing, ALWAYS))
        return segment.with_known_ends(held)

    def _prepared_after(self, name: str) -> Prepared:
        """The XA transactions that were prepared in a file and have no end in it."""
        indexed = self.open_file(name)
        with indexed.lock:
            while self._scan_next(name, indexed):
                pass
            indexed.reader.release()
            return indexed.reader.prepared

    def scan_ahead(self, name: str, position: int) -> None:
        """Have the segment that begins at ``position`` scanned while the caller sends the one before.

        Only well before the file's end: what is being written is left to :meth:`segment_at`, and so are errors.
        """
        indexed = self.open_file(name)
        if position < indexed.scanned_to or position + 2 * SEGMENT_SIZE > indexed.file.size:
            return

        def scan() -> None:
            with contextlib.suppress(DumpfilterError):
                self.segment_at(name, position)

        with contextlib.suppress(RuntimeError):  # the store is being closed
            self._ahead.submit(scan)

    def _scan_next(self, name: str, indexed: _IndexedFile) -> bool:
        reader = indexed.reader
        last = indexed.places[-1] if indexed.places else None
        if last is not None and not (last.open or last.continues) and last.end - last.start < _MERGE_BELOW:
            if indexed.file.size == last.end:
                return False
            reader.rewind(last.start, last.prepared)
        prepared = reader.prepared
        segment = reader.next()
        if last is not None and segment is not None and segment.end == last.end:
            # nothing whole was added: is what follows incomplete, or damaged?
            prepared = reader.prepared
            segment = reader.next()
        if segment is None:
            return False
        if last is not None and segment.start == last.start:
            indexed.places.pop()
            self._forget((name, last.start))
        else:
            self.bytes_scanned += segment.end - segment.start
            self.events_scanned += len(segment.offset)
        indexed.places.append(
            _Place(
                segment.start,
                segment.end,
                segment.continues,
                segment.open,
                ends_with_rotation(segment),
                prepared,
            )
        )
        self._remember((name, segment.start), segment)
        return True

    def _load(self, name: str, indexed: _IndexedFile, number: int) -> Segment:
        place = indexed.places[number]
        key = (name, place.start)
        with self._lock:
            segment = self._cache.get(key)
            if segment is not None:
                self._cache.move_to_end(key)
                return segment
        # scan again, from where no transaction is open: table maps come before their rows
        first = number
        while indexed.places[first].continues:
            first -= 1
        again = SegmentReader(
            indexed.file,
            self.subjects,
            self.sources,
            verify=False,
            prepared=indexed.places[first].prepared,
        )
        again.position = indexed.places[first].start
        for wanted in indexed.places[first : number + 1]:
            again.limit = wanted.end
            segment = again.next()
            assert segment is not None
            assert (segment.start, segment.end) == (wanted.start, wanted.end)
            self._remember((name, segment.start), segment)
        assert segment is not None
        return segment

    def _remember(self, key: tuple[str, int], segment: Segment) -> None:
        with self._lock:
            if key not in self._cache:
                self._cache[key] = segment
                self._cache_bytes += segment.nbytes
            while self._cache_bytes > self._cache_limit and len(self._cache) > 1:
                _, old = self._cache.popitem(last=False)
                self._cache_bytes -= old.nbytes

    def _forget(self, key: tuple[str, int]) -> None:
        with self._lock:
            old = self._cache.pop(key, None)
            if old is not None:
                self._cache_bytes -= old.nbytes

    def forget_files(self, names: Iterable[str]) -> None:
        """Let go of files that were purged. One that a dump thread is at is closed, and its space given back, when that
        thread has left it."""
        with self._lock:
            for name in names:
                self._files.pop(name, None)
                for key in [key for key in self._cache if key[0] == name]:
                    self._cache_bytes -= self._cache.pop(key).nbytes

    def refresh(self) -> bool:
        """Read the index again; whether it has changed. What another process purged is let go of."""
        before = self.binlogs.names
        changed = self.binlogs.refresh()
        if changed:
            self.forget_files(set(before) - set(self.binlogs.names))
        return changed

    def gtids(self) -> GtidSet | None:
        """All GTIDs of the set and before it, up to the end of what is whole in the newest file (gtid_executed); None
        when the set does not say what came before. Raises BinlogError where the newest file is damaged."""
        name = self.binlogs.names[-1]
        found = self.previous_gtids(name)
        if found is None:
            return None
        position = self.first_position(name)
        while (segment := self.segment_at(name, position)) is not None:
            add_transactions(found, segment, self.sources)
            position = segment.end
        return found

    def next_file(self, name: str, position: int | None = None) -> str | None:
        """The file that follows ``name``; None when ``name`` is the last, or there is more of it to read from
        ``position`` on (without one: from where it has been scanned to, by whomever).

        Raises BinlogTruncated when ``name`` does not end as a server ends a file.
        """
        following = self.binlogs.after(name)
        if following is None:
            self.binlogs.refresh()
            following = self.binlogs.after(name)
            if following is None:
                return None
        if position is None:
            position = self.open_file(name).scanned_to
        if self.segment_at(name, position) is not None:
            return None  # more was written before the rotation: it comes first
        indexed = self.open_file(name)
        indexed.reader.check_end(last=False)
        if not (indexed.places and indexed.places[-1].rotated):
            self._check_gtids(name, following)
        with indexed.lock:
            indexed.reader.release()  # or memory would grow with the number of files
        return following

    def file_after(self, name: str) -> str | None:
        """The file that follows one of which is known that it has come to its end; None when it is the last."""
        following = self.binlogs.after(name)
        if following is None:
            self.refresh()
            following = self.binlogs.after(name)
        return following

    def check_last(self, name: str) -> None:
        """Raise BinlogTruncated when ``name``, the last file, is cut and no server is writing to it."""
        self.open_file(name).reader.check_end(last=True)

    def _check_gtids(self, name: str, following: str) -> None:
        """A file without Rotate or Stop at its end: a crash, or something is missing. The next one knows."""
        before = self.previous_gtids(following)
        have = self.previous_gtids(name)
        if before is None or have is None:
            return
        for place in range(len(self.open_file(name).places)):
            indexed = self.open_file(name)
            with indexed.lock:
                segment = self._load(name, indexed, place)
            add_transactions(have, segment, self.sources)
        if not have.issuperset(before):
            raise BinlogTruncated(
                f"the file ends before {before - have}, which {following} says came before it; "
                "fetch it again from the server",
                file=name,
                position=self.open_file(name).scanned_to,
            )

    def previous_gtids(self, name: str) -> GtidSet | None:
        """The GTIDs that came before a file, as its Previous_gtids or Gtid_list says; None without one."""
        return previous_gtids(self.open_file(name).file)

    @property
    def generation(self) -> int:
        """Counts up whenever the set has been seen to grow. Take it before looking for a segment, and
        :meth:`wait` for it to change when there was none."""
        return self._watcher.generation

    def wait(self, generation: int, timeout: float, stop: Callable[[], bool]) -> None:
        """Wait until the set has grown since ``generation``, ``stop()`` is true (see :meth:`wake`) or
        ``timeout`` seconds are over."""
        self._watcher.wait(generation, timeout, stop)

    def wake(self) -> None:
        """Have every waiting dump thread look at its ``stop`` again."""
        self._watcher.wake()

    def read(self, name: str, offset: int, length: int) -> bytes:
        """Bytes of a file."""
        return self.open_file(name).file.read(offset, length)

    def cache_status(self) -> tuple[int, int]:
        """Segments in the cache, and their bytes."""
        with self._lock:
            return len(self._cache), self._cache_bytes

    def _size(self) -> tuple[int, ...]:
        """What changes when the set grows."""
        sizes = [self.binlogs.path(self.binlogs.names[-1]).stat().st_size]
        if self.binlogs.index is not None:
            index = self.binlogs.index.stat()
            sizes += [index.st_size, index.st_mtime_ns]
        return tuple(sizes)

    def close(self) -> None:
        self._watcher.close()
        self._ahead.shutdown(cancel_futures=True)
        with self._lock:
            for indexed in self._files.values():
                indexed.file.close()
            self._files.clear()


def add_transactions(gtids: GtidSet, segment: Segment, sources: SourceNumbers) -> None:
    """Add the GTIDs of all transactions of a segment to a set."""
    for number in set(segment.txn_source[segment.txn_source >= 0].tolist()):
        add_numbers(
            gtids, sources.key(number, gtids.family), segment.txn_number[segment.txn_source == number]
        )
