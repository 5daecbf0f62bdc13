"""Streaming queries of the Spark data source ``binlog``, which read a binlog set while a server appends events.

Spark reads a stream in micro-batches, and stores the query's progress in a checkpoint. The progress is an offset
such as ``{"file": "binlog.000007", "position": 4711}``: all events before this position have been read. The position
is a transaction boundary, or 4, where a file's format description event begins.

When a Python data source raises an exception, Spark shows the user the whole Python traceback. The functions
:func:`without_traceback` and :func:`short` remove it from expected errors, such as a missing file.
"""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterator, Sequence
from itertools import pairwise
from typing import ParamSpec, TypedDict, TypeVar

import pyarrow as pa
from pyspark.sql.datasource import DataSourceStreamReader, InputPartition
from pyspark.sql.streaming.datasource import ReadLimit, ReadMaxBytes, SupportsTriggerAvailableNow

from dumpfilter.base.errors import BinlogError, BinlogMissing, DumpfilterError, OptionError, PositionError
from dumpfilter.binlog.gtid_events import Xid
from dumpfilter.index.fileset import BinlogSet, open_file
from dumpfilter.spark_jobs.ranges.range_index import (
    RANGE_SIZE,
    FileIndex,
    ReadOptions,
    follow_xa,
    index_file,
    index_part,
    look_for_xa,
)
from dumpfilter.spark_jobs.ranges.ranges import Range
from dumpfilter.spark_jobs.source.options import SourceOptions
from dumpfilter.spark_jobs.source.reading import FIRST, read_and_tell, with_names

P = ParamSpec("P")
R = TypeVar("R")

_IN_WORKER = "PYTHON_WORKER_FACTORY_SECRET"
"""An environment variable that Spark sets only in its Python worker processes."""

_HIDE_TRACEBACK = "SPARK_HIDE_TRACEBACK"
"""The environment variable that makes a Python worker send exceptions to Spark without tracebacks."""


def without_traceback(function: Callable[P, R]) -> Callable[P, R]:
    """Wrap a method that Spark calls, so that a DumpfilterError raised by it carries no traceback.

    Spark then shows the user only the error's message.
    """

    @functools.wraps(function)
    def called(*args: P.args, **kwargs: P.kwargs) -> R:
        try:
            return function(*args, **kwargs)
        except DumpfilterError as error:
            raise short(error) from None

    return called


def short(error: DumpfilterError) -> DumpfilterError:
    """Return ``error`` without its traceback. The caller must raise it next.

    In a Python worker of Spark, this also tells Spark to send no traceback. Such a process ends with the error, so
    no other exception is affected.
    """
    if _IN_WORKER in os.environ:
        os.environ[_HIDE_TRACEBACK] = "1"
    return error.with_traceback(None)


class Offset(TypedDict):
    """The progress of a streaming query, which Spark stores in its checkpoint. It is a file name, and the byte position
    before which all events have been read.
    """

    file: str
    position: int


