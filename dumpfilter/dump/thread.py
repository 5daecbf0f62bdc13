"""The dump thread, sans-I/O: a position and a filter in, chunks out.

A :class:`DumpThread` is given segments of one binlog set in order and plans chunks: which byte ranges of the
file a slave gets, where it may resume, which GTIDs that completes. :func:`render` turns a plan into
bytes. gRPC, the split job and file-to-file filtering are shells around these two.
"""

from __future__ import annotations

import zlib
from collections import Counter
from collections.abc import Callable, Mapping
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from dumpfilter.binlog import roles as R
from dumpfilter.binlog.events import HEADER_LENGTH, STMT_END_F
from dumpfilter.binlog.format import FormatDescription
from dumpfilter.binlog.gtid import GtidSet
from dumpfilter.binlog.gtid_events import Xid
from dumpfilter.binlog.gtid_sources import Membership, SourceNumbers
from dumpfilter.dump import decide as K
from dumpfilter.dump.payload import close_payload, open_payload
from dumpfilter.errors import PositionError
from dumpfilter.filter.flags import FILTER_HIT_F, FILTER_UNDECIDED_F, TableFlags
from dumpfilter.filter.hits import COLUMN, KINDS, Hits
from dumpfilter.filter.origin import OriginFilter
from dumpfilter.index.segment import Segment

WHOLE_SEGMENT = 1 << 40
"""A chunk's size that no segment reaches: one chunk a segment."""

DEFAULT_CHUNK_SIZE = 256 << 10
"""Bytes of events in a chunk: large enough that gRPC's cost a message does not show."""

GtidRuns = npt.NDArray[np.int64]
"""(n, 3): runs of consecutive GTIDs: the source's number, the first and the last of them."""


@dataclass(slots=True)
class Counts:
    """What a dump thread did. At a transaction boundary, read = sent + dropped."""

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
        """Add another's figures to these."""
        for name in self.__slots__:
            setattr(self, name, getattr(self, name) + getattr(other, name))


@dataclass(slots=True)
class ChunkPlan:
    """A chunk before its bytes are fetched. Offsets are into ``file``, bytes."""

    file: str
    ranges: npt.NDArray[np.int64]
    """(n, 3): offset, size, and 1 for a rows event that gets STMT_END_F, 2 for an event in ``replaced``."""
    end: int
    resume: int
    """The last transaction boundary up to ``end``; the one before when there is none in this chunk."""
    resume_bytes: int
    """Of the chunk's bytes, those before ``resume``; 0 when the chunk lies inside a transaction."""
    completed: GtidRuns
    empty: GtidRuns
    counts: Counts = field(default_factory=Counts)
    replaced: Mapping[int, bytes] = field(default_factory=dict)
    """By offset, events that are sent in another form: compressed transactions of which a part is dropped."""
    hits: Hits = field(default_factory=Counter)
    """How often the slave's own rules were hit by events that are not sent, of the transactions completed in
    (resume of the chunk before, ``resume``]. Those that the slave has already or that have another origin than it
    wants do not come to its filter."""

    @property
    def size(self) -> int:
        """Bytes of events."""
        return self.counts.bytes_sent

    def absorb(self, later: ChunkPlan) -> bool:
        """Take in the plan that follows, when this one has nothing to send; whether it was."""
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
class _Events:
    """A segment's events as one slave's filter sees them."""

    role: npt.NDArray[np.uint8]
    size: npt.NDArray[np.int64]
    replaced: dict[int, bytes] = field(default_factory=dict)
    """See ChunkPlan."""
    undecided: list[tuple[int, int]] = field(default_factory=list)
    """Of each compressed transaction that is sent and holds any: its offset, and how many undecided events."""
    hits: dict[int, Hits] = field(default_factory=dict)
    """By the number of the event, the hits of what is not sent of a compressed transaction."""


_NO_HITS: npt.NDArray[np.int64] = np.zeros(len(KINDS), np.int64)
_NO_HITS.flags.writeable = False


@dataclass(slots=True)
class _OpenHits:
    """What is known of a transaction's hits where a segment ends inside it."""

    counts: npt.NDArray[np.int64] = field(default_factory=lambda: _NO_HITS)
    """Of what is dropped, by kind."""
    aside: list[tuple[int, int]] = field(default_factory=list)
    """Offset and subject of each table map that has hits and is put aside."""

    @property
    def any(self) -> bool:
        """Whether there is anything."""
        return bool(self.aside) or bool(self.counts.any())


