"""The events that a replica has already of the transaction in which its dump begins.

After a connection was lost inside a transaction, a replica by file and position asks for the rest of the transaction.
The master begins again at the start of the transaction, and leaves out the events that the replica has.

A replica of MariaDB computes its position event by event. It adds the length of the event, and goes on to the event's
``end_log_pos`` if this is larger (tried with MariaDB 10.11 and 11.8). MariaDB 11.8 writes ``end_log_pos`` 0 for the
events inside a transaction. Behind a filter such a position is smaller than that of the event in the binlog. The master
therefore computes the position from the start of the transaction on, as the replica did.
"""

from __future__ import annotations

from dataclasses import dataclass

from dumpfilter.binlog.events import CHECKSUM_LENGTH, HEADER_LENGTH, EventHeader, EventType
from dumpfilter.binlog.writer import make_event
from dumpfilter.master.replicas.failures import no_such_part
from dumpfilter.master.replicas.starts import ReplicaStart

_XID_LENGTH = 8


@dataclass
class KnownEvents:
    """The events that a client has already, from the start of its dump inside a transaction on."""

    start: ReplicaStart
    is_computed: bool
    """Whether the client is a replica of MariaDB, which computes its position."""
    is_filtered: bool
    """Whether the dump may lack events."""
    server_id: int
    """The id of the server that wrote the binlog."""
    left_out: int
    """The type of events that the client does not get."""

    def __post_init__(self) -> None:
        self._at = self.start.dump.begun
        """The position after the events so far, as the client has computed it."""

    def rest(self, events: bytes) -> bytes | None:
        """Return the part of a message that the client lacks, or None when the client has the whole message.

        After the first result that is not None, the client has no further event. Raises SqlError 1236.
        """
        told = self.start.told
        at = 0
        while at < len(events):
            head = EventHeader.unpack(events, at)
            if self.is_filtered and not self.is_computed and not head.end_log_pos:
                raise no_such_part(self.start.file, told)
            if not (self.is_computed and head.type == self.left_out):
                after = self._at + head.size
                # The length alone tells the place of an event if no event before it is missing.
                if self.is_filtered or self.is_computed:
                    after = max(after, head.end_log_pos)
                if after > told:
                    return self.at_end() + events[at:]
                self._at = after
            at += head.size
            if self.is_computed and self._at == told:
                return events[at:]
        return None

    def at_end(self) -> bytes:
        """Return the events that the client lacks of the transaction, of which the dump sends nothing further.

        Raises SqlError 1236 when the replica has a part of the transaction.
        """
        if not self.is_computed:
            return b""
        # A dropped transaction has a stand-in of two events, and the connection may have been lost between them. The
        # next dump has this stand-in only if no later transaction of the domain is dropped in the same chunk.
        start = self.start
        size = HEADER_LENGTH + _XID_LENGTH + (CHECKSUM_LENGTH if start.checksum else 0)
        if self._at != start.dump.begun or start.told != start.dump.end - size:
            raise no_such_part(start.file, start.told)
        return make_event(
            EventType.XID,
            bytes(_XID_LENGTH),
            server_id=self.server_id,
            end_log_pos=start.dump.end & 0xFFFFFFFF,
            checksum=start.checksum,
        )
