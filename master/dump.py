"""The binlog dump of one slave. A coroutine yields the messages for the slave, and applies changes of the slave's
filter.
"""

from __future__ import annotations

import time
import zlib
from collections.abc import AsyncGenerator, AsyncIterator, Callable
from dataclasses import dataclass, replace
from typing import NamedTuple

from dumpfilter.base.errors import BinlogUnreadable
from dumpfilter.base.logs import logger
from dumpfilter.base.options.values import HEARTBEAT_PERIOD
from dumpfilter.dump.chunk import DEFAULT_CHUNK_SIZE, ChunkPlan, MessageBytes
from dumpfilter.dump.stream.message import NOTHING_KEPT, Kept
from dumpfilter.dump.stream.pace import LARGEST, Pace
from dumpfilter.dump.thread import DumpThread, Exclusion
from dumpfilter.dump.xa import Earlier
from dumpfilter.master.advance import (
    DumpPlace,
    Encoding,
    GrpcEncoding,
    GrpcPlan,
    Step,
    kept_chunk,
    place_after,
    place_in,
    step_from,
)
from dumpfilter.master.commits import CommitStep
from dumpfilter.master.dump_start import DumpStart, Wanted, ahead_of
from dumpfilter.master.measurements import MEASURED
from dumpfilter.master.register import DumpOver, Register, RegisteredSlave
from dumpfilter.master.sharing import SharedReader
from dumpfilter.master.store import Logged
from dumpfilter.master.who import Drains

log = logger("dumpfilter.master")


@dataclass(frozen=True)
class DumpOptions:
    """The options of one dump (stream of events to a slave): those that the slave sends with its request, the message
    format, and the filters of its earlier dumps.
    """

    once: bool = False
    """Whether the dump ends at the end of the newest binlog file, instead of waiting for new events."""
    chunk_size: int = 0
    """The size of the chunks (messages with events) that the slave asks for, bytes; 0 for the master's default."""
    line_rate: int = 0
    """A rate that the slave's connection is known to carry, bytes per second; 0 if none is known."""
    kept: Kept = NOTHING_KEPT
    """The events at the start position that the slave has already and need not get again."""
    heartbeat_period: float = 0.0
    """The time between heartbeats while the master has nothing to send, seconds; 0 for the master's default."""
    earlier: Earlier | None = None
    """The filters that selected what the slave has from earlier dumps. None: the present filter selected all of it.

    The slave may hold prepared XA transactions that the present filter would drop. The slave needs their XA COMMIT or
    XA ROLLBACK.
    """
    encoding: Encoding | None = None
    """The message format in which the slave gets the events; None for the gRPC messages of dumpfilter's own slaves."""


class Reached(NamedTuple):
    """The binlog position up to which a dump has yielded messages for its slave. File and position belong to the binlog
    of the server that wrote the events, even if the master serves a relay log.
    """

    file: str
    end: int
    """The position in the file up to which the messages cover the binlog, bytes."""
    is_boundary: bool
    """Whether no transaction is open at this position."""
    is_beginning: bool = False
    """Whether the last message only says where the dump begins in the file (:meth:`Encoding.announcement`)."""


