"""The plans of a dump that serves a slave's relay log to real replicas, with the writer's positions.

The writer is the server that wrote the binlog of the slave's master. The events of a relay log go to a replica as they
are, with the writer's ``end_log_pos``. Gap events do not go to replicas. In their place a replica gets stand-ins of the
transactions that they tell (:mod:`dumpfilter.packets.relay`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from dumpfilter.binlog.events import HEADER_LENGTH, EventHeader
from dumpfilter.dump import ChunkPlan
from dumpfilter.dump.chunk import Counts
from dumpfilter.errors import BinlogError
from dumpfilter.index.segment import Segment
from dumpfilter.master.advance import DumpPlace
from dumpfilter.master.placed import PlacedPlan
from dumpfilter.packets.empties import with_empties
from dumpfilter.packets.relay import (
    DroppedRun,
    StandIns,
    WriterPlaces,
    dropped_runs,
    last_of_domains,
    mariadb_stand_ins,
    mysql_stand_ins,
    pages,
    writer_places,
)

_MOST_STAND_INS = 32_768
"""The most stand-ins in one message. A Gap event of a few bytes may tell millions of GTIDs."""


@dataclass(eq=False, slots=True)
class RelayPlan(PlacedPlan):
    """A part of a plan for a relay log, which becomes events for real replicas."""

    writer_end: tuple[str, int] = ("", 0)
    """The writer's file and its position after the chunk."""
    places: WriterPlaces | None = None
    starts: Sequence[int] = field(default=())
    runs: list[DroppedRun] = field(default_factory=list)
    """The dropped transactions of which the replica gets stand-ins."""
    begin: int = 0
    """The bytes of the plan's events that the parts before have."""
    stop: int | None = None
    """The bytes of the plan's events up to this part's last; None for all."""
    bytes_gtid: int = 0
    """The bytes of the stand-ins, once messages have been made."""

    @property
    def told(self) -> tuple[str, int]:
        """The writer's file and its position after the chunk."""
        return self.writer_end

    @property
    def counts(self) -> Counts:
        """The chunk's counts, with the bytes of the stand-ins.

        The plan itself does not have them, because a slave of dumpfilter at the same place may share the plan.
        """
        return replace(self.plan.counts, bytes_gtid=self.bytes_gtid) if self.bytes_gtid else self.plan.counts

    def messages(self, chunk_size: int) -> Iterator[bytes]:
        """Yield the chunk's events as one message, which is empty if the chunk has neither events nor stand-ins."""
        events = memoryview(self._bytes())[self.begin : self.stop]
        self.note_commit_time(events)
        if not self.runs:
            yield bytes(events)
            return
        made = self._stand_ins()
        fd = self.source.file.format_description
        out = with_empties(events, made.empties, made.read, fd)
        self.bytes_gtid = made.empties.size(fd.checksum)
        self.source.check()
        yield bytes(out)

    def _bytes(self) -> bytes | memoryview:
        """Return the bytes of the whole plan's events."""
        if not len(self.plan.ranges):
            return b""
        events = self.read()
        return events if isinstance(events, bytes) else events.data

    def _stand_ins(self) -> StandIns:
        assert self.places is not None
        fd = self.source.file.format_description
        if fd.family == "mariadb":
            return mariadb_stand_ins(self.runs, self.places, fd)
        return mysql_stand_ins(self.runs, self.places, fd, self._gtid_event)

    def _gtid_event(self, transaction: int) -> bytes:
        """Return the Gtid event of a transaction that the slave's own filter drops."""
        at = self.starts[transaction]
        size = EventHeader.unpack(self.source.read(at, HEADER_LENGTH)).size
        return self.source.read(at, size)


def relay_pieces(
    place: DumpPlace, segment: Segment, plans: Sequence[ChunkPlan], filter_version: int, *, by_gtid: bool
) -> list[PlacedPlan]:
    """Return the plans of one segment of a relay log, with the writer's positions and the stand-ins.

    ``by_gtid`` says whether the replica names GTIDs, so that dropped transactions need stand-ins. Raises BinlogError.
    """
    source = place.source
    track = source.track
    try:
        places, after = writer_places(segment, source.read, track.at(segment.start))
    except BinlogError as error:
        source.check()
        raise error.located(source.name) from error
    track.note(after)
    starts = segment.offset[segment.txn_event[:-1]]
    # A transaction that began in an earlier segment begins at the last boundary.
    begins = starts.tolist()
    if segment.continues:
        begins[0] = place.resume
    position, end, resume = place.position, place.end, place.resume
    pieces: list[PlacedPlan] = []
    for plan in plans:
        until = int(np.searchsorted(starts, plan.end))
        told = (track.begin.file, int(places.end[until - 1]) if until else track.at(plan.end).end)
        runs = dropped_runs(plan, segment, position, source.gtid_source) if by_gtid else []
        if segment.format_description.family == "mariadb":
            runs = last_of_domains(runs)
        pieces += _parts(RelayPlan(plan, source, end, resume, filter_version, told, places, begins, runs))
        position, end, resume = plan.end, plan.end, plan.resume
    return pieces


def _parts(whole: RelayPlan) -> Iterator[RelayPlan]:
    """Yield a plan in parts with at most ``_MOST_STAND_INS`` stand-ins each."""
    runs = list(pages(whole.runs, _MOST_STAND_INS))
    if len(runs) < 2:
        yield whole
        return
    plan = whole.plan
    begin = 0
    for number, page in enumerate(runs):
        is_last = number == len(runs) - 1
        stop = None if is_last else runs[number + 1][0].place
        moved = [replace(run, place=run.place - begin) for run in page]
        # A part before the last one ends between two stand-ins, at no position of the writer.
        part = plan if is_last else replace(plan, resume=whole.resume, resume_bytes=0, counts=Counts())
        yield RelayPlan(
            part,
            whole.source,
            whole.end,
            whole.resume,
            whole.filter_version,
            whole.writer_end,
            whole.places,
            whole.starts,
            moved,
            begin,
            stop,
        )
        begin = stop or 0
