"""The decision of one segment for many slaves at once.

Slaves with different filters read the same transactions. A filter's verdict about a table is one bit, so the verdicts
of 64 slaves about a table are one word of 64 bits. Compiled code decides for 64 slaves in three steps:

1. It makes a word for each table and statement (subject) of the segment, from the table flags of the slaves. It does
   this once for each subject.
2. It makes two words for each transaction. The AND of its subjects' words has the slaves that are sent the transaction
   whole. The OR has also the slaves that are sent a part. The bits of the OR without those of the AND are the slaves
   for which each event is decided separately. 64 words of 64 transactions are then transposed. Thus each slave gets
   words with one bit for each transaction.
3. It goes through the bits of each slave. A transaction without a bit is dropped, and costs nothing. The code writes
   byte ranges, GTIDs, gaps and counts only where the slave is sent something, and at the chunks' ends. GTIDs are not
   collected for each slave. Runs of consecutive GTIDs are found once for the segment, and each chunk and gap cuts its
   part from the runs.

Only the table flags decide in this way (:meth:`~dumpfilter.dump.thread.DumpThread.decides_by_flags`). A thread plans
alone if anything else decides about its segment. Examples are an open or a compressed transaction, an imposed filter,
transactions that the slave has or ignores, and the end of an XA transaction that an earlier filter chose.
"""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import NamedTuple

import numpy as np
import numpy.typing as npt

from dumpfilter.dump import _many_kernels as K
from dumpfilter.dump import decide as D
from dumpfilter.dump.chunk import ChunkPlan
from dumpfilter.dump.exclusion import SegmentOrigins
from dumpfilter.dump.hits import roles_for_hits
from dumpfilter.dump.planned import PackedPlan
from dumpfilter.dump.thread import DumpThread
from dumpfilter.errors import DumpfilterError
from dumpfilter.filter.flags import MOST_HITS
from dumpfilter.filter.hits import KINDS
from dumpfilter.index.segment import Segment

Planned = list[ChunkPlan] | DumpfilterError
"""The plans of one slave's chunks, or the error that ends the slave's dump."""


