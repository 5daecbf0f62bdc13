"""Gaps: the positions in a chunk (a message to a slave) at which the master dropped transactions, and their data.

A slave gets no event of a transaction that the master drops whole. The slave still needs the transaction's GTID, the
position after the transaction, and the hits (uses of filter rules) of the dropped events. A gap holds all three for a
run of consecutive dropped transactions. It also says before which byte of the chunk's events it lies, so that the
slave knows the GTID set after each transaction that it applies.

Events are also dropped inside a transaction that is sent in part. Their hits are in a gap without an end position,
which stands before or inside this transaction. Such a gap moves no position.
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
    """The gaps of one chunk (a message to a slave). A gap is a position in the chunk at which the master dropped
    consecutive transactions. It holds their GTIDs, the hits (uses of filter rules) of their events, and the position
    after them.

    The fields are never changed. The class is not frozen, because making a frozen one takes three times as long.
    """

    row: Integers
    """The gaps, int64 of shape (n, 5), with the columns ``G_...`` of :mod:`dumpfilter.dump.cut`. The properties of
    this class return single columns.
    """
    runs: Integers
    """The GTIDs of the dropped transactions, int64 of shape (m, 3).

    The columns are the number of the GTID source, the first and the last transaction number of a run.
    """
    hits: Integers
    """The hits (rule uses) of dropped events, int64 of shape (k, 2): the index of the kind of rule in ``KINDS``, and
    the count.
    """

    def __len__(self) -> int:
        return len(self.row)

    @property
    def offset(self) -> Integers:
        """For each gap (a run of dropped transactions), the number of bytes of the message's events that come before
        the gap.
        """
        return self.row[:, K.G_OFFSET]

    @property
    def end(self) -> Integers:
        """For each gap (a run of dropped transactions), the position after its last transaction, a byte offset in the
        binlog file.

        The offset is ``OF_NEXT`` (0) for a gap that moves no position. Such a gap only counts rule uses of events that
        are dropped inside the next transaction.
        """
        return self.row[:, K.G_END]

    @property
    def first(self) -> Integers:
        """For each gap (a run of dropped transactions), the number of its first transaction. Transactions are numbered
        within the segment, the part of the binlog file that is read at once.
        """
        return self.row[:, K.G_FIRST]

    @property
    def runs_until(self) -> Integers:
        """For each gap (a run of dropped transactions), the index after its last row of ``runs`` (the dropped GTIDs).
        The rows of consecutive gaps follow one another.
        """
        return self.row[:, K.G_RUNS_UNTIL]

    @property
    def hits_until(self) -> Integers:
        """For each gap (a run of dropped transactions), the index after its last row of ``hits`` (the uses of filter
        rules). The rows of consecutive gaps follow one another.
        """
        return self.row[:, K.G_HITS_UNTIL]

    @property
    def counted(self) -> Hits:
        """The number of hits (uses of filter rules) of all gaps together, by kind of rule. A gap stands for dropped
        events.
        """
        counts: Hits = Counter()
        for kind, count in self.hits.tolist():
            counts[KINDS[kind]] += count
        return counts

    def of_writer(self, segment: Segment) -> Gaps:
        """Return a copy in which :attr:`end` has positions in the binlog of the server that wrote the events, instead
        of byte offsets in a slave's relay log.

        A gap stands for consecutive transactions that the master dropped, and :attr:`end` is the position after them.
        ``segment`` is the part of the relay log in which the gaps lie. If it is a part of a server's own binlog, the
        gaps are returned unchanged.
        """
        if segment.position is None or not len(self):
            return self
        # A gap without an end has 0, and moves no position.
        return self._with(K.G_END, np.where(self.end == 0, 0, segment.positions_of(self.end)))

    def not_before(self, offset: int) -> Gaps:
        """Return a copy in which every gap before byte ``offset`` of the message's events is moved to this byte. A gap
        stands for consecutive transactions that the master dropped.
        """
        return self._with(K.G_OFFSET, np.maximum(self.offset, offset)) if offset else self

    def _with(self, column: int, values: Integers) -> Gaps:
        row = self.row.copy()
        row[:, column] = values
        return replace(self, row=row)

    def between(self, begin: int, end: int) -> Gaps:
        """Return the gaps that lie from byte ``begin`` up to, but without, byte ``end`` of the message's events.
        Offsets of the result count from ``begin``. A gap stands for consecutive transactions that the master dropped.
        """
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
