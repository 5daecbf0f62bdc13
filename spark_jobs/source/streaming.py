"""Streaming queries of the Spark data source ``binlog``, which read a binlog set while a server appends events.

Spark reads a stream in micro-batches, and stores the query's progress in a checkpoint. The progress is an offset
such as ``{"file": "binlog.000007", "position": 4711}``: all events before this position have been read. The position
is a transaction boundary, or 4, where a file's format description event begins.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import TypedDict

from dumpfilter.base.errors import BinlogMissing, OptionError, PositionError
from dumpfilter.index.fileset import BinlogSet, open_file
from dumpfilter.spark_jobs.ranges import (
    RANGE_SIZE,
    FileIndex,
    Range,
    ReadOptions,
    follow_xa,
    index_file,
    look_for_xa,
)
from dumpfilter.spark_jobs.source.reading import FIRST, ranges_of_file, with_names


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

    def latest(self) -> Offset:
        """Return the position (file and offset) at which the newest file's last complete transaction ends. Raises
        BinlogError if the file is damaged.
        """
        return self.forward(Offset(file=self.names[-1], position=FIRST), None)

    def starting(self, text: str) -> Offset:
        """Return the position that a user named in the option ``startingPosition``: ``earliest``, ``latest``, or
        ``file:position``.

        Raises OptionError for another notation, BinlogMissing for a file outside the set, and PositionError if no
        transaction begins there.
        """
        if text == "latest":
            return self.latest()
        if text == "earliest":
            return Offset(file=self.names[0], position=FIRST)
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
        for _, index in self._parts(start, until, limit):
            reached = Offset(file=index.name, position=index.end)
        return reached

    def ranges(
        self, start: Offset, end: Offset, range_size: int, *, for_filters: bool = False
    ) -> list[Range]:
        """Divide the events between two positions into ranges (parts of files), one for each task of a micro-batch.

        Each range has complete transactions, and ends with the transaction by which it has at least ``range_size``
        bytes. With ``for_filters``, the ranges have the data that filters need: the tables of prepared XA transactions,
        and the server's rules for comparing names. Raises BinlogError.
        """
        self._check(end)
        parts = list(self._parts(start, end, range_size=range_size))
        found = [one for begin, index in parts for one in ranges_of_file(index, begin)]
        if not (for_filters and found):
            return found
        if any(index.has_xa for _, index in parts):
            found = self._with_xa(found)
        return with_names(found, self.paths[self.names[-1]])

    def _parts(
        self, start: Offset, until: Offset | None, limit: int | None = None, range_size: int = RANGE_SIZE
    ) -> Iterator[tuple[int, FileIndex]]:
        """Yield the index of the part of each file after ``start``, as :meth:`forward` describes, with the part's
        beginning.
        """
        self._check(start)
        position, taken = start["position"], 0
        for name in self.names[self.names.index(start["file"]) :]:
            end = until["position"] if until is not None and name == until["file"] else None
            if end is not None and end <= position:
                return
            last = name == self.names[-1] or end is not None
            left = None if limit is None else limit - taken
            options = ReadOptions(range_size=range_size)
            index = index_file(
                0, self.paths[name], last=last, options=options, start=position, end=end, limit=left
            )
            yield position, index
            taken += index.end - position
            if last or index.end < index.size or (limit is not None and taken >= limit):
                return
            position = FIRST

    def _with_xa(self, ranges: list[Range]) -> list[Range]:
        """Return the ranges of a micro-batch with the tables of the XA transactions that end in them.

        If the XA PREPARE is not in the ranges, earlier files are read, newest first, for the transaction's tables.
        """
        looks = [look_for_xa(one) for one in ranges]
        _, wanted = follow_xa(ranges, looks)
        first, paths = ranges[0], list(self.paths.values())
        every = list(ranges)
        for path in reversed(paths[: paths.index(first.path) + 1]):
            if not wanted:
                break
            end = first.start if path == first.path else _size(path)
            if end > FIRST:
                every.insert(0, Range(path, FIRST, end))
                looks.insert(0, look_for_xa(every[0]))
                # An xid may be used again. Then its last transaction before the ranges counts.
                wanted -= looks[0].prepared.keys() | looks[0].ended
        return follow_xa(every, looks)[0][-len(ranges) :]

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