_NO_RANGES: npt.NDArray[np.int64] = np.empty((0, 3), np.int64)

ReadAt = Callable[[int, int], bytes]
"""``read(offset, length)`` of the file a plan is about."""


class DumpThread:
    """One slave's way through the binlog.

    Parameters:
        flags: its filter's flags (see :meth:`change_filter`).
        sources: the set's GTID sources.
        chunk_size: bytes of events after which a chunk is cut.
        exclude: GTIDs the slave has: those transactions are passed over.
        other_filters_before: what the slave has from before the start was chosen with other filters too.
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
        self._next: tuple[TableFlags, OriginFilter | None, int, bool] | None = None
        self.filter_version = filter_version
        self._sources = sources
        self._chunk_size = chunk_size
        self._exclude = None if exclude is None else Membership(exclude)
        self._walk = np.zeros(K.WALK_SIZE, np.int64)
        self._head = np.zeros((64, 2), np.int64)
        self._context = np.zeros((64, 2), np.int64)
        self._ranges = np.zeros((1024, 3), np.int64)
        self._chunks = np.zeros((64, K.CHUNK_COLUMNS), np.int64)
        self._resume = 0
        self._aside = (0, 0)
        self._read: ReadAt = _no_file
        self._inside: Inside | None = None
        self._prepared: dict[Xid, bool] = {}
        self._other_filters_before = other_filters_before
        self._hits = _OpenHits()
        self.position: int | None = None
        """Where the next event to be decided stands in the current file; None at a file's start."""

    @property
    def in_transaction(self) -> bool:
        """Whether the last plan ended inside a transaction."""
        return bool(self._walk[K.W_OPEN])

    def change_filter(
        self,
        flags: TableFlags,
        version: int,
        *,
        origin: OriginFilter | None = None,
        unseen_before: bool = False,
    ) -> None:
        """Use another filter from the next transaction boundary between two segments on. ``unseen_before``: what came
        before this thread's start was chosen with the old one, too, but not by this thread."""
        self._next = (flags, origin, version, unseen_before)

    def start_file(self, position: int, read: ReadAt) -> None:
        """Begin a file at an offset that lies between two transactions. ``read`` is for the compressed transactions
        of which a part is sent."""
        self._read = read
        self.position = position
        self._resume = position

    def plan(self, segment: Segment) -> list[ChunkPlan]:
        """The chunks that a segment gives, from :attr:`position` on. At least one; the last ends where the
        segment does.

        Raises PositionError when the position is not between two transactions of the segment.
        """
        assert self.position is not None
        first = 0
        if self.position != segment.start:
            first = check_start(segment, self.position)
        elif segment.continues and not self.in_transaction:
            raise PositionError(
                "this place lies inside a transaction", file=segment.file, position=self.position
            )
        if self._next is not None and not self.in_transaction:
            self._flags, self._origin, self.filter_version, unseen_before = self._next
            self._other_filters_before |= unseen_before
            self._next = None
        txn_subject, txn_source = segment.txn_subject, segment.txn_source
        if self._exclude is not None:
            txn_subject, txn_source = self._without_excluded(segment)
        if self._origin is not None and self._origin.is_on:
            txn_subject, txn_source = _without_unwanted(
                self._origin, segment, self._sources, txn_subject, txn_source
            )
        before = txn_subject
        if self._flags.is_on:
            settled = np.empty_like(txn_subject)
            K.settle(
                txn_subject,
                segment.txn_set,
                segment.set_subject,
                self._flags.array(),
                np.uint32(FILTER_UNDECIDED_F),
                settled,
            )
            txn_subject = settled
        if (self._prepared and segment.earlier_ends) or (self._other_filters_before and segment.xa_ends):
            txn_subject = self._as_prepared(segment, txn_subject, first)
        events = _Events(segment.role, segment.size)
        if segment.payloads and self._flags.is_on:
            events = self._look_inside(segment, txn_subject, first)
        txn_kept = np.zeros(len(txn_subject), np.bool_)
        n_chunks = self._decide(segment, events, txn_subject, first, txn_kept)
        self._note_prepared(segment, first)
        plans = self._plans(segment, events, txn_source, first, txn_kept, n_chunks)
        if self._flags.has_hits:
            self._count_hits(segment, events, before, txn_subject, first, plans)
        return plans

    def _as_prepared(
        self, segment: Segment, txn_subject: npt.NDArray[np.int32], first: int
    ) -> npt.NDArray[np.int32]:
        """The ends of XA transactions go where this dump's prepared parts went, under whatever filter that was; where
        that is not known and other filters were in force before the dump began, they are sent."""
        txn_subject = txn_subject.copy()
        ends: dict[int, Xid | None] = dict(segment.earlier_ends)
        if self._other_filters_before and first:
            # some of these were prepared in this segment, perhaps before the dump's start
            ends = dict.fromkeys(segment.xa_ends) | ends
        for event, xid in ends.items():
            txn = segment.transaction_of(event)
            if txn_subject[txn] == R.SKIP:
                continue
            sent = self._prepared.get(xid) if xid is not None else None
            if sent is None and self._other_filters_before:
                sent = True
            if sent is False:
                txn_subject[txn] = R.SKIP
            elif sent and not self._is_sent(int(txn_subject[txn])):
                txn_subject[txn] = R.KEPT
        return txn_subject

    def _note_prepared(self, segment: Segment, first: int) -> None:
        """Remember what has been sent of the XA transactions that are prepared where a segment ends."""
        for xid in segment.earlier_ends.values():
            self._prepared.pop(xid, None)
        unsure = self._other_filters_before and first > 0  # it may have been prepared before the dump's start
        for xid, holds in segment.prepared.items():
            if xid not in self._prepared:
                self._prepared[xid] = unsure or self._is_sent(holds)

    def _is_sent(self, subject: int) -> bool:
        return not self._flags.is_on or subject < 0 or bool(self._flags.array()[subject] & K.SEND)

    def _look_inside(self, segment: Segment, txn_subject: npt.NDArray[np.int32], first: int) -> _Events:
        """Decide the compressed transactions: all of one is kept, nothing, or a part, which is closed again."""
        if self._inside is None or self._inside.flags is not self._flags:
            self._inside = Inside(self._flags, self._sources)
        found = _Events(segment.role.copy(), segment.size.copy())
        for number in segment.payloads:
            if number < segment.txn_event[first] or txn_subject[segment.transaction_of(number)] == R.SKIP:
                continue
            kept = self._inside.decide(segment, number, self._read)
            offset = int(segment.offset[number])
            if kept.hits:
                found.hits[number] = kept.hits
            if not kept.size:
                # a frame with nothing in it
                found.role[number] = R.FRAME | (found.role[number] & R.ENDS)
                continue
            if kept.undecided:
                found.undecided.append((offset, kept.undecided))
            if kept.replaced is not None:
                found.replaced[offset] = kept.replaced
                found.size[number] = kept.size
                found.role[number] = R.REPLACED | (found.role[number] & R.ENDS)
        return found

    def _decide(
        self,
        segment: Segment,
        events: _Events,
        txn_subject: npt.NDArray[np.int32],
        first: int,
        txn_kept: npt.NDArray[np.bool_],
    ) -> int:
        keep_all = not self._flags.is_on
        while True:
            walk, head, context = self._walk.copy(), self._head.copy(), self._context.copy()
            code, n_ranges, n_chunks = K.decide(
                segment.offset,
                events.size,
                events.role,
                segment.subject,
                segment.txn_event,
                txn_subject,
                first,
                segment.end,
                segment.open,
                self._flags.array(),
                np.uint32(FILTER_UNDECIDED_F),
                keep_all,
                self._chunk_size,
                walk,
                head,
                context,
                self._ranges,
                self._chunks,
                txn_kept,
            )
            if code == K.DONE:
                self._walk, self._head, self._context = walk, head, context
                return int(n_chunks)
            # something was full, and little work is lost: make room and decide the segment again
            if n_ranges * 2 > len(self._ranges):
                self._ranges = np.zeros((len(self._ranges) * 4, 3), np.int64)
            elif n_chunks >= len(self._chunks):
                self._chunks = np.zeros((len(self._chunks) * 4, K.CHUNK_COLUMNS), np.int64)
            else:
                self._ranges = np.zeros((len(self._ranges) * 2, 3), np.int64)
                self._head = np.concatenate([self._head, np.zeros_like(self._head)])
                self._context = np.concatenate([self._context, np.zeros_like(self._context)])

    def _plans(
        self,
        segment: Segment,
        events: _Events,
        txn_source: npt.NDArray[np.int32],
        first: int,
        txn_kept: npt.NDArray[np.bool_],
        n_chunks: int,
    ) -> list[ChunkPlan]:
        plans = []
        ranges_before = completed_before = empty_before = 0
        n_txn = len(txn_source)
        completed, empty = np.empty((n_txn, 3), np.int64), np.empty((n_txn, 3), np.int64)
        told = np.empty((n_chunks, 4), np.int64)
        K.tell(
            self._chunks, n_chunks, first, txn_source, segment.txn_number, txn_kept, completed, empty, told
        )
        figures = told.tolist()
        for offset, n_undecided in events.undecided:
            chunk = int(np.searchsorted(self._chunks[:n_chunks, K.H_END], offset, "right"))
            self._chunks[chunk, K.H_UNDECIDED] += n_undecided
        # the plans hold views: no longer than the GTIDs they tell of
        completed, empty = completed[: figures[-1][0]].copy(), empty[: figures[-1][1]].copy()
        assert self.position is not None
        for row, figure in zip(self._chunks[:n_chunks].tolist(), figures, strict=True):
            ranges_after, end, resume, resume_bytes, _, sent, events_sent, read, undecided = row[:9]
            completed_after, empty_after, transactions, dropped = figure
            aside = (row[K.H_ASIDE_EVENTS], row[K.H_ASIDE_BYTES])
            if resume >= 0:
                self._resume = resume
            counts = Counts(
                events_read=read,
                events_sent=events_sent,
                events_dropped=read - events_sent - (aside[0] - self._aside[0]),
                bytes_read=end - self.position,
                bytes_sent=sent,
                bytes_dropped=end - self.position - sent - (aside[1] - self._aside[1]),
                events_undecided=undecided,
                transactions_read=transactions,
                transactions_dropped=dropped,
            )
            ranges = self._ranges[ranges_before:ranges_after].copy()
            plans.append(
                ChunkPlan(
                    segment.file,
                    ranges,
                    end,
                    self._resume,
                    resume_bytes,
                    completed[completed_before:completed_after],
                    empty[empty_before:empty_after],
                    counts,
                    _of_ranges(events.replaced, ranges),
                )
            )
            self._aside = aside
            self.position = end
            ranges_before, completed_before, empty_before = ranges_after, completed_after, empty_after
        return plans

    def _count_hits(
        self,
        segment: Segment,
        events: _Events,
        before: npt.NDArray[np.int32],
        decided: npt.NDArray[np.int32],
        first: int,
        plans: list[ChunkPlan],
    ) -> None:
        """Fill the plans' hits: of what is decided in this segment, and of what was still put aside before it."""
        flags, hits, earlier = self._flags.array(), self._flags.hits(), self._hits
        chunks = self._chunks[: len(plans)]
        ranges = self._ranges[: chunks[-1, K.H_RANGES]]
        counted = np.zeros((len(plans) + 1, len(KINDS)), np.int64)
        aside = self._put_aside() if segment.open else _NO_RANGES
        self._hits = _OpenHits()
        if earlier.any:
            # what was put aside in an earlier segment and is neither sent now nor still aside was dropped
            of_first = counted[int(np.searchsorted(chunks[:, K.H_TXNS], first, "right"))]
            of_first += earlier.counts
            for offset, subject in earlier.aside:
                if _holds(aside, offset):
                    self._hits.aside.append((offset, subject))
                elif not _holds(ranges, offset):
                    np.add.at(of_first, hits[subject][hits[subject] >= 0], 1)
        role = segment.role
        if segment.xa_ends:  # decided by what they end, and keywords to the slave's filter
            role = role.copy()
            role[list(segment.xa_ends)] = R.FRAME
        found = K.count_hits(
            segment.offset,
            role,
            segment.subject,
            segment.txn_event,
            before,
            decided,
            first,
            flags,
            np.uint32(FILTER_HIT_F),
            hits,
            self._flags.drops_hits,
            np.concatenate([ranges, aside]) if len(aside) else ranges,
            chunks,
            counted,
        )
        for event, inside in events.hits.items():
            chunk = int(np.searchsorted(chunks[:, K.H_TXNS], segment.transaction_of(event), "right"))
            for kind, count in inside.items():
                counted[chunk, COLUMN[kind]] += count
        if found or events.hits or earlier.any:
            rows, columns = np.nonzero(counted[:-1])
            counts = counted[rows, columns].tolist()
            for row, column, count in zip(rows.tolist(), columns.tolist(), counts, strict=True):
                plans[row].hits[KINDS[column]] = count
        if segment.open:
            self._hits.counts = counted[-1]
            self._hits.aside += self._maps_among(aside, segment, flags)

    def _put_aside(self) -> npt.NDArray[np.int64]:
        """What is neither sent nor dropped where a segment ends, in order, as ranges."""
        walk = self._walk
        parts = [self._head[: walk[K.W_HEAD]]]
        if walk[K.W_PENDING]:
            parts.append(walk[None, [K.W_PENDING_OFFSET, K.W_PENDING_SIZE]])
        found = np.concatenate([*parts, self._context[: walk[K.W_CONTEXT]]])
        return np.column_stack([found, np.zeros(len(found), np.int64)])

    def _maps_among(
        self, aside: npt.NDArray[np.int64], segment: Segment, flags: npt.NDArray[np.uint32]
    ) -> list[tuple[int, int]]:
        """Offset and subject of each table map of this segment that is put aside and has hits."""
        offsets = aside[aside[:, K.C_OFFSET] >= segment.start, K.C_OFFSET]
        numbers = np.searchsorted(segment.offset, offsets)
        maps = numbers[segment.role[numbers] == R.TABLE_MAP]
        subjects = segment.subject[maps]
        hit = flags[subjects] & FILTER_HIT_F != 0
        return list(zip(segment.offset[maps[hit]].tolist(), subjects[hit].tolist(), strict=True))

    def _without_excluded(self, segment: Segment) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]]:
        """The transactions' columns with those the slave has marked as passed over."""
        subject, source = segment.txn_subject.copy(), segment.txn_source.copy()
        assert self._exclude is not None
        for number in np.unique(source[source >= 0]).tolist():
            ours = np.flatnonzero(source == number)
            key = self._sources.key(number, self._exclude.family)
            had = self._exclude.contains(key, segment.txn_number[ours])
            subject[ours[had]] = R.SKIP
            source[ours[had]] = -1
        return subject, source


