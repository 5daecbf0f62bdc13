"""The statistics of each slave that the master has served: counts of events and bytes, and the position reached.

A record belongs to a slave, identified by its user, channel and server UUID. A slave that registers again continues its
record, and a master with a state directory continues all records after a restart.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from operator import attrgetter
from typing import NamedTuple

from pydantic import NonNegativeInt

from dumpfilter.dump.chunk import Counts
from dumpfilter.master.who import Peer

MOST_REMEMBERED = 10_000
"""The largest number of slaves whose counts the master keeps. Above it the master forgets the slave that was not seen
for the longest time.
"""

_SAVED_SECONDS = 60.0
"""The longest time for which a heartbeat or another message without counts may stay unsaved, seconds."""


_numbers = attrgetter(*Counts.__slots__)


class SlaveKey(NamedTuple):
    """The key of a slave's statistics: user, channel and UUID. A slave that returns with an equal key continues its old
    counts.
    """

    user: str
    channel: str
    uuid: str


@dataclass
class SlaveCounts:
    """The statistics of one slave, with its identity for display. Times are Unix times, seconds."""

    key: SlaveKey
    server_id: NonNegativeInt = 0
    host: str = ""
    dumps: NonNegativeInt = 0
    """The number of dumps that the slave has begun."""
    first_seen_at: float = field(default_factory=time.time)
    last_seen_at: float = field(default_factory=time.time)
    counts: Counts = field(default_factory=Counts)
    file: str = ""
    position: NonNegativeInt = 0
    """The binlog file and position that the slave's dumps have reached."""
    peer: str = ""
    """The address from which the slave registered last, as gRPC spells it."""
    filter_digest: str = ""
    """A digest of the filters that select the slave's events. After a restart of the master it tells a change."""
    is_done: bool = False
    """Whether the slave is not expected back: it read to the end and left, or UNREGISTER REPLICA named it."""

    @property
    def as_peer(self) -> Peer:
        """The slave's identity as a :class:`Peer`, which conditions on slaves are compared with."""
        user, channel, uuid = self.key
        return Peer(user, channel, self.server_id, self.peer, uuid, self.host)


class CounterBook:
    """The statistics of all slaves that the master remembers. Thread-safe.

    ``most`` is the largest number of slaves. A slave is added at its first dump, so that clients that only register
    cannot displace other slaves.
    """

    def __init__(self, records: Iterable[SlaveCounts] = (), *, most: int = MOST_REMEMBERED) -> None:
        self._most = most
        self._lock = threading.Lock()
        newest = sorted(records, key=_last_seen)[-most:]
        self._records = {record.key: record for record in newest}
        self.generation = 0
        """A number that grows with each change, so that the saving thread knows whether there is something to save."""
        self._noted_at = 0.0
        """The time at which a slave's activity last increased ``generation``, Unix time, seconds."""

    def record(self, key: SlaveKey) -> SlaveCounts:
        """Return the statistics with which a registering slave continues. For a new slave they are zero, and not stored
        yet.
        """
        with self._lock:
            return self._records.get(key) or SlaveCounts(key)

    def begin_dump(self, record: SlaveCounts, peer: Peer) -> SlaveCounts:
        """Record that a dump for a slave begins. Return the slave's stored statistics, which may be another object than
        ``record``.

        A new slave is stored, if necessary in place of the slave that was not seen for the longest time.
        """
        with self._lock:
            found = self._records.get(record.key)
            if found is None:
                if len(self._records) >= self._most:
                    del self._records[min(self._records.values(), key=_last_seen).key]
                found = self._records[record.key] = record
            found.dumps += 1
            found.server_id, found.host, found.peer = peer.server_id, peer.host, peer.endpoint
            found.is_done = False
        self.see(found)
        return found

    def finish(self, slaves: Callable[[SlaveCounts], bool]) -> list[SlaveCounts]:
        """Mark the slaves for which ``slaves`` returns true as not expected back. Return the statistics of the newly
        marked ones.

        A new dump of a slave removes the mark.
        """
        with self._lock:
            found = [one for one in self._records.values() if not one.is_done and slaves(one)]
            for record in found:
                record.is_done = True
            self.generation += bool(found)
            return found

    def add(self, record: SlaveCounts, file: str, position: int, counts: Counts | None) -> None:
        """Record the binlog position that a slave's dump has reached, and add the counts of its last chunk.

        ``counts`` is None for a message without counts, such as a heartbeat. Events that the dump thread has buffered,
        and neither sent nor dropped yet, do not count as read. All dumps run in one thread, so that no lock is needed.
        """
        record.file, record.position = file, position
        self.see(record, is_news=counts is not None)
        if counts is not None:
            total = record.counts
            total.add(counts)
            # Buffered events count as read once they are sent or dropped. If the stream breaks before, the next
            # dump reads these events again.
            total.events_read = total.events_sent + total.events_dropped
            total.bytes_read = total.bytes_sent + total.bytes_dropped

    def see(self, record: SlaveCounts, *, is_news: bool = True) -> None:
        """Record that a slave was seen now, and mark the statistics as changed, so that they are saved soon. Without
        ``is_news`` they are marked at most once a minute.
        """
        record.last_seen_at = time.time()
        if is_news or record.last_seen_at - self._noted_at >= _SAVED_SECONDS:
            self._noted_at = record.last_seen_at
            self.generation += 1

    def records(self) -> list[SlaveCounts]:
        """Return a copy of the statistics of all slaves, ordered by the time when each was last seen, oldest first."""
        with self._lock:
            found = [(vars(record).copy(), _numbers(record.counts)) for record in self._records.values()]
        copies = (SlaveCounts(**{**fields, "counts": Counts(*numbers)}) for fields, numbers in found)
        return sorted(copies, key=_last_seen)


def _last_seen(record: SlaveCounts) -> float:
    return record.last_seen_at
