"""The replay of a binlog set: its transactions with the times at which they are due, and the files that grow.

A replayed set is written as a server writes its binlog. Transactions appear whole. The format description event
says "in use" until the file is complete. The index file names a file once the file exists.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from pathlib import Path

import numpy as np
import numpy.typing as npt

from dumpfilter.binlog.event_time import FIXED_TIME, WITH_TIME, told_time
from dumpfilter.binlog.events import CHECKSUM_LENGTH, HEADER_LENGTH
from dumpfilter.binlog.gtid_sources import SourceNumbers
from dumpfilter.errors import DumpfilterError
from dumpfilter.index.fileset import BinlogFile, BinlogSet
from dumpfilter.index.segment import Segment
from dumpfilter.index.subjects import Subjects
from dumpfilter.receiver.binlog_file import OpenFile

Ints = npt.NDArray[np.int64]

MICROSECONDS = 1_000_000
_BITS = 8
_READ = 1 << 20
_LONGEST_NAP = 0.5
_COMMIT_TIME_AT = 19 + 1 + 16 + 8 + 1 + 8 + 8
"""The offset of the commit time in a GTID event of MySQL 8.0.1 and later: after header, flags, UUID, number and logical
timestamps."""
_COMMIT_TIME_BYTES = 7
_TIME_BITS = (1 << 55) - 1


@dataclass(frozen=True, eq=False)
class Timetable:
    """The transactions of one binlog file: where each one ends, and when it is due."""

    file: Path
    head: int
    """The offset of the first transaction. The bytes before are written when the file is made."""
    end: Ints
    """The offset at which each transaction ends, bytes. The last one takes the events at the end of the file along."""
    due: Ints
    """The time from the begin of the replay to the moment at which the transaction is due, microseconds."""


def timetables(source: BinlogSet, *, speed: float) -> list[Timetable]:
    """Return the times at which a recording's transactions are due, at ``speed`` times their own pace.

    The clock is the commit time in MySQL's GTID events. Other binlogs only have the seconds of the events' headers. The
    transactions of one second are then spread evenly over the second.
    """
    found = list(_transactions(source))
    times = np.concatenate([one.time for one in found]) if found else np.zeros(0, np.int64)
    if not times.size:
        return [_timetable(one, one.time) for one in found]
    times = _spread(times) if np.all(times % MICROSECONDS == 0) else times
    due = np.maximum.accumulate(times)
    due = ((due - due[0]) / speed).astype(np.int64)
    splits = np.cumsum([one.time.size for one in found])[:-1]
    return [_timetable(one, part) for one, part in zip(found, np.split(due, splits), strict=True)]


def steady_timetables(source: BinlogSet, *, rate: int) -> list[Timetable]:
    """Return the times at which a set's transactions are due if the set grows by ``rate`` bits a second."""
    found, before = [], 0
    for one in _transactions(source):
        due = (before + one.end) * (_BITS * MICROSECONDS) // rate
        before += one.size
        found.append(_timetable(one, due))
    return found


@dataclass(frozen=True, eq=False)
class _File:
    path: Path
    size: int
    head: int
    end: Ints
    time: Ints


def _timetable(one: _File, due: Ints) -> Timetable:
    end = one.end.copy()
    if end.size:
        end[-1] = one.size
    return Timetable(one.path, one.head if end.size else one.size, end, due)


def _transactions(source: BinlogSet) -> Iterator[_File]:
    """Yield the files of a set with the ends and times of their transactions."""
    ends: dict[str, list[Ints]] = {name: [] for name in source.names}
    times: dict[str, list[Ints]] = {name: [] for name in source.names}
    heads: dict[str, int] = {}
    for reader, segment in source.segments(Subjects(), SourceNumbers(), verify=False):
        if not segment.txn_event.size or not segment.size.size:
            continue
        real = segment.txn_source != _BETWEEN
        last = segment.txn_event[1:] - 1
        end = (segment.offset + segment.size)[last]
        at = _times(segment, reader.data, reader.data_offset)
        if segment.continues and ends[segment.file]:
            # The transaction began in the segment before, which has its time.
            ends[segment.file][-1][-1] = end[0]
            real[0] = False
        if segment.file not in heads and real.any():
            heads[segment.file] = int(segment.offset[segment.txn_event[:-1][real][0]])
        ends[segment.file].append(end[real])
        times[segment.file].append(at[real])
    for name in source.names:
        size = source.size(name)
        empty = np.zeros(0, np.int64)
        yield _File(
            source.path(name),
            size,
            heads.get(name, size),
            np.concatenate([empty, *ends[name]]),
            np.concatenate([empty, *times[name]]),
        )


_BETWEEN = -3
"""The GTID source of events that stand between transactions."""