class GrowingSet:
    """A binlog set to which a server may still append events and files, with the positions for a streaming query.

    The list of files is read when the object is made, so only a new object sees newer files. Raises BinlogMissing if
    there is no set.
    """

    def __init__(self, source: str | list[str]) -> None:
        found = BinlogSet.open(source)
        self.names = found.names
        self.paths = dict(zip(self.names, found.addresses, strict=True))

    def earliest(self) -> Offset:
        """Return the position of the first event in the oldest file, at which a streaming query can begin."""
        return Offset(file=self.names[0], position=FIRST)

    def latest(self) -> Offset:
        """Return the position at which the newest file's last complete transaction ends. Raises BinlogError if the file
        is damaged.
        """
        return self.forward(Offset(file=self.names[-1], position=FIRST), None)

    def at(self, text: str) -> Offset:
        """Return the position that a user wrote as ``file:position`` in the option ``startingPosition``.

        Raises OptionError for another notation, BinlogMissing for a file outside the set, and PositionError if no
        transaction begins there.
        """
        name, _, digits = text.rpartition(":")
        if not (name and digits.isascii() and digits.isdigit()):
            raise OptionError(f"option startingPosition: {text!r} is none of earliest, latest, file:position")
        offset = Offset(file=name, position=int(digits))
        self._check(offset)
        index = index_file(0, self.paths[name], last=True, options=ReadOptions(range_size=1))
        if offset["position"] not in (FIRST, FIRST + len(index.format_description), *index.bounds):
            raise PositionError("no transaction begins here", file=name, position=offset["position"])
        return offset

    def forward(self, start: Offset, limit: int | None, until: Offset | None = None) -> Offset:
        """Return the position at which a micro-batch that begins at ``start`` ends.

        A micro-batch consists of complete transactions. It has at most ``limit`` bytes (None: no limit), but at
        least one transaction if there is any. It ends at ``until`` at the latest (None: the end of the set). Raises
        BinlogError if the file of ``start`` is no longer in the set, or if events after ``start`` are damaged.
        """
        reached = start
        for name, index in self._parts(start, until, limit):
            reached = Offset(file=name, position=index.end)
        return reached

    def ranges(self, start: Offset, end: Offset, range_size: int) -> tuple[list[Range], bool]:
        """Divide the events between two positions into ranges, one for each task of a micro-batch. Return the ranges,
        and whether they may contain XA COMMIT or XA ROLLBACK.

        Each range has complete transactions, and ends with the transaction by which it has at least ``range_size``
        bytes. Raises BinlogError.
        """
        self._check(end)
        parts = [index for _, index in self._parts(start, end, range_size=range_size)]
        found = [Range(one.path, *bounds) for one in parts for bounds in pairwise(one.bounds)]
        return found, any(one.has_xa for one in parts)

    def _parts(
        self, start: Offset, until: Offset | None, limit: int | None = None, range_size: int = RANGE_SIZE
    ) -> Iterator[tuple[str, FileIndex]]:
        """Yield the name and the index of the part of each file after ``start``, as :meth:`forward` describes."""
        self._check(start)
        name, position, taken = start["file"], start["position"], 0
        while True:
            end = until["position"] if until is not None and name == until["file"] else None
            if end is not None and end <= position:
                return
            last = name == self.names[-1]
            left = None if limit is None else limit - taken
            index = index_part(
                self.paths[name],
                position,
                last=last or end is not None,
                range_size=range_size,
                end=end,
                limit=left,
            )
            yield name, index
            taken += index.end - position
            if last or end is not None or index.end < index.size or (limit is not None and taken >= limit):
                return
            name, position = self.names[self.names.index(name) + 1], FIRST

    def for_filters(self, ranges: Sequence[Range], has_xa: bool) -> list[Range]:
        """Return the ranges (parts of files) of a micro-batch, completed by data that filters need. These are the
        tables of prepared XA transactions, and the server's rules for comparing names.

        ``has_xa`` tells whether ``ranges`` may contain XA COMMIT or XA ROLLBACK. If the XA PREPARE is not in them,
        earlier files are read, newest first, for the transaction's tables. Raises BinlogError.
        """
        paths = list(self.paths.values())
        looks = [look_for_xa(one) for one in ranges] if has_xa else []
        wanted: set[Xid] = set()
        prepared: set[Xid] = set()
        for look in looks:
            wanted |= look.ended - prepared
            prepared = (prepared - look.ended) | look.prepared.keys()
        first = ranges[0]
        all_ranges = list(ranges)
        for path in reversed(paths[: paths.index(first.path) + 1]):
            if not wanted:
                break
            end = first.start if path == first.path else _size(path)
            if end > FIRST:
                all_ranges.insert(0, Range(path, FIRST, end))
                looks.insert(0, look_for_xa(all_ranges[0]))
                # An xid may be used again. Then its last transaction before the ranges counts.
                wanted -= looks[0].prepared.keys() | looks[0].ended
        if looks:
            all_ranges, _ = follow_xa(all_ranges, looks)
        return with_names(all_ranges[-len(ranges) :], paths[-1])

    def _check(self, offset: Offset) -> None:
        name, position = offset["file"], offset["position"]
        if name not in self.paths:
            raise BinlogMissing(
                f"the stream continues in this file, but the set has only {self.names[0]} to {self.names[-1]}: "
                "the file was purged before it was read to its end, or the set is another one; "
                "start anew with another checkpoint and startingPosition",
                file=name,
                position=position,
            )
        if position > _size(self.paths[name]):
            raise PositionError(
                "the stream continues after the file's end: it is another file of this name; "
                "start anew with another checkpoint and startingPosition",
                file=name,
                position=position,
            )


