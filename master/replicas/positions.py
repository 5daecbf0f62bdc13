"""The position in the source's binlog that a replica knows, and the events that correct it.

A MySQL replica computes its position: it adds the lengths of the events that it receives. A MariaDB replica reads the
position from ``end_log_pos`` of the events. Behind a filter both positions lag behind the dump, because events are
missing.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

from dumpfilter.binlog.events import CHECKSUM_LENGTH, HEADER_LENGTH, EventHeader, EventType
from dumpfilter.options.defaults import FIRST_EVENT
from dumpfilter.packets.control import LARGEST_V1_POSITION, gtid_list, heartbeat
from dumpfilter.packets.framing import last_events

_NAME_AT = 8
_ROTATE = int(EventType.ROTATE)


class KnownPosition(ABC):
    """The binlog file and the position in it that one replica knows.

    ``server_id`` is the id of the server that wrote the binlog.
    """

    def __init__(self, server_id: int) -> None:
        self._server_id = server_id
        self._file = ""
        self._at = 0

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
            self._count(len(events), told)

    @abstractmethod
    def _count(self, length: int, told: int) -> None:
        """Note that the replica receives events with this length, of which the last tells this position or 0."""

    def is_wrong_at(self, file: str, position: int) -> bool:
        """Tell whether the replica knows another position in the file than ``position``, and can be corrected."""
        return file == self._file and self._is_wrong_at(position)

    @abstractmethod
    def _is_wrong_at(self, position: int) -> bool: ...

    @abstractmethod
    def correction(self, position: int, *, checksum: bool) -> bytes:
        """Return the event that corrects the position, and note that the replica receives the event."""

    def heartbeat(self, position: int, *, checksum: bool, v2: bool) -> bytes:
        """Return a heartbeat that changes nothing for the replica while the dump stands at ``position``.

        A replica ends its connection at a heartbeat with another file or a smaller position than its own.
        """
        return heartbeat(self._file, self._known(position), self._server_id, checksum, v2=v2)

    @abstractmethod
    def _known(self, position: int) -> int: ...


class SummedPosition(KnownPosition):
    """The position of a MySQL replica, the sum of the lengths of events.

    ``corrects`` says that the replica names GTIDs, so that a heartbeat corrects its position. ``v2`` says that the
    replica knows heartbeats of version 2. A heartbeat of version 1 cannot tell a position of 4 GiB and more.
    """

    def __init__(self, server_id: int, *, corrects: bool, v2: bool) -> None:
        super().__init__(server_id)
        self._corrects = corrects
        self._v2 = v2

    def _count(self, length: int, told: int) -> None:
        self._at += length

    def _is_wrong_at(self, position: int) -> bool:
        return self._corrects and self._at != position and (self._v2 or position <= LARGEST_V1_POSITION)

    def correction(self, position: int, *, checksum: bool) -> bytes:
        self._at = position
        return heartbeat(self._file, position, self._server_id, checksum, v2=self._v2)

    def _known(self, position: int) -> int:
        return self._at


class ReadPosition(KnownPosition):
    """The position of a MariaDB replica, which the last event has told."""

    def _count(self, length: int, told: int) -> None:
        self._at = told or self._at

    def _is_wrong_at(self, position: int) -> bool:
        return self._at != position & LARGEST_V1_POSITION

    def correction(self, position: int, *, checksum: bool) -> bytes:
        self._at = position & LARGEST_V1_POSITION
        return gtid_list(position, self._server_id, checksum)

    def _known(self, position: int) -> int:
        # The position of a file that has ended is not one of the file to which the Rotate event has led.
        return max(self._at, position) if self._at > FIRST_EVENT else self._at
