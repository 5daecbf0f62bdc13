"""The count of hits: how often events that the master drops would have used each rule of the slave's filter.

The slave never sees dropped events, but ``performance_schema.replication_applier_filters.COUNTER`` must count them.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field

import numpy as np
import numpy.typing as npt

from dumpfilter.binlog import roles as R
from dumpfilter.dump import _chunk_kernels as K
from dumpfilter.dump.decide import RANGE_COLUMNS, RANGE_OFFSET, RANGE_SIZE
from dumpfilter.dump.walker import Decided, SegmentWalker
from dumpfilter.filter.flags import FILTER_HIT_F, TableFlags
from dumpfilter.filter.hits import COLUMN, KINDS, Hits
from dumpfilter.index.segment import Segment

_NO_HITS: npt.NDArray[np.int64] = np.zeros(len(KINDS), np.int64)
_NO_HITS.flags.writeable = False
_NO_RANGES: npt.NDArray[np.int64] = np.empty((0, RANGE_COLUMNS), np.int64)


@dataclass(slots=True)
class _OpenTransaction:
    """The rule hits of a transaction that continues in the next segment."""

    counts: npt.NDArray[np.int64] = field(default_factory=lambda: _NO_HITS)
    """The number of hits of dropped events for each kind of rule, in the order of ``KINDS``."""
    buffered: list[tuple[int, int]] = field(default_factory=list)
    """The file offset and the table's number of each buffered table map. Later rows decide whether the master drops the
    table map, so its hits cannot be counted yet."""

    @property
    def is_empty(self) -> bool:
        """Whether the transaction has no hits so far, and no buffered table map whose drop would count as a hit."""
        return not self.buffered and not self.counts.any()


class HitCounter:
    """Counts the hits (uses of filter rules) by events that the master drops from one stream, segment by segment."""

    def __init__(self) -> None:
        self._open = _OpenTransaction()

    def count(
        self,
        segment: Segment,
        txn_subject: npt.NDArray[np.int32],
        decided: Decided,
        walker: SegmentWalker,
        flags: TableFlags,
        payload_hits: Mapping[int, Hits],
        out: Sequence[Hits],
    ) -> None:
        """Add the hits of the segment's dropped events to ``out``, which has one counter for each chunk.

        Parameters:
            txn_subject: the number of the table or statement that each transaction changes, before
                :func:`~dumpfilter.dump.walker.collapse` replaces it.
            decided: the decision that ``walker`` has just made about the segment with ``flags``.
            flags: the filter's verdict about each table or statement.
            payload_hits: the hits of dropped events inside of compressed transactions, by the number of the
                Transaction_payload event.
        """
        earlier, chunks, ranges = self._open, decided.chunks, decided.ranges
        buffered = walker.buffered() if segment.open else _NO_RANGES
        counts = np.zeros((len(chunks) + 1, len(KINDS)), np.int64)
        self._open = _OpenTransaction()
        goes_on = not earlier.is_empty
        if goes_on:
            self._open.buffered = _settle(earlier, decided, buffered, flags, counts)
        found = K.count_hits(
            _roles_for_hits(segment),
            segment.subject,
            segment.offset,
            decided.transactions,
            txn_subject,
            decided.first,
            flags.array(),
            flags.hits(),
            flags.drops_hits,
            np.concatenate([ranges, buffered]) if len(buffered) else ranges,
            chunks,
            counts,
        )
        for event, hits in payload_hits.items():
            chunk = _completing(chunks, segment.transaction_of(event))
            for kind, count in hits.items():
                counts[chunk, COLUMN[kind]] += count
        if segment.open:
            self._open.counts = counts[-1]
            self._open.buffered += _table_maps_among(buffered, segment, flags)
        if found or payload_hits or goes_on:
            rows, columns = np.nonzero(counts[:-1])
            figures = counts[rows, columns].tolist()
            for row, column, count in zip(rows.tolist(), columns.tolist(), figures, strict=True):
                out[row][KINDS[column]] = count


def _settle(
    earlier: _OpenTransaction,
    decided: Decided,
    buffered: npt.NDArray[np.int64],
    flags: TableFlags,
    counts: npt.NDArray[np.int64],
) -> list[tuple[int, int]]:
    """Add the hits of the transaction that an earlier segment began to ``counts``.

    The transaction has buffered table maps. This segment has dropped each one that is neither sent nor still buffered.
    Return the offset and the table's number of each table map that is still buffered.
    """
    first_chunk = counts[_completing(decided.chunks, decided.first)]
    first_chunk += earlier.counts
    still_buffered = []
    for offset, subject in earlier.buffered:
        if _holds(buffered, offset):
            still_buffered.append((offset, subject))
        elif not _holds(decided.ranges, offset):
            columns = flags.hits()[subject]
            np.add.at(first_chunk, columns[columns >= 0], 1)
    return still_buffered


def _roles_for_hits(segment: Segment) -> npt.NDArray[np.uint8]:
    """Return the role of each event, with XA COMMIT and XA ROLLBACK treated like BEGIN and COMMIT.

    A slave's applier asks no filter rule about XA COMMIT and XA ROLLBACK, so these statements must not count as hits.
    """
    if not segment.xa_ends:
        return segment.role
    role = segment.role.copy()
    role[list(segment.xa_ends)] = R.FRAME
    return role


def _completing(chunks: npt.NDArray[np.void], transaction: int) -> int:
    return int(np.searchsorted(chunks["transactions"], transaction, "right"))


def _holds(ranges: npt.NDArray[np.int64], offset: int) -> bool:
    begins = ranges[:, RANGE_OFFSET]
    return bool(np.any((begins <= offset) & (offset < begins + ranges[:, RANGE_SIZE])))


def _table_maps_among(
    buffered: npt.NDArray[np.int64], segment: Segment, flags: TableFlags
) -> list[tuple[int, int]]:
    offsets = buffered[buffered[:, RANGE_OFFSET] >= segment.start, RANGE_OFFSET]
    numbers = np.searchsorted(segment.offset, offsets)
    maps = numbers[segment.role[numbers] == R.TABLE_MAP]
    subjects = segment.subject[maps]
    has_hits = flags.array()[subjects] & FILTER_HIT_F != 0
    return list(zip(segment.offset[maps[has_hits]].tolist(), subjects[has_hits].tolist(), strict=True))
