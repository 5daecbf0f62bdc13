"""The master's register of its slaves: the filter of each slave, its running dump, and counts of events and bytes."""

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
"""The most slaves without a running dump that the master remembers, which limits the memory of the register."""
MOST_IDLE_WEIGHT = 256 << 20
"""The most memory that the filter rules of slaves without a running dump may take, bytes."""


class NotRegistered(DumpfilterError):
    """The error for a request with a slave id that the master did not give out, or has forgotten."""


class AlreadyRegistered(DumpfilterError):
    """The error for a slave whose server id belongs to another slave that is dumping on the same channel."""


@dataclass(frozen=True)
class FilterChange:
    """A slave's filter, and the binlog file and position from which the master uses the filter.

    A change of filter replaces the whole object, so that a running dump never sees half a change.
    """

    flags: TableFlags
    version: int
    origin: OriginFilter | None = None
    place: tuple[str, int] | None = None
    """The binlog file and position to which a running dump goes back, to send from there with the new filter.

    With None the dump continues from its own position.
    """
    place_version: int = 0
    """The filter version that came with ``place``, the position to which a running dump goes back.

    A later change of ``--binlog-do-db`` rules increases ``version`` only. A dump that has not yet gone back to
    ``place`` can still see by this number that it must.
    """

    @property
    def slave_version(self) -> int:
        """The filter version that the slave knows: 1 at its registration, then the version of its own newest change."""
        return self.place_version or 1

    def place_after(self, version: int) -> tuple[str, int] | None:
        """Return the binlog file and position to which a dump that still uses filter ``version`` must go back.

        Return None when the dump continues from its own position.
        """
        return self.place if version < self.place_version else None


@dataclass
class RegisteredSlave:
    """A registered slave as the master knows it: one row of SHOW REPLICAS."""

    slave_id: str
    server_id: int
    uuid: str
    host: str
    port: int
    channel: str
    change: FilterChange
    user: str = ""
    imposed: tuple[ImposedFilter, ...] = ()
    """The filters that the master's operator imposes on the slave, besides the slave's own filter."""
    counts: Counts = field(default_factory=Counts)
    file: str = ""
    position: int = 0
    registered_at: float = field(default_factory=time.time)
    last_seen_at: float = field(default_factory=time.time)
    dump: int = 0
    """The number of the dump that is sending events to the slave; 0 when no dump is running."""

    @property
    def flags(self) -> TableFlags:
        return self.change.flags

    @property
    def filter_version(self) -> int:
        """The version of the slave's filter: 1 at registration, and one more after each change."""
        return self.change.version

    @property
    def filter(self) -> ReplicationFilter:
        """The filter that the slave sent, without the filters and ``--binlog-do-db`` rules that the master adds."""
        return self.flags.filter

    @property
    def weight(self) -> int:
        """The approximate memory that the slave's registration takes, bytes."""
        return 1000 + 1000 * len(self.filter.rules)


class Register:
    """The registered slaves, by id. Thread-safe.

    ``write_filter`` has rules like ``--binlog-do-db`` and applies to every slave. The master serves the binlog as a
    server with these rules would have written it. ``most_idle`` is the largest number of slaves without a running dump,
    and ``most_idle_weight`` bounds the bytes of their rules. Beyond these bounds the register forgets the slaves that
    have been idle the longest. A forgotten slave registers again when it connects.
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
        """Register a slave with its filter, and return its entry in the register.

        A slave that registers again, with the same UUID and channel, replaces its old entry and ends its old dump. A
        slave with another UUID but the same server id is refused while the first slave is dumping. Otherwise the two
        slaves would end each other's dumps for ever. Raises AlreadyRegistered.
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
        idle = [slave for slave in self._slaves.values() if not slave.dump]
        number, weight = len(idle), sum(slave.weight for slave in idle)
        if number <= self._most_idle and weight <= self._most_idle_weight:
            return
        # The last slave in this order has just registered. The register must not forget that slave.
        *others, _ = sorted(idle, key=lambda slave: slave.last_seen_at)
        for slave in others:
            if number <= self._most_idle and weight <= self._most_idle_weight:
                break
            del self._slaves[slave.slave_id]
            number, weight = number - 1, weight - slave.weight

    def get(self, slave_id: str) -> RegisteredSlave:
        """Return the registered slave with this id. Raises NotRegistered."""
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
        """Replace a slave's filter. Raises NotRegistered for an unknown slave id.

        The slave's running dump goes back to ``place``, a binlog file and position, and sends the events from there
        with the new filter. With None the dump uses the new filter from its present position.
        """
        slave = self.get(slave_id)
        with self._lock:
            version = slave.filter_version + 1
            flags = self._flags(rule_filter, slave.imposed)
            slave.change = FilterChange(flags, version, origin, place, place_version=version)
            return slave

    @property
    def write_filter(self) -> ReplicationFilter | None:
        """The filter with rules like ``--binlog-do-db`` that hides events from all slaves; None without such rules."""
        return self._write_filter

    def change_write_filter(self, write_filter: ReplicationFilter) -> None:
        """Replace the filter that hides events from all slaves, as the statement CHANGE BINLOG asks.

        Running dumps use the new filter from their next transaction on.
        """
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
        """Register a new dump for a slave and return its number. An earlier dump of the same slave then ends."""
        with self._lock:
            self._dumps += 1
            slave.dump = self._dumps
            return self._dumps

    def end_dump(self, slave: RegisteredSlave, dump: int) -> None:
        """Mark the slave as not dumping, unless a newer dump of the slave has begun."""
        with self._lock:
            if slave.dump == dump:
                slave.dump = 0

    def holds(self, slave: RegisteredSlave, dump: int) -> bool:
        """Tell whether the slave is still registered and ``dump`` is the number of its newest dump."""
        return slave.dump == dump and slave.slave_id in self._slaves

    def progress(self, slave: RegisteredSlave, file: str, position: int, counts: Counts | None) -> None:
        """Record how far a slave's dump has come, and add the counts of its last chunk, for SHOW REPLICAS."""
        with self._lock:
            slave.file, slave.position = file, position
            slave.last_seen_at = time.time()
            if counts is not None:
                slave.counts.add(counts)

    def all(self) -> list[RegisteredSlave]:
        """Return the registered slaves, in the order of their registration."""
        with self._lock:
            return list(self._slaves.values())
