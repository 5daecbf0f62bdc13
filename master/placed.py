"""The plan of a chunk together with its open binlog file, and the reading of the chunk's events from the file.

The dump thread plans a chunk as a list of byte ranges of a binlog file. This module reads the bytes. The encodings of a
dump (:class:`~dumpfilter.master.advance.Encoding`) make messages from them. A message is made once, as bytes, for all
slaves that get it.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Iterator
from dataclasses import dataclass, field
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from dumpfilter.binlog.gtid_events import commit_time
from dumpfilter.dump.chunk import ChunkPlan, Counts, Window, render_into
from dumpfilter.dump.cut import RANGE_PATCH
from dumpfilter.master.indexed_file import IndexedFile

_READ_COST = 16 << 10
"""The number of bytes that can be read from a file in the time of one system call.

Two byte ranges with fewer bytes between them are read by one call, together with the bytes between them.
"""

_LONGEST_READ = 8 << 20
"""The largest number of bytes that one read takes from a binlog file when byte ranges are read together."""

_COLD_BYTES = 4 << 20
"""The number of bytes after a byte that was not in the page cache that are assumed to be on the disk only, too."""

_NO_WINDOW = Window(np.empty(0, np.uint8), 0)

_scratch = threading.local()
"""The buffer of each thread into which bytes of a binlog file are read."""


class Extent(NamedTuple):
    """The part of a binlog file that the events of one chunk (message to slaves) need, from the first to the last
    needed byte.
    """

    low: int
    """The byte offset of the first needed byte."""
    high: int
    """The byte offset after the last needed byte."""
    pieces: int
    """The number of byte ranges between the two offsets that the chunk needs."""
    size: int
    """The size of these byte ranges together."""


def join(one: Extent, other: Extent) -> Extent:
    """Return the smallest part of a binlog file that contains the parts ``one`` and ``other``, and the bytes between
    them.
    """
    return Extent(
        min(one.low, other.low), max(one.high, other.high), one.pieces + other.pieces, one.size + other.size
    )


def read_window(source: IndexedFile, extent: Extent, *, cached: bool = False) -> Window | None:
    """Read the bytes from the first to the last byte of ``extent`` by one system call, and return them as a window.
    Raises BinlogError.

    An extent covers the byte ranges that a chunk needs, and bytes between them that it does not need. Return None, and
    read nothing, when it is cheaper to read each needed range by its own system call. With ``cached`` also return None
    if the bytes are not in the page cache. The window is valid until the thread calls the function again.
    """
    recent = source.recent(extent.low, extent.high)
    if recent is not None:
        return recent
    span = extent.high - extent.low
    if span > _LONGEST_READ or span - extent.size > _READ_COST * extent.pieces:
        return None
    buffer = _buffer(span)
    if not cached:
        source.read_whole(buffer, extent.low)
    elif not source.file.read_cached(buffer, extent.low):
        source.cold_until = extent.high + _COLD_BYTES
        return None
    source.check()
    return Window(buffer, extent.low)


class ToldPositions(NamedTuple):
    """The positions before and after a chunk (message to slaves), in one binlog file of the server that wrote the
    events. Slaves know only these positions.
    """

    file: str
    before: int
    """The position at which the chunk before this one ended."""
    resume_before: int
    """The last transaction boundary of which the slave knows from the chunks before."""
    end: int
    resume: int


@dataclass(eq=False, slots=True)
class PlacedPlan(ABC):
    """A planned chunk (one message to slaves): the byte ranges to send, the open binlog file, and the positions before
    and after the chunk.

    A subclass makes the messages of one format.
    """

    plan: ChunkPlan
    source: IndexedFile
    """The open binlog file from which the events are read. Another file may take its name in the meantime."""
    positions: ToldPositions
    committed_at: float | None = field(default=None, init=False)
    """The Unix time at which the chunk's first transaction was committed. None before messages are made, or if it is
    not known.
    """

    @property
    def told(self) -> tuple[str, int]:
        """The writer's binlog file and the position after the chunk (message), as slaves know them. The writer is the
        server that wrote the events.
        """
        return self.positions.file, self.positions.end

    @property
    def counts(self) -> Counts:
        """The numbers of events, bytes and transactions in the chunk (message to slaves). They are complete once
        messages have been made.
        """
        return self.plan.counts

    @property
    def reads_extent(self) -> bool:
        """Whether messages are made only from bytes of the binlog file inside :attr:`extent`, the part of the file that
        holds the events of the chunk.
        """
        return True

    @property
    def extent(self) -> Extent | None:
        """The part of the binlog file from which the messages of this chunk are made. None for a chunk that has no
        events.
        """
        return extent_of(self.plan)

    @abstractmethod
    def messages(self, chunk_size: int, *, window: Window | None = None) -> Iterator[bytes]:
        """Yield the chunk as messages for slaves. Set :attr:`committed_at`, the Unix time of the chunk's first commit.
        Raises BinlogError.

        ``chunk_size`` is the size of events above which a chunk may be split, bytes. ``window`` has bytes of the file
        that are in memory already; None for none.
        """

    def events(self, window: Window | None = None) -> memoryview:
        """Return the bytes of the chunk's events. Set :attr:`committed_at`, the Unix time of the chunk's first commit.
        Raises BinlogError.

        ``window`` has bytes of the file that are in memory already; None for none.
        """
        source, plan = self.source, self.plan
        extent, fd = extent_of(plan), source.file.format_description
        if extent is None:
            return memoryview(b"")
        if len(plan.ranges) == 1 and not plan.ranges[0, RANGE_PATCH]:
            low, high = extent.low, extent.high
            window = window or source.recent(low, high)
            if window is not None and window.has(low, high):
                events = window.data[low - window.offset :][: high - low].data
            else:
                events = memoryview(source.read(low, high - low))
                source.check()
        else:
            # Byte ranges near one another are read together with the bytes between them, which saves system calls.
            data, offset = window or read_window(source, extent) or _NO_WINDOW
            out = np.empty(plan.size, np.uint8)
            if render_into(out, plan, data, offset, source.read, fd):
                source.check()
            events = out.data
        self.committed_at = commit_time(events, checksum=fd.checksum)
        return events


def extent_of(plan: ChunkPlan) -> Extent | None:
    """Return the part of the binlog file that holds the events of a chunk (message to slaves). ``plan`` lists the byte
    ranges of these events. Return None for a chunk without events.
    """
    if not plan.size:
        return None
    ranges = plan.ranges
    if len(ranges) == 1:
        low, size, _ = ranges[0].tolist()
        return Extent(low, low + size, 1, size)
    low, high = int(ranges[:, 0].min()), int((ranges[:, 0] + ranges[:, 1]).max())
    return Extent(low, high, len(ranges), plan.size)


def _buffer(size: int) -> npt.NDArray[np.uint8]:
    """Return the first ``size`` bytes of the present thread's buffer, which the next call in this thread reuses."""
    kept: npt.NDArray[np.uint8] | None = getattr(_scratch, "buffer", None)
    if kept is None or kept.size < size:
        kept = _scratch.buffer = np.empty(max(size, 1 << 20), np.uint8)
    return kept[:size]
