"""Following a growing set: offsets, how far a micro-batch goes, and what it is cut into.

An offset is ``{"file": name, "position": offset}``: everything before it has been read. It is always a transaction
boundary; position 4 is a file's beginning, before its format description event.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import TypedDict

import numpy as np
import numpy.typing as npt
import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxBytes, SupportsTriggerAvailableNow

from dumpfilter.binlog.gtid_sources import SourceNumbers
from dumpfilter.errors import BinlogError, BinlogMissing, OptionError, PositionError
from dumpfilter.index.fileset import SegmentReader
from dumpfilter.index.subjects import Subjects
from dumpfilter.spark_jobs.ranges.files import file_name, find_set, open_file
from dumpfilter.spark_jobs.ranges.ranges import BLOCK_SIZE
from dumpfilter.spark_jobs.source.options import SourceOptions
from dumpfilter.spark_jobs.source.reading import FIRST, FileRange, read_batches
from dumpfilter.spark_jobs.source.user_errors import plainly


class Offset(TypedDict):
    """How far a stream is."""

    file: str
    position: int


class GrowingSet:
    """A set as it is now: made anew for each look at it. Raises BinlogMissing when there is none."""

    def __init__(self, source: str | list[str]) -> None:
        self.paths = {file_name(path): path for path in find_set(source)}
        self.names = list(self.paths)

    def earliest(self) -> Offset:
        """The set's beginning."""
        return Offset(file=self.names[0], position=FIRST)

    def latest(self) -> Offset:
        """After the last whole transaction."""
        return self.forward(Offset(file=self.names[-1], position=FIRST), None)

    def at(self, text: str) -> Offset:
        """``file:position``. Raises PositionError when no transaction begins there."""
        name, _, digits = text.rpartition(":")
        if not (name and digits.isascii() and digits.isdigit()):
            raise OptionError(f"option startingPosition: {text!r} is none of earliest, latest, file:position")
        offset = Offset(file=name, position=int(digits))
        self._check(offset)
        if offset["position"] != FIRST and offset["position"] not in self._boundaries(name):
            raise PositionError("no transaction begins here", file=name, position=offset["position"])
        return offset

    def forward(self, start: Offset, limit: int | None, until: Offset | None = None) -> Offset:
        """As far as there are whole transactions, or until ``limit`` bytes are taken (one transaction at least), and
        no further than ``until``. Raises BinlogError when ``start`` is not there any more, or what follows is damaged.
        """
        self._check(start)
        name, position = start["file"], start["position"]
        taken = 0
        while until is None or name != until["file"]:
            last = name == self.names[-1]
            left = None if limit is None else limit - taken
            end, complete = _whole(self.paths[name], position, left, last=last)
            taken += end - position
            if last or not complete or (limit is not None and taken >= limit):
                return Offset(file=name, position=end)
            name, position = self.names[self.names.index(name) + 1], FIRST
        left = None if limit is None else limit - taken
        if left is None or until["position"] - position <= left:
            return until
        return Offset(file=name, position=_whole(self.paths[name], position, left, last=True)[0])

    def ranges(self, start: Offset, end: Offset, range_size: int) -> list[FileRange]:
        """What is between two offsets, cut at transaction boundaries. Raises BinlogError."""
        self._check(start)
        self._check(end)
        found = []
        first, last = self.names.index(start["file"]), self.names.index(end["file"])
        for name in self.names[first : last + 1]:
            path = self.paths[name]
            at = start["position"] if name == start["file"] else FIRST
            to = end["position"] if name == end["file"] else _size(path)
            while to - at > range_size:
                cut, _ = _whole(path, at, range_size, last=True)
                cut = min(cut, to)
                found.append(FileRange(path, at, cut))
                at = cut
            if at < to:
                found.append(FileRange(path, at, to))
        return found

    def _check(self, offset: Offset) -> None:
        name, position = offset["file"], offset["position"]
        if name not in self.paths:
            raise BinlogMissing(
                f"the stream goes on in this file, which the set does not have (it has {self.names[0]} to "
                f"{self.names[-1]}): it was purged before it was read to its end, or the set is another one; "
                "start anew with another checkpoint and startingPosition",
                file=name,
                position=position,
            )
        if position > _size(self.paths[name]):
            raise PositionError(
                "the stream goes on after the file's end: it is another file of this name",
                file=name,
                position=position,
            )

    def _boundaries(self, name: str) -> set[int]:
        found: set[int] = set()
        with open_file(self.paths[name]) as file:
            found.add(file.first_event)
            reader = SegmentReader(file, Subjects(), SourceNumbers(), verify=False, statements=False)
            while (segment := reader.next()) is not None:
                found.update(_ends(segment.offset, segment.txn_event, segment.end, segment.open).tolist())
        return found


