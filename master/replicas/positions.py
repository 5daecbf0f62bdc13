"""The position in the source's binlog that a replica knows, and the events that correct it.

A MySQL replica computes its position: it adds the lengths of the events that it receives. A MariaDB replica reads the
position from ``end_log_pos`` of the events. Behind a filter both positions lag behind the dump, because events are
missing.
"""

from __future__ import annotations

from abc import ABC, abstractmethod

from dumpfilter.packets.control import gtid_list, heartbeat
from dumpfilter.packets.framing import last_end_log_pos

_MOST_U32 = 0xFFFFFFFF


class KnownPosition(ABC):
    """The position in the binlog file that one replica knows.

    ``server_id`` is the id of the server that wrote the binlog.
    """

    def __init__(self, server_id: int) -> None:
        self._server_id = server_id
        self._at = 0

    def begin(self, position: int) -> None:
        """Note that the replica was told the file and this position."""
        self._at = position

    @abstractmethod
    def count(self, events: bytes) -> None:
        """Note that the replica receives these events."""

    @abstractmethod
    def is_wrong_at(self, position: int) -> bool:
        """Tell whether the replica knows another position than ``position``, and can be corrected."""

    @abstractmethod
    def correction(self, file: str, position: int, *, checksum: bool) -> bytes:
        """Return the event that corrects the position, and note that the replica receives the event."""

    @abstractmethod
    def known(self, position: int) -> int:
        """Return the position that a heartbeat can tell at ``position`` without a change for the replica."""


class SummedPosition(KnownPosition):
    """The position of a MySQL replica, the sum of the lengths of events.

    ``corrects`` says that the replica names GTIDs, so that a heartbeat corrects its position. ``v2`` says that the
    replica knows heartbeats of version 2. A heartbeat of version 1 cannot tell a position of 4 GiB and more.
    """

    def __init__(self, server_id: int, *, corrects: bool, v2: bool) -> None:
        super().__init__(server_id)
        self._corrects = corrects
        self._v2 = v2

    def count(self, events: bytes) -> None:
        self._at += len(events)

    def is_wrong_at(self, position: int) -> bool:
        return self._corrects and self._at != position and (self._v2 or position <= _MOST_U32)

    def correction(self, file: str, position: int, *, checksum: bool) -> bytes:
        self._at = position
        return heartbeat(file, position, self._server_id, checksum, v2=self._v2)

    def known(self, position: int) -> int:
        return self._at


class ReadPosition(KnownPosition):
    """The position of a MariaDB replica, which the last event has told."""

    def count(self, events: bytes) -> None:
        self._at = last_end_log_pos(events) or self._at

    def is_wrong_at(self, position: int) -> bool:
        return self._at != position & _MOST_U32

    def correction(self, file: str, position: int, *, checksum: bool) -> bytes:
        self._at = position & _MOST_U32
        return gtid_list(position, self._server_id, checksum)

    def known(self, position: int) -> int:
        return position
