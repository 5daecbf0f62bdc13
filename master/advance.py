"""The next step of a dump: the chunks that a slave gets after the place at which its dump stands.

A :class:`DumpPlace` is a place in the binlog together with everything that decides what comes next. Slaves whose dumps
stand at equal places get equal chunks. Therefore a step is a function of the place, and its result can be shared. This
module has no threads and keeps nothing.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from dumpfilter.base.errors import BinlogUnreadable, DumpfilterError
from dumpfilter.dump.chunk import ChunkPlan
from dumpfilter.dump.exclusion import Reach
from dumpfilter.dump.thread import DumpThread
from dumpfilter.index.segment import Segment
from dumpfilter.master.indexed_file import IndexedFile
from dumpfilter.master.measurements import MEASURED
from dumpfilter.master.placed import PlacedPlan, ToldPositions
from dumpfilter.master.store import BinlogStore


@dataclass(frozen=True, eq=False)
class DumpPlace:
    """A place in the binlog at which dumps stand, with everything that decides what comes next. Never changed."""

    source: IndexedFile
    """The open binlog file. Another file may take its name meanwhile."""
    thread: DumpThread
    """The filter's dump thread at this place, which only copies of it leave (:meth:`DumpThread.fork`)."""
    end: int
    """The writer's position up to which chunks have told the binlog, bytes. It may lie inside a Gap event."""
    resume: int
    """The writer's last position between two transactions that a chunk has told. A new dump can begin there."""
    encoding: Encoding
    """The form in which the slave gets the chunks."""

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
    def told(self) -> tuple[str, int]:
        """The writer's file and position, as slaves know the place."""
        return self.source.file.begin.file, self.end

    def positions(self, segment: Segment, plans: Sequence[ChunkPlan]) -> list[ToldPositions]:
        """Return the positions around each of the plans, which were made from this place."""
        file, end, resume, last = self.source.file.begin.file, self.end, self.resume, self.thread.resume
        out = []
        for plan in plans:
            before, end = end, segment.position_of(plan.end)
            resume_before = resume
            if plan.resume != last:
                last, resume = plan.resume, segment.position_of(plan.resume)
            out.append(ToldPositions(file, before, resume_before, end, resume))
        return out

    @property
    def key(self) -> Hashable:
        """The key under which dumps share steps.

        Dumps with equal keys get the same messages from here on. None: the dump shares with no other.
        """
        thread = self.thread.key
        if thread is None:
            return None
        return thread, self.source.number, self.end, self.resume, self.encoding


class Encoding(ABC):
    """The form in which one kind of slave gets the chunks of a dump. Equal encodings write equal messages."""

    @abstractmethod
    def pieces(self, place: DumpPlace, segment: Segment, plans: Sequence[ChunkPlan]) -> Sequence[PlacedPlan]:
        """Return the plans of one segment, which were made from ``place``, in a form from which messages are made."""

    @abstractmethod
    def announcement(self, place: DumpPlace, previous: IndexedFile | None) -> bytes:
        """Return the message with which a dump begins at a place: the format description event, and the position.

        ``previous`` is the binlog file of the message before, None if there was none.
        """

    def end_of_file(self, place: DumpPlace) -> Sequence[bytes]:
        """Return the messages which tell a slave that the binlog file ends at this place."""
        return ()

    def heartbeat(self, place: DumpPlace) -> bytes:
        """Return the message that tells a slave at this place that the master is alive."""
        return b""

    def end_of_log(self, place: DumpPlace) -> bytes:
        """Return the last message for a slave at this place, whose dump ends at the end of the binlog."""
        return b""


@dataclass(eq=False)
class Step:
    """The chunks that follow a place, and the place after them."""

    pieces: Sequence[bytes | PlacedPlan]
    """The chunks as messages, or as plans from which messages can be made."""
    after: DumpPlace
    reach: Reach
    before: DumpPlace
    """The place from which the step leads."""


class First(NamedTuple):
    """The first segment after a place, and what the place's dump thread planned."""

    segment: Segment
    thread: DumpThread
    """The dump thread after the segment."""
    plans: list[ChunkPlan] | DumpfilterError
    shared: Shared


@dataclass(eq=False)
class Shared:
    """The parts of steps that places in one segment of one file share."""

    reaches: dict[int, Reach] = field(default_factory=dict)
    """The transactions that steps through the segment passed, by the position where the steps began."""
    pieces: dict[Hashable, Sequence[PlacedPlan]] = field(default_factory=dict)
    """The plans of filters that decided alike."""


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
        if isinstance(planned.plans, DumpfilterError):
            raise planned.plans
    except BinlogUnreadable:
        # The next dump opens the file again, since the handle of a network file system may have become stale.
        store.forget_files([place.file])
        raise
    return _placed(store, place, planned, planned.plans)


def _plan(store: BinlogStore, place: DumpPlace) -> First | None:
    segment = store.segment_of(place.source, place.position)
    if segment is None:
        return None
    thread = place.thread.fork()
    with MEASURED.plan.measured():
        return First(segment, thread, thread.plan(segment), Shared())


def _placed(store: BinlogStore, place: DumpPlace, first: First, plans: Sequence[ChunkPlan]) -> Step:
    segment, thread, shared = first.segment, first.thread, first.shared
    position = place.position
    store.scan_ahead(place.source, segment.end)
    outcome = plans[0].outcome if len(plans) == 1 else None
    key = None
    if outcome is not None:
        key = (outcome, position, place.end, place.resume, place.encoding)
    pieces = None if key is None else shared.pieces.get(key)
    if pieces is None:
        pieces = place.encoding.pieces(place, segment, plans)
        if key is not None:
            shared.pieces[key] = pieces
    reach = shared.reaches.get(position)
    if reach is None:
        reach = shared.reaches[position] = Reach.of(segment, position)
    told = pieces[-1].positions
    after = DumpPlace(place.source, thread, told.end, told.resume, place.encoding)
    return Step(pieces, after, reach, place)


def place_after(store: BinlogStore, step: Step, piece: PlacedPlan) -> DumpPlace | None:
    """Return the place after a chunk of a step, or None if a dump cannot go on there with other chunks.

    A dump can do so between two transactions.
    """
    place, plan = step.before, piece.plan
    segment = store.segment_of(place.source, place.position)
    number = None if segment is None or plan.end != plan.resume else segment.transaction_at(plan.end)
    if segment is None or not number:
        return None
    thread = place.thread.fork()
    thread.plan(segment.before(number))
    return replace(place, thread=thread, end=piece.positions.end, resume=piece.positions.resume)


def step_to_file(place: DumpPlace, source: IndexedFile) -> Step:
    """Return the step from the end of a file to the beginning of the next file."""
    after = place_in(source, place.thread.fork(), encoding=place.encoding)
    pieces = [*place.encoding.end_of_file(place), place.encoding.announcement(after, place.source)]
    return Step(pieces, after, Reach(), place)


def place_in(
    source: IndexedFile,
    thread: DumpThread,
    position: int | None = None,
    *,
    encoding: Encoding,
    told: int | None = None,
) -> DumpPlace:
    """Return the place of a dump thread, which is not in use elsewhere, in a binlog file.

    With None for ``position`` it is the file's first event. ``told`` is the position that a slave named inside a Gap
    event at this place.
    """
    file = source.file
    relay_rotate = file.first_event if file.is_relay_log else None
    position = file.first_event if position is None else position
    thread.start_file(position, source.read, relay_rotate=relay_rotate)
    told = source.position_of(position) if told is None else told
    return DumpPlace(source, thread, told, told, encoding)
