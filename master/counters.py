"""The master's counts of what it read, sent and dropped for each slave.

The counts belong to the slave, which is its user, channel and server UUID. A slave that registers again goes on with
its counts, and a master with a state directory goes on with them after a restart.
"""

from __future__ import annotations

import threading
import time
from collections import OrderedDict
from collections.abc import Iterable
from dataclasses import dataclass, field, replace
from typing import NamedTuple, Protocol

from dumpfilter.dump import Counts

MOST_REMEMBERED = 10_000
"""The most slaves whose counts the master remembers. Beyond it the master forgets the slave not seen for longest."""


class SlaveKey(NamedTuple):
    """The names by which the master recognizes a slave whose counts go on."""

    user: str
    channel: str
    uuid: str


class CountedSlave(Protocol):
    """The properties of a registered slave that its counts need."""

    server_id: int
    uuid: str
    host: str
    channel: str
    user: str
    counts: Counts


@dataclass
class SlaveCounts:
    """The counts of one slave, with what tells people which slave it is. Times are Unix times, seconds."""

    key: SlaveKey
    server_id: int = 0
    host: str = ""
    dumps: int = 0
    """The number of dumps that the slave has begun."""
    first_seen_at: float = field(default_factory=time.time)
    last_seen_at: float = field(default_factory=time.time)
    counts: Counts = field(default_factory=Counts)


class CounterBook:
    """The counts of all slaves that the master remembers. Thread-safe.

    The book takes in a slave at its first dump. A client that only registers cannot push other slaves out.
    """

    def __init__(self, records: Iterable[SlaveCounts] = (), *, most: int = MOST_REMEMBERED) -> None:
        self._most = most
        self._lock = threading.Lock()
        ordered = sorted(records, key=lambda record: record.last_seen_at)[-most:]
        self._records = OrderedDict((record.key, record) for record in ordered)
        """The slaves by their keys. The slave that was not seen for the longest time comes first."""
        self.generation = 0
        """A number that grows with each change, so that a saver knows whether there is something to save."""

    def counts_of(self, user: str, channel: str, uuid: str) -> Counts:
        """Return the counts with which a slave goes on that registers now. A new slave begins with zeros."""
        with self._lock:
            record = self._records.get(SlaveKey(user, channel, uuid))
            return Counts() if record is None else record.counts

    def begin_dump(self, slave: CountedSlave) -> None:
        """Note that a dump for the slave begins."""
        with self._lock:
            record = self._seen(slave)
            record.dumps += 1
            record.server_id, record.host = slave.server_id, slave.host

    def add(self, slave: CountedSlave, counts: Counts) -> None:
        """Add the counts of a chunk to the slave's counts."""
        with self._lock:
            self._seen(slave).counts.add(counts)

    def records(self) -> list[SlaveCounts]:
        """Return a copy of the counts of all slaves, the slave that was not seen for the longest time first."""
        with self._lock:
            return [replace(record, counts=replace(record.counts)) for record in self._records.values()]

    def _seen(self, slave: CountedSlave) -> SlaveCounts:
        self.generation += 1
        key = SlaveKey(slave.user, slave.channel, slave.uuid)
        record = self._records.get(key)
        if record is None:
            record = SlaveCounts(key, slave.server_id, slave.host, counts=slave.counts)
            self._records[key] = record
            if len(self._records) > self._most:
                self._records.popitem(last=False)
        else:
            # The slave may have registered before another registration of the same slave began the record.
            slave.counts = record.counts
        self._records.move_to_end(key)
        record.last_seen_at = time.time()
        return record
