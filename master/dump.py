"""One binlog dump for one slave. The dump reads events, filters them, and yields the gRPC messages for the slave."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import TYPE_CHECKING

import structlog

from dumpfilter.dump.chunk import DEFAULT_CHUNK_SIZE, ChunkPlan
from dumpfilter.dump.thread import DumpThread
from dumpfilter.errors import BinlogUnreadable, UndecidedEvent
from dumpfilter.master.chunks import ChunkWriter
from dumpfilter.master.drain import Drains
from dumpfilter.master.dump_start import DumpStart
from dumpfilter.master.register import Register, RegisteredSlave
from dumpfilter.master.store import BinlogStore
from dumpfilter.options.defaults import HEARTBEAT_PERIOD
from dumpfilter.printable import printable
from dumpfilter.v1 import dumpfilter_pb2 as pb

# At run time this import would load pyarrow, which only a master with pre-filtered binlogs (splits) needs.
if TYPE_CHECKING:
    from dumpfilter.master.presplit import Presplit

log = structlog.get_logger("dumpfilter.master")

_IDLE_BYTES = 64 << 20
"""The number of consecutively dropped bytes after which the slave gets a chunk without events, to move its position."""

_IDLE_SECONDS = 0.5
"""The time without an event to send after which the slave gets a chunk without events, seconds.

The chunk moves the slave's position past the events that the filter dropped.
"""


@dataclass(frozen=True)
class DumpOptions:
    """The options that a slave sends with its request for a binlog dump."""

    once: bool = False
    """Whether the dump ends at the end of the newest binlog file, instead of waiting for new events."""
    chunk_size: int = 0
    """The size of the chunks (messages with events) that the slave wants, bytes; 0 for the master's default."""
    heartbeat_period: float = 0.0
    """The time between heartbeats while the master has nothing to send, seconds; 0 for the master's default."""
    filter_version: int = 0
    """The filter version that the slave knew when it chose the start position.

    A newer filter may demand an earlier start position. With 0 the master does not compare versions.
    """
    other_filters_before: bool = False
    """Whether another filter may have chosen the events that the slave has from before the start position.

    Then the slave may hold XA transactions, prepared before the start, that the present filter would drop. The slave
    needs their XA COMMIT or XA ROLLBACK.
    """


