"""The register of slaves: who is connected, with which filter, and what each has cost."""

from __future__ import annotations

import threading
import time
import uuid as uuids
from dataclasses import dataclass, field

from dumpfilter.binlog.subjects import Subjects
from dumpfilter.dump import Counts
from dumpfilter.errors import DumpfilterError
from dumpfilter.filter import ReplicationFilter
from dumpfilter.filter.flags import TableFlags


class NotRegistered(DumpfilterError):
    """No slave has this id."""


class AlreadyRegistered(DumpfilterError):
    """Another live slave has this server id on this channel."""


@dataclass
class RegisteredSlave:
    """A slave as the master knows it (a row of SHOW REPLICAS)."""

    slave_id: str
    server_id: int
    uuid: str
    host: str
    port: int
    channel: str
    flags: TableFlags
    filter_version: int = 1
    counts: Counts = field(default_factory=Counts)
    file: str = ""
    position: int = 0
    registered_at: float = field(default_factory=time.time)
    last_seen_at: float = field(default_factory=time.time)
    dump: int = 0
    """The number of the dump that is running for it; 0 when none is."""

    @property
    def filter(self) -> ReplicationFilter:
        return self.flags.filter


class Register:
    """The slaves, by id. Thread-safe. A ``write_filter`` is every slave's: the binlog as it would have been written."""

    def __init__(self, subjects: Subjects, write_filter: ReplicationFilter | None = None) -> None:
        self._subjects = subjects
        self._write_filter = write_filter
        self._slaves: dict[str, RegisteredSlave] = {}
        self._lock = threading.Lock()
        self._dumps = 0

    def add(
        self, *, server_id: int, uuid: str, host: str, port: int, channel: str, rule_filter: ReplicationFilter
    ) -> RegisteredSlave:
        """Register a slave. The same uuid and channel again takes the place of the earlier registration,
        whose dump ends; another uuid with the same server id is refused while the first one is dumping
        (two slaves with one server id throw each other out for ever).
        """
        with self._lock:
            for other in list(self._slaves.values()):
                if other.channel != channel:
                    continue
                if other.uuid == uuid:
                    del self._slaves[other.slave_id]
                elif other.server_id == server_id:
                    if other.dump:
                        raise AlreadyRegistered(
                            f"a slave with server id {server_id} and uuid {other.uuid} "
                            f"({other.host or 'host not told'}) "
                            f"is connected on channel {channel!r}; give this one another --server-id"
                        )
                    del self._slaves[other.slave_id]
            slave = RegisteredSlave(
                str(uuids.uuid4()),
                server_id,
                uuid,
                host,
                port,
                channel,
                TableFlags(rule_filter, self._subjects, write_filter=self._write_filter),
            )
            self._slaves[slave.slave_id] = slave
            return slave

    def get(self, slave_id: str) -> RegisteredSlave:
        """The slave with this id. Raises NotRegistered."""
        with self._lock:
            try:
                return self._slaves[slave_id]
            except KeyError:
                raise NotRegistered(
                    f"no slave is registered as {slave_id!r} (the master may have restarted): register again"
                ) from None

    def remove(self, slave_id: str) -> None:
        """Forget a slave; its dump ends. Raises NotRegistered."""
        self.get(slave_id)
        with self._lock:
            self._slaves.pop(slave_id, None)

    def change_filter(self, slave_id: str, rule_filter: ReplicationFilter) -> RegisteredSlave:
        """Give a slave another filter; its running dump takes it up. Raises NotRegistered."""
        slave = self.get(slave_id)
        with self._lock:
            slave.flags = TableFlags(rule_filter, self._subjects, write_filter=self._write_filter)
            slave.filter_version += 1
            return slave

    def begin_dump(self, slave: RegisteredSlave) -> int:
        """A number for a new dump of this slave; an earlier one sees that it is over."""
        with self._lock:
            self._dumps += 1
            slave.dump = self._dumps
            return self._dumps

    def end_dump(self, slave: RegisteredSlave, dump: int) -> None:
        """The dump is over."""
        with self._lock:
            if slave.dump == dump:
                slave.dump = 0

    def holds(self, slave: RegisteredSlave, dump: int) -> bool:
        """Whether this dump is still the slave's, and the slave still registered."""
        return slave.dump == dump and slave.slave_id in self._slaves

    def progress(self, slave: RegisteredSlave, file: str, position: int, counts: Counts | None) -> None:
        """Note where a dump has got to."""
        with self._lock:
            slave.file, slave.position = file, position
            slave.last_seen_at = time.time()
            if counts is not None:
                slave.counts.add(counts)

    def all(self) -> list[RegisteredSlave]:
        """The slaves, in the order they registered."""
        with self._lock:
            return list(self._slaves.values())