def _size(path: str) -> int:
    with open_file(path) as file:
        return file.size


class BinlogStreamReader(DataSourceStreamReader, SupportsTriggerAvailableNow):
    """The reader that Spark uses for a streaming query of the data source ``binlog``.

    Spark asks it for the position at which each micro-batch ends, and stores the positions in the query's checkpoint.
    """

    def __init__(self, options: SourceOptions, columns: Sequence[str]) -> None:
        self._options = options
        self._columns = tuple(columns)
        self._until: Offset | None = None

    def _set(self) -> GrowingSet:
        return GrowingSet(self._options.sources)

    @without_traceback
    def initialOffset(self) -> dict[str, object]:
        """Return the position at which a query without a checkpoint begins, according to the option
        ``startingPosition``.

        Raises BinlogError and OptionError.
        """
        where = self._options.starting_position
        now = self._set()
        if where == "earliest":
            return dict(now.earliest())
        return dict(now.latest() if where == "latest" else now.at(where))

    def getDefaultReadLimit(self) -> ReadLimit:
        """Return the maximum size of a micro-batch, bytes, set by the option ``maxBytesPerTrigger``."""
        return ReadMaxBytes(self._options.bytes_per_trigger)

    @without_traceback
    def prepareForTriggerAvailableNow(self) -> None:
        """Make the query end at the current end of the binlog set.

        Spark calls this method once for a query with ``trigger(availableNow=True)``, which reads all present events
        and then stops.
        """
        self._until = self._set().latest()

    @without_traceback
    def latestOffset(self, start: Offset, limit: ReadLimit) -> dict[str, object]:  # type: ignore[override]
        """Return the position (file and offset) at which the micro-batch that begins at ``start`` ends. ``limit`` is
        its maximum size. Raises BinlogError.
        """
        most = limit.max_bytes if isinstance(limit, ReadMaxBytes) else None
        return dict(self._set().forward(start, most, self._until))

    @without_traceback
    def partitions(self, start: Offset, end: Offset) -> Sequence[InputPartition]:  # type: ignore[override]
        """Return the parts of files between the positions ``start`` and ``end``, one for each Spark task of a
        micro-batch. Raises BinlogError.
        """
        now = self._set()
        found, has_xa = now.ranges(start, end, self._options.range_size)
        if self._options.definitions and found:
            found = now.for_filters(found, has_xa)
        return [InputPartition(one) for one in found]

    def read(self, partition: InputPartition) -> Iterator[pa.RecordBatch]:
        """Yield the events of one part of a micro-batch, which :meth:`partitions` returned, as Arrow batches. Spark
        calls this method in a task. Raises BinlogError.
        """
        try:
            yield from read_and_tell(partition.value, self._options, self._columns)
        except BinlogError as error:
            raise short(error) from None

    def commit(self, end: Offset) -> None:  # type: ignore[override]
        """Do nothing after Spark has processed all events before ``end``.

        Another data source might delete these events, but only the server purges binlogs.
        """

    def stop(self) -> None:
        """Do nothing at the end of the query, because the reader keeps no file open between calls."""
