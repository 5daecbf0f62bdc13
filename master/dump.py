"""One dump over the store: drives the sans-I/O dump thread and yields the contract's chunks."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import numpy as np
import numpy.typing as npt
import structlog

from dumpfilter.binlog.gtid import GtidSet, parse_gtid_set
from dumpfilter.binlog.gtid_sources import SourceKey
from dumpfilter.dump.chunk import DEFAULT_CHUNK_SIZE, ChunkPlan, Counts, GtidRuns, ReadyPlan, render
from dumpfilter.dump.thread import DumpThread, check_start
from dumpfilter.errors import PositionError
from dumpfilter.filter.convert import hits_to_proto
from dumpfilter.master.register import Register, RegisteredSlave
from dumpfilter.master.store import BinlogStore
from dumpfilter.options.defaults import HEARTBEAT_PERIOD
from dumpfilter.printable import printable
from dumpfilter.v1 import dumpfilter_pb2 as pb

if TYPE_CHECKING:  # it brings in pyarrow, which a master without splits does without
    from dumpfilter.master.presplit import Presplit

log = structlog.get_logger("dumpfilter.master")

_IDLE_BYTES = 64 << 20
_IDLE_SECONDS = 0.5
"""After so much dropped, or so long, the slave is told how far its stream has got even though there is nothing
for it."""


_FAR = 16 << 10
"""Reading so many bytes costs as much as one more call for a read."""
_MOST_SPAN = 8 << 20
"""How much is read at once to cut a chunk from, bytes."""


@dataclass(frozen=True)
class DumpStart:
    """Where a dump begins. With a GTID set the place follows from it."""

    file: str = ""
    position: int = 0
    gtid_set: GtidSet | None = None


def start_of(request: pb.DumpRequest, store: BinlogStore) -> DumpStart:
    """Where a request wants to begin. Raises GtidError, BinlogMissing or PositionError."""
    store.refresh()  # another process may have purged the set
    names = store.binlogs.names
    if request.WhichOneof("start") == "gtid_set":
        wanted = parse_gtid_set(request.gtid_set, family=store.family)
        file = _file_for(wanted, store)
        return DumpStart(file, store.first_position(file), wanted)
    place = getattr(request, "from")
    return start_at(place.file or names[0], int(place.position), store)


def start_at(file: str, position: int, store: BinlogStore) -> DumpStart:
    """A place in a file of the set. Raises BinlogMissing or PositionError."""
    if file not in store.binlogs.names and not store.binlogs.refresh():
        store.binlogs.path(file)
    if position < 4:
        if position:
            raise PositionError("a binlog's events begin at 4", file=file, position=position)
        position = 4
    return DumpStart(file, max(position, store.first_position(file)))


def check_boundary(start: DumpStart, store: BinlogStore) -> None:
    """Raises PositionError when the place does not lie between two transactions."""
    segment = store.segment_at(start.file, start.position)
    if segment is not None:  # else it is the end of what has been written
        check_start(segment, start.position)


def _file_for(have: GtidSet, store: BinlogStore) -> str:
    """The newest file before which the slave has everything."""
    for name in reversed(store.binlogs.names):
        before = store.previous_gtids(name)
        if before is None or have.issuperset(before):
            return name
    first = store.binlogs.names[0]
    missing = store.previous_gtids(first)
    assert missing is not None
    raise PositionError(
        f"the slave lacks GTIDs that the master has purged: {missing - have}; seed it from a backup",
        file=first,
    )


class Dump:
    """One dump of one slave: :meth:`chunks` until it is over."""

    def __init__(
        self,
        store: BinlogStore,
        register: Register,
        slave: RegisteredSlave,
        start: DumpStart,
        *,
        once: bool,
        chunk_size: int = 0,
        heartbeat: float = 0.0,
        filter_version: int = 0,
        other_filters_before: bool = False,
        active: Callable[[], bool] = lambda: True,
        presplit: Presplit | None = None,
    ) -> None:
        self._store = store
        self._register = register
        self._slave = slave
        self._start = start
        self._once = once
        self._chunk_size = chunk_size or DEFAULT_CHUNK_SIZE
        self._heartbeat = heartbeat or HEARTBEAT_PERIOD
        self._active = active
        self._number = register.begin_dump(slave)
        self._change = slave.change
        self._other_filters_before = other_filters_before
        self._buffer: npt.NDArray[np.uint8] = np.empty(0, np.uint8)
        self._file = start.file
        self._position = start.position
        """Where the dump (re)starts."""
        if filter_version and (place := self._change.place_after(filter_version)) is not None:
            # the filter was changed after the slave had asked: what it asked for is void
            self._file, self._position = place
            self._other_filters_before = True
        self._thread = self._new_thread()
        # what was chosen with other filters is not in a named binlog
        self._named = (
            presplit.for_slave(self._change) if presplit and not self._other_filters_before else None
        )
        self._presplit = False
        """Whether something was sent from a split."""
        self._following: str | None = None
        """The next file, where the split says that this one has come to its end."""
        self._announce = True
        self.taken_over = False
        """At the end: whether another dump of the same slave began, or the slave is gone."""
        self._told = (start.position, start.position)
        store.wake()  # an earlier dump of this slave sees that it is over

    def _new_thread(self) -> DumpThread:
        change = self._change
        return DumpThread(
            change.flags,
            self._store.sources,
            chunk_size=self._chunk_size,
            exclude=self._start.gtid_set,
            origin=change.origin,
            other_filters_before=self._other_filters_before,
            filter_version=change.version,
        )

    @property
    def _changed(self) -> bool:
        """Whether the slave's filter is another one by now."""
        return self._slave.change.version != self._change.version

    @property
    def active(self) -> bool:
        """Whether this dump should go on."""
        return self._active() and self._register.holds(self._slave, self._number)

    def chunks(self) -> Iterator[pb.Chunk]:
        """The chunks, until the end (``once``), or until the dump is no longer active.

        Raises BinlogError when the binlog is damaged where the dump has got to.
        """
        try:
            yield from self._chunks()
            self.taken_over = not self._register.holds(self._slave, self._number)
        finally:
            self._register.end_dump(self._slave, self._number)
            self._leave_split()

    def _chunks(self) -> Iterator[pb.Chunk]:
        store, thread = self._store, self._thread
        # a position that cannot be used is an error now, not at the first event
        thread.start_file(self._position, store.open_file(self._file).file.read)
        idle: ChunkPlan | None = None
        idle_since = time.monotonic()
        sent_at = time.monotonic()
        yield self._position_chunk()
        yield from self._from_split()
        while self.active:
            thread = self._thread
            if self._changed:
                self._leave_split()
                change = self._slave.change
                place = change.place_after(self._change.version)
                self._change = change
                if place is None:
                    thread.change_filter(
                        change.flags, change.version, origin=change.origin, unseen_before=self._presplit
                    )
                else:
                    # Back to where the slave's applier is, in the same stream. What was sent beyond it and is still
                    # under way the slave tells by its version.
                    idle = None
                    self._file, position = place
                    self._following = None
                    self._other_filters_before = True
                    thread = self._thread = self._new_thread()
                    thread.start_file(position, store.open_file(self._file).file.read)
                    yield self._position_chunk(announce=True)
                    sent_at = time.monotonic()
            generation = store.generation
            assert thread.position is not None
            segment = None if self._following else store.segment_at(self._file, thread.position)
            if segment is not None:
                store.scan_ahead(self._file, segment.end)
                for plan in thread.plan(segment):
                    if idle is not None and idle.absorb(plan):
                        plan = idle
                    idle = None
                    now = time.monotonic()
                    if (
                        not plan.size
                        and plan.counts.bytes_read < _IDLE_BYTES
                        and now - idle_since < _IDLE_SECONDS
                    ):
                        idle = plan
                        continue
                    yield from self._chunk(plan)
                    sent_at = idle_since = now
                    if self._changed and self._goes_back:
                        break
                continue
            if idle is not None:
                yield from self._chunk(idle)
                idle, sent_at = None, time.monotonic()
            following = self._following or store.next_file(self._file, thread.position)
            if following is not None:
                yield self._position_chunk(end_of_file=True)
                self._file, self._following = following, None
                thread.start_file(store.first_position(following), store.open_file(following).file.read)
                yield self._position_chunk(announce=True)
                yield from self._from_split()
                continue
            if self._changed or store.segment_at(self._file, thread.position) is not None:
                continue
            if self._once:
                store.check_last(self._file)
                yield self._position_chunk(end_of_log=True)
                return
            left = sent_at + self._heartbeat - time.monotonic()
            if left <= 0:
                yield self._position_chunk(heartbeat=True)
                sent_at = time.monotonic()
                continue
            store.wait(generation, left, lambda: not self.active or self._changed)

    def _from_split(self) -> Iterator[pb.Chunk]:
        """What a split has of the file that has just begun; then the thread stands where that ends."""
        named, position = self._named, self._thread.position
        if named is None or self._changed:
            return
        assert position is not None
        file = self._store.open_file(self._file).file
        for plan in named.plans(file, position, chunk_size=self._chunk_size, exclude=self._start.gtid_set):
            if not self._presplit:
                self._presplit = True
                log.info("dump from a split", **self._about_split)
            yield from self._chunk(plan)
            if not self.active:
                return
            if self._changed and (plan.end == plan.resume or self._goes_back):
                break
        if named.position > position:
            # it knows nothing of XA transactions that were prepared meanwhile, and decides their ends anew
            self._thread = self._new_thread()
            self._thread.start_file(named.position, file.read)
            if named.at_end and named.position == file.size:
                self._following = self._store.file_after(self._file)

    def _leave_split(self) -> None:
        """Go on by filtering."""
        if self._named is not None:
            self._named.close()
            if self._presplit:
                log.info(
                    "dump leaves the split", **self._about_split, bytes_sent_from_split=self._named.bytes_sent
                )
            self._named = None

    @property
    def _about_split(self) -> dict[str, object]:
        assert self._named is not None
        return {
            "server_id": self._slave.server_id,
            "channel": printable(self._slave.channel),
            "split": printable(str(self._named.directory)),
            "binlog": printable(self._named.binlog.name),
        }

    @property
    def _goes_back(self) -> bool:
        """Whether the filter has changed from a place on that lies behind."""
        return self._slave.change.place_after(self._change.version) is not None

    def _position_chunk(
        self,
        *,
        announce: bool = False,
        end_of_file: bool = False,
        end_of_log: bool = False,
        heartbeat: bool = False,
    ) -> pb.Chunk:
        """A chunk without events: where the stream stands."""
        position = self._thread.position
        chunk = pb.Chunk(
            file=self._file,
            end_position=position,
            resume_position=position,
            filter_version=self._thread.filter_version,
            end_of_file=end_of_file,
            end_of_log=end_of_log,
            heartbeat=heartbeat,
        )
        if announce or self._announce:
            chunk.format_description = self._store.open_file(self._file).file.format_description.raw
            chunk.start_position = position or 0
            self._announce = False
        self._told = (position or 0, position or 0)
        self._register.progress(self._slave, self._file, position or 0, None)
        return chunk

    def _chunk(self, plan: ChunkPlan) -> Iterator[pb.Chunk]:
        """The chunk of a plan; several when an event is larger than a chunk should be."""
        events = self._events(plan) if plan.size else b""
        self._register.progress(self._slave, plan.file, plan.end, plan.counts)
        most = max(2 * self._chunk_size, 1 << 16)
        size = self._chunk_size if len(events) > most else max(len(events), 1)
        for begin in range(0, max(len(events), 1), size):
            piece = events[begin : begin + size] if size < len(events) else events
            last = begin + size >= len(events)
            # the resume point is told with the piece it lies in, or at whose end it lies
            before = begin + size < plan.resume_bytes or (not last and not plan.resume_bytes)
            here = not before and (begin < plan.resume_bytes or (last and not plan.resume_bytes))
            resume = self._told[1] if before else plan.resume
            chunk = pb.Chunk(
                file=plan.file,
                events=piece,
                end_position=plan.end if last else max(self._told[0], resume),
                resume_position=resume,
                resume_bytes=plan.resume_bytes - begin if here and plan.resume_bytes else 0,
                filter_version=self._thread.filter_version,
            )
            if last:
                chunk.counts.CopyFrom(counts_to_proto(plan.counts))
            if here:
                if len(plan.completed):
                    chunk.completed.CopyFrom(self._runs(plan, plan.completed))
                if len(plan.empty):
                    chunk.empty.CopyFrom(self._runs(plan, plan.empty))
                chunk.hits.extend(hits_to_proto(plan.hits))
            yield chunk
        self._told = (plan.end, plan.resume)

    def _events(self, plan: ChunkPlan) -> bytes:
        """The bytes of a plan that sends something."""
        if isinstance(plan, ReadyPlan):
            return plan.events
        file = self._store.open_file(plan.file).file
        ranges = plan.ranges
        low, high = int(ranges[0, 0]), int(ranges[-1, 0] + ranges[-1, 1])
        if len(ranges) == 1 and not ranges[0, 2]:
            return file.read(low, high - low)
        span = high - low
        # ranges near one another are cut from one read; those far apart are read one by one
        if ranges[:, 0].min() < low or span > min(_FAR * len(ranges), _MOST_SPAN):
            return render(plan, b"", 0, file.read, file.format_description)
        if self._buffer.size < span:
            self._buffer = np.empty(max(span, 1 << 20), np.uint8)
        got = file.read_into(self._buffer[:span], low)
        return render(plan, self._buffer[:got], low, file.read, file.format_description)

    def _runs(self, plan: ChunkPlan, runs: GtidRuns) -> pb.GtidRunsSet:
        if isinstance(plan, ReadyPlan):
            return runs_to_proto(runs, plan.keys.__getitem__)
        store = self._store
        return runs_to_proto(runs, lambda number: store.sources.key(number, store.family))


