"""The computation of a dump's next step. A dump is the stream of binlog events to one slave, and a step is its next
chunks (messages).

A :class:`DumpPlace` is a binlog position together with everything else that decides the next chunks, such as the
filter. Slaves whose dumps have equal places get equal chunks. Therefore a step is a function of the place, and its
result can be shared. This module keeps no state but a read buffer for each thread, and starts no threads.

The dump thread plans a chunk as a list of byte ranges of a binlog file. A :class:`PlacedPlan` reads these bytes, and
makes the messages of one format (:mod:`dumpfilter.master.encodings`). A message is made once, as bytes, for all slaves
that get it.
"""

from __future__ import annotations

import threading
from abc import ABC, abstractmethod
from collections.abc import Hashable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from typing import Literal, NamedTuple

import numpy as np
import numpy.typing as npt

from dumpfilter.base.errors import BinlogUnreadable, DumpfilterError
from dumpfilter.binlog.gtid_events import commit_time
from dumpfilter.dump.chunk import ChunkPlan, Counts, Window, render_into
from dumpfilter.dump.cut import RANGE_PATCH
from dumpfilter.dump.thread import DumpThread, Reach, plan_many
from dumpfilter.index.segment import Segment
from dumpfilter.master.indexed_file import IndexedFile
from dumpfilter.master.measurements import MEASURED
from dumpfilter.master.store import BinlogStore

_READ_COST = 16 << 10
"""The number of bytes that can be read from a file in the time of one system call.

Two byte ranges with fewer bytes between them are read by one call, together with the bytes between them.
"""

_LONGEST_READ = 8 << 20
"""The largest number of bytes that one read takes from a binlog file when byte ranges are read together."""

_COLD_BYTES = 4 << 20
"""The number of bytes after a byte that was not in the page cache that are assumed to be on the disk only, too."""

_NO_WINDOW = Window(np.empty(0, np.uint8), 0)

Ranges = npt.NDArray[np.int64]
"""Byte ranges of a binlog file, one in each row. The first two columns are the offset and the size, bytes."""

_scratch = threading.local()
"""The buffer of each thread into which bytes of a binlog file are read."""


def read_window(source: IndexedFile, ranges: Ranges, *, cached: bool = False) -> Window | None:
    """Read the bytes from the first to the last byte of ``ranges`` by one system call, and return them as a window.
    Raises BinlogError.

    Return None, and read nothing, when it is cheaper to read each range by its own system call. With ``cached`` also
    return None if the bytes are not in the page cache. The window is valid until the thread calls the function again.
    """
    offset, size = ranges[:, 0], ranges[:, 1]
    low, high = int(offset.min()), int((offset + size).max())
    recent = source.recent(low, high)
    if recent is not None:
        return recent
    span = high - low
    if span > _LONGEST_READ or span - int(size.sum()) > _READ_COST * len(ranges):
        return None
    buffer = _buffer(span)
    if not cached:
        source.read_whole(buffer, low)
    elif not source.file.read_cached(buffer, low):
        source.cold_until = high + _COLD_BYTES
        return None
    source.check()
    return Window(buffer, low)


class ToldPositions(NamedTuple):
    """The positions before and after a chunk (message to slaves), in one binlog file of the server that wrote the
    events. Slaves know only these positions.
    """

    file: str
    before: int
    """The position at which the chunk before this one ended."""
    resume_before: int
    """The last transaction boundary of which the slave knows from the chunks before."""
    end: int
    resume: int


@dataclass(eq=False, slots=True)
class PlacedPlan(ABC):
    """A planned chunk (one message to slaves): the byte ranges to send, the open binlog file, and the positions before
    and after the chunk.

    A subclass makes the messages of one format.
    """

    plan: ChunkPlan
    source: IndexedFile
    """The open binlog file from which the events are read. Another file may take its name in the meantime."""
    positions: ToldPositions
    committed_at: float | None = field(default=None, init=False)
    """The Unix time at which the chunk's first transaction was committed. None before messages are made, or if it is
    not known.
    """

    @property
    def told(self) -> tuple[str, int]:
        """The writer's binlog file and the position after the chunk (message), as slaves know them. The writer is the
        server that wrote the events.
        """
        return self.positions.file, self.positions.end

    @property
    def counts(self) -> Counts:
        """The numbers of events, bytes and transactions in the chunk (message to slaves). They are complete once
        messages have been made.
        """
        return self.plan.counts

    @property
    def needed(self) -> Ranges | None:
        """The byte ranges of the binlog file from which messages are made. None if the messages need further bytes of
        the file.
        """
        return self.plan.ranges

    @abstractmethod
    def messages(self, chunk_size: int, *, window: Window | None = None) -> Iterator[bytes]:
        """Yield the chunk as messages for slaves. Set :attr:`committed_at`, the Unix time of the chunk's first commit.
        Raises BinlogError.

        ``chunk_size`` is the size of events above which a chunk may be split, bytes. ``window`` has bytes of the file
        that are in memory already; None for none.
        """

    def events(self, window: Window | None = None) -> memoryview:
        """Return the bytes of the chunk's events. Set :attr:`committed_at`, the Unix time of the chunk's first commit.
        Raises BinlogError.

        ``window`` has bytes of the file that are in memory already; None for none.
        """
        source, plan = self.source, self.plan
        fd = source.file.format_description
        if not plan.size:
            return memoryview(b"")
        if len(plan.ranges) == 1 and not plan.ranges[0, RANGE_PATCH]:
            low, size, _ = plan.ranges[0].tolist()
            window = window or source.recent(low, low + size)
            if window is not None and window.has(low, low + size):
                events = window.data[low - window.offset :][:size].data
            else:
                events = memoryview(source.read(low, size))
                source.check()
        else:
            # Byte ranges near one another are read together with the bytes between them, which saves system calls.
            data, offset = window or read_window(source, plan.ranges) or _NO_WINDOW
            out = np.empty(plan.size, np.uint8)
            if render_into(out, plan, data, offset, source.read, fd):
                source.check()
            events = out.data
        self.committed_at = commit_time(events, checksum=fd.checksum)
        return events


