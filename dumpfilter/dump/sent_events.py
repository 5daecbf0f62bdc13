"""The record of which events of a binlog each of several filters would send, event by event.

A dump thread plans byte ranges. It may buffer an event until it has seen later events, so the answers are right only
when all segments have been added.
"""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from dumpfilter.base.errors import DumpfilterError
from dumpfilter.dump.chunk import holds
from dumpfilter.dump.payload import sent_inside
from dumpfilter.dump.thread import DumpThread, plan_many
from dumpfilter.index.segment import Segment

Bools = npt.NDArray[np.bool_]
Int64 = npt.NDArray[np.int64]


class SentEvents:
    """A record of the events of one binlog file that each of several dump threads sends. A dump thread decides with one
    filter which events a slave is sent.

    :meth:`add` takes the file's segments (its parts, scanned into arrays) in order. Then :meth:`of` and :meth:`inside`
    answer for single events.

    Parameters:
        threads: a dump thread for each filter, at the beginning of the first segment. No thread may have an imposed
            filter (a filter that the master's operator sets for a slave).
    """

    def __init__(self, threads: Sequence[DumpThread]) -> None:
        self._threads = threads
        self._ranges: list[list[Int64]] = [[np.empty((0, 3), np.int64)] for _ in threads]
        self._inside: list[dict[int, Bools]] = [{} for _ in threads]
        """For each thread, the compressed transactions that the thread sends in part, by the file offset of the
        Transaction_payload event. A value has one boolean for each inner event.
        """

    def add(self, segment: Segment) -> None:
        """Take the next segment (part) of the file, and let each dump thread decide which of its events are sent.
        Raises BinlogError for a compressed transaction that cannot be opened.
        """
        number_of = {int(segment.offset[number]): number for number in segment.payloads}
        for thread, plans, ranges, inside in zip(
            self._threads, plan_many(self._threads, segment), self._ranges, self._inside, strict=True
        ):
            if isinstance(plans, DumpfilterError):
                raise plans
            for plan in plans:
                ranges.append(plan.ranges)
                for offset in plan.replaced:
                    inside[offset] = sent_inside(thread.flags, segment, number_of[offset])

    def of(self, k: int, offset: Int64) -> Bools:
        """Return for each event of the file whether dump thread number ``k`` sends it. ``offset`` are the events' byte
        offsets in the file.

        A compressed transaction that the thread sends in part counts as one event that is sent.
        """
        self._ranges[k] = [np.concatenate(self._ranges[k])]
        return holds(self._ranges[k][0], offset)

    def inside(self, k: int, offset: int, count: int) -> Bools:
        """Return for each event inside a compressed transaction whether dump thread number ``k`` sends it.

        ``offset`` is the byte offset in the file of the Transaction_payload event, and ``count`` the number of
        events inside. A master may send a compressed transaction whole because its part would not be smaller. Then all
        inner events count as sent.
        """
        part = self._inside[k].get(offset)
        return np.full(count, self.of(k, np.array([offset]))[0]) if part is None else part
