"""The register of slaves, with the filter, the running dump and the counts of each."""

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
"""The most registered slaves without a running dump."""
MOST_IDLE_WEIGHT = 256 << 20
"""The most memory for the rules of registered slaves without a running dump, bytes."""


class NotRegistered(DumpfilterError):
    """No slave has this id."""


class AlreadyRegistered(DumpfilterError):
    """Another live slave has this server id on this channel."""


@dataclass(frozen=True)
class FilterChange:
    """A slave's filter, and the place from which the filter is in force.

    A change of filter replaces the whole object, so that a running dump never sees half a change.
    """

    flags: TableFlags
    version: int
    origin: OriginFilter | None = None
    place: tuple[str, int] | None = None
    """The file and position to which a running dump goes back. None: the dump goes on from its own position."""
    place_version: int = 0
    """The version of the change that set ``place``.

    A later change of the write side's rules keeps ``place`` for a dump that has not gone back yet.
    """

    def place_after(self, version: int) -> tuple[str, int] | None:
        """Return the place to which a dump with the filter of ``version`` goes back; None when the dump goes on."""
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
    """The filters imposed on the slave."""
    counts: Counts = field(default_factory=Counts)
    file: str = ""
    position: int = 0
    registered_at: float = field(default_factory=time.time)
    last_seen_at: float = field(default_factory=time.time)
    dump: int = 0
    """The number of the running dump; 0 without one."""

    @property
    def flags(self) -> TableFlags:
        return self.change.flags

    @property
    def filter_version(self) -> int:
        """The number of the slave's filter. It counts the changes from 1."""
        return self.change.version

    @property
    def filter(self) -> ReplicationFilter:
        """The slave's own filter, without imposed filters and the write side's."""
        return self.flags.filter

    @property
    def weight(self) -> int:
        """The approximate memory that the slave's registration takes, bytes."""
        return 1000 + 1000 * len(self.filter.rules)


class Register:
    """The registered slaves, by id. Thread-safe.

    ``write_filter`` holds for every slave: the binlog is served as a server with this filter would have written it.
    ``most_idle`` and ``most_idle_weight`` bound the slaves without a running dump, by number and by bytes of rules. The
    register forgets the slaves that have been idle the longest. A forgotten slave registers again.
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
        """Register a slave.

        A registration with the uuid and channel of an earlier one replaces that one and ends its dump. Another uuid
        with the same server id is refused while the first slave dumps, because two such slaves would end each other's
        dumps for ever. Raises AlreadyRegistered.
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
        """Forget idle slaves until the register is within its bounds."""
        idle = [slave for slave in self._slaves.values() if not slave.dump]
        number, weight = len(idle), sum(slave.weight for slave in idle)
        if number <= self._most_idle and weight <= self._most_idle_weight:
            return
        *others, _ = sorted(idle, key=lambda slave: slave.last_seen_at)  # the newest has just registered
        for slave in others:
            if number <= self._most_idle and weight <= self._most_idle_weight:
                break
            del self._slaves[slave.slave_id]
            number, weight = number - 1, weight - slave.weight

    def get(self, slave_id: str) -> RegisteredSlave:
        """Return the slave with this id. Raises NotRegistered."""
        with self._lock:
            try:
                return self._slaves[slave_id]
            except KeyError:
                raise NotRegistered(
                    f"no slave is registered as {slave_id!r} (the master may have restarted): register again"
                ) from None

    def remove(self, slave_id: str) -> None:
        """Forget a slave and end its dump. Raises NotRegistered."""
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
        """Give a slave another filter, which its running dump takes up from ``place`` on. Raises NotRegistered."""
        slave = self.get(slave_id)
        with self._lock:
            version = slave.filter_version + 1
            flags = self._flags(rule_filter, slave.imposed)
            slave.change = FilterChange(flags, version, origin, place, place_version=version)
            return slave

    @property
    def write_filter(self) -> ReplicationFilter | None:
        """The write side's filter of the served binlog; None without one."""
        return self._write_filter

    def change_write_filter(self, write_filter: ReplicationFilter) -> None:
        """Change the write side's filter (CHANGE BINLOG). Running dumps change at their next transaction boundary."""
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
        """Return the number of a new dump of this slave. An earlier dump of the slave sees that it is over."""
        with self._lock:
            self._dumps += 1
            slave.dump = self._dumps
            return self._dumps

    def end_dump(self, slave: RegisteredSlave, dump: int) -> None:
        """Note the end of a dump, unless another dump of the slave has begun."""
        with self._lock:
            if slave.dump == dump:
                slave.dump = 0

    def holds(self, slave: RegisteredSlave, dump: int) -> bool:
        """Tell whether the slave is registered and this dump is its newest."""
        return slave.dump == dump and slave.slave_id in self._slaves

    def progress(self, slave: RegisteredSlave, file: str, position: int, counts: Counts | None) -> None:
        """Note the position of a dump, and add the counts of its last chunk."""
        with self._lock:
            slave.file, slave.position = file, position
            slave.last_seen_at = time.time()
            if counts is not None:
                slave.counts.add(counts)

    def all(self) -> list[RegisteredSlave]:
        """Return the slaves in the order of their registration."""
        with self._lock:
            return list(self._slaves.values())
