"""Gaps: the places of a chunk at which the master dropped transactions, with everything the slave must know of them.

A slave gets no event of a transaction that the master drops whole. The slave still needs the transaction's GTID, the
position after the transaction, and the hits (uses of filter rules) of the dropped events. A gap tells all three for a
run of consecutive dropped transactions. The gap names its place among the chunk's events, so that the slave knows the
GTID set after each transaction that it applies.

Events are also dropped inside a transaction that is sent in part. Their hits are told by a gap without an end, which
stands before or inside this transaction. Such a gap moves no position.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from dumpfilter.dump import _chunk_kernels as K
from dumpfilter.filter.hits import KINDS, Hits
from dumpfilter.index.segment import DroppedRuns

Integers = npt.NDArray[np.int64]

OF_NEXT = 0
"""The value in place of a gap's end which says that the gap only has hits of the transaction that follows."""


@dataclass(slots=True, eq=False)
class Gaps:
    """The gaps of one chunk, in the order of the stream.

    Nobody changes the fields. The class is not frozen, because a frozen one takes three times as long to make.
    """

    offset: Integers
    """The bytes of the chunk's events that come before each gap, int64 of shape (n,)."""
    end: Integers
    """The position in the binlog file after each gap's last transaction, or ``OF_NEXT``, int64 of shape (n,)."""
    runs_until: Integers
    """The index after each gap's last row of ``runs``, int64 of shape (n,)."""
    runs: Integers
    """The GTIDs of the dropped transactions, int64 of shape (m, 3).

    The columns are the number of the GTID source, the first and the last transaction number of a run.
    """
    hits_until: Integers
    """The index after each gap's last row of ``hits``, int64 of shape (n,)."""
    hits: Integers
    """The hits of dropped events, int64 of shape (k, 2). The columns are the column of ``KINDS`` and the count."""

    def __len__(self) -> int:
        return len(self.offset)

    @property
    def counted(self) -> Hits:
        """The hits of all gaps together, by kind of rule."""
        counts: Hits = Counter()
        for kind, count in self.hits.tolist():
            counts[KINDS[kind]] += count
        return counts

    @property
    def joined_runs(self) -> Integers:
        """The GTIDs of all gaps together, with neighbouring runs joined."""
        if len(self.runs) < 2:
            return self.runs
        joined: Integers = K.joined_runs(self.runs)
        return joined

    def with_ends(self, ends: Integers) -> Gaps:
        """Return the gaps with other positions after their last transactions, for example in another file."""
        return Gaps(self.offset, ends, self.runs_until, self.runs, self.hits_until, self.hits)

    def part(self, first: int, stop: int) -> Gaps:
        """Return the gaps from number ``first`` up to, but without, ``stop``."""
        runs, more_runs = _bounds(self.runs_until, first, stop)
        hits, more_hits = _bounds(self.hits_until, first, stop)
        return Gaps(
            self.offset[first:stop],
            self.end[first:stop],
            self.runs_until[first:stop] - runs,
            self.runs[runs:more_runs],
            self.hits_until[first:stop] - hits,
            self.hits[hits:more_hits],
        )

    def not_before(self, offset: int) -> Gaps:
        """Return the gaps, of which those before ``offset`` stand there."""
        if not offset:
            return self
        return replace(self, offset=np.maximum(self.offset, offset))

    def between(self, begin: int, end: int) -> Gaps:
        """Return the gaps at offsets from ``begin`` up to, but without, ``end``. The result counts from ``begin``."""
        first, stop = np.searchsorted(self.offset, [begin, end]).tolist()
        part = self.part(first, stop)
        return Gaps(part.offset - begin, part.end, part.runs_until, part.runs, part.hits_until, part.hits)


def _bounds(until: Integers, first: int, stop: int) -> tuple[int, int]:
    begin = int(until[first - 1]) if first else 0
    return begin, int(until[stop - 1]) if stop else 0


_NONE: Integers = np.empty(0, np.int64)
NO_GAPS = Gaps(_NONE, _NONE, _NONE, np.empty((0, 3), np.int64), _NONE, np.empty((0, 2), np.int64))
"""The gaps of a chunk in which the master drops nothing."""


def gap_at(offset: int, end: int) -> Gaps:
    """Return one gap without GTIDs and hits, which moves the slave's position to ``end``."""
    return Gaps(
        np.array([offset]),
        np.array([end]),
        np.zeros(1, np.int64),
        NO_GAPS.runs,
        np.zeros(1, np.int64),
        NO_GAPS.hits,
    )


def find_gaps(
    transactions: Sequence[int] | npt.NDArray[np.int64],
    tail_offset: npt.NDArray[np.int64],
    tail_end: npt.NDArray[np.int64],
    first: int,
    start: npt.NDArray[np.int64],
    sent_before: npt.NDArray[np.int64],
    sources: npt.NDArray[np.int32],
    numbers: npt.NDArray[np.int64],
    is_kept: npt.NDArray[np.bool_],
    dropped: DroppedRuns,
    hits: Integers,
) -> tuple[Gaps, Integers]:
    """Return the gaps of consecutive chunks, and for each chunk the index after its last gap.

    Parameters:
        transactions: for each chunk, the number of the first transaction that does not end in the chunk or before.
        tail_offset, tail_end: for each chunk, the place after its last complete transaction, as bytes of the chunk's
            events and as a position in the binlog file.
        first: the number of the first transaction of the first chunk.
        start: the position in the binlog file at which each transaction begins.
        sent_before: for each transaction, the bytes of its chunk's events that come before the transaction.
        sources, numbers: each transaction's GTID; a negative source for none.
        is_kept: whether any event of each transaction is sent.
        dropped: the GTIDs that the Gap events of a relay log tell.
        hits: the hits of dropped events, of shape (k, 3): transaction, column of ``KINDS``, count, by transaction.
    """
    # Columns of one row are contiguous and those of several are not. The kernel is compiled for one layout alone.
    until = np.ascontiguousarray(transactions, np.int64)
    tail_offset, tail_end = np.ascontiguousarray(tail_offset), np.ascontiguousarray(tail_end)
    last = int(until[-1]) if len(until) else first
    most = 2 * (last - first) + len(until)
    places = np.empty((most, 4), np.int64)
    runs = np.empty((max(last - first, 0) + len(dropped.runs), 3), np.int64)
    counts = np.empty((min(len(hits), most * len(KINDS)), 2), np.int64)
    chunk_gaps = np.empty(len(until), np.int64)
    n, n_runs, n_hits = K.find_gaps(
        K.ChunkTails(until, tail_offset, tail_end),
        first,
        K.GapTransactions(start, sent_before, sources, numbers, is_kept),
        dropped,
        hits,
        len(KINDS),
        K.GapOutput(places, runs, counts, chunk_gaps),
    )
    # Each part is a copy, so that the large arrays are freed.
    columns = places[:n].T.copy()
    return (
        Gaps(columns[0], columns[1], columns[2], runs[:n_runs].copy(), columns[3], counts[:n_hits].copy()),
        chunk_gaps,
    )
