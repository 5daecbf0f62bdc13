"""One dump of the store: it drives a dump thread and yields the contract's chunks."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import structlog

from dumpfilter.dump.chunk import DEFAULT_CHUNK_SIZE, ChunkPlan
from dumpfilter.dump.thread import DumpThread
from dumpfilter.master.chunks import ChunkWriter
from dumpfilter.master.dump_start import DumpStart
from dumpfilter.master.register import Register, RegisteredSlave
from dumpfilter.master.store import BinlogStore
from dumpfilter.options.defaults import HEARTBEAT_PERIOD
from dumpfilter.printable import printable
from dumpfilter.v1 import dumpfilter_pb2 as pb

if TYPE_CHECKING:  # it brings in pyarrow, which a master without splits does without
    from dumpfilter.master.presplit import Presplit

log = structlog.get_logger("dumpfilter.master")

_IDLE_BYTES = 64 << 20
"""After so many dropped bytes the slave gets a chunk without events, so that its position moves."""

_IDLE_SECONDS = 0.5
"""After so many seconds in which everything was dropped the slave gets a chunk without events."""


@dataclass(frozen=True)
class DumpOptions:
    """A slave's wishes for one dump."""

    once: bool = False
    """End at the end of the newest file."""
    chunk_size: int = 0
    """The size of a chunk, bytes; 0 leaves it to the master."""
    heartbeat_period: float = 0.0
    """The time between heartbeats when there is nothing to send, seconds; 0 leaves it to the master."""
    filter_version: int = 0
    """The version of the filter for which the slave chose the start; 0 takes the filter as it is."""
    other_filters_before: bool = False
    """Whether other filters decided what the slave has before the start."""


