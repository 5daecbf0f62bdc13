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
from dataclasses import dataclass, replace

import numpy as np
import numpy.typing as npt

from dumpfilter.dump import cut as K
from dumpfilter.filter.hits import KINDS, Hits
from dumpfilter.index.segment import Segment

Integers = npt.NDArray[np.int64]


@dataclass(slots=True, eq=False)
class Gaps:
    """The gaps of one chunk, in the order of the stream.

    Nobody changes the fields. The class is not frozen, because a frozen one takes three times as long to make.
    """

    row: Integers
    """The gaps, int64 of shape (n, 5), with the columns ``G_...`` of :mod:`dumpfilter.dump.cut`."""
    runs: Integers
    """The GTIDs of the dropped transactions, int64 of shape (m, 3).

    The columns are the number of the GTID source, the first and the last transaction number of a run.
    """
    hits: Integers
    """The hits of dropped events, int64 of shape (k, 2). The columns are the column of ``KINDS`` and the count."""

    def __len__(self) -> int:
        return len(self.row)

    @property
    def offset(self) -> Integers:
        """The bytes of the chunk's events that come before each gap."""
        return self.row[:, K.G_OFFSET]

    @property
    def end(self) -> Integers:
        """The position in the binlog file after each gap's last transaction, or ``OF_NEXT``."""
        return self.row[:, K.G_END]

    @property
    def first(self) -> Integers:
        """The number of each gap's first transaction in the segment."""
        return self.row[:, K.G_FIRST]

    @property
    def runs_until(self) -> Integers:
        """The index after each gap's last row of ``runs``."""
        return self.row[:, K.G_RUNS_UNTIL]

    @property
    def hits_until(self) -> Integers:
        """The index after each gap's last row of ``hits``."""
        return self.row[:, K.G_HITS_UNTIL]

    @property
    def counted(self) -> Hits:
        """The hits of all gaps together, by kind of rule."""
        counts: Hits = Counter()
        for kind, count in self.hits.tolist():
            counts[KINDS[kind]] += count
        return counts

    def of_writer(self, segment: Segment) -> Gaps:
        """Return the gaps, which lie in a segment, with the writer's positions after their last transactions."""
        if segment.writer is None or not len(self):
            return self
        # A gap without an end has 0, and moves no position.
        return self._with(K.G_END, np.where(self.end == 0, 0, segment.positions_of(self.end)))

    def not_before(self, offset: int) -> Gaps:
        """Return the gaps, of which those before ``offset`` stand there."""
        return self._with(K.G_OFFSET, np.maximum(self.offset, offset)) if offset else self

    def _with(self, column: int, values: Integers) -> Gaps:
        row = self.row.copy()
        row[:, column] = values
        return replace(self, row=row)

    def between(self, begin: int, end: int) -> Gaps:
        """Return the gaps at offsets from ``begin`` up to, but without, ``end``. The result counts from ``begin``."""
        first, stop = np.searchsorted(self.offset, [begin, end]).tolist()
        before = [0] * K.GAP_COLUMNS
        before[K.G_OFFSET] = begin
        runs = hits = 0
        if first:
            runs, hits = before[K.G_RUNS_UNTIL :] = self.row[first - 1, K.G_RUNS_UNTIL :].tolist()
        row = self.row[first:stop] - before
        more_runs, more_hits = row[-1, K.G_RUNS_UNTIL :].tolist() if first < stop else (0, 0)
        return Gaps(row, self.runs[runs : runs + more_runs], self.hits[hits : hits + more_hits])


NO_GAPS = Gaps(np.empty((0, K.GAP_COLUMNS), np.int64), np.empty((0, 3), np.int64), np.empty((0, 2), np.int64))
"""The gaps of a chunk in which the master drops nothing."""