class Dump:
    """One binlog dump for one slave, from creation to end. :meth:`chunks` yields the messages for the slave."""

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
        drains: Drains | None = None,
    ) -> None:
        self._store = store
        self._register = register
        self._slave = slave
        self._start = start
        self._once = options.once
        self.chunk_size = options.chunk_size or DEFAULT_CHUNK_SIZE
        self._heartbeat_period = options.heartbeat_period or HEARTBEAT_PERIOD
        self._active = active
        self._drains = drains or Drains()
        self._number = register.begin_dump(slave)
        self._change = slave.change
        self._other_filters_before = options.other_filters_before
        self._file = start.file
        self._position = start.position
        """The position in the dump's first binlog file at which the dump begins, bytes. It does not change later."""
        version = options.filter_version
        if version and (place := self._change.place_after(version)) is not None:
            # The slave's filter changed after the slave had chosen its start position. The dump therefore begins at the
            # position that came with the change.
            self._file, self._position = place
            self._other_filters_before = True
        self._thread = self._new_thread()
        self._writer = ChunkWriter(store, register, slave, start.position, self.chunk_size)
        # A split's binlog holds only events that this one filter chose. It cannot serve a slave that has received
        # parts of prepared transactions under another filter.
        self._named = (
            presplit.for_slave(self._change) if presplit and not self._other_filters_before else None
        )
        self._sent_from_split = False
        self._following: str | None = None
        """The next binlog file, when the dump has read the present file from a split up to its end; otherwise None.

        A split holds binlogs that an earlier job filtered.
        """
        self.taken_over = False
        """Whether the dump ended because a newer dump of the same slave began, or the slave was unregistered."""
        # An earlier dump of this slave may still be waiting for events. The call wakes that dump, which then ends.
        store.wake()

    def _new_thread(self) -> DumpThread:
        change = self._change
        return DumpThread(
            change.flags,
            self._store.sources,
            chunk_size=self.chunk_size,
            exclude=self._start.gtid_set,
            origin=change.origin,
            other_filters_before=self._other_filters_before,
            filter_version=change.slave_version,
        )

    @property
    def _changed(self) -> bool:
        """Whether the slave's filter has changed since this dump began to use it."""
        return self._slave.change.version != self._change.version

    @property
    def _goes_back(self) -> bool:
        """Whether the slave's new filter demands that the dump go back to an earlier position."""
        return self._slave.change.place_after(self._change.version) is not None

    @property
    def _drained(self) -> bool:
        """Whether the master's operator has drained this slave, so that the dump ends at the next boundary."""
        return self._drains.of(self._slave) is not None

    @property
    def active(self) -> bool:
        """Whether the slave is still connected and has not begun a newer dump."""
        return self._active() and self._register.holds(self._slave, self._number)

    def chunks(self) -> Iterator[pb.Chunk]:
        """Yield the slave's chunks (messages with events and positions) until the dump ends.

        With the option ``once`` the dump ends at the end of the binlog. Otherwise the dump waits for
        new events, and ends when the slave disconnects or begins a newer dump. Raises BinlogError where the binlog is
        damaged.
        """
        try:
            yield from self._chunks()
            self.taken_over = not self._register.holds(self._slave, self._number)
        except BinlogUnreadable:
            # The next dump opens the file again, since the handle of a network file system may have become stale.
            self._store.forget_files([self._file])
            raise
        finally:
            self.close()

    def close(self) -> None:
        """Mark the dump as ended. Only a dump whose :meth:`chunks` never ran needs this call."""
        self._register.end_dump(self._slave, self._number)
        self._leave_split()

    def _chunks(self) -> Iterator[pb.Chunk]:
        store = self._store
        # The start position is checked before the first chunk, so that an unusable position fails the request at once.
        self._enter_file(self._file, self._position)
        idle: ChunkPlan | None = None
        idle_since = sent_at = time.monotonic()
        yield self._position_chunk()
        yield from self._from_split()
        while self.active:
            if self._drained and not self._thread.in_transaction:
                if idle is not None:
                    yield from self._writer.chunks(idle, self._thread.filter_version)
                self._drains.check(self._slave)
            if self._changed and self._take_up_change():
                idle = None
                yield self._position_chunk(announce=True)
                sent_at = time.monotonic()
            thread = self._thread
            generation = store.generation
            assert thread.position is not None
            source = self._writer.source
            segment = None if self._following else store.segment_of(source, thread.position)
            if segment is not None:
                store.scan_ahead(source, segment.end)
                try:
                    plans = thread.plan(segment)
                except UndecidedEvent:
                    # The slave learns how far it is before the dump stops, so that it does not ask for more again.
                    if idle is not None:
                        yield from self._writer.chunks(idle, thread.filter_version)
                    raise
                for plan in plans:
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
                    if ends_transaction(plan):
                        self._drains.check(self._slave)
                continue
            if idle is not None:
                yield from self._writer.chunks(idle, thread.filter_version)
                idle, sent_at = None, time.monotonic()
            following = self._following or store.file_following(source, thread.position)
            if following is not None:
                yield self._position_chunk(end_of_file=True)
                self._following = None
                self._enter_file(following)
                yield self._position_chunk(announce=True)
                yield from self._from_split()
                continue
            if self._changed or store.segment_of(source, thread.position) is not None:
                continue
            if self._once:
                source.check_end(last=True)
                yield self._position_chunk(end_of_log=True)
                return
            # The binlog ends inside a transaction, whose end may be far away.
            self._drains.check(self._slave)
            left = sent_at + self._heartbeat_period - time.monotonic()
            if left <= 0:
                yield self._position_chunk(heartbeat=True)
                sent_at = time.monotonic()
                continue
            store.wait(generation, left, lambda: not self.active or self._changed or self._drained)

    def _enter_file(self, file: str, position: int | None = None) -> None:
        """Begin to read a binlog file, at its first event or at ``position``.

        The dump reads this open file to its end, even if another file takes the name meanwhile.
        """
        source = self._store.open_file(file)
        self._file = file
        self._writer.source = source
        self._start_thread(source.file.first_event if position is None else position)

    def _start_thread(self, position: int) -> None:
        file = self._writer.source.file
        relay_rotate = file.first_event if file.is_relay_log else None
        self._thread.start_file(position, self._writer.source.read, relay_rotate=relay_rotate)

    def _take_up_change(self) -> bool:
        """Continue the dump with the slave's new filter, and return whether the dump goes back in the binlog.

        A change of filter may name a position, the position of the slave's applier, and the dump then goes back to it.
        Chunks that are still on their way carry the old filter's version, so the slave can discard them.
        """
        self._leave_split()
        change = self._slave.change
        place = change.place_after(self._change.version)
        self._change = change
        if place is None:
            self._thread.change_filter(
                change.flags, change.slave_version, origin=change.origin, unseen_before=self._sent_from_split
            )
            return False
        self._following = None
        self._other_filters_before = True
        self._thread = self._new_thread()
        self._enter_file(*place)
        return True

    def _from_split(self) -> Iterator[pb.Chunk]:
        """Yield events of the present file from a split, which holds binlogs that an earlier job filtered.

        Reading from the split's binlog with the slave's filter is cheaper than filtering again. The method yields as
        much of the file as the split has. The dump thread then filters from the position that was reached.
        """
        named, position = self._named, self._thread.position
        if named is None or self._changed:
            return
        assert position is not None
        source = self._writer.source
        file = source.file
        for plan in named.plans(file, position, chunk_size=self.chunk_size, exclude=self._start.gtid_set):
            if not self._sent_from_split:
                self._sent_from_split = True
                log.info("dump from a split", **self._split_fields)
            yield from self._writer.chunks(plan, self._thread.filter_version)
            if not self.active:
                return
            if ends_transaction(plan):
                self._drains.check(self._slave)
            if self._changed and (plan.end == plan.resume or self._goes_back):
                break
        if named.position > position:
            # The old dump thread saw none of the XA transactions that the split's events prepared. A new thread treats
            # them like transactions prepared before its start.
            self._thread = self._new_thread()
            self._start_thread(named.position)
            if named.at_end and named.position == file.size:
                self._following = self._store.file_after(self._file)

    def _leave_split(self) -> None:
        """Stop reading already filtered events from a split. From now on the dump thread filters all events."""
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


def ends_transaction(plan: ChunkPlan) -> bool:
    """Tell whether a transaction ends in the chunk, so that the slave has a new resume point after the chunk."""
    return bool(plan.resume_bytes) or plan.end == plan.resume


def _is_idle(plan: ChunkPlan, seconds: float) -> bool:
    """Tell whether a chunk without events may be merged into the next chunk, to send fewer messages."""
    return not plan.size and plan.counts.bytes_read < _IDLE_BYTES and seconds < _IDLE_SECONDS