def _buffer(size: int) -> npt.NDArray[np.uint8]:
    """Return the first ``size`` bytes of the present thread's buffer, which the next call in this thread reuses."""
    kept: npt.NDArray[np.uint8] | None = getattr(_scratch, "buffer", None)
    if kept is None or kept.size < size:
        kept = _scratch.buffer = np.empty(max(size, 1 << 20), np.uint8)
    return kept[:size]


@dataclass(frozen=True, eq=False)
class DumpPlace:
    """A position that a dump has reached in a binlog file, with everything else that decides the dump's next messages:
    the filter's state and the message format. Immutable.
    """

    source: IndexedFile
    """The open binlog file. Another file may take its name in the meantime."""
    thread: DumpThread
    """The dump thread (the filter and its state) at this position. It never changes: a dump continues with a copy
    (:meth:`DumpThread.fork`).
    """
    end: int
    """The position in the writer's binlog file up to which chunks were made, bytes. It may lie inside a Gap event of a
    relay log.

    The writer is the server that wrote the events.
    """
    resume: int
    """The last transaction boundary up to which chunks were made, a position in the binlog file of the server that
    wrote the events. A new dump can begin there.
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


Notice = Literal["end_of_file", "end_of_log", "heartbeat"]
"""The reason for a message without events. The dump has reached the end of a binlog file, ends at the end of the binlog
instead of waiting, or only tells that the master is alive.
"""


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

    def notice(self, place: DumpPlace, why: Notice) -> bytes:
        """Return a message without events, which tells a slave the dump's position, ``place``, and the reason ``why``
        the message is sent. Return empty bytes if the format has no such message.
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
    """The position of the dump before the chunks, with the slave's filter and the dump's state."""


def step_from(store: BinlogStore, place: DumpPlace) -> Step | None:
    """Return the next step of a dump, which is its next chunks (messages to a slave). Return None when the binlog has
    no more events at present. Raises BinlogError where the binlog is damaged.

    ``place`` is the dump's binlog position with the filter's state. A step covers one segment, a scanned part of the
    file of up to 4 MiB, or leads to the next file. A step has at least one chunk, which has no events if the filter
    drops the whole segment.
    """
    (found,) = steps_from(store, [place])
    if isinstance(found, Exception):
        raise found
    return found


def steps_from(store: BinlogStore, places: Sequence[DumpPlace]) -> list[Step | DumpfilterError | None]:
    """Return what :func:`step_from` returns for each of ``places``, or the error that it would raise.

    All places have the same position of one open file. The filters decide together. Filters that decide alike share
    their chunks. Raises BinlogError where the binlog is damaged.
    """
    source, position = places[0].source, places[0].position
    try:
        segment = store.segment_of(source, position)
        if segment is None:
            following = store.file_following(source, position)
            if following is not None:
                return [step_to_file(place, store.open_file(following)) for place in places]
            segment = store.segment_of(source, position)
            if segment is None:
                return [None] * len(places)
        threads = [place.thread.fork() for place in places]
        with MEASURED.plan.measured():
            planned = plan_many(threads, segment)
        unreadable = next((one for one in planned if isinstance(one, BinlogUnreadable)), None)
        if unreadable is not None:
            raise unreadable
    except BinlogUnreadable:
        # The next dump opens the file again, since the handle of a network file system may have become stale.
        store.forget_files([source.name])
        raise
    reach = Reach.of(segment, position)
    alike: dict[Hashable, Sequence[PlacedPlan]] = {}
    return [
        plans
        if isinstance(plans, DumpfilterError)
        else step_over(segment, reach, place, thread, plans, alike)
        for place, thread, plans in zip(places, threads, planned, strict=True)
    ]


def step_over(
    segment: Segment,
    reach: Reach,
    place: DumpPlace,
    thread: DumpThread,
    plans: Sequence[ChunkPlan],
    alike: dict[Hashable, Sequence[PlacedPlan]],
) -> Step:
    """Return the step from ``place`` over ``segment`` (scanned events), with the chunks that ``plans`` describe.

    ``reach`` has the segment's GTID ranges and server ids from ``place`` on. ``thread`` is the dump thread after the
    segment. ``alike`` has the chunks of other filters at the same position, which a filter that decides alike shares.
    """
    outcome = plans[0].outcome if len(plans) == 1 else None
    key = outcome, place.end, place.resume, place.encoding
    pieces = None if outcome is None else alike.get(key)
    if pieces is None:
        pieces = alike[key] = place.encoding.pieces(place, segment, plans)
    told = pieces[-1].positions
    return Step(pieces, DumpPlace(place.source, thread, told.end, told.resume, place.encoding), reach, place)


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
    end = place.encoding.notice(place, "end_of_file")
    announcement = place.encoding.announcement(after, place.source)
    return Step([end, announcement] if end else [announcement], after, Reach(), place)


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
