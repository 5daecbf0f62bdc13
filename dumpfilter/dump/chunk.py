"""Chunks (the messages of the stream to a slave): the plan that lists a chunk's byte ranges and gaps, and the chunk's
bytes.

A slave gets no event of a transaction that the master drops whole. The slave still needs the transaction's GTID, the
position after the transaction, and the hits (matches of filter rules) of the dropped events. A gap holds all three for
a run of consecutive dropped transactions. A gap also says before which byte of the chunk's events it lies, so that the
slave knows the GTID set after each transaction that it applies.

Events are also dropped inside a transaction that is sent in part. Their hits are in a gap without an end position,
which stands before or inside this transaction. Such a gap moves no position.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Hashable, Mapping
from dataclasses import dataclass, field, replace
from operator import attrgetter
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from dumpfilter.binlog.events import HEADER_LENGTH, STMT_END_F, seal
from dumpfilter.binlog.format import FormatDescription
from dumpfilter.dump import cut as K
from dumpfilter.dump.cut import ADD_STATEMENT_END, RANGE_OFFSET, RANGE_PATCH, RANGE_SIZE, REPLACED
from dumpfilter.filter.rules import SLAVE_RULE_KINDS, Hits
from dumpfilter.index.segment import NONE_TOLD, Segment

Integers = npt.NDArray[np.int64]


@dataclass(slots=True, eq=False)
class Gaps:
    """The gaps of one chunk (a message to a slave). A gap stands for consecutive transactions that the master dropped
    at one position in the chunk. A gap has the transactions' GTIDs, the hits (matches of filter rules) of their events,
    and the binlog position after them. A gap for no transaction only has hits of events that are dropped inside the
    next transaction.

    The fields are never changed. The class is not frozen, because making a frozen one takes three times as long.
    """

    row: Integers
    """One row for each gap (run of dropped transactions), int64 of shape (n, 5), with the columns ``G_...`` of
    :mod:`dumpfilter.dump.cut`.
    """
    runs: Integers
    """The GTIDs of the dropped transactions, int64 of shape (m, 3).

    The columns are the number of the GTID source (such as a server UUID), the first and the last transaction number of
    a run.
    """
    hits: Integers
    """The hits (matches of filter rules) of dropped events, int64 of shape (k, 2): the index of the kind of rule in
    ``SLAVE_RULE_KINDS``, and the count.
    """

    def __len__(self) -> int:
        return len(self.row)

    def of_writer(self, segment: Segment) -> Gaps:
        """Return a copy whose column ``G_END`` has positions in the binlog of the server that wrote the events, instead
        of byte offsets in a slave's relay log.

        A gap stands for consecutive transactions that the master dropped, and ``G_END`` is the position after them.
        ``segment`` is the part of the relay log in which the gaps lie. If ``segment`` is a part of a server's own
        binlog, the gaps are returned unchanged.
        """
        if segment.position is None or not len(self):
            return self
        end = self.row[:, K.G_END]
        return self._with(K.G_END, np.where(end == K.OF_NEXT, K.OF_NEXT, segment.positions_of(end)))

    def not_before(self, offset: int) -> Gaps:
        """Return a copy for a message that leaves out the first ``offset`` bytes of its events. Every gap before that
        byte is moved to it. A gap stands for consecutive transactions that the master dropped.

        The master leaves these bytes out because the slave has kept them from an interrupted stream. The slave has not
        received the gaps among them, so they must still be sent.
        """
        return self._with(K.G_OFFSET, np.maximum(self.row[:, K.G_OFFSET], offset)) if offset else self

    def _with(self, column: int, values: Integers) -> Gaps:
        row = self.row.copy()
        row[:, column] = values
        return replace(self, row=row)

    def between(self, begin: int, end: int) -> Gaps:
        """Return the gaps that lie from byte ``begin`` up to, but without, byte ``end`` of the message's events, so
        that a large chunk can be split into several messages. Offsets of the result count from ``begin``. A gap stands
        for consecutive transactions that the master dropped.
        """
        if not begin and self.row[-1, K.G_OFFSET] < end:
            return self
        first, stop = np.searchsorted(self.row[:, K.G_OFFSET], [begin, end]).tolist()
        before = [0] * K.GAP_COLUMNS
        before[K.G_OFFSET] = begin
        runs = hits = 0
        if first:
            runs, hits = before[K.G_RUNS_UNTIL :] = self.row[first - 1, K.G_RUNS_UNTIL :].tolist()
        row = self.row[first:stop] - before
        more_runs, more_hits = row[-1, K.G_RUNS_UNTIL :].tolist() if first < stop else (0, 0)
        return Gaps(row, self.runs[runs : runs + more_runs], self.hits[hits : hits + more_hits])


NO_GAPS = Gaps(np.empty((0, K.GAP_COLUMNS), np.int64), np.empty((0, 3), np.int64), np.empty((0, 2), np.int64))
"""The gaps (runs of dropped transactions) of a chunk (message to a slave) in which the master drops nothing: none."""


DEFAULT_CHUNK_SIZE = 256 << 10
"""The bytes of events after which a chunk (one message to a slave) ends. With smaller messages, gRPC's cost for each
message would be noticeable.
"""

WHOLE_SEGMENT = 1 << 40
"""A chunk size larger than any segment (part of a binlog file), bytes. With it a dump thread makes one chunk (message
to a slave) from each segment.
"""

GtidRuns = npt.NDArray[np.int64]
"""Runs of consecutive GTIDs, int64 of shape (n, 3).