class Dump:
    """One dump for one slave. :meth:`chunks` yields until the dump is over."""

    def __init__(
        self,
        store: BinlogStore,
        register: Register,
        slave: RegisteredSlave,
        start: DumpStart,
        options: DumpOptions,
        *,
        active: Callable[[], bool] = lambda: True,
        presplit: Presplit | None = None,
    ) -> None:
        self._store = store
        self._register = register
        self._slave = slave
        self._start = start
        self._once = options.once
        self._chunk_size = options.chunk_size or DEFAULT_CHUNK_SIZE
        self._heartbeat_period = options.heartbeat_period or HEARTBEAT_PERIOD
        self._active = active
        self._number = register.begin_dump(slave)
        self._change = slave.change
        self._other_filters_before = options.other_filters_before
        self._file = start.file
        self._position = start.position
        """The position where the dump begins."""
        version = options.filter_version
        if version and (place := self._change.place_after(version)) is not None:
            # the filter was changed after the slave had chosen the start, and the change has a start of its own
            self._file, self._position = place
            self._other_filters_before = True
        self._thread = self._new_thread()
        self._writer = ChunkWriter(store, register, slave, start.position, self._chunk_size)
        # a named binlog holds only events that this filter chose, also of prepared transactions
        self._named = (
            presplit.for_slave(self._change) if presplit and not self._other_filters_before else None
        )
        self._sent_from_split = False
        self._following: str | None = None
        """The next file, when the split says that this file has come to its end."""
        self.taken_over = False
        """At the end: whether another dump of the same slave began, or the slave is no longer registered."""
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
        """Whether the slave's filter has changed since the dump took it up."""
        return self._slave.change.version != self._change.version

    @property
    def _goes_back(self) -> bool:
        """Whether the filter has changed from a place on that the dump has passed."""
        return self._slave.change.place_after(self._change.version) is not None

    @property
    def active(self) -> bool:
        """Whether this dump should go on."""
        return self._active() and self._register.holds(self._slave, self._number)

    def chunks(self) -> Iterator[pb.Chunk]:
        """Yield chunks until the end (``once``), or until the dump is no longer active.

        Raises BinlogError where the binlog is damaged.
        """
        try:
            yield from self._chunks()
            self.taken_over = not self._register.holds(self._slave, self._number)
        finally:
            self._register.end_dump(self._slave, self._number)
            self._leave_split()

    def _chunks(self) -> Iterator[pb.Chunk]:
        store = self._store
        # a position that cannot be used is an error now, not at the first event
        self._thread.start_file(self._position, store.open_file(self._file).file.read)
        idle: ChunkPlan | None = None
        idle_since = sent_at = time.monotonic()
        yield self._position_chunk()
        yield from self._from_split()
        while self.active:
            if self._changed and self._take_up_change():
                idle = None
                yield self._position_chunk(announce=True)
                sent_at = time.monotonic()
            thread = self._thread
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
                    if _is_idle(plan, now - idle_since):
                        idle = plan
                        continue
                    yield from self._writer.chunks(plan, thread.filter_version)
                    sent_at = idle_since = now
                    if self._changed and self._goes_back:
                        break
                continue
            if idle is not None:
                yield from self._writer.chunks(idle, thread.filter_version)
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
            left = sent_at + self._heartbeat_period - time.monotonic()
            if left <= 0:
                yield self._position_chunk(heartbeat=True)
                sent_at = time.monotonic()
                continue
            store.wait(generation, left, lambda: not self.active or self._changed)

    def _take_up_change(self) -> bool:
        """Go on with the slave's new filter, and return whether the dump goes back to the change's place.

        That place is the position of the slave's applier. Chunks of the old filter that are still under way have the
        old version, by which the slave knows them.
        """
        self._leave_split()
        change = self._slave.change
        place = change.place_after(self._change.version)
        self._change = change
        if place is None:
            self._thread.change_filter(
                change.flags, change.version, origin=change.origin, unseen_before=self._sent_from_split
            )
            return False
        self._file, position = place
        self._following = None
        self._other_filters_before = True
        self._thread = self._new_thread()
        self._thread.start_file(position, self._store.open_file(self._file).file.read)
        return True

    def _from_split(self) -> Iterator[pb.Chunk]:
        """Yield the chunks that a split has of the file that has just begun, and put the thread after them."""
        named, position = self._named, self._thread.position
        if named is None or self._changed:
            return
        assert position is not None
        file = self._store.open_file(self._file).file
        for plan in named.plans(file, position, chunk_size=self._chunk_size, exclude=self._start.gtid_set):
            if not self._sent_from_split:
                self._sent_from_split = True
                log.info("dump from a split", **self._split_fields)
            yield from self._writer.chunks(plan, self._thread.filter_version)
            if not self.active:
                return
            if self._changed and (plan.end == plan.resume or self._goes_back):
                break
        if named.position > position:
            # the old thread has not seen the transactions that were prepared meanwhile
            self._thread = self._new_thread()
            self._thread.start_file(named.position, file.read)
            if named.at_end and named.position == file.size:
                self._following = self._store.file_after(self._file)

    def _leave_split(self) -> None:
        """Go on by filtering."""
        if self._named is not None:
            self._named.close()
            if self._sent_from_split:
                log.info(
                    "dump leaves the split",
                    **self._split_fields,
                    bytes_sent_from_split=self._named.bytes_sent,
                )
            self._named = None

    @property
    def _split_fields(self) -> dict[str, object]:
        """The slave and the named binlog, for the log."""
        assert self._named is not None
        return {
            "server_id": self._slave.server_id,
            "channel": printable(self._slave.channel),
            "split": printable(str(self._named.directory)),
            "binlog": printable(self._named.binlog.name),
        }

    def _position_chunk(
        self,
        *,
        announce: bool = False,
        end_of_file: bool = False,
        end_of_log: bool = False,
        heartbeat: bool = False,
    ) -> pb.Chunk:
        return self._writer.position(
            self._file,
            self._thread,
            announce=announce,
            end_of_file=end_of_file,
            end_of_log=end_of_log,
            heartbeat=heartbeat,
        )


def _is_idle(plan: ChunkPlan, seconds: float) -> bool:
    """Tell whether a plan without events may wait for the next plan."""
    return not plan.size and plan.counts.bytes_read < _IDLE_BYTES and seconds < _IDLE_SECONDS
