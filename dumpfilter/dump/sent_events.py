"""The answer, event by event, which events of a binlog several dumps send.

A dump thread plans byte ranges of chunks. :class:`SentEvents` runs a dump thread for each filter over consecutive
segments, and turns the byte ranges into one boolean for each event and filter. A dump thread may buffer an event until
it has seen later events. Therefore the answers are right only when all segments have been added.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from dumpfilter.binlog.gtid_sources import SourceNumbers
from dumpfilter.dump import plan_many
from dumpfilter.dump.chunk import WHOLE_SEGMENT, ChunkPlan, ReadAt
from dumpfilter.dump.cut import RANGE_OFFSET, RANGE_PATCH, RANGE_SIZE, REPLACED
from dumpfilter.dump.payload import PayloadFilter
from dumpfilter.dump.thread import DumpThread
from dumpfilter.errors import DumpfilterError
from dumpfilter.filter.flags import TableFlags
from dumpfilter.filter.origin import OriginFilter
from dumpfilter.index.segment import Segment

Bools = npt.NDArray[np.bool_]
Int64 = npt.NDArray[np.int64]


class SentEvents:
    """The events that the dumps of several filters send, of consecutive transactions of one binlog file.

    Parameters:
        filters: for each filter its verdicts about tables and statements, and the origins that its slave wants.
        sources: the numbers of the file's GTID sources.
        start: the file offset of the first transaction.
        read: the function that reads bytes of the file, for compressed transactions.
    """

    def __init__(
        self,
        filters: Sequence[tuple[TableFlags, OriginFilter | None]],
        sources: SourceNumbers,
        start: int,
        read: ReadAt,
    ) -> None:
        self._threads = [
            DumpThread(flags, sources, origin=origin, chunk_size=WHOLE_SEGMENT) for flags, origin in filters
        ]
        for thread in self._threads:
            thread.start_file(start, read)
        self._payloads = [PayloadFilter(flags) for flags, _ in filters]
        self._offset: Int64 = np.empty(0, np.int64)
        self._sent: Bools = np.empty((len(filters), 0), np.bool_)
        self._inside: list[dict[int, Bools]] = [{} for _ in filters]
        """For each filter, the compressed transactions of which it sends a part: one boolean for each inner event, by
        the file offset of the Transaction_payload event."""

    def add(self, segment: Segment) -> None:
        """Decide the next segment. Raises BinlogError for a compressed transaction that cannot be opened."""
        self._offset = np.concatenate([self._offset, segment.offset])
        new = np.zeros((len(self._threads), segment.offset.size), np.bool_)
        self._sent = np.concatenate([self._sent, new], axis=1)
        number_of = {int(segment.offset[number]): number for number in segment.payloads}
        for k, plans in enumerate(plan_many(self._threads, segment)):
            if isinstance(plans, DumpfilterError):
                raise plans
            for plan in plans:
                self._mark(k, plan)
                for offset in plan.replaced:
                    self._inside[k][offset] = self._payloads[k].sent_inside(segment, number_of[offset])

    def _mark(self, k: int, plan: ChunkPlan) -> None:
        ranges = plan.ranges
        if not len(ranges):
            return
        start = ranges[:, RANGE_OFFSET]
        # A replaced event is sent with another size, and has a byte range for itself.
        size = np.where(ranges[:, RANGE_PATCH] == REPLACED, 1, ranges[:, RANGE_SIZE])
        first = int(np.searchsorted(self._offset, start.min()))
        self._sent[k, first:] |= _within(start, start + size, self._offset[first:])

    def of(self, k: int, offset: Int64) -> Bools:
        """Tell for each event of the file whether filter number ``k`` sends the event.

        ``offset`` has the file offsets of consecutive events.
        """
        if not offset.size:
            return np.empty(0, np.bool_)
        first = int(np.searchsorted(self._offset, offset[0]))
        found: Bools = self._sent[k, first : first + offset.size]
        return found

    def inside(self, k: int, offset: int, count: int) -> Bools:
        """Tell for each event inside a compressed transaction whether filter number ``k`` sends the event.

        ``offset`` is the file offset of the Transaction_payload event, and ``count`` the number of events inside. A
        master may send a compressed transaction whole, since a part of it would need more bytes.
        """
        part = self._inside[k].get(offset)
        if part is not None:
            return part
        return np.full(count, self.of(k, np.array([offset]))[0])


def _within(start: Int64, end: Int64, offset: Int64) -> Bools:
    """Tell for each of the ascending offsets whether one of the disjoint ranges from ``start`` to ``end`` has it."""
    begun = np.searchsorted(np.sort(start), offset, "right")
    found: Bools = begun > np.searchsorted(np.sort(end), offset, "right")
    return found
