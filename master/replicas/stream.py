"""The sending of one dump to a real replica: packets, heartbeats, and corrections of the replica's position."""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable, Sequence
from dataclasses import dataclass

from dumpfilter.binlog.events import EventHeader
from dumpfilter.binlog.format import Family, FormatDescription
from dumpfilter.console.wire import PacketStream
from dumpfilter.dump.packets.control import format_description, rotate
from dumpfilter.dump.packets.framing import frame, frame_each
from dumpfilter.master.dump import Dump, Reached
from dumpfilter.master.replicas.known_events import KnownEvents
from dumpfilter.master.replicas.positions import KnownPosition

IDLE_SECONDS = 0.05
"""The time without events after which a replica is told its right position."""
BUSY_SECONDS = 1.0
"""The time between two corrections of a replica's position while events follow one another."""

_INLINE = 4 << 20
"""The size up to which events become packets in the event loop. Larger ones would keep other replicas waiting."""


_NOWHERE = Reached("", 0, is_boundary=True)


@dataclass
class ReplicaStream:
    """The sending of one dump to one replica."""

    packets: PacketStream
    dump: Dump
    position: KnownPosition
    server_id: int
    """The id of the server that wrote the binlog."""
    told: int
    """The position that the replica named, if it has a part of the transaction with which the dump begins."""
    known: KnownEvents | None
    """The part of this transaction that the replica has already. None as soon as all further events are new to it."""
    heartbeats: bool
    """Whether the replica wants heartbeats."""
    corrections: bool
    """Whether the replica's position may be corrected. Programs would take a correction for a part of the binlog."""
    checksum: bool
    """Whether the replica expects a checksum in the first event."""
    left_out: int
    """The type of events that the replica does not get."""
    check: Callable[[], None]
    """Raises SqlError if the dump may not go on, because the replica's filter has changed."""
    is_waiting: bool = False
    """Whether the replica has everything, and the dump waits for new events."""
    sent: int = 0
    """The number of bytes of events that were sent."""
    _reached: Reached = _NOWHERE
    """The place that the replica has been sent up to."""
    _has_checksums: bool = False
    _told_at: float = -BUSY_SECONDS

    async def run(self) -> None:
        """Send the dump to its end. Raises ClientGone when the replica leaves, and DumpfilterError if that fails."""
        self.dump.sink = self._send_at_once
        async with contextlib.aclosing(self.dump.messages()) as messages:
            while True:
                self.is_waiting = True
                message = await anext(messages, None)
                self.is_waiting = False
                if message is None:
                    return
                await self._send(message, self.dump.reached)
                if self._plan_correction():
                    await self._send_events(self._correction())

    def _plan_correction(self) -> bool:
        """Tell whether the replica's position is to be corrected now. Otherwise say when the dump is to ask again."""
        is_wrong = self._is_wrong
        if is_wrong and time.monotonic() - self._told_at >= BUSY_SECONDS:
            return True
        self.dump.quiet_seconds = IDLE_SECONDS if is_wrong else None
        return False

    def _send_at_once(self, events: Sequence[bytes], reached: Reached) -> bool:
        """Send the events of commits if that needs no waiting, and return whether it was done."""
        if self.known is not None or not self.packets.is_idle:
            return False
        self.check()
        self._reached = reached
        if events:
            size = sum(map(len, events))
            self.position.advance(size, events[-1])
            self.sent += size
        if self._plan_correction():
            events = [*events, self._correction()]
        if events:
            self.packets.send_at_once(*frame_each(events, self.packets.sequence, left_out=self.left_out))
        return True

    @property
    def _is_wrong(self) -> bool:
        """Whether the replica knows a wrong position that can be corrected."""
        reached = self._reached
        if self.known is not None or not reached.is_boundary or not self.corrections:
            return False
        return self.position.is_wrong_at(reached.file, reached.end)

    async def _send(self, message: bytes, reached: Reached) -> None:
        before, self._reached = self._reached, reached
        is_new = (before.file, before.end) != (reached.file, reached.end)
        self.check()
        if reached.is_beginning:
            events = self._beginning(message, reached)
        elif message or (is_new and before.file and self.known is not None):
            events = message if self.known is None else self._rest(self.known, message)
            if events:
                self.position.count(events, checksum=self._has_checksums)
        elif not is_new and self._is_wrong:
            events = self._correction()
        elif not is_new and self.heartbeats:
            events = self.position.heartbeat(reached.end, checksum=self._has_checksums)
        else:
            return
        await self._send_events(events)

    def _beginning(self, message: bytes, reached: Reached) -> bytes:
        """Return the events that say where the dump begins in a file."""
        description = _description(message)
        self._has_checksums = description.checksum
        if self.known is None:
            self.position.begin(reached.file, reached.end)
            return message
        self.position.begin(reached.file, self.told)
        head = rotate(reached.file, self.told, self.server_id, self.checksum)
        return head + format_description(description, is_whole_file=False)

    def _rest(self, known: KnownEvents, message: bytes) -> bytes:
        """Return the part of a message that the replica lacks, at the dump's first transaction."""
        rest = known.rest(message)
        if rest is None and self._reached.is_boundary:
            rest = known.at_end()
        if rest is None:
            return b""
        self.known = None
        return rest

    def _correction(self) -> bytes:
        """Return the event that corrects the position that the replica knows."""
        self._told_at = time.monotonic()
        return self.position.correction(self._reached.end, checksum=self._has_checksums)

    async def _send_events(self, events: bytes) -> None:
        if not events:
            return
        number = self.packets.sequence
        if len(events) <= _INLINE:
            packets, after = frame(events, number, left_out=self.left_out)
        else:
            packets, after = await asyncio.to_thread(frame, events, number, left_out=self.left_out)
        await self.packets.send_framed(packets, after)
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
