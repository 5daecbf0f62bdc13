"""The position in the source's binlog that a replica knows, and the events that correct it.

A MySQL replica computes its position: it adds the lengths of the events that it receives. A MariaDB replica reads the
position from ``end_log_pos`` of the events. Behind a filter both positions lag behind the dump, because events are
missing.
"""

from __future__ import annotations

from dataclasses import dataclass

from dumpfilter.base.options.defaults import FIRST_EVENT
from dumpfilter.binlog.events import CHECKSUM_LENGTH, HEADER_LENGTH, EventHeader, EventType
from dumpfilter.dump.packets.control import LARGEST_V1_POSITION, gtid_list, heartbeat
from dumpfilter.dump.packets.framing import last_events

_NAME_AT = 8
_ROTATE = int(EventType.ROTATE)


@dataclass
class KnownPosition:
    """The binlog file and the position in it that one replica knows."""

    server_id: int
    """The id of the server that wrote the binlog."""
    sums: bool
    """Whether the replica adds the lengths of events (MySQL). Otherwise the last event has told its position."""
    corrects: bool = True
    """Whether an event can correct the position. A MySQL replica must name GTIDs for that."""
    v2: bool = False
    """Whether a MySQL replica knows heartbeats of version 2. Version 1 cannot tell a position of 4 GiB and more."""
    _file: str = ""
    _at: int = 0

    def begin(self, file: str, position: int) -> None:
        """Note that the replica was told the file and this position."""
        self._file, self._at = file, position

    def count(self, events: bytes, *, checksum: bool) -> None:
        """Note that the replica receives these events. ``checksum`` says that events end in a checksum.

        The Rotate event at the end of a file leads the replica to the next file.
        """
        last, told = last_events(events)
        head = EventHeader.unpack(events, last)
        if head.type == _ROTATE:
            body = events[last + HEADER_LENGTH : last + head.size - (CHECKSUM_LENGTH if checksum else 0)]
            self.begin(
                body[_NAME_AT:].decode("utf-8", "surrogateescape"), int.from_bytes(body[:_NAME_AT], "little")
            )
        else:
            self._at = self._at + len(events) if self.sums else told or self._at

    def advance(self, size: int, last: bytes) -> None:
        """Note that the replica receives events of ``size`` bytes, which end with the end ``last`` of a transaction."""
        self._at = self._at + size if self.sums else EventHeader.unpack(last).end_log_pos or self._at

    def is_wrong_at(self, file: str, position: int) -> bool:
        """Tell whether the replica knows another position in the file than ``position``, and can be corrected."""
        if file != self._file or not self.corrects:
            return False
        if not self.sums:
            return self._at != position & LARGEST_V1_POSITION
        return self._at != position and (self.v2 or position <= LARGEST_V1_POSITION)

    def correction(self, position: int, *, checksum: bool) -> bytes:
        """Return the event that corrects the position, and note that the replica receives the event."""
        if self.sums:
            self._at = position
            return heartbeat(self._file, position, self.server_id, checksum, v2=self.v2)
        self._at = position & LARGEST_V1_POSITION
        return gtid_list(position, self.server_id, checksum)

    def heartbeat(self, position: int, *, checksum: bool) -> bytes:
        """Return a heartbeat that changes nothing for the replica while the dump stands at ``position``.

        A replica ends its connection at a heartbeat with another file or a smaller position than its own.
        """
        known = self._at
        # The position of a file that has ended is not one of the file to which the Rotate event has led.
        if not self.sums and known > FIRST_EVENT:
            known = max(known, position)
        return heartbeat(self._file, known, self.server_id, checksum, v2=self.v2)