@dataclass(frozen=True, slots=True)
class InsideKept:
    """What one filter leaves of a compressed transaction."""

    size: int
    """Of the event that is sent, bytes; 0: nothing is."""
    undecided: int = 0
    """How many of its events are sent because the filter could not decide them."""
    replaced: bytes | None = None
    """The event in another form, when a part of it is dropped."""
    hits: Hits = field(default_factory=Counter)
    """Of what is not sent."""


class Inside:
    """Decides compressed transactions for one filter, which is on."""

    def __init__(self, flags: TableFlags, sources: SourceNumbers) -> None:
        self.flags = flags
        self._thread = DumpThread(flags, sources, chunk_size=WHOLE_SEGMENT)

    def decide(self, segment: Segment, number: int, read: ReadAt) -> InsideKept:
        """What is left of the one at event ``number``, a key of ``segment.payloads``. ``read`` reads the file."""
        inner = segment.payloads[number]
        self._thread.start_file(inner.start, read)
        (plan,) = self._thread.plan(inner)
        self._thread._prepared.clear()  # that is followed outside
        undecided = plan.counts.events_undecided
        size = int(segment.size[number])
        if not plan.size:
            return InsideKept(0, hits=plan.hits)
        if plan.size == inner.end:
            return InsideKept(size, undecided, hits=plan.hits)
        event = read(int(segment.offset[number]), size)
        fd = segment.format_description
        kept = render(plan, open_payload(event, fd), 0, _no_file, inner.format_description)
        closed = close_payload(kept, event, fd)
        if closed is None:
            return InsideKept(size, undecided)  # all of it goes to the slave
        return InsideKept(len(closed), undecided, closed, plan.hits)