def _times(segment: Segment, data: npt.NDArray[np.uint8], data_offset: int) -> Ints:
    """Return the commit time of each transaction of a segment, microseconds."""
    first = segment.txn_event[:-1]
    found = segment.time[segment.txn_event[1:] - 1].astype(np.int64) * MICROSECONDS
    is_timed = np.isin(segment.type[first], list(FIXED_TIME)) & (
        segment.size[first] >= _COMMIT_TIME_AT + _COMMIT_TIME_BYTES
    )
    at = segment.offset[first][is_timed] - data_offset + _COMMIT_TIME_AT
    value = np.zeros(at.size, np.int64)
    for byte in range(_COMMIT_TIME_BYTES):
        value |= data[at + byte].astype(np.int64) << (_BITS * byte)
    value &= _TIME_BITS
    found[is_timed] = np.where(value, value, found[is_timed])
    checksum = CHECKSUM_LENGTH if segment.format_description.checksum else 0
    for number in np.flatnonzero(np.isin(segment.type[first], list(WITH_TIME - FIXED_TIME))):
        event = first[number]
        begin = int(segment.offset[event]) - data_offset
        body = data[begin + HEADER_LENGTH : begin + int(segment.size[event]) - checksum].tobytes()
        found[number] = told_time(int(segment.type[event]), body) or found[number]
    return found


def _spread(times: Ints) -> Ints:
    """Spread the transactions of each second evenly over the second.

    >>> _spread(np.array([5, 5, 6]) * 1_000_000).tolist()
    [5000000, 5500000, 6000000]
    """
    times = np.maximum.accumulate(times)
    _, first, number, count = np.unique(times, return_index=True, return_inverse=True, return_counts=True)
    return np.asarray(
        times + (np.arange(times.size) - first[number]) * MICROSECONDS // count[number], np.int64
    )


class Replay:
    """A thread that writes a binlog set into a directory, each transaction when it is due.

    The set is the files of the timetables, under their own names. :meth:`pause` and :meth:`resume` stop and go on with
    the clock.
    """

    def __init__(self, tables: Sequence[Timetable], directory: Path, index: str) -> None:
        self.index = directory / index
        self.error: Exception | None = None
        self._tables = tables
        self._directory = directory
        self._changed = threading.Condition()
        self._is_closed = False
        self._paused_at: float | None = None
        self._began = 0.0
        self._done = threading.Event()
        self._ready = threading.Event()
        self._thread = threading.Thread(target=self._run, name=f"replay {directory.name}", daemon=True)

    def start(self, *, is_paused: bool = False) -> None:
        """Begin to write. The first file and the index exist when the method returns.

        A replay that begins paused writes its first transaction after :meth:`resume`.
        """
        self._directory.mkdir(parents=True, exist_ok=True)
        self._began = time.monotonic()
        self._paused_at = self._began if is_paused else None
        self._thread.start()
        self._ready.wait()
        if self.error is not None:
            raise self.error

    @property
    def is_done(self) -> bool:
        """Whether everything has been written."""
        return self._done.is_set()

    def wait_done(self, timeout: float) -> bool:
        """Wait until everything has been written. Return whether it has. Raises the error that ended the replay."""
        done = self._done.wait(timeout)
        if self.error is not None:
            raise self.error
        return done

    def pause(self) -> None:
        """Stop the clock after the transaction that is being written."""
        with self._changed:
            if self._paused_at is None:
                self._paused_at = time.monotonic()
                self._changed.notify_all()

    def resume(self) -> None:
        """Go on where :meth:`pause` stopped."""
        with self._changed:
            if self._paused_at is not None:
                self._began += time.monotonic() - self._paused_at
                self._paused_at = None
                self._changed.notify_all()

    @property
    def is_paused(self) -> bool:
        """Whether the clock stands."""
        return self._paused_at is not None

    def close(self) -> None:
        """End the thread, and leave the rest unwritten."""
        with self._changed:
            self._is_closed = True
            self._changed.notify_all()
        if self._thread.ident is not None:
            self._thread.join()

    def _run(self) -> None:
        try:
            for table in self._tables:
                if not self._write(table):
                    return
        except (DumpfilterError, OSError) as error:
            self.error = error
        finally:
            self._ready.set()
            if not self._is_closed:
                self._done.set()

    def _write(self, table: Timetable) -> bool:
        """Write one file. Return False if the replay was closed meanwhile."""
        is_first = table is self._tables[0]
        # A server makes its next file when it has something to write, at the latest.
        if table.due.size and not is_first and not self._wait_until(int(table.due[0])):
            return False
        with BinlogFile(table.file) as source:
            head = source.read(0, source.first_event)
            made = OpenFile.begin(self._directory / source.name, head[4:], source.format_description)
            try:
                _copy(source, made, len(head), table.head)
                with open(self.index, "a") as index:
                    index.write(f"./{source.name}\n")
                self._ready.set()
                at, number = table.head, 0
                while number < table.end.size:
                    if not self._wait_until(int(table.due[number])):
                        return False
                    now = int((time.monotonic() - self._began) * MICROSECONDS)
                    ready = max(int(np.searchsorted(table.due, now, side="right")), number + 1)
                    end = int(table.end[ready - 1])
                    _copy(source, made, at, end)
                    at, number = end, ready
                made.clear_in_use()
            finally:
                made.close()
        return True

    def _wait_until(self, due: int) -> bool:
        """Wait until a time of the replay. Return False if the replay was closed meanwhile."""
        with self._changed:
            while not self._is_closed:
                left = (
                    _LONGEST_NAP
                    if self._paused_at is not None
                    else self._began + due / MICROSECONDS - time.monotonic()
                )
                if self._paused_at is None and left <= 0:
                    return True
                self._changed.wait(min(left, _LONGEST_NAP))
            return False


def _copy(source: BinlogFile, made: OpenFile, start: int, end: int) -> None:
    while start < end:
        data = source.read(start, min(end - start, _READ))
        made.append(memoryview(data))
        start += len(data)
