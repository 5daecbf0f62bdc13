"""The sending of one dump to a real replica: packets, heartbeats, and corrections of the replica's position.

A MySQL replica computes its position as the sum of the lengths of the events that it receives. A MariaDB replica takes
its position from ``end_log_pos`` of the events. Behind a filter both positions lag behind the dump, because events are
missing.

A replica by file and position whose connection was lost inside a transaction asks for the rest of the transaction. The
master begins again at the start of the transaction, and leaves out the events that the replica has.

In detail, a MariaDB replica adds the length of each event to its position, and takes the event's ``end_log_pos`` if
this is larger (tried with MariaDB 10.11 and 11.8). MariaDB 11.8 writes ``end_log_pos`` 0 for the events inside a
transaction. Behind a filter such a position is smaller than the event's position in the binlog. The master therefore
computes the position from the start of the transaction on, as the replica did.
"""

from __future__ import annotations

import asyncio
import contextlib
import time
from collections.abc import Callable
from dataclasses import dataclass
from functools import partial

from dumpfilter.base.options.values import FIRST_EVENT
from dumpfilter.binlog.events import CHECKSUM_LENGTH, GTIDS, HEADER_LENGTH, EventHeader, EventType
from dumpfilter.binlog.format import Family, FormatDescription
from dumpfilter.binlog.writer import make_event
from dumpfilter.console.sql.server_errors import SqlError
from dumpfilter.console.wire import PacketStream
from dumpfilter.dump.chunk import MessageBytes
from dumpfilter.dump.packets import protocol
from dumpfilter.master.dump import Dump, Reached
from dumpfilter.master.dump_start import DumpStart, Wanted
from dumpfilter.master.replicas.answers import no_such_part
from dumpfilter.master.sharing import QUIET_SECONDS

BUSY_SECONDS = 1.0
"""The time between two corrections of a replica's position while events are sent, seconds."""

_INLINE = 4 << 20
"""The size up to which events become packets in the asyncio loop, bytes. Larger ones would delay other replicas."""

_TYPE_AT, _NAME_AT = 4, 8
_ROTATE = int(EventType.ROTATE)
_XID_LENGTH = 8
_NOWHERE = Reached("", 0, is_boundary=True)


@dataclass
class KnownPosition:
    """The binlog file and position that one replica shows as its own (Read_Source_Log_Pos). The master computes both
    from the events that it sends to the replica.

    Behind a filter the replica's position may be wrong. The master then sends an extra event that corrects the
    position, unless no event can set this position.
    """

    server_id: int
    """The server id of the server that wrote the binlog."""
    sums: bool
    """Whether the replica adds up the lengths of events (MySQL). Otherwise the replica takes ``end_log_pos`` of the
    last event (MariaDB).
    """
    corrects: bool = True
    """Whether an event can correct the replica's position. False for a MySQL replica that does not replicate by
    GTID.
    """
    v2: bool = False
    """Whether a MySQL replica knows heartbeats of version 2. Version 1 cannot hold a position of 4 GiB or more."""
    _file: str = ""
    _at: int = 0

    def begin(self, file: str, position: int) -> None:
        """Record that the replica's position is now ``position`` in ``file``, because a Rotate event has named them."""
        self._file, self._at = file, position

    def count(self, events: MessageBytes, framed: protocol.Framed, *, checksum: bool) -> None:
        """Record that the replica receives ``events``, whole events one after another, which moves the replica's
        position. ``framed`` has the packets in which they are sent. ``checksum`` says that events end in a checksum.

        If the last event is the Rotate event at the end of a file, the replica moves to the next file.
        """
        last = framed.last
        if events[last + _TYPE_AT] == _ROTATE:
            body = bytes(events[last + HEADER_LENGTH : len(events) - (CHECKSUM_LENGTH if checksum else 0)])
            self.begin(
                body[_NAME_AT:].decode("utf-8", "surrogateescape"), int.from_bytes(body[:_NAME_AT], "little")
            )
        else:
            self._at = self._at + len(events) if self.sums else framed.end_log_pos or self._at

    def is_wrong_at(self, file: str, position: int) -> bool:
        """Tell whether the replica's position needs a correction. ``file`` and ``position`` are the position of the
        dump. The result is True if the replica's position differs, and the event of :meth:`correction` can set it.

        The event can only set a position in the replica's present file. A MySQL replica must replicate by GTID for
        this. Without heartbeats of version 2, its position must also be below 4 GiB.
        """
        if file != self._file or not self.corrects:
            return False
        if not self.sums:
            return self._at != position & protocol.LARGEST_V1_POSITION
        return self._at != position and (self.v2 or position <= protocol.LARGEST_V1_POSITION)

    def correction(self, position: int, *, checksum: bool) -> bytes:
        """Return the event that sets the replica's position to ``position``: a heartbeat for MySQL, and a Gtid_list
        event for MariaDB. Record that the replica receives this event.

        ``checksum`` says whether the event ends in a checksum.
        """
        if self.sums:
            self._at = position
            return protocol.heartbeat(self._file, position, self.server_id, checksum, v2=self.v2)
        self._at = position & protocol.LARGEST_V1_POSITION
        return protocol.gtid_list(position, self.server_id, checksum)

    def heartbeat(self, position: int, *, checksum: bool) -> bytes:
        """Return a heartbeat event that leaves the replica's position as it is. ``position`` is the position of the
        dump, and ``checksum`` says whether the event ends in a checksum.

        The heartbeat names the replica's own position. For MariaDB the heartbeat names ``position`` if that is larger,
        except right after a change of the file. A replica ends its connection at a heartbeat with another file or a
        smaller position than its own.
        """
        known = self._at
        # The position of a file that has ended is not one of the file to which the Rotate event has led.
        if not self.sums and known > FIRST_EVENT:
            known = max(known, position)
        return protocol.heartbeat(self._file, known, self.server_id, checksum, v2=self.v2)


