"""The count of hits: how often events that the master drops would have used each rule of the slave's filter.

The slave never sees dropped events, but ``performance_schema.replication_applier_filters.COUNTER`` must count them.
"""

from __future__ import annotations

import threading
from collections.abc import Mapping
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

# The columns of a row that tells the hits of one transaction's dropped events.
HIT_TRANSACTION = 0
HIT_KIND = 1
HIT_COUNT = 2
HIT_COLUMNS = 3

NO_HITS: npt.NDArray[np.int64] = np.empty((0, HIT_COLUMNS), np.int64)
"""The hits of transactions that have none."""
_NO_COUNTS: npt.NDArray[np.int64] = np.zeros(len(KINDS), np.int64)
_NO_COUNTS.flags.writeable = False
_NO_RANGES: npt.NDArray[np.int64] = np.empty((0, RANGE_COLUMNS), np.int64)


@dataclass(slots=True)
class _OpenTransaction:
    """The rule hits of a transaction that continues in the next segment."""

    counts: npt.NDArray[np.int64] = field(default_factory=lambda: _NO_COUNTS)
    """The number of hits of dropped events for each kind of rule, in the order of ``KINDS``."""
    buffered: list[tuple[int, int]] = field(default_factory=list)
    """The file offset and the table's number of each buffered table map. Later rows decide whether the master drops the
    table map, so its hits cannot be counted yet."""

    @property
    def is_empty(self) -> bool:
        """Whether the transaction has no hits so far, and no buffered table map whose drop would count as a hit."""
        return not self.buffered and not self.counts.any()


class _Scratch(threading.local):
    """The array that the compiled code fills, one for each thread of the operating system."""

    def __init__(self) -> None:
        self.found: npt.NDArray[np.int64] = np.empty((1024, HIT_COLUMNS), np.int64)


_scratch = _Scratch()


class HitCounter:
    """Lists the hits (uses of filter rules) by events that the master drops from one stream, segment by segment."""

    def __init__(self) -> None:
        self._open = _OpenTransaction()

    @property
    def is_empty(self) -> bool:
        """Whether no hits wait for the end of a transaction."""
        return self._open.is_empty

    def fork(self) -> HitCounter:
        """Return an independent counter at the same place."""
        fork = HitCounter()
        # Each call of find() makes a new object and leaves this one unchanged.
        fork._open = self._open
        return fork

    def find(
        self,
        segment: Segment,
        txn_subject: npt.NDArray[np.int32],
        decided: Decided,
        walker: SegmentWalker,
        flags: TableFlags,
        payload_hits: Mapping[int, Hits],
    ) -> npt.NDArray[np.int64]:
        """Return the hits of the dropped events of each transaction that ends in the segment.

        The rows are in the order of the transactions. The columns are the transaction's number, the column of ``KINDS``
        and the count. A transaction that goes on after the segment gets its hits when it ends.

        Parameters:
            txn_subject: the number of the table or statement that each transaction changes, before
                :func:`~dumpfilter.dump.walker.collapse` replaces it.
            decided: the decision that ``walker`` has just made about the segment with ``flags``.
            flags: the filter's verdict about each table or statement.
            payload_hits: the hits of dropped events inside of compressed transactions, by the number of the
                Transaction_payload event.
        """
        earlier, ranges = self._open, decided.ranges
        buffered = walker.buffered() if segment.open else _NO_RANGES
        self._open = _OpenTransaction()
        found = []
        if not earlier.is_empty:
            self._open.buffered, hits = _settle(earlier, decided, buffered, flags)
            found.append(_hits_of(decided.first, hits))
        found.append(
            self._listed(
                segment,
                txn_subject,
                decided,
                flags,
                np.concatenate([ranges, buffered]) if len(buffered) else ranges,
            )
        )
        for event, counted in payload_hits.items():
            columns = np.zeros(len(KINDS), np.int64)
            for kind, count in counted.items():
                columns[COLUMN[kind]] += count
            found.append(_hits_of(segment.transaction_of(event), columns))
        rows = np.concatenate(found)
        if len(found) > 1:
            rows = rows[np.argsort(rows[:, HIT_TRANSACTION], kind="stable")]
        if segment.open:
            ended = int(decided.chunks["transactions"][-1]) if len(decided.chunks) else decided.first
            complete = int(np.searchsorted(rows[:, HIT_TRANSACTION], ended))
            self._open.counts = np.bincount(
                rows[complete:, HIT_KIND], rows[complete:, HIT_COUNT], len(KINDS)
            ).astype(np.int64)
            self._open.buffered += _table_maps_among(buffered, segment, flags)
            rows = rows[:complete]
        return rows

    def _listed(
        self,
        segment: Segment,
        txn_subject: npt.NDArray[np.int32],
        decided: Decided,
        flags: TableFlags,
        not_dropped: npt.NDArray[np.int64],
    ) -> npt.NDArray[np.int64]:
        while True:
            count = K.list_hits(
                roles_for_hits(segment),
                segment.subject,
                segment.offset,
                decided.transactions,
                txn_subject,
                decided.first,
                flags.array(),
                flags.hits(),
                flags.drops_hits,
                not_dropped,
                _scratch.found,
            )
            if count <= len(_scratch.found):
                return _scratch.found[:count].copy()
            _scratch.found = np.empty((2 * count, HIT_COLUMNS), np.int64)


def _hits_of(transaction: int, counts: npt.NDArray[np.int64]) -> npt.NDArray[np.int64]:
    """Return the rows of one transaction's hits. ``counts`` has the number of hits for each kind of rule."""
    kinds = np.flatnonzero(counts)
    return np.column_stack([np.full(len(kinds), transaction), kinds, counts[kinds]]).astype(np.int64)


def _settle(
    earlier: _OpenTransaction,
    decided: Decided,
    buffered: npt.NDArray[np.int64],
    flags: TableFlags,
) -> tuple[list[tuple[int, int]], npt.NDArray[np.int64]]:
    """Count the hits of the transaction that an earlier segment began, by kind of rule.

    The transaction has buffered table maps. This segment has dropped each one that is neither sent nor still buffered.
    Return the offset and the table's number of each table map that is still buffered, and the counts.
    """
    counts = earlier.counts.copy()
    still_buffered = []
    for offset, subject in earlier.buffered:
        if _holds(buffered, offset):
            still_buffered.append((offset, subject))
        elif not _holds(decided.ranges, offset):
            columns = flags.hits()[subject]
            np.add.at(counts, columns[columns >= 0], 1)
    return still_buffered, counts


def roles_for_hits(segment: Segment) -> npt.NDArray[np.uint8]:
    """Return the role of each event, with XA COMMIT and XA ROLLBACK treated like BEGIN and COMMIT.

    A slave's applier asks no filter rule about XA COMMIT and XA ROLLBACK, so these statements must not count as hits.
    """
    if not segment.xa_ends:
        return segment.role
    role = segment.role.copy()
    role[list(segment.xa_ends)] = R.FRAME
    return role


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