def _without_unwanted(
    origin: OriginFilter,
    segment: Segment,
    sources: SourceNumbers,
    subject: npt.NDArray[np.int32],
    source: npt.NDArray[np.int32],
) -> tuple[npt.NDArray[np.int32], npt.NDArray[np.int32]]:
    """The transactions' columns with those of an unwanted origin marked as passed over.

    MariaDB's I/O thread counts what it ignores as done (``gtid_slave_pos``, ``Gtid_IO_Pos``); MySQL's does not: it is
    in neither Retrieved_Gtid_Set nor Executed_Gtid_Set. Both move the position. Asked of MySQL 9.7 and MariaDB 10.11.
    """
    fd = segment.format_description
    unwanted = np.isin(segment.txn_server, list(origin.unwanted_server_ids(fd.header.server_id)))
    if fd.family == "mariadb":
        for number in np.unique(segment.txn_source[segment.txn_source >= 0]).tolist():
            domain, _ = sources.key(number, "mariadb")
            assert isinstance(domain, int)
            if not origin.wants_domain(domain):
                unwanted |= segment.txn_source == number
    unwanted &= segment.txn_source != R.KEPT  # what belongs to the file
    if not unwanted.any():
        return subject, source
    subject = np.where(unwanted, np.int32(R.SKIP), subject)
    if fd.family != "mariadb":
        source = np.where(unwanted, np.int32(-1), source)
    return subject, source


