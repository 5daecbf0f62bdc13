"""The dump thread without files and sockets. Its input is a position and a filter, its output are plans of chunks.

A :class:`DumpThread` takes the segments of one binlog set in order (a segment is at most 4 MiB of events). It plans
chunks, the messages of the stream. A plan says which byte ranges of the file a slave gets, where the slave may resume,
and which GTIDs the slave has then. :func:`~dumpfilter.dump.chunk.render` turns a plan into bytes.
:func:`~dumpfilter.dump.many.plan_many` plans one segment for many threads at once. The gRPC service,
the split job and the filtering of files all use these two.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from copy import copy
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from dumpfilter.binlog import roles as R
from dumpfilter.binlog.gtid import GtidSet
from dumpfilter.binlog.gtid_sources import SourceNumbers
from dumpfilter.dump import _chunk_kernels as K
from dumpfilter.dump.boundary import BoundaryPass
from dumpfilter.dump.boundary_xa import DroppedParts
from dumpfilter.dump.chunk import DEFAULT_CHUNK_SIZE, ChunkPlan, Counts, ReadAt
from dumpfilter.dump.decide import FLAG_SEND, RANGE_OFFSET, RANGE_PATCH, REPLACED, rows_of
from dumpfilter.dump.exclusion import Exclusion, SegmentOrigins
from dumpfilter.dump.gaps import find_gaps
from dumpfilter.dump.hits import NO_HITS, HitCounter
from dumpfilter.dump.payload import FilteredPayloads, PayloadFilter
from dumpfilter.dump.walker import Decided, SegmentWalker, collapse
from dumpfilter.dump.xa import XaEnds
from dumpfilter.errors import PositionError, UndecidedEvent
from dumpfilter.filter.flags import TableFlags
from dumpfilter.filter.origin import OriginFilter
from dumpfilter.index.segment import DroppedRuns, Segment


class _FilterChange(NamedTuple):
    """A new filter that waits for the next transaction boundary, because one transaction is decided by one filter."""

    flags: TableFlags
    origin: OriginFilter | None
    version: int


class DumpThread:
    """The dump of one binlog set to one slave.

    Parameters:
        flags: the verdicts of the slave's filter about each table and statement of the set.
        sources: the numbers of the set's GTID sources (server UUIDs, or MariaDB's domain and server ids).
        chunk_size: the bytes of events after which a chunk ends.
        exclude: the GTIDs that the slave already has. The thread sends no events of these transactions.
        origin: the server ids and domains whose transactions the slave wants; None: all.
        other_filters_before: whether the slave may hold transactions that an earlier dump chose with another filter.
            The thread then sends XA COMMIT even for prepared transactions that it has not seen.
        filter_version: the number that the slave gave this filter. Chunks name it, so that the slave can tell chunks
            of an old filter from chunks of a new one.
    """

    def __init__(
        self,
        flags: TableFlags,
        sources: SourceNumbers,
        *,
        chunk_size: int = DEFAULT_CHUNK_SIZE,
        exclude: GtidSet | None = None,
        origin: OriginFilter | None = None,
        other_filters_before: bool = False,
        filter_version: int = 1,
    ) -> None:
        self._flags = flags
        self._origin = origin
        self._change: _FilterChange | None = None
        self._sources = sources
        self._exclusion = Exclusion(sources, exclude)
        self._walker = SegmentWalker(chunk_size)
        self._xa_ends = XaEnds(other_filters_before=other_filters_before)
        self._hits = HitCounter()
        self._payloads: PayloadFilter | None = None
        self._boundary: BoundaryPass | None = None
        self._dropped_parts: DroppedParts | None = None
        self._read: ReadAt = _no_file
        self._relay_rotate: int | None = None
        self._resume = 0
        self._buffered_events = self._buffered_bytes = 0
        self.filter_version = filter_version
        """The version number of the filter that decided the last segment. The number grows with each change of
        filter."""
        self.position: int | None = None
        """The file offset of the next event to be decided; None before the first file."""

    @property
    def in_transaction(self) -> bool:
        """Whether the last segment ended inside a transaction, so that the filter cannot change yet."""
        return self._walker.in_transaction

    def fork(self) -> DumpThread:
        """Return an independent thread at the same place.

        The fork plans the same segments alike. It shares nothing that changes with this thread, so that both may plan
        at the same time.
        """
        fork = copy(self)
        fork._walker = self._walker.fork()
        fork._xa_ends = self._xa_ends.fork()
        fork._hits = self._hits.fork()
        # A payload filter remembers nothing between two segments.
        fork._payloads = None
        fork._boundary = None if self._boundary is None else self._boundary.fork()
        fork._dropped_parts = None if self._dropped_parts is None else self._dropped_parts.fork()
        return fork

    def with_chunk_size(self, chunk_size: int) -> DumpThread:
        """Return a fork whose chunks end after ``chunk_size`` bytes of events."""
        fork = self.fork()
        fork._walker.chunk_size = chunk_size
        return fork

    def leaving_out(self, exclusion: Exclusion | None, origin: OriginFilter | None) -> DumpThread:
        """Return a fork that leaves out other transactions: those of ``exclusion``, and those that ``origin`` drops.

        If a changed filter waits for the next transaction boundary, ``origin`` counts from there on.
        """
        fork = self.fork()
        fork._exclusion = exclusion or Exclusion(self._sources, None)
        if fork._change is None:
            fork._origin = origin
        else:
            fork._change = fork._change._replace(origin=origin)
        return fork

    @property
    def key(self) -> Hashable | None:
        """A value that is equal for threads that plan alike from here on; None inside a transaction.

        Threads with equal keys give equal plans for equal segments of one file. The key does not name the file. Slaves
        have different keys if they name different GTID sets or server ids.
        """
        if self.in_transaction or self._buffered_events or not self._hits.is_empty:
            return None
        parts = self._dropped_parts
        return (
            self._flags,
            self._origin,
            self._exclusion.key,
            self._change,
            self.filter_version,
            self._walker.chunk_size,
            self._xa_ends.key,
            # Boundary filters that the slave no longer has do not decide about later segments.
            parts.key if parts is not None and parts.flags is self._flags else None,
            self._relay_rotate,
            self._resume,
            self.position,
        )

    def change_filter(
        self,
        flags: TableFlags,
        version: int,
        *,
        origin: OriginFilter | None = None,
    ) -> None:
        """Use another filter for the segments after the open transaction.

        The change takes effect with the next segment that begins between two transactions.
        """
        self._change = _FilterChange(flags, origin, version)

    def start_file(self, position: int, read: ReadAt, *, relay_rotate: int | None = None) -> None:
        """Begin with another binlog file, at a position between two transactions.

        ``read`` reads bytes of this file, which is needed for compressed transactions. ``relay_rotate`` is the offset
        of the artificial Rotate event of a relay log. The thread does not send this event, because a slave would take
        the file that the event names for the file of this dump.
        """
        self._read = read
        self._relay_rotate = relay_rotate
        self.position = position
        self._resume = position

    def plan(self, segment: Segment) -> list[ChunkPlan]:
        """Decide a segment and return the plans of its chunks, from :attr:`position` on.

        There is at least one plan, and the last one ends where the segment ends. If an imposed filter stops the dump in
        a later transaction of the segment, the last plan ends before that transaction.

        Raises PositionError if the position is not a transaction boundary of the segment, and UndecidedEvent if an
        imposed filter stops the dump in the first transaction.
        """
        first = self._first_transaction(segment)
        try:
            return self._plan(segment, first)
        except UndecidedEvent as error:
            if error.transaction <= first:
                raise
            return self._plan(segment.before(error.transaction), first)

    def _plan(self, segment: Segment, first: int) -> list[ChunkPlan]:
        self._take_up_change()
        txn_subject, txn_source, dropped, executed = self._exclusion.apply(segment, self._origin)
        if self._relay_rotate == segment.start:
            txn_subject = txn_subject.copy()
            txn_subject[0] = R.SKIP
        txn_collapsed = collapse(segment, txn_subject, self._flags)
        txn_collapsed = self._xa_ends.decide(segment, txn_collapsed, first, self._sends)
        role = segment.role
        undecided: list[tuple[int, int]] = []
        if self._flags.boundary:
            if self._boundary is None or self._boundary.flags is not self._flags:
                self._boundary, self._dropped_parts = BoundaryPass(self._flags), DroppedParts(self._flags)
            role, txn_collapsed, undecided = self._boundary.apply(
                segment, txn_collapsed, first, self._read, self._walker.forget
            )
        payloads = FilteredPayloads(role, segment.size)
        if segment.payloads and self._flags.is_on:
            if self._payloads is None or self._payloads.flags is not self._flags:
                self._payloads = PayloadFilter(self._flags)
            payloads = self._payloads.apply(segment, txn_collapsed, first, self._read, role=role)
        payloads.undecided.extend(undecided)
        if self._dropped_parts is not None and self._flags.boundary:
            txn_collapsed = self._dropped_parts.decide(
                segment, payloads.role, txn_collapsed, first, self._read
            )
        decided = self._walker.decide(
            segment, txn_collapsed, self._flags, first=first, role=payloads.role, size=payloads.size
        )
        self._xa_ends.note(segment, first, self._sends)
        hits = NO_HITS
        if self._flags.has_hits:
            hits = self._hits.find(segment, txn_subject, decided, self._walker, self._flags, payloads.hits)
        executed_counts = None if executed is None else _executed(segment, executed, decided)
        return self._plans(segment, decided, payloads, txn_source, dropped, hits, executed_counts)

    def _take_up_change(self) -> None:
        if self._change is not None and not self.in_transaction:
            self._flags, self._origin, self.filter_version = self._change
            self._change = None

    @property
    def flags(self) -> TableFlags:
        """The verdicts of the filter in force."""
        return self._flags

    @property
    def chunk_size(self) -> int:
        """The bytes of events after which a chunk ends."""
        return self._walker.chunk_size

    @property
    def resume(self) -> int:
        """The last transaction boundary at or before :attr:`position`."""
        return self._resume

    def decides_by_flags(self, segment: Segment, origins: SegmentOrigins) -> bool:
        """Take up a change of filter, and tell whether nothing but :attr:`flags` decides about a segment.

        The segment must begin and end between two transactions. Other segments need :meth:`plan`.
        """
        if self.in_transaction:
            return False
        self._take_up_change()
        return not (
            self._flags.boundary
            or (segment.payloads and self._flags.is_on)
            or self._relay_rotate == segment.start
            or self._xa_ends.concerns(segment)
            or self._exclusion.concerns(origins, self._origin)
        )

    def advance(self, segment: Segment, first: int, position: int, resume: int) -> None:
        """Go on after a segment that was decided from transaction number ``first`` on, by :attr:`flags` alone.

        The thread goes on at ``position``. The last boundary at or before this place is ``resume``.
        """
        if segment.prepared or segment.earlier_ends:
            self._xa_ends.note(segment, first, self._sends)
        self.position, self._resume = position, resume

    def _first_transaction(self, segment: Segment) -> int:
        assert self.position is not None
        if self.position != segment.start:
            return check_start(segment, self.position)
        if segment.continues and not self.in_transaction:
            raise PositionError(
                "this place lies inside a transaction", file=segment.file, position=self.position
            )
        return 0

    def _sends(self, subject: int) -> bool:
        return not self._flags.is_on or subject < 0 or bool(self._flags.array()[subject] & FLAG_SEND)

    def _plans(
        self,
        segment: Segment,
        decided: Decided,
        payloads: FilteredPayloads,
        txn_source: npt.NDArray[np.int32],
        dropped: DroppedRuns,
        hits: npt.NDArray[np.int64],
        executed: Sequence[Counts] | None,
    ) -> list[ChunkPlan]:
        n_txn, chunks = len(txn_source), decided.chunks
        completed = np.empty((n_txn + len(dropped.runs), 3), np.int64)
        K.summarize_chunks(
            chunks, decided.first, txn_source, segment.txn_number, decided.is_kept, dropped, completed
        )
        start = segment.offset[segment.txn_event[:n_txn]]
        sent_before = np.empty(n_txn, np.int64)
        K.sent_before(chunks, decided.ranges, decided.first, start, sent_before)
        gaps, gaps_until = find_gaps(
            chunks["transactions"],
            chunks["resume_bytes"],
            chunks["resume"],
            decided.first,
            start,
            sent_before,
            txn_source,
            segment.txn_number,
            decided.is_kept,
            dropped,
            hits,
        )
        for offset, n_undecided in payloads.undecided:
            chunks["undecided"][np.searchsorted(chunks["end"], offset, "right")] += n_undecided
        # Each plan keeps a view of this array, so unused rows are cut off to free their memory.
        completed = completed[: chunks["completed"][-1]].copy()
        assert self.position is not None
        position, resume = self.position, self._resume
        completed_before = gaps_before = 0
        # A chunk also counts the events that were read before it and buffered, because it sends or drops them.
        buffered_events_before, buffered_bytes_before = self._buffered_events, self._buffered_bytes
        plans: list[ChunkPlan] = []
        # Unpacking all fields at once is much faster than reading the fields of a named tuple one by one.
        for (
            first_range,
            range_after,
            end,
            boundary,
            resume_bytes,
            _,
            bytes_sent,
            events_sent,
            events_read,
            undecided,
            buffered_events,
            buffered_bytes,
            completed_after,
            transactions_read,
            transactions_dropped,
        ), gaps_after in zip(rows_of(chunks), gaps_until.tolist(), strict=True):
            ranges = decided.ranges[first_range:range_after].copy()
            bytes_read = end - position
            newly_buffered_events = buffered_events - buffered_events_before
            newly_buffered_bytes = buffered_bytes - buffered_bytes_before
            counts = Counts(
                events_read=events_read,
                events_sent=events_sent,
                events_dropped=events_read - events_sent - newly_buffered_events,
                bytes_read=bytes_read,
                bytes_sent=bytes_sent,
                bytes_dropped=bytes_read - bytes_sent - newly_buffered_bytes,
                events_undecided=undecided,
                transactions_read=transactions_read,
                transactions_dropped=transactions_dropped,
            )
            if executed is not None:
                counts.add(executed[len(plans)])
            if boundary >= 0:
                resume = boundary
            plans.append(
                ChunkPlan(
                    segment.file,
                    ranges,
                    end,
                    resume,
                    resume_bytes,
                    completed[completed_before:completed_after],
                    gaps.part(gaps_before, gaps_after),
                    counts,
                    _within(payloads.replaced, ranges),
                )
            )
            position = end
            completed_before, gaps_before = completed_after, gaps_after
            buffered_events_before, buffered_bytes_before = buffered_events, buffered_bytes
        self.position, self._resume = position, resume
        self._buffered_events, self._buffered_bytes = buffered_events_before, buffered_bytes_before
        return plans


def _executed(segment: Segment, executed: npt.NDArray[np.bool_], decided: Decided) -> list[Counts]:
    """Return for each chunk what to add to its counts, so that transactions that the slave already has do not count.

    A dump by GTID begins at the begin of a file, and passes over these transactions. Each new connection of a slave
    would otherwise count them again as read and dropped. ``executed`` marks them.
    """
    chunks, n = decided.chunks, len(decided.chunks)
    has = executed.copy()
    has[: decided.first] = False
    events = np.flatnonzero(np.repeat(has, np.diff(segment.txn_event)))
    of_event = np.searchsorted(chunks["end"], segment.offset[events], "right")
    # A transaction counts in the segment in which it ends.
    ended = np.flatnonzero(has[: chunks["transactions"][-1]])
    transactions = np.bincount(np.searchsorted(chunks["transactions"], ended, "right"), minlength=n)
    number = np.bincount(of_event, minlength=n)
    size = np.bincount(of_event, weights=segment.size[events], minlength=n).astype(np.int64)
    return [
        Counts(
            events_read=-n_events,
            events_dropped=-n_events,
            bytes_read=-nbytes,
            bytes_dropped=-nbytes,
            transactions_read=-n_transactions,
            transactions_dropped=-n_transactions,
        )
        for n_events, nbytes, n_transactions in zip(
            number.tolist(), size.tolist(), transactions.tolist(), strict=True
        )
    ]


def _no_file(offset: int, length: int) -> bytes:
    raise AssertionError("start_file() gives the file to read")


def _within(replaced: dict[int, bytes], ranges: npt.NDArray[np.int64]) -> dict[int, bytes]:
    if not replaced:
        return {}
    return {at: replaced[at] for at in ranges[ranges[:, RANGE_PATCH] == REPLACED, RANGE_OFFSET].tolist()}


def check_start(segment: Segment, position: int) -> int:
    """Return the number of the transaction of a segment that begins at a file offset.

    Raises PositionError, with the nearest boundaries, if no transaction begins there.
    """
    found = segment.transaction_at(position)
    if found is None:
        raise PositionError(
            "no transaction begins here; the nearest places are " + _nearest(segment, position),
            file=segment.file,
            position=position,
        )
    return found


def _nearest(segment: Segment, position: int) -> str:
    starts = segment.offset[segment.txn_event[:-1]]
    if segment.continues:
        starts = starts[1:]
    at = int(np.searchsorted(starts, position))
    nearest = [str(int(s)) for s in starts[max(at - 1, 0) : at + 1]]
    if not segment.open and at == len(starts):
        nearest.append(str(segment.end))
    return " and ".join(nearest)
