"""The decision of one segment by up to 64 filters at a time. This module calls the compiled code of
:mod:`dumpfilter.dump.atoms` and :mod:`dumpfilter.dump.cut`, and holds the arrays that the compiled code fills."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from typing import NamedTuple, Protocol

import numpy as np
import numpy.typing as npt

from dumpfilter.binlog import roles as R
from dumpfilter.dump import atoms as A
from dumpfilter.dump import cut as K
from dumpfilter.dump.chunk import ChunkPlan, PackedPlan
from dumpfilter.filter.boundary import OnUndecided
from dumpfilter.filter.flags import MOST_HITS, TableFlags
from dumpfilter.filter.hits import KINDS
from dumpfilter.index.segment import Segment
from dumpfilter.index.subjects import Subjects

Integers = npt.NDArray[np.int64]

NO_HITS: Integers = np.empty((0, K.HIT_COLUMNS), np.int64)
_HAS_NONE: npt.NDArray[np.bool_] = np.empty(0, np.bool_)


class Carry(NamedTuple):
    """The state of a transaction that goes on in the next segment, for one filter."""

    events: Integers
    """The events that later events decide about, with the columns ``C_...`` of :mod:`dumpfilter.dump.cut`.

    These are the head of a transaction of which nothing is sent yet, the context events and table maps of the open
    statement, and the last rows event.
    """
    is_kept: bool
    """Whether an event of the transaction has been sent."""
    rows_kept: bool
    """Whether rows of the open statement have been sent."""
    hits: Integers
    """The hits of the transaction's dropped events, with the columns ``HIT_...`` of :mod:`dumpfilter.dump.cut`."""

    def hiding(self, offset: int) -> Carry:
        """Return a copy that drops a context event, such as a Rows_query event that later events show forbidden."""
        events = self.events.copy()
        events[events[:, K.C_OFFSET] == offset, K.C_ROLE] = R.HIDDEN
        return self._replace(events=events)


class Flags(Protocol):
    """The verdicts of a filter as bits, one uint32 for each subject (:class:`~dumpfilter.filter.flags.TableFlags`)."""

    @property
    def is_on(self) -> bool:
        """Whether any rule could drop an event."""

    @property
    def on_undecided(self) -> OnUndecided:
        """The fate of an event about which no filter can decide."""

    def addresses(self) -> tuple[npt.NDArray[np.uint32], int, npt.NDArray[np.int8], int]:
        """Return the flags and the rules that each subject matches, each with the address of its first entry."""


class Asked(NamedTuple):
    """One filter, and the place from which it decides a segment."""

    flags: Flags
    first: int
    """The number of the first transaction to decide."""
    chunk_size: int
    position: int
    """The file offset where the last chunk ended."""
    resume: int
    """The last boundary at or before ``position``."""
    lists_ends: bool = False
    """Whether :attr:`Decided.ends` is wanted, which needs a chunk of the whole segment."""


class Decided(NamedTuple):
    """The decision of a segment by one filter."""

    plans: list[ChunkPlan]
    packed: Integers
    """The array that holds all plans."""
    starts: list[int]
    """The index in ``packed`` of each plan."""
    position: int
    resume: int
    carry: Carry | None
    ends: Integers
    """The ends of the transactions of which something is sent, if they are wanted, with the columns ``END_...`` of
    :mod:`dumpfilter.dump.cut`."""


def columns_of(segment: Segment) -> A.Columns:
    """Return a segment's columns, as all filters share them."""
    hit_role = segment.role
    if segment.xa_ends:
        hit_role = hit_role.copy()
        hit_role[list(segment.xa_ends)] = R.FRAME
    return A.Columns(
        offset=segment.offset,
        size=segment.size,
        role=segment.role,
        subject=segment.subject,
        hit_role=hit_role,
        txn_event=segment.txn_event,
        txn_subject=segment.txn_subject,
        txn_source=segment.txn_source,
        txn_number=segment.txn_number,
        txn_set=segment.txn_set,
        set_subject=segment.set_subject,
        dropped=segment.dropped,
        has=_HAS_NONE,
        end=segment.end,
        is_open=segment.open,
        has_gaps=segment.has_inner_gaps,
        carried=0,
        is_kept=False,
        rows_kept=False,
        hits=NO_HITS,
    )


def with_carry(columns: A.Columns, carry: Carry) -> A.Columns:
    """Return a segment's columns with the carried events of the transaction that goes on in the segment."""
    events = carry.events
    n = len(events)
    if n:
        role = events[:, K.C_ROLE].astype(np.uint8)
        txn_event = columns.txn_event + n
        txn_event[0] = 0
        columns = columns._replace(
            offset=np.concatenate([events[:, K.C_OFFSET], columns.offset]),
            size=np.concatenate([events[:, K.C_SIZE], columns.size]),
            role=np.concatenate([role, columns.role]),
            hit_role=np.concatenate([role, columns.hit_role]),
            subject=np.concatenate([events[:, K.C_SUBJECT].astype(np.int32), columns.subject]),
            txn_event=txn_event,
        )
    return columns._replace(
        carried=n,
        is_kept=carry.is_kept,
        rows_kept=carry.rows_kept,
        hits=np.concatenate([carry.hits, columns.hits]),
    )


