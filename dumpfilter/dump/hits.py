"""Hits: how often events that the master drops would have used a rule of the slave's filter."""

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
    """The hits of a transaction that goes on after a segment."""

    counts: npt.NDArray[np.int64] = field(default_factory=lambda: _NO_HITS)
    """The hits of events that are dropped, one entry for each of ``KINDS``."""
    buffered: list[tuple[int, int]] = field(default_factory=list)
    """Offset and subject of each buffered table map with hits: a later segment decides whether the master drops it."""

    @property
    def is_empty(self) -> bool:
        """Whether the transaction has no hits so far, and can get none from buffered events."""
        return not self.buffered and not self.counts.any()


class HitCounter:
    """Counts the hits of one stream, segment by segment."""

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
        """Add the hits of each chunk to the entries of ``out``.

        Parameters:
            txn_subject: the transactions' subjects before :func:`~dumpfilter.dump.walker.collapse`.
            decided: the decision that ``walker`` has just made about the segment with ``flags``.
            payload_hits: hits inside of compressed transactions, by the number of their event.
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

    A table map that was buffered before this segment, is not sent in this segment and is no longer buffered was
    dropped. Return the table maps that are still buffered.
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
    """Return the events' roles, with XA COMMIT and XA ROLLBACK as FRAME.

    The master sends the end of an XA transaction because of the prepared transaction, and a slave's filter takes the
    end for a keyword. No rule is hit by it.
    """
    if not segment.xa_ends:
        return segment.role
    role = segment.role.copy()
    role[list(segment.xa_ends)] = R.FRAME
    return role


def _completing(chunks: npt.NDArray[np.void], transaction: int) -> int:
    """Return the number of the chunk that completes a transaction, or the number of chunks if none does."""
    return int(np.searchsorted(chunks["transactions"], transaction, "right"))


def _holds(ranges: npt.NDArray[np.int64], offset: int) -> bool:
    """Tell whether one of the ranges has the event at a file offset."""
    begins = ranges[:, RANGE_OFFSET]
    return bool(np.any((begins <= offset) & (offset < begins + ranges[:, RANGE_SIZE])))


def _table_maps_among(
    buffered: npt.NDArray[np.int64], segment: Segment, flags: TableFlags
) -> list[tuple[int, int]]:
    """Return offset and subject of each buffered table map of this segment that has hits."""
    offsets = buffered[buffered[:, RANGE_OFFSET] >= segment.start, RANGE_OFFSET]
    numbers = np.searchsorted(segment.offset, offsets)
    maps = numbers[segment.role[numbers] == R.TABLE_MAP]
    subjects = segment.subject[maps]
    has_hits = flags.array()[subjects] & FILTER_HIT_F != 0
    return list(zip(segment.offset[maps[has_hits]].tolist(), subjects[has_hits].tolist(), strict=True))
