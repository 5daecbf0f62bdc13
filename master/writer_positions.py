"""The writer's positions that slaves of dumpfilter are told in place of positions in a slave's relay log.

The writer is the server that wrote the binlog of the slave's master. A slave of a chain is told the writer's files and
positions, as at the first master. So it may move between the masters of a chain, and its positions stay valid when a
slave before it discards its relay log.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

import numpy as np
import numpy.typing as npt

from dumpfilter.dump import ChunkPlan
from dumpfilter.errors import BinlogError
from dumpfilter.index.segment import Segment
from dumpfilter.master.advance import DumpPlace
from dumpfilter.master.indexed_file import IndexedFile
from dumpfilter.packets.relay import writer_places

Integers = npt.NDArray[np.int64]


@dataclass(frozen=True, slots=True, eq=False)
class ToldPositions:
    """The positions that the messages of one chunk tell a slave. They lie in one file."""

    file: str
    before: int
    """The position at which the chunk before ended."""
    resume_before: int
    """The last position between two transactions that a chunk before has told."""
    end: int
    resume: int
    gap_ends: Integers
    """The end of each gap of the chunk, int64 of shape (n,)."""


def own_positions(plan: ChunkPlan, end: int, resume: int) -> ToldPositions:
    """Return the positions of a plan for a server's binlog, which the slave is told as they are.

    ``end`` and ``resume`` are what the chunk before has told.
    """
    return ToldPositions(plan.file, end, resume, plan.end, plan.resume, plan.gaps.end)


class WriterPositions:
    """The writer's positions along one segment of a relay log. Raises BinlogError."""

    def __init__(self, source: IndexedFile, segment: Segment) -> None:
        self._source = source
        track = source.track
        try:
            places, after = writer_places(segment, source.read, track.at(segment.start))
        except BinlogError as error:
            source.check()
            raise error.located(source.name) from error
        track.note(after)
        starts = segment.offset[segment.txn_event[:-1]]
        # A transaction that began in an earlier segment has no place here.
        inside = starts >= segment.start
        self._offsets = np.append(starts[inside], segment.end)
        self._positions = np.append(places.before[inside], after.end)

    def of(self, plans: Sequence[ChunkPlan], place: DumpPlace) -> list[ToldPositions]:
        """Return the positions to tell for each of the plans, which were made from ``place``."""
        file = self._source.track.begin.file
        before = self._at(place.end) if place.told is None else place.told
        resume_before = self._at(place.resume) if place.told is None else place.told
        out = []
        for plan in plans:
            end, resume = self._at(plan.end), self._at(plan.resume)
            if plan.resume == place.resume:
                resume = resume_before
            out.append(ToldPositions(file, before, resume_before, end, resume, self._gap_ends(plan)))
            before, resume_before = end, resume
        return out

    def _gap_ends(self, plan: ChunkPlan) -> Integers:
        ends = plan.gaps.end
        if not len(ends):
            return ends
        number = np.minimum(np.searchsorted(self._offsets, ends), len(self._offsets) - 1)
        told = self._positions[number]
        # A gap without an end has 0, and moves no position.
        told[ends == 0] = 0
        for k in np.flatnonzero((self._offsets[number] != ends) & (ends != 0)).tolist():
            told[k] = self._at(int(ends[k]))
        return told

    def _at(self, offset: int) -> int:
        number = int(np.searchsorted(self._offsets, offset))
        if number < len(self._offsets) and self._offsets[number] == offset:
            return int(self._positions[number])
        return self._source.track.at(offset).end


def told_place(place: DumpPlace, offset: int) -> tuple[str, int]:
    """Return the file and position that a slave is told for an offset of the file of ``place``. Raises BinlogError."""
    source = place.source
    if not source.file.is_relay_log:
        return source.name, offset
    if place.told is not None:
        return source.track.begin.file, place.told
    return source.track.position_at(offset)


def told_file(source: IndexedFile) -> str:
    """Return the name of the binlog file that a slave is told: that of the writer if ``source`` is a relay log."""
    return source.track.begin.file if source.file.is_relay_log else source.name