class _Scratch(threading.local):
    """The arrays that the compiled code fills, one set for each thread of the operating system."""

    def __init__(self) -> None:
        self.call = 0
        self.slaves = np.zeros((K.SLAVES, K.SLAVE_COLUMNS), np.int64)
        self._events = self._transactions = self._subjects = self._chunks = self._data = 0

    def make_room(self, segment: Segment, subjects: int, room: tuple[int, int]) -> None:
        """Enlarge the arrays if needed, for a segment and the results ``room`` of one slave."""
        events, transactions = len(segment.offset), len(segment.txn_subject)
        chunks, data = room
        if events > self._events or transactions > self._transactions:
            self._events = max(1024, self._events, 2 * events)
            self._transactions = max(256, self._transactions, 2 * transactions)
            self._make_streams(self._events, self._transactions)
            self._subjects = 0
        if subjects > self._subjects:
            self._subjects = max(1024, 2 * subjects)
            self._make_words(self._subjects, self._transactions)
        if chunks > self._chunks or data > self._data:
            self._chunks, self._data = max(256, self._chunks, 2 * chunks), max(1 << 14, self._data, 2 * data)
            self.done = K.Done(
                _integers(K.SLAVES, K.DONE_COLUMNS), _integers(self._chunks), _integers(self._data)
            )

    def _make_streams(self, events: int, transactions: int) -> None:
        gaps = most_gaps(transactions)
        # The decision event by event stops when fewer places are free than one event may need.
        self.walk = D.Walk(np.zeros(1, D.WALK_STATE), _integers(events + 1, 2), _integers(events + 1, 2))
        self.streams = K.Streams(
            ranges=_integers(events + 8, D.RANGE_COLUMNS),
            is_kept=np.zeros(transactions, np.bool_),
            chunk=np.zeros(1, D.CHUNK),
            gap_offset=_integers(gaps),
            gap_end=_integers(gaps),
            gap_runs_until=_integers(gaps),
            gap_hits_until=_integers(gaps),
            gap_runs=_integers(3 * (transactions + 1)),
            gap_hits=_integers(2 * most_hits(events, gaps)),
            hits=_integers(len(KINDS)),
            place=_integers(K.PLACE_COLUMNS),
            used=_integers(K.USED),
        )
        n = transactions + 1
        self.shared = K.Shared(
            start=_integers(n),
            end=_integers(n),
            statements=_integers(events, K.PART_COLUMNS),
            statements_from=_integers(n),
            statement_events=_integers(n),
            statements_until=_integers(n),
            runs=_integers(n, 3),
            is_one_run=np.zeros(1, np.bool_),
            run=_integers(n),
            following=_integers(n),
            before=_integers(n),
            read=_integers(n),
        )

    def _make_words(self, subjects: int, transactions: int) -> None:
        self.words = K.Words(
            stamp=_integers(subjects),
            send=_words(subjects),
            undecided=_words(subjects),
            hit=_words(subjects),
            sent=_words(transactions),
            walked=_words(transactions),
            counted=_words(transactions),
            hits=_words(transactions),
            block=_words(K.SLAVES),
            special_block=_words(K.SLAVES),
            rows=_words(K.SLAVES, transactions // K.SLAVES + 1),
            special=_words(K.SLAVES, transactions // K.SLAVES + 1),
        )


def _integers(*shape: int) -> npt.NDArray[np.int64]:
    return np.zeros(shape, np.int64)


def _words(*shape: int) -> npt.NDArray[np.uint64]:
    return np.zeros(shape, np.uint64)


def most_gaps(transactions: int) -> int:
    """Return the most gaps of a segment: one before and one inside each transaction, and one after the last."""
    return 2 * transactions + 2


def most_hits(events: int, gaps: int) -> int:
    """Return the most rows of hits of a segment: some for each event, but at most one for each gap and kind of rule."""
    return min(MOST_HITS * events, len(KINDS) * gaps)


_scratch = _Scratch()


def plan_many(threads: Sequence[DumpThread], segment: Segment) -> list[Planned]:
    """Return for each dump thread what ``thread.plan(segment)`` would give, or the error that it would raise.

    Threads that plan alike get the same list of the same plans, so that a caller can encode each plan once.
    """
    planned: list[Planned] = [[]] * len(threads)
    equals: dict[tuple[object, ...], _Equals] = {}
    begins: dict[int | None, int | None] = {segment.start: 0}
    origins = SegmentOrigins(segment)
    is_whole = not (
        segment.continues or segment.open or segment.has_inner_gaps or len(segment.dropped.transaction)
    )
    for number, thread in enumerate(threads):
        position = thread.position
        if is_whole and position not in begins:
            inside = position is not None and position < segment.end
            begins[position] = segment.transaction_at(position or 0) if inside else None
        first = begins.get(position)
        if is_whole and first is not None and thread.decides_by_flags(segment, origins):
            key = (thread.flags, thread.chunk_size, position, thread.resume)
            if key not in equals:
                equals[key] = _Equals(thread, first, [])
            equals[key].numbers.append(number)
            continue
        try:
            planned[number] = thread.plan(segment)
        except DumpfilterError as error:
            planned[number] = error
    together = list(equals.values())
    for begin in range(0, len(together), K.SLAVES):
        _plan_word(together[begin : begin + K.SLAVES], segment, threads, planned)
    return planned


class _Equals(NamedTuple):
    """Threads that plan one segment alike."""

    thread: DumpThread
    """One of the threads."""
    first: int
    """The number of the first transaction to decide."""
    numbers: list[int]
    """The numbers of the threads."""


def _plan_word(
    together: Sequence[_Equals], segment: Segment, threads: Sequence[DumpThread], planned: list[Planned]
) -> None:
    """Plan a segment for up to 64 threads and those that are equal to them. Write the plans to ``planned``."""
    scratch = _scratch
    # The compiled code has only the addresses of the flags, so these references keep the arrays.
    pinned = [thread.flags.addresses() for thread, _, _ in together]
    scratch.slaves[: len(together)] = np.array(
        [
            (address, rules, not t.flags.is_on, first, t.chunk_size, t.position, t.resume)
            for (t, first, _), (_, address, _, rules) in zip(together, pinned, strict=True)
        ],
        np.int64,
    )
    room = _room(segment, min(one.thread.chunk_size for one in together))
    scratch.make_room(segment, max(len(flags) for flags, _, _, _ in pinned), room)
    scratch.call += 1
    columns = K.Columns(
        D.Events(segment.offset, segment.size, segment.role, segment.subject),
        D.Transactions(segment.txn_event, segment.txn_subject, False, segment.end, False),
        segment.txn_source,
        segment.txn_number,
        segment.txn_set,
        segment.set_subject,
        roles_for_hits(segment),
    )
    low = min(one.first for one in together)
    done, file = scratch.done, segment.file
    begin = 0
    while begin < len(together):
        end = K.plan_slaves(
            columns,
            scratch.slaves,
            len(together),
            begin,
            low,
            scratch.call,
            room,
            scratch.walk,
            scratch.words,
            scratch.shared,
            scratch.streams,
            done,
        )
        results = done.slaves[begin:end].tolist()
        starts = done.starts[: results[-1][K.D_CHUNKS]].tolist()
        for (_, first, numbers), row in zip(together[begin:end], results, strict=True):
            first_chunk, until_chunk, at, until, position, resume = row
            packed = done.data[at:until].copy()
            plans: list[ChunkPlan] = [
                PackedPlan(file, packed, start - at) for start in starts[first_chunk:until_chunk]
            ]
            for number in numbers:
                planned[number] = plans
                threads[number].advance(segment, first, position, resume)
        begin = end


def _room(segment: Segment, chunk_size: int) -> tuple[int, int]:
    """Return the most chunks that one slave gets from a segment, and the most integers in which they are packed."""
    n_events, n_txn = len(segment.offset), len(segment.txn_subject)
    chunks = min((segment.end - segment.start) // max(chunk_size, 1), n_events) + 2
    gaps = most_gaps(n_txn) + chunks
    # Each cut of a chunk or gap can cut a run of GTIDs in two.
    completed, runs = n_txn + chunks, n_txn + gaps
    most = K.HEAD * chunks + 3 * (n_events + completed + runs) + 4 * gaps + 2 * most_hits(n_events, gaps)
    return chunks, most
