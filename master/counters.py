"""The master's memory of the slaves that it has served: what it read, sent and dropped for each, and how far each came.

A record belongs to the slave, which is its user, channel and server UUID. A slave that registers again goes on with
its record, and a master with a state directory goes on with the records after a restart.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field, replace
from typing import NamedTuple

from pydantic import NonNegativeInt

from dumpfilter.dump.chunk import Counts
from dumpfilter.master.who import Peer

MOST_REMEMBERED = 10_000
"""The most slaves whose counts the master remembers. Beyond it the master forgets the slave not seen for longest."""

_SAVED_SECONDS = 60.0
"""The longest time for which a sign of life without events, such as a heartbeat, may stay unsaved, seconds."""


class SlaveKey(NamedTuple):
    """The names by which the master recognizes a slave whose counts go on."""

    user: str
    channel: str
    uuid: str


@dataclass
class SlaveCounts:
    """The counts of one slave, with what tells people which slave it is. Times are Unix times, seconds."""

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
    is_done: bool = False
    """Whether nobody waits for the slave: it read to the end and left, or UNREGISTER REPLICA named it."""

    @property
    def as_peer(self) -> Peer:
        """The facts by which tables and statements select the slave."""
        user, channel, uuid = self.key
        return Peer(user, channel, self.server_id, self.peer, uuid, self.host)


class CounterBook:
    """The counts of all slaves that the master remembers. Thread-safe.

    The book takes in a slave at its first dump. A client that only registers cannot push other slaves out.
    """

    def __init__(self, records: Iterable[SlaveCounts] = (), *, most: int = MOST_REMEMBERED) -> None:
        self._most = most
        self._lock = threading.Lock()
        newest = sorted(records, key=_last_seen)[-most:]
        self._records = {record.key: record for record in newest}
        self.generation = 0
        """A number that grows with each change, so that a saver knows whether there is something to save."""
        self._noted_at = 0.0
        """The time of the newest sign of life that has raised the generation, Unix time, seconds."""

    def record(self, key: SlaveKey) -> SlaveCounts:
        """Return the counts with which a registering slave continues. Those of a new slave are zero."""
        with self._lock:
            return self._records.get(key) or SlaveCounts(key)

    def begin_dump(self, record: SlaveCounts, peer: Peer) -> SlaveCounts:
        """Note that a dump for a slave begins, and return the slave's record in the book."""
        with self._lock:
            record = self._entered(record)
            record.dumps += 1
            record.server_id, record.host, record.peer = peer.server_id, peer.host, peer.endpoint
            record.is_done = False
            self._note_seen(record, is_news=True)
            return record

    def note(self, record: SlaveCounts) -> SlaveCounts:
        """Note a sign of life of a slave, such as the end of its dump, and return the slave's record in the book."""
        with self._lock:
            record = self._entered(record)
            self._note_seen(record, is_news=True)
            return record

    def finish(self, slaves: Callable[[SlaveCounts], bool]) -> list[SlaveCounts]:
        """Note that nobody waits for the slaves whose record meets a condition. Return their records.

        Slaves that nobody waited for before are not among the records. A new dump of a slave revokes the note.
        """
        with self._lock:
            found = [one for one in self._records.values() if not one.is_done and slaves(one)]
            for record in found:
                record.is_done = True
            self.generation += bool(found)
            return found

    def add(self, record: SlaveCounts, file: str, position: int, counts: Counts | None) -> SlaveCounts:
        """Note the place that a slave's dump has reached, and add the counts of its last chunk.

        Events that the dump thread has buffered do not count. A heartbeat has no counts. Return the record in the book.
        """
        with self._lock:
            record = self._entered(record)
            record.file, record.position = file, position
            self._note_seen(record, is_news=counts is not None)
            if counts is not None:
                total = record.counts
                total.add(counts)
                # Buffered events count as read once they are sent or dropped. If the stream breaks before, the next
                # dump reads these events again.
                total.events_read = total.events_sent + total.events_dropped
                total.bytes_read = total.bytes_sent + total.bytes_dropped
            return record

    def _note_seen(self, record: SlaveCounts, *, is_news: bool) -> None:
        record.last_seen_at = time.time()
        if is_news or record.last_seen_at - self._noted_at >= _SAVED_SECONDS:
            self._noted_at = record.last_seen_at
            self.generation += 1

    def records(self) -> list[SlaveCounts]:
        """Return a copy of the counts of all slaves, the slave that was not seen for the longest time first."""
        with self._lock:
            copies = [replace(record, counts=replace(record.counts)) for record in self._records.values()]
        return sorted(copies, key=_last_seen)

    def _entered(self, record: SlaveCounts) -> SlaveCounts:
        """Return the slave's record in the book. A new or forgotten one is entered, in place of the oldest if need be.

        Another registration of the same slave may have entered a record before.
        """
        found = self._records.get(record.key)
        if found is None:
            if len(self._records) >= self._most:
                del self._records[min(self._records.values(), key=_last_seen).key]
            found = self._records[record.key] = record
        return found


def _last_seen(record: SlaveCounts) -> float:
    return record.last_seen_at
