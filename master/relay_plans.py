"""The plans of a dump that serves a slave's relay log to real replicas, with the writer's positions.

The writer is the server that wrote the binlog of the slave's master. The events of a relay log go to a replica as they
are, with the writer's ``end_log_pos``. Gap events do not go to replicas. In their place a replica gets stand-ins of the
transactions that they tell (:mod:`dumpfilter.packets.relay`).
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass, replace
from typing import ClassVar

from dumpfilter.binlog.events import HEADER_LENGTH, EventHeader
from dumpfilter.dump import ChunkPlan
from dumpfilter.dump.chunk import Counts, Window
from dumpfilter.index.segment import Segment
from dumpfilter.master.advance import DumpPlace
from dumpfilter.master.placed import PlacedPlan, ToldPositions
from dumpfilter.packets.empties import Empties, with_empties
from dumpfilter.packets.relay import (
    DroppedRun,
    domain_ends,
    dropped_runs,
    mariadb_stand_ins,
    mysql_stand_ins,
    pages,
)

_MOST_STAND_INS = 32_768
"""The most stand-ins in one message. A Gap event of a few bytes may tell millions of GTIDs."""


@dataclass(eq=False, slots=True)
class RelayPlan(PlacedPlan):
    """A part of a plan for a relay log, which becomes events for real replicas."""

    reads_extent: ClassVar[bool] = False
    segment: Segment
    resume: int
    """The offset at which the first transaction of the segment begins, if it began in an earlier segment."""
    runs: list[DroppedRun]
    """The dropped transactions of which the replica gets stand-ins."""
    begin: int = 0
    """The bytes of the plan's events that the parts before have."""
    stop: int | None = None
    """The bytes of the plan's events up to this part's last; None for all."""
    bytes_gtid: int = 0
    """The bytes of the stand-ins, once messages have been made."""

    @property
    def counts(self) -> Counts:
        """The chunk's counts, with the bytes of the stand-ins.

        The plan itself does not have them, because a slave of dumpfilter at the same place may share the plan. The last
        part counts the events of all parts.
        """
        counts = self.plan.counts if self.stop is None else Counts()
        return replace(counts, bytes_gtid=self.bytes_gtid) if self.bytes_gtid else counts

    def messages(self, chunk_size: int, *, window: Window | None = None) -> Iterator[bytes]:
        """Yield the chunk's events as one message, which is empty if the chunk has neither events nor stand-ins."""
        events = memoryview(self.events(window) if self.plan.size else b"")[self.begin : self.stop]
        self.note_commit_time(events)
        if not self.runs:
            yield bytes(events)
            return
        made = self._stand_ins()
        fd = self.source.file.format_description
        out = with_empties(events, made, self.source.read, fd)
        self.bytes_gtid = made.size(fd.checksum)
        self.source.check()
        yield bytes(out)

    def _stand_ins(self) -> Empties:
        fd = self.segment.format_description
        if fd.family == "mariadb":
            return mariadb_stand_ins(self.runs, fd)
        return mysql_stand_ins(self.runs, fd, self._gtid_event)

    def _gtid_event(self, transaction: int) -> bytes:
        """Return the Gtid event of a transaction that the slave's own filter drops."""
        began_earlier = self.segment.continues and transaction == 0
        at = self.resume if began_earlier else int(self.segment.txn_start[transaction])
        size = EventHeader.unpack(self.source.read(at, HEADER_LENGTH)).size
        return self.source.read(at, size)


def relay_pieces(
    place: DumpPlace,
    segment: Segment,
    plans: Sequence[ChunkPlan],
    positions: Sequence[ToldPositions],
    filter_version: int,
) -> list[PlacedPlan]:
    """Return the plans of one segment of a relay log with the stand-ins, for a replica that names GTIDs."""
    source = place.source
    pieces: list[PlacedPlan] = []
    for plan, told in zip(plans, positions, strict=True):
        runs = dropped_runs(plan, segment, source.gtid_source)
        if segment.format_description.family == "mariadb":
            runs = domain_ends(runs)
        pieces += _parts(RelayPlan(plan, source, told, filter_version, segment, place.thread.resume, runs))
    return pieces


def _parts(whole: RelayPlan) -> Iterator[RelayPlan]:
    """Yield a plan in parts with at most ``_MOST_STAND_INS`` stand-ins each."""
    runs = list(pages(whole.runs, _MOST_STAND_INS))
    if len(runs) < 2:
        yield whole
        return
    begin = 0
    for number, page in enumerate(runs):
        is_last = number == len(runs) - 1
        stop = None if is_last else runs[number + 1][0].place
        moved = [run._replace(place=run.place - begin) for run in page]
        # A part before the last one ends between two stand-ins, at no position of the writer.
        plan = whole.plan
        if not is_last:
            plan = replace(plan, resume=whole.resume, resume_bytes=0)
        yield replace(whole, plan=plan, runs=moved, begin=begin, stop=stop)
        begin = stop or 0
