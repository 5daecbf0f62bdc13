"""The next step of a dump: the chunks that a slave gets after the place at which its dump stands.

A :class:`DumpPlace` is a place in the binlog together with everything that decides what comes next. Slaves whose dumps
stand at equal places get equal chunks. Therefore a step is a function of the place, and its result can be shared. This
module has no threads and keeps nothing.
"""

from __future__ import annotations

from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field, replace

import numpy as np

from dumpfilter.dump import ChunkPlan, DumpThread
from dumpfilter.errors import BinlogUnreadable, DumpfilterError
from dumpfilter.index.segment import Segment
from dumpfilter.master.chunks import PlacedPlan, position_chunk
from dumpfilter.master.indexed_file import IndexedFile
from dumpfilter.master.measurements import MEASURED
from dumpfilter.master.store import BinlogStore


@dataclass(frozen=True, eq=False)
class DumpPlace:
    """A place in the binlog at which dumps stand, with everything that decides what comes next. Never changed."""

    source: IndexedFile
    """The open binlog file. Another file may take its name meanwhile."""
    thread: DumpThread
    """The filter's dump thread at this place. Only copies of it go on (:meth:`~dumpfilter.dump.DumpThread.fork`)."""
    end: int
    """The position at which the last chunk ended, bytes."""
    resume: int
    """The last position between two transactions that a chunk has told. A new dump can begin there."""
    protocol: int
    """The version of the protocol in which the chunks are written."""

    @property
    def file(self) -> str:
        """The base name of the binlog file."""
        return self.source.name

    @property
    def position(self) -> int:
        """The position in the file of the next event to be decided, bytes."""
        position = self.thread.position
        assert position is not None
        return position

    @property
    def key(self) -> Hashable:
        """A value that is equal for places with an equal future; None for a place like no other."""
        thread = self.thread.key
        return None if thread is None else (thread, self.source.number, self.end, self.resume, self.protocol)

    def heartbeat(self) -> bytes:
        """Return the chunk that tells a slave at this place that the master is alive."""
        return self._position_chunk(heartbeat=True)

    def end_of_log(self) -> bytes:
        """Return the last chunk for a slave at this place, whose dump ends at the end of the binlog."""
        return self._position_chunk(end_of_log=True)

    def _position_chunk(self, *, heartbeat: bool = False, end_of_log: bool = False) -> bytes:
        # Inside a transaction a new dump can only begin before the transaction.
        resume = self.resume if self.thread.in_transaction else self.position
        return position_chunk(
            self.source,
            self.end,
            self.position,
            resume,
            self.thread.filter_version,
            heartbeat=heartbeat,
            end_of_log=end_of_log,
        )


@dataclass(eq=False)
class Reach:
    """The GTIDs and the server ids of the transactions that a step passed.

    A slave that has some of the GTIDs, or that ignores one of the servers, needs a step of its own.
    """

    server_ids: set[int] = field(default_factory=set)
    gtids: dict[int, tuple[int, int]] = field(default_factory=dict)
    """The lowest and the highest transaction number of each GTID source, by the source's number."""

    def add(self, segment: Segment, position: int) -> None:
        """Add the transactions of a segment from a position on."""
        starts = segment.offset[segment.txn_event[:-1]]
        first = int(np.searchsorted(starts, position))
        self.server_ids.update(np.unique(segment.txn_server[first:]).tolist())
        source, number = segment.txn_source[first:], segment.txn_number[first:]
        for each in np.unique(source[source >= 0]).tolist():
            of_source = number[source == each]
            self._add(each, int(of_source.min()), int(of_source.max()))
        for each, low, high in segment.dropped.runs.tolist():
            self._add(each, low, high)

    def _add(self, source: int, low: int, high: int) -> None:
        known = self.gtids.get(source, (low, high))
        self.gtids[source] = min(low, known[0]), max(high, known[1])


@dataclass(eq=False)
class Step:
    """The chunks that follow a place, and the place after them."""

    pieces: Sequence[bytes | PlacedPlan]
    """The chunks as messages, or as plans from which messages can be made."""
    after: DumpPlace
    reach: Reach


First = tuple[Segment, DumpThread, "list[ChunkPlan] | DumpfilterError"]
"""A place's first segment, its dump thread after the segment, and what the thread planned."""


def step_from(store: BinlogStore, place: DumpPlace, first: First | None = None) -> Step | None:
    """Return the step from a place, or None when the binlog has nothing more at present.

    A step covers one segment, a scanned part of the file of up to 4 MiB, or leads to the next file. A step has at least
    one chunk, which has no events if the filter drops the whole segment.

    Parameters:
        first: the segment and its plans, when they are known already.

    Raises BinlogError where the binlog is damaged.
    """
    try:
        planned = first or _plan(store, place)
        if planned is None:
            following = store.file_following(place.source, place.position)
            if following is not None:
                return step_to_file(place, store.open_file(following))
            planned = _plan(store, place)
            if planned is None:
                return None
        segment, thread, plans = planned
        if isinstance(plans, DumpfilterError):
            raise plans
    except BinlogUnreadable:
        # The next dump opens the file again, since the handle of a network file system may have become stale.
        store.forget_files([place.file])
        raise
    return _placed(store, place, segment, thread, plans)


def _plan(store: BinlogStore, place: DumpPlace) -> First | None:
    segment = store.segment_of(place.source, place.position)
    if segment is None:
        return None
    thread = place.thread.fork()
    with MEASURED.plan.measured():
        return segment, thread, thread.plan(segment)


def _placed(
    store: BinlogStore, place: DumpPlace, segment: Segment, thread: DumpThread, plans: Sequence[ChunkPlan]
) -> Step:
    store.scan_ahead(place.source, segment.end)
    end, resume = place.end, place.resume
    pieces = []
    for plan in plans:
        pieces.append(PlacedPlan(plan, place.source, end, resume, thread.filter_version, place.protocol))
        end, resume = plan.end, plan.resume
    reach = Reach()
    reach.add(segment, place.position)
    return Step(pieces, replace(place, thread=thread, end=end, resume=resume), reach)


def step_to_file(place: DumpPlace, source: IndexedFile) -> Step:
    """Return the step from the end of a file to the beginning of the next file."""
    ended = position_chunk(
        place.source, place.end, place.position, place.position, place.thread.filter_version, end_of_file=True
    )
    after = place_in(source, place.thread.fork(), protocol=place.protocol)
    return Step([ended, announcement(after, place.file)], after, Reach())


def place_in(
    source: IndexedFile, thread: DumpThread, position: int | None = None, *, protocol: int
) -> DumpPlace:
    """Return the place of a dump thread, which is not in use elsewhere, in a binlog file.

    With None for ``position`` it is the file's first event.
    """
    file = source.file
    relay_rotate = file.first_event if file.is_relay_log else None
    position = file.first_event if position is None else position
    thread.start_file(position, source.read, relay_rotate=relay_rotate)
    return DumpPlace(source, thread, position, position, protocol)


def announcement(place: DumpPlace, previous_file: str) -> bytes:
    """Return the chunk with which a dump begins at a place: the file's format description event, and the position.

    ``previous_file`` is the binlog file of the chunk before, empty if there was none.
    """
    return position_chunk(
        place.source,
        place.position,
        place.position,
        place.position,
        place.thread.filter_version,
        announce=True,
        previous_file=previous_file if previous_file != place.file else "",
    )
