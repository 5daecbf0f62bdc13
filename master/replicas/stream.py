"""The sending of one dump to a real replica: packets, heartbeats, and corrections of the replica's position."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from dumpfilter.binlog.events import EventHeader, EventType
from dumpfilter.binlog.format import Family, FormatDescription
from dumpfilter.console.wire import PacketStream
from dumpfilter.dump.packets.control import format_description, rotate
from dumpfilter.dump.packets.framing import NOTHING, frame, frame_each
from dumpfilter.master.dump import Dump, Reached
from dumpfilter.master.replicas.known_events import KnownEvents
from dumpfilter.master.replicas.positions import KnownPosition

IDLE_SECONDS = 0.05
"""The time without events after which a replica is told its right position."""
BUSY_SECONDS = 1.0
"""The time between two corrections of a replica's position while events follow one another."""

_INLINE = 4 << 20
"""The size up to which events become packets in the event loop. Larger ones would keep other replicas waiting."""


@dataclass(frozen=True)
class StreamOptions:
    """The properties of a replica and of its request that decide what the replica is sent besides a dump's events."""

    server_id: int
    """The id of the server that wrote the binlog."""
    told: int = 0
    """The position that the replica named, if it has a part of the transaction with which the dump begins."""
    known: KnownEvents | None = None
    """The events of this transaction that the replica has already. None if the dump begins between transactions."""
    heartbeats: bool = True
    """Whether the replica wants heartbeats."""
    corrections: bool = True
    """Whether the replica's position may be corrected. Programs would take a correction for a part of the binlog."""
    checksum: bool = True
    """Whether the replica expects a checksum in the first event."""
    annotations: bool = True
    """Whether the replica wants Annotate_rows events."""


class ReplicaStream:
    """The sending of one dump to one replica.

    ``check`` raises SqlError if the dump may not go on, because the replica's filter has changed.
    """

    def __init__(
        self,
        packets: PacketStream,
        dump: Dump,
        position: KnownPosition,
        options: StreamOptions,
        check: Callable[[], None] = lambda: None,
    ) -> None:
        self._packets = packets
        self._dump = dump
        self._position = position
        self._options = options
        self._check = check
        self._left_out = NOTHING if options.annotations else int(EventType.ANNOTATE_ROWS)
        self._known = options.known
        """The events that the replica has already. None as soon as it lacks all that follow."""
        self._place = "", 0
        """The file and position that the replica has been sent up to."""
        self._is_boundary = True
        """Whether no transaction is open at this position."""
        self._has_checksums = False
        self._told_at = -BUSY_SECONDS
        self.is_waiting = False
        """Whether the replica has everything, and the dump waits for new events."""
        self.sent = 0
        """The number of bytes of events that were sent."""

    async def run(self) -> None:
        """Send the dump to its end. Raises ClientGone when the replica leaves, and DumpfilterError if that fails."""
        self._dump.sink = self._send_at_once
        async with contextlib.aclosing(self._dump.messages()) as messages:
            while True:
                self.is_waiting = True
                message = await anext(messages, None)
                self.is_waiting = False
                if message is None:
                    return
                await self._send(message, self._dump.reached)
                if self._plan_correction():
                    await self._tell_position()

    def _plan_correction(self) -> bool:
        """Tell whether the replica's position is to be corrected now. Otherwise say when the dump is to ask again."""
        is_wrong = self._is_wrong
        if is_wrong and time.monotonic() - self._told_at >= BUSY_SECONDS:
            return True
        self._dump.quiet_seconds = IDLE_SECONDS if is_wrong else None
        return False

    def _send_at_once(self, events: Sequence[bytes], reached: Reached) -> bool:
        """Send the events of commits if that needs no waiting, and return whether it was done."""
        if self._known is not None or not self._packets.is_idle:
            return False
        self._check()
        self._place, self._is_boundary = (reached.file, reached.end), reached.is_boundary
        if events:
            size = sum(map(len, events))
            self._position.advance(size, events[-1])
            self.sent += size
        if self._plan_correction():
            self._told_at = time.monotonic()
            events = [*events, self._position.correction(reached.end, checksum=self._has_checksums)]
        if events:
            packets = frame_each(events, self._packets.sequence, left_out=self._left_out)
            self._packets.send_at_once(*packets)
        return True

    @property
    def _is_wrong(self) -> bool:
        """Whether the replica knows a wrong position that can be corrected."""
        if self._known is not None or not self._is_boundary:
            return False
        return self._options.corrections and self._position.is_wrong_at(*self._place)

    async def _send(self, message: bytes, reached: Reached) -> None:
        before, self._place = self._place, (reached.file, reached.end)
        self._is_boundary = reached.is_boundary
        self._check()
        if self._known is not None and before[0] and before != self._place and not message:
            await self._send_new(message)
        if reached.is_beginning:
            await self._send_events(self._beginning(message, reached))
        elif message:
            await self._send_new(message)
        elif before == self._place:
            if self._is_wrong:
                await self._tell_position()
            elif self._options.heartbeats:
                await self._send_heartbeat()

    def _beginning(self, message: bytes, reached: Reached) -> bytes:
        """Return the events that say where the dump begins in a file."""
        description = _description(message)
        self._has_checksums = description.checksum
        if self._known is None:
            self._position.begin(reached.file, reached.end)
            return message
        self._position.begin(reached.file, self._options.told)
        head = rotate(reached.file, self._options.told, self._options.server_id, self._options.checksum)
        return head + format_description(description, is_whole_file=False)

    async def _send_new(self, message: bytes) -> None:
        """Send the part of a message that the replica does not have yet."""
        if self._known is not None:
            message = self._rest(self._known, message)
        if not message:
            return
        self._position.count(message, checksum=self._has_checksums)
        await self._send_events(message)

    def _rest(self, known: KnownEvents, message: bytes) -> bytes:
        """Return the part of a message that the replica lacks, at the dump's first transaction."""
        rest = known.rest(message)
        if rest is None and self._is_boundary:
            rest = known.at_end()
        if rest is None:
            return b""
        self._known = None
        return rest

    async def _send_heartbeat(self) -> None:
        await self._send_events(self._position.heartbeat(self._place[1], checksum=self._has_checksums))

    async def _tell_position(self) -> None:
        """Correct the position that the replica knows."""
        self._told_at = time.monotonic()
        await self._send_events(self._position.correction(self._place[1], checksum=self._has_checksums))

    async def _send_events(self, events: bytes) -> None:
        if not events:
            return
        number = self._packets.sequence
        if len(events) <= _INLINE:
            packets, after = frame(events, number, left_out=self._left_out)
        else:
            packets, after = await asyncio.to_thread(frame, events, number, left_out=self._left_out)
        await self._packets.send_framed(packets, after)
        self.sent += len(events)


def _description(announcement: bytes) -> FormatDescription:
    """Return the format description event after the artificial Rotate event at the beginning of a file."""
    at = EventHeader.unpack(announcement).size
    size = EventHeader.unpack(announcement, at).size
    return FormatDescription.parse(announcement[at : at + size])


def state_text(family: Family, *, is_waiting: bool) -> str:
    """Return the column State of SHOW PROCESSLIST for a dump, as a server of the family shows it."""
    if family == "mysql":
        has_all = "Source has sent all binlog to replica; waiting for more updates"
        return has_all if is_waiting else "Sending binlog event to replica"
    has_all = "Master has sent all binlog to slave; waiting for more updates"
    return has_all if is_waiting else "Sending binlog event to slave"