class Dump:
    """One binlog dump (stream of events) for one slave. :meth:`messages` yields the messages for the slave.

    The master's register of slaves counts the dump as running from its creation until :meth:`close`. The creation
    raises NotRegistered, AlreadyRegistered or Overloaded if the register accepts no dump of the slave.
    """

    def __init__(
        self,
        reader: SharedReader,
        register: Register,
        slave: RegisteredSlave,
        start: DumpStart,
        options: DumpOptions,
        *,
        drains: Drains | None = None,
    ) -> None:
        self._reader = reader
        self._store = reader.store
        self._register = register
        self._slave = slave
        self._start = start
        self._unknown_domains = start.unknown_domains
        self._drains = drains or Drains()
        self._options = options
        self._is_sized = options.encoding is None
        """Whether the size of messages adapts to the connection's speed. For a real replica it does not, because the
        replica gets each event in a packet of its own.
        """
        most = LARGEST if self._is_sized else DEFAULT_CHUNK_SIZE
        self._pace = Pace(options.chunk_size or most, options.line_rate or None)
        self._heartbeat_period = options.heartbeat_period or HEARTBEAT_PERIOD
        self._waiter = reader.waiter()
        # PURGE BINARY LOGS keeps the files that dumps read, also before the first message.
        slave.file, slave.position = start.file, start.position
        self._number = register.begin_dump(slave, self._waiter.wake)
        self._flags = self._waiter.flags = slave.flags
        """The decisions (send or drop) about tables and statements by the filters that this dump uses."""
        self._exclusion = Exclusion(reader.store.sources, start.gtid_set, slave.origin)
        """The transactions that this slave must not get, since it has them or ignores their server or domain."""
        self._shared_exclusion = self._exclusion.of_equal_slaves()
        """The transactions that neither this slave nor any slave with which it shares messages may get: those of
        ignored servers and domains.
        """
        self._encoding = options.encoding or GrpcEncoding()
        self.reached = Reached(start.file, start.position, is_boundary=True)
        """The binlog position up to which the dump has yielded messages."""
        self._sent_at = 0.0
        self.quiet_seconds: float | None = None
        """The time without a message after which the dump yields one empty message before the next heartbeat is due,
        seconds. At this message the position of a real replica is corrected. None: the dump yields no such message.
        """
        self.sink: Callable[[bytes, Reached], bool] | None = None
        """A function that sends events at once without waiting, or returns False and does nothing. None: there is no
        such function.

        With it, commits that this process receives need not be yielded by :meth:`messages`.
        """
        self._place: DumpPlace
        """The place of the dump (its position and filter) after everything that it has yielded or sent."""

    @property
    def _changed(self) -> bool:
        """Whether the slave now has another filter than this dump uses, and the dump can begin to use the new filter.
        The old filter stays in force until the open transaction ends.
        """
        return self._slave.flags is not self._flags and not self._place.thread.in_transaction

    @property
    def _is_drained(self) -> bool:
        """Whether the operator has drained this slave (sent it away for a while). The dump then ends between two
        transactions.
        """
        return self._drains.of(self._slave.peer) is not None

    @property
    def active(self) -> bool:
        """Whether this is the slave's newest dump, and the slave is still registered."""
        return self._register.holds(self._slave, self._number)

    async def messages(self) -> AsyncGenerator[MessageBytes]:
        """Yield the slave's chunks (messages with events and positions) until the dump ends.

        With the option ``once`` the dump ends at the end of the binlog. Otherwise the dump waits for new events.

        Raises DumpOver when the slave begins a newer dump or unregisters, and the error with which the master has ended
        the slave's registration. Raises BinlogError where the binlog is damaged, and Drained when the operator has
        drained the slave. Raises ReplicaAhead when the first transactions of a MariaDB domain arrive in the binlog, and
        the slave has GTIDs of this domain that the binlog lacks.
        """
        try:
            # The start position is checked before the first chunk. An unusable position then fails the request at once.
            place = self._place = await self._enter()
            self._register.progress(self._slave, place.file, place.position, None)
            self._sent_at = time.monotonic()
            self.reached = Reached(*place.told, is_boundary=True, is_beginning=True)
            found = await self._find_kept(place)
            announcement = self._encoding.announcement(place, None)
            rest = None
            if found is not None:
                rest, position = found
                announcement = kept_chunk(announcement, position, self._options.kept.size)
            yield announcement
            while self.active:
                step, rest = rest or await self._next_step(), None
                if step is not None:
                    await self._check_new_domains(step)
                    if isinstance(step, CommitStep):
                        self._move_behind(step)
                        begun, message = time.monotonic(), step.message
                        yield message
                        self._wrote(message, begun)
                        continue
                    async for events in self._of_step(step):
                        yield events
                    continue
                place = self._place
                if not self.active or self._changed:
                    continue
                # The binlog ends inside a transaction, whose end may be far away.
                self._drains.check(self._slave.peer)
                await self._check_goes_on(place)
                # The messages that follow have no events, also right behind the message with which the dump began.
                self.reached = self.reached._replace(is_beginning=False)
                if self._options.once:
                    await self._reader.call(lambda end=place.source: end.check_end(last=True))  # type: ignore[misc]
                    self._register.finish(self._slave)
                    yield self._encoding.notice(place, "end_of_log")
                    return
                if self._due_in(self._heartbeat_period) <= 0:
                    self._register.progress(self._slave, place.file, place.position, None)
                    yield place.heartbeat
                    self._sent_at = time.monotonic()
                elif self.quiet_seconds is not None and self._due_in(self.quiet_seconds) <= 0:
                    self.quiet_seconds = None
                    yield b""
            raise self._slave.ended_by or DumpOver(
                "this dump is over: the slave registered or began a dump anew, or was unregistered "
                "(is another slave running with a copy of this slave's relay directory?)"
            )
        finally:
            self.close()

    @property
    def is_at_end(self) -> bool:
        """Whether the dump has sent everything, and waits for the binlog to grow. May only be read after the dump has
        yielded its first message.
        """
        return self._reader.waits_at(self._place)

    def close(self) -> None:
        """Mark the dump as ended in the master's register of slaves, so that the slave no longer counts as dumping.
        :meth:`messages` does this at its end. A caller that never ran :meth:`messages` must call this method.
        """
        self._register.end_dump(self._slave, self._number)
        self._reader.leave(self._waiter)

    def _wrote(self, message: MessageBytes, begun: float) -> None:
        """Update the estimate of the connection's speed after ``message`` was written, which began at the time
        ``begun`` (``time.monotonic``) and has ended now. The interval until the next heartbeat begins anew.
        """
        self._sent_at = time.monotonic()
        self._pace.wrote(len(message), begun, self._sent_at)

    def _due_in(self, seconds: float) -> float:
        """Return the number of seconds until the last message to the slave is ``seconds`` old, for example until a
        heartbeat is due. The number is negative if the message is older.
        """
        return self._sent_at + seconds - time.monotonic()

    async def _enter(self) -> DumpPlace:
        """Return the place (position, filter and state) at which the dump begins to read its first binlog file.

        The dump reads this open file to its end, even if another file takes the name in the meantime. Raises
        BinlogError if the file cannot be opened or read.
        """
        start = self._start
        thread = DumpThread(
            self._flags,
            self._store.sources,
            chunk_size=self._pace.size,
            earlier=self._options.earlier,
        ).fork(exclusion=self._shared_exclusion)

        def enter() -> DumpPlace:
            try:
                source = self._store.open_file(start.file)
                return place_in(source, thread, start.position, encoding=self._encoding, told=start.told)
            except BinlogUnreadable:
                self._store.forget_files([start.file])
                raise

        return await self._reader.call(enter)

    async def _next_step(self) -> Step | CommitStep | None:
        """Begin to use the slave's new filter if it has changed, and return the next chunks of the dump (messages to
        the slave) as a step. Wait for the binlog to grow if it has no further events.

        Return None if the wait ended without events. The wait ends when the filter changes, when a heartbeat is due,
        and when an empty message is due, at which a replica's connection can correct the replica's position. The method
        does not wait for growth with the option ``once``, for a slave that was drained (sent away), and at the end of a
        binlog that never grows again.

        Raises Drained between two transactions when the operator has drained the slave. Raises BinlogError where the
        binlog is damaged.
        """
        place = self._place
        if not place.thread.in_transaction:
            self._drains.check(self._slave.peer)
        if self._changed:
            place = self._take_up_change(place)
        self._pace.hear(self._slave.line_rate)
        if self._is_sized and place.thread.chunk_size != self._pace.size:
            thread = place.thread.fork(chunk_size=self._pace.size)
            place = replace(place, thread=thread)
        self._place = place
        if self._options.once:
            step = await self._reader.step(place, 0, self._waiter)
            if step is None and self.active and not self._changed:
                # The binlog may have grown since another dump last looked.
                step = await self._reader.call(lambda: step_from(self._store, place))
        else:
            is_over = self._is_drained or self._store.ended() is not None
            patience = 0 if is_over else self.patience()
            self._waiter.follower = self if self.sink else None
            step = await self._reader.step(place, patience, self._waiter)
        # The dump may have taken steps while it waited.
        return await self._without_own(self._place, step)

    def patience(self) -> float:
        """Return the number of seconds until the dump must yield a message although the binlog has not grown. This
        message is a heartbeat. If :attr:`quiet_seconds` is set, an empty message is due first, after so many seconds
        without a message. It lets the caller correct a real replica's wrong position. Return 0 if a message is due now.
        """
        silence = self._heartbeat_period
        if self.quiet_seconds is not None:
            silence = min(silence, self.quiet_seconds)
        return max(self._due_in(silence), 0)

    def take(self, step: CommitStep, now: float) -> bool:
        """Send at once the message of ``step``, which has transactions that the master has just received. Return
        whether it was sent. ``now`` is the time on the monotonic clock, seconds.

        The dump's function ``sink`` sends the message without waiting. Nothing is sent if the dump has no ``sink`` or
        ``sink`` would have to wait. Nothing is sent either if the dump must read these transactions from the binlog,
        for example because the filter has changed. Raises the errors of ``sink``.
        """
        if (
            self.sink is None
            or self._changed
            or self._unknown_domains
            or not self.active
            or self._exclusion.overlaps(step.reach)
            or self._is_drained
        ):
            return False
        if not self.sink(step.message, Reached(*step.after.told, is_boundary=True)):
            return False
        self._sent_at = now
        self._move_behind(step)
        return True

    def _move_behind(self, step: CommitStep) -> None:
        """Move the dump's position behind the commits of ``step``, which the slave was sent as soon as the master
        received them. Add their events to the slave's counts.
        """
        after = step.after
        MEASURED.send_delay.observe_since(step.committed_at)
        self._register.progress(self._slave, after.file, after.position, step.counts)
        self.reached, self._place = Reached(*after.told, is_boundary=True), after

    async def _without_own(
        self, place: DumpPlace, step: Step | CommitStep | None
    ) -> Step | CommitStep | None:
        """Return ``step`` (the next chunks, which are messages, from ``place`` on) without the transactions that this
        slave must not get. ``place`` is the dump's position with filter and state. Return None if there are no chunks.

        The slaves with an equal filter share ``step``. If ``step`` may have transactions that this slave has already or
        has written itself, a step without these transactions is made for this slave alone. Otherwise ``step`` is
        returned unchanged.
        """
        if step is None or not self._exclusion.overlaps(step.reach):
            return step
        own = replace(place, thread=place.thread.fork(exclusion=self._exclusion))
        step = await self._reader.call(lambda: step_from(self._store, own))
        if step is not None:
            step.after = self._shared(step.after)
        return step

    async def _find_kept(self, place: DumpPlace) -> tuple[Step, int] | None:
        """Find where the dump continues after the bytes that the slave has kept from an earlier dump
        (``DumpOptions.kept``). They are the received part of a transaction in which the earlier dump broke off.

        Return the remaining messages as a step, and the position at which the first of them begins. Return None if the
        kept bytes differ from those that the dump would send. Also return None if a transaction ends in the kept bytes,
        because the slave would not learn the transaction's GTID. After None the dump sends everything.
        """
        kept = self._options.kept
        left, crc = kept.size, 0
        if not left or self._start.told is not None:
            return None
        while True:
            step = await self._without_own(place, await self._reader.step(place, 0, self._waiter))
            if not isinstance(step, Step):
                return None
            for number, piece in enumerate(step.pieces):
                if not isinstance(piece, GrpcPlan):
                    return None
                events = await self._reader.call(piece.events)
                skipped = min(len(events), left)
                crc = zlib.crc32(events[:skipped], crc)
                left -= skipped
                if not left:
                    if crc != kept.crc32 or 0 < piece.plan.resume_bytes <= skipped:
                        return None
                    pieces = [replace(piece, skipped=skipped), *step.pieces[number + 1 :]]
                    return replace(step, pieces=pieces), piece.positions.before
                if ends_transaction(piece.plan) or len(piece.plan.completed):
                    return None
            place = step.after

    async def _check_goes_on(self, place: DumpPlace) -> None:
        """Raise an error if the dump has reached the end of a binlog that will never grow again. A dump would wait
        there for ever.

        A binlog never grows again if the server from which the master receives it has begun new binlogs, or has purged
        files that the master lacks.
        """
        ended = self._store.ended()
        if ended is not None and await self._reader.call(lambda: step_from(self._store, place)) is None:
            raise ended

    async def _check_new_domains(self, step: Step | CommitStep) -> None:
        """Check a MariaDB slave's GTIDs again when ``step`` (the next messages to the slave) brings the binlog's first
        transactions of a domain. Raises ReplicaAhead when the slave has GTIDs of the domain that the binlog lacks.
        """
        gtids = self._start.gtid_set
        if not self._unknown_domains or gtids is None:
            return
        sources = self._store.sources
        domains = {sources.key(source)[0] for source in step.reach.gtids}
        if domains & self._unknown_domains:
            self._unknown_domains -= domains
            wanted = Wanted(gtids)
            ahead = await self._reader.call(lambda: ahead_of(wanted, self._store.logged() or Logged(), ""))
            if ahead is not None:
                raise ahead

    async def _of_step(self, step: Step) -> AsyncIterator[MessageBytes]:
        """Yield the messages of ``step`` (the next chunks), and move the dump to the end of the step.

        When the measured rate of the connection requires another chunk size, or the slave has another filter, the dump
        leaves the step at the next transaction boundary. The events of the later chunks are then chosen anew. When the
        dump must end, the method returns before the next chunk. Raises Drained after the end of a transaction when the
        operator has drained the slave.
        """
        chunk_size = step.before.thread.chunk_size
        for number, piece in enumerate(step.pieces, 1):
            if isinstance(piece, bytes):
                self.reached = Reached(*step.after.told, is_boundary=True, is_beginning=True)
                yield piece
                continue
            messages = await self._reader.messages(piece, chunk_size)
            if not self.active:
                return
            if piece.plan.size:
                # While gRPC sends this chunk, workers plan the next ones.
                self._reader.prepare(step, number)
            MEASURED.send_delay.observe_since(piece.committed_at)
            self._register.progress(self._slave, piece.plan.file, piece.plan.end, piece.counts)
            told = piece.positions
            self.reached = Reached(told.file, told.end, piece.plan.end == piece.plan.resume)
            for message in messages:
                begun = time.monotonic()
                yield message
                self._wrote(message, begun)
            self._pace.hear(self._slave.line_rate)
            if ends_transaction(piece.plan):
                self._drains.check(self._slave.peer)
            if number < len(step.pieces) and (
                self._slave.flags is not self._flags or (self._is_sized and self._pace.size != chunk_size)
            ):
                left = await self._reader.call(lambda piece=piece: place_after(self._store, step, piece))  # type: ignore[misc]
                if left is not None:
                    self._place = self._shared(left)
                    return
        self._place = place = step.after
        if place.source is not step.before.source:
            self._register.progress(self._slave, place.file, place.position, None)

    def _take_up_change(self, place: DumpPlace) -> DumpPlace:
        """Return the place (position, filter and state) from which the dump continues with the slave's new filter.
        ``place`` is the dump's present place, with the old filter.
        """
        self._flags = self._waiter.flags = self._slave.flags
        # The old filter has selected the events up to here, also those sent after the operator changed the filter.
        self._slave.other_filter_until = place.file, place.position
        thread = place.thread.fork()
        thread.change_filter(self._flags)
        return replace(place, thread=thread)

    def _shared(self, place: DumpPlace) -> DumpPlace:
        """Return a copy of ``place`` (position, filter and state of a dump) whose state says nothing about this slave
        alone. The places of all slaves with an equal filter are then equal at the same position, and their dumps share
        messages.

        A dump at the copy leaves out transactions of ignored servers and domains, and no others. Transactions that this
        slave alone has already, or has written itself, are left out later by :meth:`_without_own`.
        """
        thread = place.thread.fork(exclusion=self._shared_exclusion)
        return replace(place, thread=thread)


def ends_transaction(plan: ChunkPlan) -> bool:
    """Tell whether a transaction ends in the chunk (message) that ``plan`` describes. After such a chunk a slave can
    resume at a later position than before it.
    """
    return bool(plan.resume_bytes) or plan.end == plan.resume