The columns are the number of the GTID source (a server UUID, or MariaDB's domain and server id), and the first and the
last transaction number of the run.
"""

ReadAt = Callable[[int, int], bytes]
"""A function ``read(offset, length)`` that returns bytes of a binlog file."""


def no_file(offset: int, length: int) -> bytes:
    """Raise AssertionError. This function is a :data:`ReadAt` for callers that never have to read a file, because all
    bytes are in memory or no file has begun.
    """
    raise AssertionError("there is no file to read")


@dataclass(slots=True)
class Counts:
    """The events, bytes and transactions that a dump thread (the master's stream to one slave) has read, sent and
    dropped.

    At a transaction boundary, read = sent + dropped. Inside a transaction, events that wait for a decision are not
    counted yet. Transactions that the slave already has are never counted. ``bytes_gtid`` counts separately the
    stand-ins (empty transactions for dropped ones) that a real replica gets.
    """

    events_read: int = 0
    events_sent: int = 0
    events_dropped: int = 0
    bytes_read: int = 0
    bytes_sent: int = 0
    bytes_dropped: int = 0
    events_undecided: int = 0
    transactions_read: int = 0
    transactions_dropped: int = 0
    bytes_gtid: int = 0
    """The bytes of the stand-ins (empty transactions with the GTIDs of dropped ones) that a real replica gets.

    These bytes are neither read, sent nor dropped. A dump thread leaves this count 0, because only the messages for a
    real replica hold stand-ins.
    """

    def add(self, other: Counts) -> None:
        # A master adds counts for each message to each slave. A loop over the names takes ten times as long.
        self.events_read += other.events_read
        self.events_sent += other.events_sent
        self.events_dropped += other.events_dropped
        self.bytes_read += other.bytes_read
        self.bytes_sent += other.bytes_sent
        self.bytes_dropped += other.bytes_dropped
        self.events_undecided += other.events_undecided
        self.transactions_read += other.transactions_read
        self.transactions_dropped += other.transactions_dropped
        self.bytes_gtid += other.bytes_gtid


class Reported(NamedTuple):
    """The GTIDs of the transactions in one segment (a part of a binlog file) that the slave does not have yet.

    The master reports these GTIDs to the slave even for dropped transactions, so that the slave's GTID set has them.
    """

    source: npt.NDArray[np.int32]
    """For each transaction, the number that stands for the GTID source (such as a server UUID). The number is negative
    for a transaction without a GTID, or whose GTID the slave has.
    """
    told: npt.NDArray[np.int64]
    """The runs of consecutive GTIDs of transactions that an earlier master dropped, one in each row. The columns are
    those of :attr:`Segment.dropped <dumpfilter.index.segment.Segment.dropped>`, such as TOLD_FIRST and TOLD_LAST.
    """


NOTHING_REPORTED = Reported(np.empty(0, np.int32), NONE_TOLD)
_COUNTS = attrgetter(*Counts.__slots__)


@dataclass(slots=True)
class ChunkPlan:
    """The description of a chunk (one message to a slave): the byte ranges to send, and the positions, GTIDs and counts
    that belong to the message. The bytes are read later, by :func:`render`.

    All offsets are byte offsets in the binlog file ``file``. The chunk covers the file up to ``end``.
    """

    file: str
    ranges: npt.NDArray[np.int64]
    """The byte ranges of ``file`` to send, int64 of shape (n, 3): offset, size, and how to change the bytes.

    The third column is 0 for unchanged bytes, 1 for a rows event that gets STMT_END_F, and 2 for an event that
    ``replaced`` holds.
    """
    end: int
    resume: int
    """The last transaction boundary at or before the end of the chunk (message to the slave), a byte offset in
    ``file``. A broken stream can begin again there.

    If no transaction ends in this chunk, the boundary lies in an earlier chunk.
    """
    resume_bytes: int
    """The number of bytes of this chunk (message to the slave) that lie before ``resume``, the last transaction
    boundary. 0 if no transaction ends in this chunk.
    """
    completed: GtidRuns
    """The GTIDs of the transactions that end in this chunk (message to the slave), sent or dropped. The slave adds them
    to its GTID set.
    """
    gaps: Gaps = NO_GAPS
    """The gaps of the chunk (message to the slave). A gap has the position of dropped transactions in the chunk, their
    GTIDs, their end position in the binlog, and their rule uses.
    """
    counts: Counts = field(default_factory=Counts)
    reported: Reported = NOTHING_REPORTED
    """The GTIDs that the slave lacks, of all transactions in the segment (the part of the binlog file from which the
    chunk, a message, is made).
    """
    replaced: Mapping[int, bytes] = field(default_factory=dict)
    """The new bytes of changed events, by the event's offset in ``file``. The master changes a compressed transaction
    when it drops a part of the content."""

    @property
    def hits(self) -> Hits:
        """A mapping from each kind of filter rule to the number of its hits that this chunk (a message to a slave)
        reports. A hit is a match of an event that the master dropped with a rule of the slave's filter.

        The slave adds these hits to ``performance_schema.replication_applier_filters.COUNTER``. The hits belong to the
        transactions between the previous chunk's resume point and this chunk's. A resume point is a transaction
        boundary at which a broken stream can begin again.

        Hits in transactions that the slave already has, or of servers that the slave ignores, are not counted. An
        applier would not evaluate its rules for these transactions either.
        """
        counts: Hits = Counter()
        for kind, count in self.gaps.hits.tolist():
            counts[SLAVE_RULE_KINDS[kind]] += count
        return counts

    @property
    def size(self) -> int:
        """The number of bytes of events in the chunk (the message to a slave)."""
        return self.counts.bytes_sent

    @property
    def only_range(self) -> tuple[int, int] | None:
        """The offset and the size, in bytes, of the part of the file that is the whole chunk (message to a slave),
        without a change. None for a chunk of several byte ranges, or with changed events.
        """
        if len(self.ranges) != 1 or self.ranges[0, RANGE_PATCH]:
            return None
        return int(self.ranges[0, RANGE_OFFSET]), int(self.ranges[0, RANGE_SIZE])

    @property
    def placed(self) -> npt.NDArray[np.int64]:
        """The byte ranges of the file that the chunk (the message to a slave) needs, int64 of shape (n, 3). The columns
        are the offset in the file, the size, and the offset in the chunk's events.

        The ranges lack the events whose bytes the master changes, and whose new bytes are in :attr:`replaced`.
        """
        found = np.array(self.ranges, order="C")
        found[:1, RANGE_PATCH] = 0
        np.cumsum(found[:-1, RANGE_SIZE], out=found[1:, RANGE_PATCH])
        return found[self.ranges[:, RANGE_PATCH] != REPLACED] if self.replaced else found

    @property
    def arrays(self) -> tuple[Integers, ...]:
        """The arrays of this plan that no other chunk (message to a slave) shares: the byte ranges, the completed
        GTIDs, and the gaps. A caller can add up their memory or compare them.
        """
        return self.ranges, self.completed, self.gaps.row, self.gaps.runs, self.gaps.hits

    @property
    def outcome(self) -> Hashable:
        """A hashable value by which plans (descriptions of messages) of one file are compared. Plans with equal values
        describe the same message to a slave.

        The value is None for a plan with changed events, because their bytes are not compared.
        """
        if self.replaced:
            return None
        counts = _COUNTS(self.counts)
        return self.end, self.resume, self.resume_bytes, counts, *(array.tobytes() for array in self.arrays)


def holds(ranges: npt.NDArray[np.int64], offset: npt.NDArray[np.int64]) -> npt.NDArray[np.bool_]:
    """Return for each event whether it lies in one of the byte ranges that are sent, bool of shape (number of events,).

    ``ranges`` are the rows of :attr:`ChunkPlan.ranges` (offset, size and change) of one or more plans, in ascending
    order. A plan describes a message to a slave. ``offset`` are the events' byte offsets in the file.
    """
    start, size, patch = ranges.T
    # An event that is sent in another form has a byte range for itself.
    end = start + np.where(patch == REPLACED, 1, size)
    found: npt.NDArray[np.bool_] = np.searchsorted(start, offset, "right") > np.searchsorted(
        end, offset, "right"
    )
    return found


MessageBytes = bytes | memoryview
"""The bytes of a message to a slave, or of the events in it. A memoryview shows bytes that a scan has read."""


class Window(NamedTuple):
    """Consecutive bytes of a binlog file that are in memory already. A caller then need not read these bytes from the
    file.
    """

    data: npt.NDArray[np.uint8]
    offset: int
    """The byte offset in the binlog file of the first byte of ``data``."""

    def has(self, low: int, high: int) -> bool:
        """Tell whether the window (consecutive bytes of a binlog file in memory) has all bytes from the file offset
        ``low`` up to ``high``.
        """
        return self.offset <= low and high <= self.offset + len(self.data)


def render(
    plan: ChunkPlan,
    data: bytes | memoryview | npt.NDArray[np.uint8],
    data_offset: int,
    read: ReadAt,
    fd: FormatDescription,
) -> bytes:
    """Return the bytes that the plan of a chunk (a message to a slave) describes, ready to be sent.

    ``data`` holds the part of the binlog file that begins at byte offset ``data_offset``. Byte ranges of the plan that
    lie outside of ``data``, such as the first events of a transaction that began earlier, are read with ``read``.
    ``fd`` is the file's format description event.
    """
    if plan.only_range is not None:
        offset, size = plan.only_range
        start = offset - data_offset
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
    """Write the bytes that the plan of a chunk (a message to a slave) describes into ``out``, an array of exactly that
    many bytes.

    ``data`` holds the part of the binlog file that begins at byte offset ``data_offset``. Byte ranges of the plan that
    lie outside of ``data``, such as the first events of a transaction that began earlier, are read with ``read``.
    ``fd`` is the file's format description event.
    """
    placed = plan.placed
    if len(placed) and K.gather(placed, np.frombuffer(data, np.uint8), data_offset, out):
        for offset, size, at in placed.tolist():
            if not data_offset <= offset <= data_offset + len(data) - size:
                out.data[at : at + size] = read(offset, size)
    change(out, plan, fd)


def change(out: npt.NDArray[np.uint8], plan: ChunkPlan, fd: FormatDescription) -> None:
    """Change the bytes in ``out`` as the plan of a chunk (a message to a slave) says. A rows event may get STMT_END_F,
    and a compressed transaction that is sent in part gets its new bytes.

    ``out`` has the bytes of all byte ranges of the plan, one after another. ``fd`` is the file's format description
    event.
    """
    if not plan.ranges[:, RANGE_PATCH].any():
        return
    at = 0
    for offset, size, patch in plan.ranges.tolist():
        piece = out.data[at : at + size]
        at += size
        if patch == REPLACED:
            piece[:] = plan.replaced[offset]
        elif patch == ADD_STATEMENT_END:
            piece[:] = with_statement_end(piece, fd)


def with_statement_end(event: bytes | memoryview, fd: FormatDescription) -> bytes:
    """Return a copy of a rows event with STMT_END_F set and the checksum computed again. ``fd`` is the format
    description event of the event's file.

    The last rows event of a statement must carry this flag. If the master drops the event that carries the flag, the
    last rows event that is sent gets the flag instead.
    """
    changed = bytearray(event)
    flags = HEADER_LENGTH + (4 if fd.post_header_length(changed[4]) == 6 else 6)
    changed[flags] |= STMT_END_F
    if fd.checksum:
        seal(changed)
    return bytes(changed)