class _Scratch(threading.local):
    """The arrays that the compiled code fills, one set for each thread of the operating system. They only grow."""

    def __init__(self) -> None:
        self.call = 0
        self.weighed: A.Weighed
        self.transactions: K.Transactions
        self.chunk: K.Chunk
        self.done: K.Done
        self._events = self._transactions = self._runs = self._subjects = self._chunks = self._data = 0

    def make_room(self, columns: A.Columns, subjects: int, chunks: int, data: int) -> None:
        """Enlarge the arrays for a segment, for ``subjects``, and for the results of one filter."""
        events, transactions = len(columns.offset), len(columns.txn_subject)
        runs = transactions + len(columns.dropped[2])
        if events > self._events or transactions > self._transactions or runs > self._runs:
            self._events = max(1024, self._events, 2 * events)
            self._transactions = max(256, self._transactions, 2 * transactions)
            self._runs = max(256, self._runs, 2 * runs)
            self._make(self._events, self._transactions, self._runs)
            self._subjects = 0
        if subjects > self._subjects:
            self._subjects = max(1024, 2 * subjects)
            self.weighed = self.weighed._replace(
                stamp=np.zeros(self._subjects, np.int64),
                subject=np.zeros((self._subjects, A.SUBJECT_WORDS), np.uint64),
            )
        if chunks > self._chunks or data > self._data:
            self._chunks, self._data = max(256, self._chunks, 2 * chunks), max(1 << 14, self._data, 2 * data)
            self.done = K.Done(
                np.zeros((A.FILTERS, K.DONE_COLUMNS), np.int64),
                np.zeros(self._chunks, np.int64),
                np.zeros(self._data, np.int64),
            )

    def _make(self, events: int, transactions: int, runs: int) -> None:
        lists = A.ROOTS + A.MOST_LISTS * events
        self.weighed = A.Weighed(
            stamp=np.zeros(0, np.int64),
            subject=np.zeros((0, A.SUBJECT_WORDS), np.uint64),
            transaction=np.zeros((A.TRANSACTION_WORDS, transactions), np.uint64),
            atom_until=np.zeros(transactions, np.int64),
            atoms=np.zeros((events, A.ATOM_COLUMNS), np.int64),
            atom=np.zeros((events, A.ATOM_WORDS), np.uint64),
            lists=np.zeros((lists, A.LIST_COLUMNS), np.int64),
            list_word=np.zeros(lists, np.uint64),
            live=np.zeros(3, np.uint64),
        )
        self.transactions = K.Transactions(
            until=np.zeros(transactions + 1, np.int64),
            run=np.zeros((runs, K.RUN_COLUMNS), np.int64),
            break_=np.zeros(runs, np.int64),
            start=np.zeros(transactions + 1, np.int64),
            read=np.zeros(transactions + 1, np.int64),
        )
        gaps = _most_gaps(transactions)
        self.chunk = K.Chunk(
            now=np.zeros(K.NOW, np.int64),
            gap=np.zeros((gaps, K.GAP_COLUMNS), np.int64),
            gap_runs=np.zeros(K.RUN_COLUMNS * (runs + gaps), np.int64),
            gap_hits=np.zeros(2 * gaps * len(KINDS), np.int64),
            hits=np.zeros(len(KINDS), np.int64),
            ends=np.zeros((transactions, K.END_COLUMNS), np.int64),
        )


def _most_gaps(transactions: int) -> int:
    """Return the most gaps of a segment: one before and one inside each transaction, and one after the last."""
    return 2 * transactions + 2