@dataclass
class ReplicaStream:
    """The sender of events, heartbeats and position corrections for one dump to one replica, over the replica's
    connection.

    If the last connection was lost inside a transaction, the dump begins at the start of this transaction. The sender
    then leaves out the events that the client already has.
    """

    packets: PacketStream
    dump: Dump
    position: KnownPosition
    start: DumpStart
    wanted: Wanted
    """The position or GTIDs that the client named in its dump request. A position belongs to the binlog of the server
    that wrote the events.
    """
    is_computed: bool
    """Whether the client is a MariaDB replica, which computes its position event by event."""
    is_filtered: bool
    """Whether the dump may lack events of the original binlog."""
    heartbeat_seconds: float | None
    """The interval of the heartbeats that the replica wants, seconds; 0 for none.

    None: the client is a program such as mysqlbinlog, which has set no interval. Such a program gets neither heartbeats
    nor corrections, because it would take a correction of its position for a part of the binlog.
    """
    checksum: bool
    """Whether the first event that the replica is sent must end in a checksum."""
    left_out: int
    """The type of events that the replica does not get (Annotate_rows), or a negative number for none."""
    check: Callable[[], None]
    """The function that raises SqlError if the dump must end, because a changed filter does not allow this kind of
    dump.
    """
    sent: int = 0
    """The number of bytes of events that the dump has yielded for the replica so far. Events of the type
    :attr:`left_out` count, too.
    """
    _reached: Reached = _NOWHERE
    """The binlog position up to which the replica has been sent the binlog."""
    _has_checksums: bool = False
    _told_at: float = -BUSY_SECONDS

    def __post_init__(self) -> None:
        self._known: int | None = self.start.begun if self.start.end else None
        """The position after the events of the dump's first transaction that the client has, as the client computed it.
        None if the client has none of them, and from its first new event on.
        """
        self._awaits_first = (
            self.is_computed and self.wanted.gtids is not None and self.heartbeat_seconds is not None
        )
        """Whether this is a MariaDB replica with GTIDs, and no transaction has been sent yet."""

    async def run(self) -> None:
        """Send the dump until it ends. Raises ClientGone when the replica disconnects, and DumpfilterError when the
        dump fails.
        """
        self.dump.sink = self._send_at_once
        async with contextlib.aclosing(self.dump.messages()) as messages:
            async for message in messages:
                await self._send(message, self.dump.reached)
                if self._plan_correction():
                    await self._send_events(self._correction())

    @property
    def has_sent_all(self) -> bool:
        """Whether the replica has been sent everything, and the dump waits for new events. Any thread may read this
        property.
        """
        return self.sent > 0 and self.dump.is_at_end

    def _plan_correction(self) -> bool:
        """Return True if the binlog position that the replica shows is wrong and must be corrected now, since the last
        correction was long ago.

        Otherwise return False. If the position is wrong, the correction then waits until nothing was sent for
        QUIET_SECONDS. After this time the dump yields an empty message, at which the stream sends the event that
        corrects the position.
        """
        is_wrong = self._is_wrong
        if is_wrong and time.monotonic() - self._told_at >= BUSY_SECONDS:
            return True
        self.dump.quiet_seconds = QUIET_SECONDS if is_wrong else None
        return False

    def _send_at_once(self, events: bytes, reached: Reached) -> bool:
        """Send the events of new commits at once if the connection can take them without waiting. Return whether they
        were sent. ``reached`` is the position of the dump after the events.

        Nothing is sent, either, while the dump repeats a transaction of which the client already has the beginning. If
        the filter drops the commits, ``events`` may be empty. Then only the recorded position of the dump moves. Raises
        SqlError if the dump must end.
        """
        if self._known is not None or not self.packets.is_idle:
            return False
        self.check()
        self._reached = reached
        if events:
            framed = protocol.frame(events, self.packets.sequence, left_out=self.left_out)
            self.position.count(events, framed, checksum=self._has_checksums)
            self.packets.send_at_once(framed.packets, framed.sequence)
            self.sent += len(events)
        if self._plan_correction():
            framed = protocol.frame(self._correction(), self.packets.sequence)
            self.packets.send_at_once(framed.packets, framed.sequence)
        return True

    @property
    def _is_wrong(self) -> bool:
        """Whether the replica's position differs from the dump's, and an event may correct the replica's position now,
        at a transaction boundary.
        """
        reached = self._reached
        if self._known is not None or not reached.is_boundary or self.heartbeat_seconds is None:
            return False
        return self.position.is_wrong_at(reached.file, reached.end)

    async def _send(self, message: MessageBytes, reached: Reached) -> None:
        before, self._reached = self._reached, reached
        is_new = (before.file, before.end) != (reached.file, reached.end)
        self.check()
        if reached.is_beginning:
            events: MessageBytes = self._beginning(bytes(message), reached)
        elif message or (is_new and before.file and self._known is not None):
            events = message if self._known is None else self._rest(message, self._known)
            if self._awaits_first:
                events = await self._send_up_to_first(events)
            await self._send_events(events, counts=True)
            return
        elif not is_new and self._is_wrong:
            events = self._correction()
        elif not is_new and self.heartbeat_seconds:
            events = self.position.heartbeat(reached.end, checksum=self._has_checksums)
        else:
            return
        await self._send_events(events)

    async def _send_up_to_first(self, events: MessageBytes) -> MessageBytes:
        """Send the part of ``events`` before the dump's first transaction, and return the rest. If the dump has passed
        over transactions that the replica has, send the event with the position after them, too, as MariaDB does.
        Otherwise an applier that stops in its first transaction would show the position where the file begins.
        """
        at = 0
        while at < len(events) and (head := EventHeader.unpack(events, at)).type not in GTIDS:
            at += head.size
        await self._send_events(events[:at], counts=True)
        if at == len(events):
            return b""
        self._awaits_first = False
        begin = head.end_log_pos - head.size
        # The Gtid of a stand-in has a position inside the dropped transaction, and its Xid has the right one.
        following = at + head.size + _TYPE_AT
        is_stand_in = events[following : following + 1] == bytes([EventType.XID])
        if begin > 0 and not is_stand_in and self.position.is_wrong_at(self._reached.file, begin):
            await self._send_events(self.position.correction(begin, checksum=self._has_checksums))
        return events[at:]

    def _beginning(self, message: bytes, reached: Reached) -> bytes:
        """Return the events with which a dump or a further file begins: a Rotate event with file and position, and the
        format description event. Record the position that the Rotate event gives to the replica.

        ``message`` has these events for the dump's position ``reached``, and is returned unchanged in most cases. If
        the replica already has a part of the first transaction, the result has a Rotate event with the position that
        the replica named.
        """
        description = _description(message)
        self._has_checksums = description.checksum
        if self._known is None:
            self.position.begin(reached.file, reached.end)
            return message
        self.position.begin(reached.file, self.wanted.position)
        head = protocol.rotate(reached.file, self.wanted.position, self.position.server_id, self.checksum)
        return head + protocol.format_description(description, is_whole_file=False)

    def _rest(self, events: MessageBytes, known: int) -> MessageBytes:
        """Return the part of ``events`` (one message of the dump) that the client lacks. The client already has a part
        of the transaction that the dump began with, and all events before ``events``. Return empty bytes if the client
        has all of ``events``, too.

        ``known`` is the position before ``events``, as the client computed it. Raises SqlError 1236 if the events do
        not show which of them the client has.
        """
        told, at = self.wanted.position, 0
        while at < len(events):
            head = EventHeader.unpack(events, at)
            if self.is_filtered and not self.is_computed and not head.end_log_pos:
                raise self._no_such_part()
            if not (self.is_computed and head.type == self.left_out):
                after = known + head.size
                # The length alone tells the place of an event if no event before it is missing.
                if self.is_filtered or self.is_computed:
                    after = max(after, head.end_log_pos)
                if after > told:
                    self._known = None
                    return self._last_event(known) + events[at:]
                known = after
            at += head.size
            if self.is_computed and known == told:
                self._known = None
                return events[at:]
        self._known = known
        if not self._reached.is_boundary:
            return b""
        self._known = None
        return self._last_event(known)

    def _last_event(self, known: int) -> bytes:
        """Return the last event of the transaction that the client had received in part when its last connection was
        lost, if the new dump does not send this event.

        Only a MariaDB replica can lack such an event: the Xid event of a stand-in (an empty transaction for a dropped
        one), when the dump now leaves this stand-in out. Return empty bytes for other clients. ``known`` is the
        position that the replica has computed. Raises SqlError 1236 if this position does not lie directly before the
        Xid event.
        """
        if not self.is_computed:
            return b""
        # A dropped transaction has a stand-in of two events, and the connection may have been lost between them. The
        # next dump has this stand-in only if no later transaction of the domain is dropped in the same chunk.
        event = make_event(
            EventType.XID,
            bytes(_XID_LENGTH),
            server_id=self.position.server_id,
            end_log_pos=self.start.end & 0xFFFFFFFF,
            checksum=self._has_checksums,
        )
        if known != self.start.begun or self.wanted.position != self.start.end - len(event):
            raise self._no_such_part()
        return event

    def _no_such_part(self) -> SqlError:
        return no_such_part(self.wanted.file or self.start.file, self.wanted.position)

    def _correction(self) -> bytes:
        """Return the event that sets the replica's position, which lags behind if a filter drops events, to that of the
        dump. The event is a heartbeat for MySQL, and a Gtid_list event for MariaDB. Record the time of this correction.
        """
        self._told_at = time.monotonic()
        return self.position.correction(self._reached.end, checksum=self._has_checksums)

    async def _send_events(self, events: MessageBytes, *, counts: bool = False) -> None:
        """Send ``events``, whole binlog events one after another, to the replica. Do nothing if there are none.

        ``counts`` is True for events of the binlog, which advance the replica's position. ``counts`` is False for
        artificial events that the master has made, such as heartbeats and the events with which a file begins.
        """
        if not events:
            return
        making = partial(protocol.frame, events, self.packets.sequence, left_out=self.left_out)
        framed = making() if len(events) <= _INLINE else await asyncio.to_thread(making)
        if counts:
            self.position.count(events, framed, checksum=self._has_checksums)
        await self.packets.send_framed(framed.packets, framed.sequence)
        self.sent += len(events)


def _description(announcement: bytes) -> FormatDescription:
    """Return the format description event in ``announcement``, the message with which a dump or a file begins. In this
    message an artificial Rotate event comes first.
    """
    at = EventHeader.unpack(announcement).size
    size = EventHeader.unpack(announcement, at).size
    return FormatDescription.parse(announcement[at : at + size])


def state_text(family: Family, *, has_sent_all: bool) -> str:
    """Return the value of the column State in SHOW PROCESSLIST for a dump, as a server of the family shows it.
    ``has_sent_all`` says that the dump has sent everything and waits for new events.
    """
    if family == "mysql":
        has_all = "Source has sent all binlog to replica; waiting for more updates"
        return has_all if has_sent_all else "Sending binlog event to replica"
    has_all = "Master has sent all binlog to slave; waiting for more updates"
    return has_all if has_sent_all else "Sending binlog event to slave"
