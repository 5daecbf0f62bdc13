"""The register of slaves: who is connected, with which filter, and what each has cost."""

from __future__ import annotations

import threading
import time
import uuid as uuids
from dataclasses import dataclass, field, replace

from dumpfilter.dump import Counts
from dumpfilter.errors import DumpfilterError
from dumpfilter.filter import ReplicationFilter
from dumpfilter.filter.flags import TableFlags
from dumpfilter.filter.origin import OriginFilter
from dumpfilter.index.subjects import Subjects
from dumpfilter.master.imposed import ImposedFilter

MOST_IDLE = 10_000
"""How many slaves may be registered without a dump."""
MOST_IDLE_WEIGHT = 256 << 20
"""How much their rules may take together, bytes."""


class NotRegistered(DumpfilterError):
    """No slave has this id."""


class AlreadyRegistered(DumpfilterError):
    """Another live slave has this server id on this channel."""


@dataclass(frozen=True)
class FilterChange:
    """A slave's filter and since where it is in force. Replaced as a whole: a running dump sees all of it or none."""

    flags: TableFlags
    version: int
    origin: OriginFilter | None = None
    place: tuple[str, int] | None = None
    """File and position from which a running dump goes on with it; None: from where it is."""
    place_version: int = 0
    """The version that ``place`` came with: a later change of the binlog's own rules keeps it for a dump that has not
    been there yet."""

    def place_after(self, version: int) -> tuple[str, int] | None:
        """Where a dump goes back to that has gone by ``version`` so far; None: it goes on from where it is."""
        return self.place if version < self.place_version else None


@dataclass
class RegisteredSlave:
    """A slave as the master knows it (a row of SHOW REPLICAS)."""

    slave_id: str
    server_id: int
    uuid: str
    host: str
    port: int
    channel: str
    change: FilterChange
    user: str = ""
    imposed: tuple[ImposedFilter, ...] = ()
    """What the master imposes on it: it gets what passes its own filter and each of these."""
    counts: Counts = field(default_factory=Counts)
    file: str = ""
    position: int = 0
    registered_at: float = field(default_factory=time.time)
    last_seen_at: float = field(default_factory=time.time)
    dump: int = 0
    """The number of the dump that is running for it; 0 when none is."""

    @property
    def flags(self) -> TableFlags:
        return self.change.flags

    @property
    def filter_version(self) -> int:
        """Counts the changes of the filter, from 1."""
        return self.change.version

    @property
    def filter(self) -> ReplicationFilter:
        """The slave's own."""
        return self.flags.filter

    @property
    def weight(self) -> int:
        """About how much memory it takes, bytes."""
        return 1000 + 1000 * len(self.filter.rules)


class Register:
    """The slaves, by id. Thread-safe. A ``write_filter`` is every slave's: the binlog as it would have been written.

    Slaves that have no dump running are kept up to ``most_idle`` of them and ``most_idle_weight`` bytes of rules;
    beyond it those that have been idle the longest are forgotten, and have to register again.
    """

    def __init__(
        self,
        subjects: Subjects,
        write_filter: ReplicationFilter | None = None,
        *,
        most_idle: int = MOST_IDLE,
        most_idle_weight: int = MOST_IDLE_WEIGHT,
    ) -> None:
        self._subjects = subjects
        self._most_idle = most_idle
        self._most_idle_weight = most_idle_weight
        self._write_filter = write_filter
        self._slaves: dict[str, RegisteredSlave] = {}
        self._lock = threading.Lock()
        self._dumps = 0

    def add(
        self,
        *,
        server_id: int,
        uuid: str,
        host: str,
        port: int,
        channel: str,
        rule_filter: ReplicationFilter,
        origin: OriginFilter | None = None,
        user: str = "",
        imposed: tuple[ImposedFilter, ...] = (),
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
                FilterChange(self._flags(rule_filter, imposed), 1, origin),
                user,
                imposed,
            )
            self._slaves[slave.slave_id] = slave
            self._forget_idle()
            return slave

    def _forget_idle(self) -> None:
        """Keep to the bounds on slaves that are registered and do not dump."""
        idle = [slave for slave in self._slaves.values() if not slave.dump]
        number, weight = len(idle), sum(slave.weight for slave in idle)
        if number <= self._most_idle and weight <= self._most_idle_weight:
            return
        for slave in sorted(idle, key=lambda slave: slave.last_seen_at)[
            :-1
        ]:  # not the one that just registered
            if number <= self._most_idle and weight <= self._most_idle_weight:
                break
            del self._slaves[slave.slave_id]
            number, weight = number - 1, weight - slave.weight

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

    def change_filter(
        self,
        slave_id: str,
        rule_filter: ReplicationFilter,
        *,
        origin: OriginFilter | None = None,
        place: tuple[str, int] | None = None,
    ) -> RegisteredSlave:
        """Give a slave another filter; its running dump takes it up, from ``place`` on. Raises NotRegistered."""
        slave = self.get(slave_id)
        with self._lock:
            version = slave.filter_version + 1
            flags = self._flags(rule_filter, slave.imposed)
            slave.change = FilterChange(flags, version, origin, place, place_version=version)
            return slave

    @property
    def write_filter(self) -> ReplicationFilter | None:
        """What the binlog is served as written with."""
        return self._write_filter

    def change_write_filter(self, write_filter: ReplicationFilter) -> None:
        """Serve the binlog as written with another filter (CHANGE BINLOG): every running dump goes on with it from the
        transaction boundary where it is."""
        with self._lock:
            self._write_filter = write_filter
            for slave in self._slaves.values():
                flags = self._flags(slave.filter, slave.imposed)
                slave.change = replace(slave.change, flags=flags, version=slave.filter_version + 1)

    def _flags(self, rule_filter: ReplicationFilter, imposed: tuple[ImposedFilter, ...]) -> TableFlags:
        return TableFlags(
            rule_filter,
            self._subjects,
            write_filter=self._write_filter,
            imposed=[one.filter for one in imposed],
        )

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
