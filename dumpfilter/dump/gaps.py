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

from dumpfilter.dump.cut import OF_NEXT
from dumpfilter.filter.hits import KINDS, Hits
from dumpfilter.index.segment import Segment

Integers = npt.NDArray[np.int64]

__all__ = ["NO_GAPS", "OF_NEXT", "Gaps"]


@dataclass(slots=True, eq=False)
class Gaps:
    """The gaps of one chunk, in the order of the stream.

    Nobody changes the fields. The class is not frozen, because a frozen one takes three times as long to make.
    """

    offset: Integers
    """The bytes of the chunk's events that come before each gap, int64 of shape (n,)."""
    end: Integers
    """The position in the binlog file after each gap's last transaction, or ``OF_NEXT``, int64 of shape (n,)."""
    first: Integers
    """The number of each gap's first transaction in the segment, int64 of shape (n,)."""
    runs_until: Integers
    """The index after each gap's last row of ``runs``, int64 of shape (n,)."""
    hits_until: Integers
    """The index after each gap's last row of ``hits``, int64 of shape (n,)."""
    runs: Integers
    """The GTIDs of the dropped transactions, int64 of shape (m, 3).

    The columns are the number of the GTID source, the first and the last transaction number of a run.
    """
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

    def of_writer(self, segment: Segment) -> Gaps:
        """Return the gaps, which lie in a segment, with the writer's positions after their last transactions."""
        if segment.writer is None or not len(self):
            return self
        # A gap without an end has 0, and moves no position.
        return replace(self, end=np.where(self.end == 0, 0, segment.positions_of(self.end)))

    def not_before(self, offset: int) -> Gaps:
        """Return the gaps, of which those before ``offset`` stand there."""
        if not offset:
            return self
        return replace(self, offset=np.maximum(self.offset, offset))

    def between(self, begin: int, end: int) -> Gaps:
        """Return the gaps at offsets from ``begin`` up to, but without, ``end``. The result counts from ``begin``."""
        first, stop = np.searchsorted(self.offset, [begin, end]).tolist()
        runs, more_runs = _bounds(self.runs_until, first, stop)
        hits, more_hits = _bounds(self.hits_until, first, stop)
        return Gaps(
            self.offset[first:stop] - begin,
            self.end[first:stop],
            self.first[first:stop],
            self.runs_until[first:stop] - runs,
            self.hits_until[first:stop] - hits,
            self.runs[runs:more_runs],
            self.hits[hits:more_hits],
        )


def _bounds(until: Integers, first: int, stop: int) -> tuple[int, int]:
    begin = int(until[first - 1]) if first else 0
    return begin, int(until[stop - 1]) if stop else 0


_NONE: Integers = np.empty(0, np.int64)
NO_GAPS = Gaps(_NONE, _NONE, _NONE, _NONE, _NONE, np.empty((0, 3), np.int64), np.empty((0, 2), np.int64))
"""The gaps of a chunk in which the master drops nothing."""