def _ends(
    offset: npt.NDArray[np.int64], first_events: npt.NDArray[np.int64], end: int, is_open: bool
) -> npt.NDArray[np.int64]:
    """Where the transactions of a segment end."""
    ends = offset[first_events[1:-1]]
    return ends if is_open else np.append(ends, end)


def _size(path: str) -> int:
    with open_file(path) as file:
        return file.size


def _whole(path: str, position: int, limit: int | None, *, last: bool) -> tuple[int, bool]:
    """Where the whole transactions from a position on end, ``limit`` bytes further at most (but after one), and whether
    that is the file's end. Raises BinlogError."""
    with open_file(path) as file:
        start = max(position, file.first_event)
        if file.size <= start:
            return start, file.size == start
        reader = SegmentReader(
            file, Subjects(), SourceNumbers(), verify=False, statements=False, segment_size=BLOCK_SIZE
        )
        reader.rewind(start)
        found = start if position < start else position
        while (segment := reader.next()) is not None:
            ends = _ends(segment.offset, segment.txn_event, segment.end, segment.open)
            if limit is not None and len(ends) and ends[-1] >= position + limit:
                within = int(np.searchsorted(ends, position + limit, "right"))
                if within:
                    found = int(ends[within - 1])
                elif found == start:
                    found = int(ends[0])
                return found, found == file.size
            if len(ends):
                found = int(ends[-1])
        reader.check_end(last=last)
        return found, found == file.size


class BinlogStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """Follows a set; Spark keeps the offsets in the query's checkpoint."""

    def __init__(self, options: SourceOptions, columns: Sequence[str]) -> None:
        self._options = options
        self._columns = tuple(columns)
        self._until: Offset | None = None

    def _set(self) -> GrowingSet:
        return GrowingSet(self._options.sources)

    @plainly
    def initialOffset(self) -> dict[str, object]:
        """Where a new query begins. Raises BinlogError, OptionError."""
        where = self._options.starting_position
        now = self._set()
        if where == "earliest":
            return dict(now.earliest())
        return dict(now.latest() if where == "latest" else now.at(where))

    def getDefaultReadLimit(self) -> ReadLimit:
        """What the option maxBytesPerTrigger says."""
        return ReadMaxBytes(self._options.bytes_per_trigger)

    @plainly
    def prepareForTriggerAvailableNow(self) -> None:
        """Go no further than the set reaches now."""
        self._until = self._set().latest()

    @plainly
    def latestOffset(self, start: Offset, limit: ReadLimit) -> dict[str, object]:  # type: ignore[override]
        """Where the next micro-batch ends. Raises BinlogError."""
        most = limit.max_bytes if isinstance(limit, ReadMaxBytes) else None
        return dict(self._set().forward(start, most, self._until))

    @plainly
    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:  # type: ignore[override]
        """What a micro-batch is cut into. Raises BinlogError."""
        return self._set().ranges(start, end, self._options.range_size)

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """The events of one part. Raises BinlogError."""
        assert isinstance(partition, FileRange)
        try:
            yield from read_batches(
                partition, self._columns, opened=self._options.opened, verify=self._options.verify
            )
        except BinlogError as error:
            raise error.with_traceback(None) from None

    def commit(self, end: Offset) -> None:  # type: ignore[override]
        """Nothing to do: the set is not ours to purge."""

    def stop(self) -> None:
        """Nothing to do: no file stays open between two looks."""
