"""The computation of a dump's next step. A dump is the stream of binlog events to one slave, and a step is its next
chunks (messages).

A :class:`DumpPlace` is a binlog position together with everything else that decides the next chunks, such as the
filter. Slaves whose dumps have equal places get equal chunks. Therefore a step is a function of the place, and its
result can be shared. This module has no threads and keeps no state.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Hashable, Sequence
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from dumpfilter.base.errors import BinlogUnreadable, DumpfilterError
from dumpfilter.dump.chunk import ChunkPlan
from dumpfilter.dump.thread import DumpThread, Reach
from dumpfilter.index.segment import Segment
from dumpfilter.master.indexed_file import IndexedFile
from dumpfilter.master.measurements import MEASURED
from dumpfilter.master.placed import PlacedPlan, ToldPositions
from dumpfilter.master.store import BinlogStore


@dataclass(frozen=True, eq=False)
class DumpPlace:
    """A position that a dump has reached in a binlog file, with everything else that decides the dump's next messages:
    the filter's state and the message format. Immutable.
    """

    source: IndexedFile
    """The open binlog file. Another file may take its name in the meantime."""
    thread: DumpThread
    """The dump thread (the filter and its state) at this position. Only copies of it go on from here
    (:meth:`DumpThread.fork`).
    """
    end: int
    """The position in the writer's binlog file up to which chunks were made, bytes. It may lie inside a Gap event of a
    relay log.

    The writer is the server that wrote the events.
    """
    resume: int
    """The last transaction boundary up to which chunks were made, a position in the writer's binlog file. A new dump
    can begin there.
    """
    encoding: Encoding
    """The message format in which the slave gets the chunks."""

    @property
    def file(self) -> str:
        """The base name of the binlog file that the dump reads. In a relay log the name may differ from the one
        that slaves know.
        """
        return self.source.name

    @property
    def position(self) -> int:
        """The byte offset in the file of the next event that the dump decides about."""
        position = self.thread.position
        assert position is not None
        return position

    @property
    def told(self) -> tuple[str, int]:
        """The writer's binlog file and the position in it that the dump has reached, as slaves know them. The writer is
        the server that wrote the events.
        """
        return self.source.file.begin.file, self.end

    def positions(self, segment: Segment, plans: Sequence[ChunkPlan]) -> list[ToldPositions]:
        """Return the positions before and after each chunk (message to a slave) that ``plans`` describe. All positions
        belong to the binlog of the server that wrote the events.

        ``plans`` describe consecutive chunks of ``segment`` (scanned events). The first chunk begins at the position of
        this object.
        """
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
        """The key under which dumps share chunks (messages with events), so that the master makes each message once.
        Dumps at places with equal keys get equal messages.

        The key is None inside a transaction, where no dumps share.
        """
        thread = self.thread.key
        if thread is None:
            return None
        return thread, self.source.number, self.end, self.resume, self.encoding


class Encoding(ABC):
    """The message format of a dump: gRPC messages for dumpfilter's own slaves, or plain binlog events for real replicas
    (MySQL and MariaDB servers).

    Encodings that compare equal write equal messages.
    """

    @abstractmethod
    def pieces(self, place: DumpPlace, segment: Segment, plans: Sequence[ChunkPlan]) -> Sequence[PlacedPlan]:
        """Return objects that make messages of this format, one or more for each of ``plans``.

        Each plan describes one chunk: the byte ranges of ``segment`` (scanned events) that pass the filter. The first
        chunk begins at ``place``, the dump's position.
        """

    @abstractmethod
    def announcement(self, place: DumpPlace, previous: IndexedFile | None) -> bytes:
        """Return the first message of a dump or of the next binlog file in a dump. It has the format description event
        and the position.

        ``place`` is the position at which the dump begins in the file. ``previous`` is the binlog file that the dump
        has just left, or None at the beginning of the dump.
        """

    def end_of_file(self, place: DumpPlace) -> Sequence[bytes]:
        """Return the messages that tell a slave that the dump has reached the end of a binlog file. ``place`` is the
        position of that end.
        """
        return ()

    def heartbeat(self, place: DumpPlace) -> bytes:
        """Return the message that tells a slave that the master is alive. ``place`` is the position that the dump has
        reached.
        """
        return b""

    def end_of_log(self, place: DumpPlace) -> bytes:
        """Return the last message of a dump that ends at the end of the binlog instead of waiting. ``place`` is the
        position of that end.
        """
        return b""


@dataclass(eq=False)
class Step:
    """The chunks (messages to a slave) of one segment, up to 4 MiB of the binlog, or of the change to the next file.

    They lead a dump from the place ``before`` to the place ``after``. A place (:class:`DumpPlace`) is a position in a
    binlog file, together with the slave's filter and what the dump remembers, such as prepared XA transactions.
    """

    pieces: Sequence[bytes | PlacedPlan]
    """The chunks, each as a finished message or as a plan from which messages can be made."""
    after: DumpPlace
    reach: Reach
    before: DumpPlace
    """The place (position, filter and state) at which the chunks begin."""


class First(NamedTuple):
    """The scanned events at a dump's position (a segment of up to 4 MiB), and the chunks (messages) that the dump's
    filter makes of them.

    :class:`~dumpfilter.master.sharing.SharedReader` makes several such objects from one scan, for dumps with different
    filters.
    """

    segment: Segment
    thread: DumpThread
    """The dump thread in its state after the segment."""
    plans: list[ChunkPlan] | DumpfilterError
    shared: Shared


@dataclass(eq=False)
class Shared:
    """A cache of results for one segment (up to 4 MiB of scanned events). It has the GTID ranges of the segment's
    transactions, and the objects that make its messages.

    Dumps that read the segment from different positions or with different filters share the cache.
    """

    reaches: dict[int, Reach] = field(default_factory=dict)
    """The GTID ranges and server ids of the transactions from a byte offset to the segment's end, by this offset."""
    pieces: dict[Hashable, Sequence[PlacedPlan]] = field(default_factory=dict)
    """The encoded plans of filters that decided alike, by decision, position and encoding."""


def step_from(store: BinlogStore, place: DumpPlace, first: First | None = None) -> Step | None:
    """Return the next step of a dump, which is its next chunks (messages to a slave). Return None when the binlog has
    no more events at present.

    ``place`` is the dump's binlog position with the filter's state. A step covers one segment, a scanned part of the
    file of up to 4 MiB, or leads to the next file. A step has at least one chunk, which has no events if the filter
    drops the whole segment.

    Parameters:
        first: the scanned segment at ``place`` and the chunks that the filter makes of it, when they are known already.

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
    """Return the position of a dump after the chunk (message) ``piece``, with the filter's state there. Return None if
    the chunk does not end at a transaction boundary.

    ``piece`` is one of the consecutive chunks of ``step``. A dump calls this function to continue from there without
    the later chunks of the step.
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
    """Return the step (messages) that leads a dump from the end of a file, ``place``, to the beginning of the next
    file, ``source``.
    """
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
    """Return the state in which a dump begins to read the binlog file ``source``. ``thread`` is the dump thread (the
    filter and its state), which must not be in use elsewhere.

    ``position`` is a byte offset in the file; None is the file's first event. ``told`` is the position in the binlog of
    the server that wrote the events, if a slave has named one inside a Gap event (dropped transactions) at
    ``position``. Otherwise ``told`` is None.
    """
    file = source.file
    relay_rotate = file.first_event if file.is_relay_log else None
    position = file.first_event if position is None else position
    thread.start_file(position, source.read, relay_rotate=relay_rotate)
    told = source.position_of(position) if told is None else told
    return DumpPlace(source, thread, told, told, encoding)
