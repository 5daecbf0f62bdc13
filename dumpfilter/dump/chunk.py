"""A chunk of the stream: its plan, its counts and its bytes."""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from dumpfilter.binlog.events import HEADER_LENGTH, STMT_END_F
from dumpfilter.binlog.format import FormatDescription
from dumpfilter.binlog.gtid_sources import SourceKey
from dumpfilter.dump import _chunk_kernels as K
from dumpfilter.dump.decide import ADD_STATEMENT_END, RANGE_OFFSET, RANGE_PATCH, RANGE_SIZE, REPLACED
from dumpfilter.filter.hits import Hits

DEFAULT_CHUNK_SIZE = 256 << 10
"""Bytes of events in a chunk. The size is large enough to make gRPC's cost for each message invisible."""

WHOLE_SEGMENT = 1 << 40
"""A chunk size that no segment reaches. A dump thread with this size makes one chunk from each segment."""

GtidRuns = npt.NDArray[np.int64]
"""Runs of consecutive GTIDs, of shape (n, 3): the number of the GTID source, the first GTID and the last GTID."""

ReadAt = Callable[[int, int], bytes]
"""A function ``read(offset, length)`` that reads a binlog file."""


@dataclass(slots=True)
class Counts:
    """The events, bytes and transactions of a dump thread. At a transaction boundary, read = sent + dropped."""

    events_read: int = 0
    events_sent: int = 0
    events_dropped: int = 0
    bytes_read: int = 0
    bytes_sent: int = 0
    bytes_dropped: int = 0
    events_undecided: int = 0
    transactions_read: int = 0
    transactions_dropped: int = 0

    def add(self, other: Counts) -> None:
        """Add the figures of ``other`` to these."""
        for name in self.__slots__:
            setattr(self, name, getattr(self, name) + getattr(other, name))


@dataclass(slots=True)
class ChunkPlan:
    """A chunk before its bytes are read. Offsets are offsets in ``file``, bytes."""

    file: str
    ranges: npt.NDArray[np.int64]
    """The byte ranges, of shape (n, 3): offset, size and patch (:data:`~dumpfilter.dump.decide.RANGE_PATCH`)."""
    end: int
    resume: int
    """The last transaction boundary up to ``end``. It lies in an earlier chunk if this chunk has none."""
    resume_bytes: int
    """The chunk's bytes before ``resume``; 0 if the chunk lies inside a transaction."""
    completed: GtidRuns
    """The GTIDs of the transactions that the chunk completes."""
    empty: GtidRuns
    """The GTIDs among ``completed`` of transactions that the master dropped."""
    counts: Counts = field(default_factory=Counts)
    replaced: Mapping[int, bytes] = field(default_factory=dict)
    """Events that are sent in another form, by offset: compressed transactions of which the master drops a part."""
    hits: Hits = field(default_factory=Counter)
    """The hits of the slave's rules by events that the master drops.

    The hits are those of the transactions between the resume point of the chunk before and ``resume``. Transactions
    that the slave has already, or whose origin the slave does not want, have no hits, because no slave's filter sees
    them.
    """

    @property
    def size(self) -> int:
        """Bytes of events."""
        return self.counts.bytes_sent

    def absorb(self, later: ChunkPlan) -> bool:
        """Add the next plan to this one if this one has nothing to send. Return whether the plan was added."""
        if self.size or later.file != self.file:
            return False
        self.ranges, self.replaced = later.ranges, later.replaced
        self.end, self.resume, self.resume_bytes = later.end, later.resume, later.resume_bytes
        self.completed = np.concatenate([self.completed, later.completed])
        self.empty = np.concatenate([self.empty, later.empty])
        self.counts.add(later.counts)
        self.hits.update(later.hits)
        return True


@dataclass(slots=True)
class ReadyPlan(ChunkPlan):
    """A chunk whose bytes have been read from elsewhere, for example from a split."""

    events: bytes = b""
    keys: Sequence[SourceKey] = ()
    """The GTID sources, by the numbers in ``completed`` and ``empty``."""


def gtid_runs(
    sources: npt.NDArray[np.int32],
    numbers: npt.NDArray[np.int64],
    is_kept: npt.NDArray[np.bool_],
    *,
    only_dropped: bool,
) -> GtidRuns:
    """Return the GTIDs of transactions as runs, in the transactions' order.

    A negative source marks a transaction without a GTID. With ``only_dropped``, return the GTIDs of transactions that
    are not kept.
    """
    out = np.empty((len(sources), 3), np.int64)
    return out[: K.gtid_runs(sources, numbers, is_kept, only_dropped, out)]


def render(
    plan: ChunkPlan,
    data: bytes | memoryview | npt.NDArray[np.uint8],
    data_offset: int,
    read: ReadAt,
    fd: FormatDescription,
) -> bytes:
    """Return the bytes of a chunk.

    ``data`` holds a part of the file, from ``data_offset`` on. Ranges outside of this part are read with ``read``:
    events that were buffered in an earlier segment.
    """
    if len(plan.ranges) == 1 and not plan.ranges[0, RANGE_PATCH]:
        start = int(plan.ranges[0, RANGE_OFFSET]) - data_offset
        size = int(plan.ranges[0, RANGE_SIZE])
        if start >= 0 and start + size <= len(data):
            is_whole = start == 0 and size == len(data)
            return data if is_whole and isinstance(data, bytes) else bytes(data[start : start + size])
    out = np.empty(int(plan.ranges[:, RANGE_SIZE].sum()), np.uint8)
    render_into(out, plan, data, data_offset, read, fd)
    return out.tobytes()


def render_into(
    out: npt.NDArray[np.uint8],
    plan: ChunkPlan,
    data: bytes | memoryview | npt.NDArray[np.uint8],
    data_offset: int,
    read: ReadAt,
    fd: FormatDescription,
) -> None:
    """Write the bytes of a chunk into ``out``, an array of the ranges' size. The parameters are those of
    :func:`render`."""
    ranges = np.ascontiguousarray(plan.ranges)  # numba compiles a function once for each memory layout
    if not len(ranges):
        return
    outside = K.gather(ranges, np.frombuffer(data, np.uint8), data_offset, out)
    if not outside and not ranges[:, RANGE_PATCH].any():
        return
    view = out.data
    at = 0
    for offset, size, patch in ranges.tolist():
        piece = view[at : at + size]
        at += size
        if patch == REPLACED:
            piece[:] = plan.replaced[offset]
            continue
        start = offset - data_offset
        if outside and not (start >= 0 and start + size <= len(data)):
            piece[:] = read(offset, size)
        if patch == ADD_STATEMENT_END:
            piece[:] = with_statement_end(piece, fd)


def with_statement_end(event: bytes | memoryview, fd: FormatDescription) -> bytes:
    """Return a rows event with STMT_END_F set and with the checksum that belongs to it."""
    changed = bytearray(event)
    flags = HEADER_LENGTH + (4 if fd.post_header_length(changed[4]) == 6 else 6)
    changed[flags] |= STMT_END_F
    if fd.checksum:
        changed[-4:] = zlib.crc32(memoryview(changed)[:-4]).to_bytes(4, "little")
    return bytes(changed)
