"""The filters of real replicas: the master's configuration says which filter each replica gets."""

from __future__ import annotations

import threading
from collections.abc import Sequence
from dataclasses import dataclass

from dumpfilter.binlog.format import Family
from dumpfilter.errors import DumpfilterError
from dumpfilter.filter import ReplicationFilter
from dumpfilter.master.imposed import Address
from dumpfilter.master.replica_entry import ReplicaEntry, most_specific
from dumpfilter.printable import printable
from dumpfilter.security.passwords import ConsolePassword


class ReplicaRefused(DumpfilterError):
    """The error for a replica that the master does not serve. The text names the cure."""

    def __init__(self, text: str, *, momentary: bool = False) -> None:
        super().__init__(text)
        self.momentary = momentary
        """Whether the replica should try again by itself.

        A replica stops at error 1236. At any other error it logs the text and reconnects.
        """


@dataclass(frozen=True)
class ReplicaPeer:
    """The facts about a connected replica that choose its filter."""

    user: str
    channel: str
    """The name of the replica's channel. A MariaDB replica never tells it, and has ``""``."""
    server_id: int
    address: Address | None
    """The address from which the replica connects."""
    uuid: str = ""
    host: str = ""
    """The option report_host of the replica, from COM_REGISTER_SLAVE."""
    port: int = 0
    """The replica's own port, from COM_REGISTER_SLAVE."""
    family: Family = "mysql"


@dataclass(frozen=True)
class ChosenFilter:
    """The filter by which the master sends events to a replica."""

    entry: ReplicaEntry
    """The table of the configuration that the filter comes from."""
    filter: ReplicationFilter


class ReplicaFilters:
    """The passwords and filters of real replicas, from the tables ``[[replica]]``. Thread-safe."""

    def __init__(self, entries: Sequence[ReplicaEntry] = ()) -> None:
        self._lock = threading.Lock()
        self._entries = tuple(entries)

    @property
    def entries(self) -> tuple[ReplicaEntry, ...]:
        """The tables ``[[replica]]`` in force, in the order of the file."""
        with self._lock:
            return self._entries

    def replace(self, entries: Sequence[ReplicaEntry]) -> None:
        """Use other tables, because the configuration was read again."""
        with self._lock:
            self._entries = tuple(entries)

    def accounts(self) -> dict[str, ConsolePassword]:
        """Return the stored password of each user as whom a replica may log in."""
        return {entry.user: entry.password for entry in self.entries}

    def find(self, user: str, channel: str, server_id: int, address: Address | None) -> ReplicaEntry | None:
        """Return the most specific table whose conditions a replica meets, or None without such a table."""
        return most_specific(self.entries, user=user, channel=channel, server_id=server_id, address=address)

    def filter_for(self, peer: ReplicaPeer) -> ChosenFilter:
        """Return the filter for a replica that wants a dump. The call may connect to the replica, and take seconds.

        Raises ReplicaRefused when the replica meets no table's conditions, or when its filter cannot be told.
        """
        entry = self.find(peer.user, peer.channel, peer.server_id, peer.address)
        if entry is None:
            raise ReplicaRefused(
                f"no [[replica]] of user {printable(peer.user)!r} is for channel {printable(peer.channel)!r}, server "
                f"id {peer.server_id} and address {peer.address}: add one to the master's configuration"
            )
        if entry.filter is None:
            raise ReplicaRefused("adopt = true is not implemented yet")
        return ChosenFilter(entry, entry.filter)