def _holds(ranges: npt.NDArray[np.int64], offset: int) -> bool:
    """Whether one of the ranges has the event at an offset."""
    begins = ranges[:, K.C_OFFSET]
    return bool(np.any((begins <= offset) & (offset < begins + ranges[:, K.C_SIZE])))


def _no_file(offset: int, length: int) -> bytes:
    raise AssertionError("there is no file to read from")


def _of_ranges(replaced: dict[int, bytes], ranges: npt.NDArray[np.int64]) -> dict[int, bytes]:
    if not replaced:
        return {}
    return {at: replaced[at] for at in ranges[ranges[:, K.C_PATCH] == 2, K.C_OFFSET].tolist()}


def check_start(segment: Segment, position: int) -> int:
    """The number of the transaction that begins at an offset in a segment. Raises PositionError when none does."""
    found = segment.transaction_at(position)
    if found is None:
        raise PositionError(
            "no transaction begins here; the nearest places are " + _near(segment, position),
            file=segment.file,
            position=position,
        )
    return found


def _near(segment: Segment, position: int) -> str:
    starts = segment.offset[segment.txn_event[:-1]]
    if segment.continues:
        starts = starts[1:]
    at = int(np.searchsorted(starts, position))
    near = [str(int(s)) for s in starts[max(at - 1, 0) : at + 1]]
    if not segment.open and at == len(starts):
        near.append(str(segment.end))
    return " and ".join(near)


