"""The binlog store: one index over a binlog set, shared by all dump threads.

The first dump thread at a place scans the segment there. The segment cache keeps the columns for the slaves that come
after. A segment that has left the cache is scanned again.
"""

from __future__ import annotations

import contextlib
import threading
from collections.abc import Callable, Iterable, Sequence
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

from dumpfilter.binlog.format import Family, NameRules
from dumpfilter.binlog.gtid import GtidSet
from dumpfilter.binlog.gtid_sources import SourceNumbers, add_numbers
from dumpfilter.errors import BinlogTruncated, DumpfilterError
from dumpfilter.index.fileset import BinlogSet
from dumpfilter.index.previous_gtids import previous_gtids
from dumpfilter.index.scanner import SEGMENT_SIZE
from dumpfilter.index.segment import Segment
from dumpfilter.index.subjects import Subjects
from dumpfilter.index.xa import ALWAYS
from dumpfilter.master.indexed_file import IndexedFile
from dumpfilter.master.segment_cache import CACHE_BYTES, SegmentCache
from dumpfilter.master.watcher import Watcher


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
        self._files: dict[str, IndexedFile] = {}
        self._lock = threading.Lock()
        self._cache = SegmentCache(cache_bytes)
        self._watcher = Watcher(self._size)
        self._ahead = ThreadPoolExecutor(1, "binlog-scan-ahead")
        self._forgotten_bytes = 0
        self._forgotten_events = 0
        # the server that wrote the newest file is the server of the set
        self.format_description = self.open_file(self.binlogs.names[-1]).file.format_description

    @property
    def family(self) -> Family:
        """``mysql`` or ``mariadb``."""
        return self.format_description.family

    @property
    def names(self) -> NameRules:
        """The family and the collation of the server that wrote the newest file when the store was opened."""
        return self.format_description.names

    def open_file(self, name: str) -> IndexedFile:
        """Return a file with its index. The file stays open until it is forgotten."""
        with self._lock:
            found = self._files.get(name)
            if found is None:
                found = IndexedFile(
                    self.binlogs.file(name), self.subjects, self.sources, self._cache, verify=self._verify
                )
                self._files[name] = found
            return found

    def first_position(self, name: str) -> int:
        """Return the offset of the first event after the format description event."""
        return self.open_file(name).file.first_event

    def segment_at(self, name: str, position: int) -> Segment | None:
        """Return the segment that holds ``position``, or None when the file has no whole transaction there yet.

        Raises BinlogError with file and position where the file is damaged, PositionError for a position past the end.
        """
        segment = self.open_file(name).segment_at(position)
        return segment if segment is None else self._with_known_ends(name, segment)

    def _with_known_ends(self, name: str, segment: Segment) -> Segment:
        """Return the segment with the subjects of transactions that were prepared in an earlier file.

        The search goes through the earlier files, the newest first. A transaction that no file has was prepared in a
        purged file, and its end is always sent.
        """
        if not segment.unknown_ends:
            return segment
        held = self.open_file(name).held
        missing = set(segment.unknown_ends.values()) - held.keys()
        names = self.binlogs.names
        earlier = names[: names.index(name)] if missing and name in names else []
        # damage in an earlier file is no reason to refuse this file
        with contextlib.suppress(DumpfilterError):
            for before in reversed(earlier):
                prepared = self.open_file(before).prepared_at_end()
                held.update({xid: prepared[xid] for xid in missing & prepared.keys()})
                missing -= held.keys()
                if not missing:
                    break
        held.update(dict.fromkeys(missing, ALWAYS))
        return segment.with_known_ends(held)

    def scan_ahead(self, name: str, position: int) -> None:
        """Scan the segment at ``position`` in the background, while the caller sends the segment before.

        Near the end of the file, where a server may be writing, nothing is scanned ahead. Errors are left to
        :meth:`segment_at`.
        """
        indexed = self.open_file(name)
        if position < indexed.scanned_to or position + 2 * SEGMENT_SIZE > indexed.file.size:
            return

        def scan() -> None:
            with contextlib.suppress(DumpfilterError):
                self.segment_at(name, position)

        with contextlib.suppress(RuntimeError):  # the store is being closed
            self._ahead.submit(scan)

    def forget_files(self, names: Iterable[str]) -> None:
        """Forget purged files. A file closes, and frees its disk space, when the last dump thread has left it."""
        names = list(names)
        with self._lock:
            for name in names:
                gone = self._files.pop(name, None)
                if gone is not None:
                    self._forgotten_bytes += gone.bytes_scanned
                    self._forgotten_events += gone.events_scanned
        self._cache.remove_files(names)

    def refresh(self) -> bool:
        """Read the index file again, and return whether it has changed. Files that another process purged are
        forgotten."""
        before = self.binlogs.names
        changed = self.binlogs.refresh()
        if changed:
            self.forget_files(set(before) - set(self.binlogs.names))
        return changed

    def gtids(self) -> GtidSet | None:
        """Return the GTIDs before the set and in the set, up to the last whole transaction (``gtid_executed``).

        None when the newest file does not say which GTIDs came before. Raises BinlogError where that file is damaged.
        """
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
        """Return the file that follows ``name``. None when ``name`` is the last file, or has more at ``position``.

        Without a position: the end of the last scanned segment, whoever scanned it. Raises BinlogTruncated when
        ``name`` does not end as a server ends a file.
        """
        following = self.binlogs.after(name)
        if following is None:
            self.binlogs.refresh()
            following = self.binlogs.after(name)
            if following is None:
                return None
        indexed = self.open_file(name)
        if self.segment_at(name, indexed.scanned_to if position is None else position) is not None:
            return None  # the server wrote more before the rotation
        indexed.check_end(last=False)
        if not indexed.is_rotated:
            self._check_gtids(name, following)
        indexed.release()
        return following

    def file_after(self, name: str) -> str | None:
        """Return the file that follows a file that is known to be complete; None when the file is the last one."""
        following = self.binlogs.after(name)
        if following is None:
            self.refresh()
            following = self.binlogs.after(name)
        return following

    def check_last(self, name: str) -> None:
        """Raise BinlogTruncated when ``name``, the last file, is cut and no server is writing to it."""
        self.open_file(name).check_end(last=True)

    def _check_gtids(self, name: str, following: str) -> None:
        """Raise BinlogTruncated when a file lacks GTIDs that the following file says came before.

        A file without Rotate or Stop at its end was cut, or its server crashed.
        """
        before = self.previous_gtids(following)
        have = self.previous_gtids(name)
        if before is None or have is None:
            return
        indexed = self.open_file(name)
        for segment in indexed.segments():
            add_transactions(have, segment, self.sources)
        if not have.issuperset(before):
            raise BinlogTruncated(
                f"the file ends before {before - have}, which {following} says came before it; "
                "fetch it again from the server",
                file=name,
                position=indexed.scanned_to,
            )

    def previous_gtids(self, name: str) -> GtidSet | None:
        """Return the GTIDs before a file, as its Previous_gtids or Gtid_list event says; None without such an event."""
        return previous_gtids(self.open_file(name).file)

    @property
    def generation(self) -> int:
        """A number that grows whenever the watcher sees the set grow.

        Take the number before looking for a segment. Where there is no segment, :meth:`wait` for another number.
        """
        return self._watcher.generation

    def wait(self, generation: int, timeout: float, stop: Callable[[], bool]) -> None:
        """Wait until the set has grown since ``generation``, ``stop()`` is true (see :meth:`wake`) or
        ``timeout`` seconds are over."""
        self._watcher.wait(generation, timeout, stop)

    def wake(self) -> None:
        """Make every waiting dump thread call its ``stop`` again."""
        self._watcher.wake()

    @property
    def scanned(self) -> tuple[int, int]:
        """The bytes and the events that were scanned since the start. Segments that were scanned again count once."""
        with self._lock:
            files = list(self._files.values())
        return (
            self._forgotten_bytes + sum(each.bytes_scanned for each in files),
            self._forgotten_events + sum(each.events_scanned for each in files),
        )

    def cache_status(self) -> tuple[int, int]:
        """Return the number of segments in the cache and the bytes of their columns."""
        return self._cache.status()

    def _size(self) -> tuple[int, ...]:
        """Return numbers that change when the set grows."""
        sizes = [self.binlogs.path(self.binlogs.names[-1]).stat().st_size]
        if self.binlogs.index is not None:
            index = self.binlogs.index.stat()
            sizes += [index.st_size, index.st_mtime_ns]
        return tuple(sizes)

    def close(self) -> None:
        """Stop the threads and close all files."""
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