def counts_to_proto(counts: Counts) -> pb.Counts:
    """The contract's form of counts."""
    return pb.Counts(**{name: getattr(counts, name) for name in counts.__slots__})


def runs_to_proto(runs: GtidRuns, key_of: Callable[[int], SourceKey]) -> pb.GtidRunsSet:
    """GTID runs by source, ascending, as distances (see GtidRuns in the contract). ``key_of`` a source's number."""
    members = []
    for source in np.unique(runs[:, 0]).tolist():
        found = runs[runs[:, 0] == source, 1:]
        if np.any(found[1:, 0] < found[:-1, 0]):
            found = found[np.argsort(found[:, 0], kind="stable")]
        steps = np.empty((len(found), 2), np.int64)
        steps[0, 0] = found[0, 0]
        steps[1:, 0] = found[1:, 0] - found[:-1, 1]
        steps[:, 1] = found[:, 1] - found[:, 0] + 1
        member = pb.GtidRuns(runs=steps.ravel().tolist())
        key = key_of(source)
        if isinstance(key[0], bytes):
            member.uuid, member.tag = key
        else:
            member.domain_id, member.server_id = key
        members.append(member)
    return pb.GtidRunsSet(members=members)


__all__ = ["Dump", "DumpStart", "counts_to_proto", "start_of"]
