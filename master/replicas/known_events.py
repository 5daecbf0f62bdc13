"""The events that a replica has already of the transaction in which its dump begins.

After a connection was lost inside a transaction, a replica by file and position asks for the rest of the transaction.
The master begins again at the start of the transaction, and leaves out the events that the replica has.

A replica of MariaDB computes its position event by event. It adds the length of the event, and goes on to the event's
``end_log_pos`` if this is larger (tried with MariaDB 10.11 and 11.8). MariaDB 11.8 writes ``end_log_pos`` 0 for the
events inside a transaction. Behind a filter such a position is smaller than that of the event in the binlog. The master
therefore computes the position from the start of the transaction on, as the replica did.
"""

from __future__ import annotations

from typing import Protocol

from dumpfilter.binlog.events import CHECKSUM_LENGTH, HEADER_LENGTH, EventHeader, EventType
from dumpfilter.binlog.format import Family
from dumpfilter.binlog.writer import make_event
from dumpfilter.master.replicas.failures import no_such_part
from dumpfilter.master.replicas.starts import ReplicaStart
from dumpfilter.packets.framing import NOTHING

_XID_LENGTH = 8


class KnownEvents(Protocol):
    """The events that a replica has already, from the start of its dump on."""

    def rest(self, events: bytes) -> bytes | None:
        """Return the part of a message that the replica lacks, or None when the replica has the whole message.

        After the first result that is not None, the replica has no further event. Raises SqlError 1236.
        """
        ...

    def at_end(self) -> bytes:
        """Return the events that the replica lacks of the transaction, of which the dump sends nothing further.

        Raises SqlError 1236 when the replica has a part of the transaction.
        """
        ...


def known_events(
    start: ReplicaStart,
    *,
    family: Family,
    is_replica: bool,
    is_filtered: bool,
    server_id: int,
    left_out: int = NOTHING,
) -> KnownEvents | None:
    """Return the events that a client has already, or None when its dump begins between two transactions.

    Parameters:
        start: the start of the dump.
        family: the family of the server that wrote the binlog.
        is_replica: whether the client is a replica, which computes its position. A program takes it from the binlog.
        is_filtered: whether the dump may lack events.
        server_id: the id of the server that wrote the binlog.
        left_out: the type of events that the client does not get.
    """
    if not start.is_inside:
        return None
    if family == "mariadb" and is_replica:
        return ComputedPosition(start, server_id=server_id, left_out=left_out)
    if is_filtered:
        return ToldPosition(start)
    return Length(start.skips)


class Length:
    """The first bytes of an unfiltered dump."""

    def __init__(self, length: int) -> None:
        self._length = length

    def rest(self, events: bytes) -> bytes | None:
        skipped = min(self._length, len(events))
        self._length -= skipped
        return events[skipped:] or None

    def at_end(self) -> bytes:
        return b""


class ToldPosition:
    """The events that end at a position or before, as their ``end_log_pos`` tells."""

    def __init__(self, start: ReplicaStart) -> None:
        self._start = start

    def rest(self, events: bytes) -> bytes | None:
        at = 0
        while at < len(events):
            head = EventHeader.unpack(events, at)
            if not head.end_log_pos:
                raise no_such_part(self._start.file, self._start.told)
            if head.end_log_pos > self._start.told:
                return events[at:]
            at += head.size
        return None

    def at_end(self) -> bytes:
        return b""


class ComputedPosition:
    """The events after which a replica of MariaDB has computed the position for which it asks."""

    def __init__(self, start: ReplicaStart, *, server_id: int, left_out: int) -> None:
        self._start = start
        self._server_id = server_id
        self._left_out = left_out
        self._at = start.begun
        """The position that the replica computes, after the events so far."""

    def rest(self, events: bytes) -> bytes | None:
        wanted = self._start.told
        at = 0
        while at < len(events):
            head = EventHeader.unpack(events, at)
            if head.type != self._left_out:
                after = max(self._at + head.size, head.end_log_pos)
                if after > wanted:
                    return self.at_end() + events[at:]
                self._at = after
            at += head.size
            if self._at == wanted:
                return events[at:]
        return None

    def at_end(self) -> bytes:
        # A dropped transaction has a stand-in of two events, and the connection may have been lost between them. The
        # next dump has this stand-in only if no later transaction of the domain is dropped in the same chunk.
        start = self._start
        size = HEADER_LENGTH + _XID_LENGTH + (CHECKSUM_LENGTH if start.checksum else 0)
        if self._at != start.begun or start.told != start.end - size:
            raise no_such_part(start.file, start.told)
        return make_event(
            EventType.XID,
            bytes(_XID_LENGTH),
            server_id=self._server_id,
            end_log_pos=start.end & 0xFFFFFFFF,
            checksum=start.checksum,
        )