def _room(columns: A.Columns, chunk_size: int) -> tuple[int, int]:
    """Return the most chunks that one filter gets from a segment, and the most integers in which they are packed."""
    events, transactions = len(columns.offset), len(columns.txn_subject)
    chunks = events + 2
    if chunk_size > 1:
        chunks = min(int(columns.size.sum()) // chunk_size + 2, chunks)
    gaps = _most_gaps(transactions) + chunks
    # Each cut of a chunk or gap can cut a run of GTIDs in two.
    runs = 2 * (transactions + len(columns.dropped[2])) + chunks + gaps
    hits = min(MOST_HITS * events + len(columns.hits), len(KINDS) * gaps)
    carry = len(KINDS) + K.CARRY_COLUMNS * events + K.END_COLUMNS * transactions
    return chunks, (
        K.HEAD * (chunks + 1)
        + K.RANGE_COLUMNS * events
        + K.RUN_COLUMNS * runs
        + K.GAP_COLUMNS * gaps
        + 2 * hits
        + carry
    )


_scratch = _Scratch()


def decide(file: str, columns: A.Columns, asked: Sequence[Asked]) -> list[Decided]:
    """Return the decision of a segment of a file by each of some filters.

    Columns with carried events or with changes for one filter serve this filter alone.
    """
    found: list[Decided] = []
    for begin in range(0, len(asked), A.FILTERS):
        word = asked[begin : begin + A.FILTERS]
        # The compiled code has only the addresses of the flags, so these references keep the arrays.
        pinned = [one.flags.addresses() for one in word]
        rows = np.array(
            [
                (
                    flags,
                    rules,
                    not one.flags.is_on,
                    one.flags.on_undecided is OnUndecided.SEND,
                    one.first,
                    one.chunk_size,
                    one.position,
                    one.resume,
                    one.lists_ends,
                )
                for one, (_, flags, _, rules) in zip(word, pinned, strict=True)
            ],
            np.int64,
        )
        found += _decide_word(
            file,
            columns,
            rows,
            max(len(flags) for flags, _, _, _ in pinned),
            min(one.first for one in word),
            min(one.chunk_size for one in word),
        )
    return found


class Waiting:
    """Filters that wait at one place of a binlog set, and decide each commit there together.

    A commit has few events, so that a look at each filter would cost more than the decision. The filters' rows of input
    are made once. They change only when the set gets new subjects.
    """

    def __init__(self, filters: Sequence[TableFlags], subjects: Subjects, chunk_size: int) -> None:
        self._filters = filters
        self._subjects = subjects
        self._chunk_size = chunk_size
        self._known = -1
        self._pinned: list[object] = []
        self._rows: Integers = np.zeros((len(filters), A.FILTER_COLUMNS), np.int64)
        self._rows[:, A.F_CHUNK_SIZE] = chunk_size
        for row, flags in zip(self._rows, filters, strict=True):
            row[A.F_IS_OFF], row[A.F_UNMAPPED] = not flags.is_on, flags.on_undecided is OnUndecided.SEND

    def decide(self, segment: Segment, resume: int) -> list[Decided]:
        """Return the decision of the segment that begins at the filters' place by each filter."""
        rows = self._rows
        known = len(self._subjects)
        if known != self._known:
            pinned = [flags.addresses() for flags in self._filters]
            rows[:, A.F_FLAGS : A.F_HITS + 1] = [(flags, rules) for _, flags, _, rules in pinned]
            self._pinned, self._known = [*pinned], known
        rows[:, A.F_POSITION] = segment.start
        rows[:, A.F_RESUME] = resume
        columns = columns_of(segment)
        found: list[Decided] = []
        for begin in range(0, len(rows), A.FILTERS):
            word = rows[begin : begin + A.FILTERS]
            found += _decide_word(segment.file, columns, word, known, 0, self._chunk_size)
        return found


def _decide_word(
    file: str, columns: A.Columns, rows: Integers, subjects: int, low: int, chunk_size: int
) -> list[Decided]:
    """Return the decision by up to 64 filters, one for each of ``rows``.

    ``low`` is the lowest first transaction of a filter, and ``chunk_size`` the smallest size of a chunk.
    """
    scratch = _scratch
    room = _room(columns, chunk_size)
    scratch.make_room(columns, subjects, *room)
    scratch.call += 1
    done = scratch.done
    found: list[Decided] = []
    while len(found) < len(rows):
        begin = len(found)
        end = K.plan(
            columns,
            rows,
            len(rows),
            begin,
            low,
            scratch.call,
            room,
            scratch.weighed,
            scratch.transactions,
            scratch.chunk,
            done,
        )
        results = done.filters[begin:end].tolist()
        starts = done.starts[: results[-1][K.D_CHUNKS]].tolist()
        for first_chunk, until_chunk, at, carry, ends, until, position, resume, is_kept, rows_kept in results:
            packed = done.data[at:until].copy()
            of_filter = [start - at for start in starts[first_chunk:until_chunk]]
            found.append(
                Decided(
                    [PackedPlan(file, packed, start) for start in of_filter],
                    packed,
                    of_filter,
                    position,
                    resume,
                    _carry(packed[carry - at : ends - at], bool(is_kept), bool(rows_kept))
                    if columns.is_open
                    else None,
                    packed[ends - at :].reshape(-1, K.END_COLUMNS),
                )
            )
    return found


def _carry(written: Integers, is_kept: bool, rows_kept: bool) -> Carry:
    counts = written[: len(KINDS)]
    kinds = np.flatnonzero(counts)
    hits = np.zeros((len(kinds), K.HIT_COLUMNS), np.int64)
    hits[:, K.HIT_KIND], hits[:, K.HIT_COUNT] = kinds, counts[kinds]
    return Carry(written[len(KINDS) :].reshape(-1, K.CARRY_COLUMNS).copy(), is_kept, rows_kept, hits)