def render(
    plan: ChunkPlan,
    data: bytes | memoryview | npt.NDArray[np.uint8],
    data_offset: int,
    read: ReadAt,
    fd: FormatDescription,
) -> bytes:
    """The bytes of a chunk. ``data`` holds the file from ``data_offset`` on as far as it goes; what lies outside
    (events put aside in an earlier segment) is fetched with ``read``."""
    if len(plan.ranges) == 1 and not plan.ranges[0, K.C_PATCH]:
        start = int(plan.ranges[0, K.C_OFFSET]) - data_offset
        size = int(plan.ranges[0, K.C_SIZE])
        if start >= 0 and start + size <= len(data):
            whole = start == 0 and size == len(data)
            return data if whole and isinstance(data, bytes) else bytes(data[start : start + size])
    out = np.empty(int(plan.ranges[:, K.C_SIZE].sum()), np.uint8)
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
    """As :func:`render`, into an array of the ranges' size."""
    ranges = plan.ranges
    if not len(ranges):
        return
    outside = K.gather(ranges, np.frombuffer(data, np.uint8), data_offset, out)
    if not outside and not ranges[:, K.C_PATCH].any():
        return
    view = out.data
    at = 0
    for offset, size, patch in ranges.tolist():
        piece = view[at : at + size]
        at += size
        if patch == 2:
            piece[:] = plan.replaced[offset]
            continue
        start = offset - data_offset
        if outside and not (start >= 0 and start + size <= len(data)):
            piece[:] = read(offset, size)
        if patch:
            piece[:] = with_statement_end(piece, fd)


def with_statement_end(event: bytes | memoryview, fd: FormatDescription) -> bytes:
    """A rows event with STMT_END_F set and its checksum made right."""
    changed = bytearray(event)
    flags = HEADER_LENGTH + (4 if fd.post_header_length(changed[4]) == 6 else 6)
    changed[flags] |= STMT_END_F
    if fd.checksum:
        changed[-4:] = zlib.crc32(memoryview(changed)[:-4]).to_bytes(4, "little")
    return bytes(changed)
