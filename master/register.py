"""The register of a master's slaves. It has each slave's filter, its running binlog dump, and its counts of events and
bytes that were sent and dropped.
"""

from __future__ import annotations

import hashlib
import hmac
import secrets
import threading
import time
from collections import OrderedDict
from collections.abc import Callable, Hashable, Sequence
from dataclasses import dataclass, field, replace
from functools import cached_property
from weakref import WeakValueDictionary

from dumpfilter.base.errors import DumpfilterError
from dumpfilter.base.security.passwords import StoredPassword
from dumpfilter.dump.chunk import Counts
from dumpfilter.dump.xa import Earlier
from dumpfilter.filter import Filter, ReplicationFilter
from dumpfilter.filter.flags import TableFlags
from dumpfilter.filter.origin import OriginFilter
from dumpfilter.index.subjects import Subjects
from dumpfilter.master.counters import CounterBook, SlaveCounts, SlaveKey
from dumpfilter.master.imposed import ImposedFilter, imposed_on
from dumpfilter.master.limits import Overloaded
from dumpfilter.master.who import Peer

MOST_IDLE = 10_000
"""The largest number of slaves without a running dump that stay registered, which limits the memory of the register."""
MOST_IDLE_WEIGHT = 256 << 20
"""The limit on the memory of the filter rules of all slaves without a running dump, bytes."""
MOST_DUMPING_WEIGHT = 1 << 30
"""The limit on the memory of the filter rules of all slaves with a running dump, bytes."""

_SLAVE_WEIGHT = 2000
_RULE_WEIGHT = 3000
_CHARACTER_WEIGHT = 4
_ID_WEIGHT = 100
"""The approximate memory of a registration, of one rule, of one character of a rule, and of one id in a list of ids,
bytes.
"""

_MOST_EARLIER = 3
"""The number of a slave's earlier filters that the register remembers besides the last one."""

_ID_BYTES = 32
"""The number of random bytes in a slave's id. A client that knows the id can change and end the registration."""

_WAIT_OR_UNREGISTER = (
    "wait until the master has noticed that its connection is gone (a minute), or let the master's operator "
    "give UNREGISTER REPLICA on the master's console"
)


def _nobody() -> None:
    """Do nothing. A slave without a running dump has this function as its ``notify``."""


class NotRegistered(DumpfilterError):
    """The error for a request with an id that belongs to no registered slave."""

    grpc_code = "NOT_FOUND"


class AlreadyRegistered(DumpfilterError):
    """The error for a slave whose server id or UUID is in use by another slave that is dumping on the same channel."""

    grpc_code = "ALREADY_EXISTS"


class Unregistered(DumpfilterError):
    """The error for a dump whose registration the master's operator has ended."""

    grpc_code = "ABORTED"


@dataclass(frozen=True)
class FilterChange:
    """A slave's filter with its version number, which is 1 at registration and grows by one with each change.

    A change of filter replaces the whole object, so that a running dump never sees half a change.
    """

    flags: TableFlags
    version: int
    """The version of the slave's filter: 1 at registration, and one more after each change."""
    origin: OriginFilter | None = None

    @cached_property
    def weight(self) -> int:
        """The approximate memory of the filter's rules and lists of ids, bytes."""
        ids = 0
        if self.origin is not None:
            lists = (self.origin.ignore_server_ids, self.origin.do_domain_ids, self.origin.ignore_domain_ids)
            ids = sum(map(len, lists))
        return weight_of(self.flags) + _ID_WEIGHT * ids


def weight_of(flags: TableFlags) -> int:
    """Return the approximate memory of a filter's rules, bytes."""
    rules = flags.filter.rules
    return _RULE_WEIGHT * len(rules) + _CHARACTER_WEIGHT * sum(len(rule.value) for rule in rules)


@dataclass
class RegisteredSlave:
    """A registered slave: its filter, its running dump and its counts. It is one row of SHOW REPLICAS."""

    slave_id: str = field(repr=False)
    peer: Peer
    """The slave's description of itself, by which imposed filters and drains select slaves."""
    change: FilterChange
    record: SlaveCounts = field(repr=False)
    """The slave's counts over all its registrations. From its first dump on, the counts are stored in
    :class:`CounterBook`.
    """
    password: StoredPassword | None = field(default=None, repr=False)
    """The user's stored password at the time of the registration. None if the master had no users."""
    owner: bytes = field(default=b"", repr=False)
    """A digest of the slave's registration secret. Only a slave with the same digest can replace this registration."""
    imposed: tuple[ImposedFilter, ...] = ()
    """The filters that the master's operator imposes on the slave, besides the slave's own filter."""
    file: str = ""
    position: int = 0
    earlier: tuple[TableFlags, ...] = ()
    """The verdicts of the filters that selected the events before :attr:`other_filter_until`."""
    other_filter_until: tuple[str, int] | None = None
    """The binlog file and position before which events may have been selected by another filter; None if not known.

    A registration that replaces an older one takes over this value and :attr:`earlier`.
    """
    registered_at: float = field(default_factory=time.time)
    last_seen_at: float = field(default_factory=time.time)
    line_rate: int = 0
    """The bytes per second that the slave's connection surely carries, as the slave reported last; 0 if it reported
    nothing.
    """
    dump: int = 0
    """The number of the dump that is sending events to the slave; 0 when no dump is running."""
    notify: Callable[[], None] = field(default=_nobody, repr=False)
    """The function that wakes the running dump, because the filter has changed or the dump must end."""
    ended_by: DumpfilterError | None = None
    """The error with which a running dump ends, because the master's operator ended the registration. None
    otherwise.
    """

    @property
    def counts(self) -> Counts:
        """The numbers of events, bytes and transactions that the master has read, sent and dropped for the slave, over
        all its registrations.
        """
        return self.record.counts

    @property
    def owned_key(self) -> tuple[str, str, str, bytes]:
        """The key (user, channel, UUID, digest of the slave's secret). A later registration with an equal key replaces
        this one.
        """
        return *self.uuid_key, self.owner

    @property
    def uuid_key(self) -> tuple[str, str, str]:
        """The key (user, channel, UUID). At most one of the slaves with an equal key can have a running dump."""
        return self.peer.user, self.peer.channel, self.peer.uuid

    @property
    def server_id_key(self) -> tuple[str, str, int]:
        """The key (user, channel, server id). At most one of the slaves with an equal key can have a running dump."""
        return self.peer.user, self.peer.channel, self.peer.server_id

    @property
    def place(self) -> tuple[str, int] | None:
        """The binlog file and position (bytes) that the slave's dumps have reached.

        Before the first dump of this registration, the value is the position that the slave's earlier registration had
        reached, or None if that position is not known.
        """
        return (self.file, self.position) if self.file else self.other_filter_until

    def leave_filter(self, old: RegisteredSlave) -> None:
        """Record that the events which the slave has up to now were selected by the filter of ``old``, and not by the
        present filter.

        ``old`` is this registration before a change of its filter, or the registration that this one replaces.
        """
        others = tuple(flags for flags in old.earlier if flags is not old.flags)
        # A filter under which no dump has moved has selected nothing.
        is_used = old.place != old.other_filter_until
        self.earlier = (*others[-_MOST_EARLIER:], old.flags) if is_used else old.earlier
        self.other_filter_until = old.place

    @property
    def flags(self) -> TableFlags:
        return self.change.flags

    @property
    def filter(self) -> ReplicationFilter:
        """The filter that the slave sent. It includes neither the filters that the master's operator imposes nor the
        master's ``--binlog-do-db`` rules.
        """
        return self.flags.filter

    @property
    def weight(self) -> int:
        """The approximate memory of the slave's registration, including the filter, bytes."""
        return _SLAVE_WEIGHT + self.change.weight + self.earlier_weight

    @property
    def earlier_weight(self) -> int:
        """The approximate memory of the filters that the slave had before its present one, bytes.

        The register keeps the last few, since they decide about the end of XA transactions. Their memory is limited.
        """
        return sum(map(weight_of, self.earlier))


class _Weights(OrderedDict[str, int]):
    """A map from slave ids to the memory of each slave's filter, bytes. The slave that was added or changed last comes
    last. ``total`` is the sum.
    """

    total = 0

    def weigh(self, slave_id: str, weight: int) -> None:
        """Record that the rules of a slave's filter take ``weight`` bytes of memory. The slave becomes the last entry
        of the map. With ``weight`` 0 remove the slave.
        """
        self.total += weight - self.pop(slave_id, 0)
        if weight:
            self[slave_id] = weight


class Register:
    """The registered slaves, by id. Thread-safe.

    ``write_filter`` has rules like ``--binlog-do-db`` and applies to every slave. The master serves the binlog as a
    server with these rules would have written it. ``most_idle`` is the largest number of slaves without a running
    dump, and ``most_idle_weight`` limits the bytes of their rules. Above these limits the register removes the slaves
    that have been idle the longest. A removed slave registers again when it connects.

    A slave's UUID and server id are in use while it dumps. Another slave of the same user is then refused, unless it
    has the same UUID and the same secret. A slave that does not dump blocks nobody, and only a slave with the same
    secret replaces its registration. Slaves of different users never block each other.
    """

    def __init__(
        self,
        subjects: Subjects,
        write_filter: ReplicationFilter | None = None,
        *,
        imposed: tuple[ImposedFilter, ...] = (),
        most_idle: int = MOST_IDLE,
        most_idle_weight: int = MOST_IDLE_WEIGHT,
        most_dumping_weight: int = MOST_DUMPING_WEIGHT,
    ) -> None:
        self._subjects = subjects
        self._most_idle = most_idle
        self._most_idle_weight = most_idle_weight
        self._most_dumping_weight = most_dumping_weight
        self._write_filter = write_filter
        self._everything = TableFlags(Filter(()), subjects)
        self.imposed = imposed
        """The filters that the master's operator imposes on slaves that register from now on."""
        self._key = secrets.token_bytes(32)
        self._slaves: dict[str, RegisteredSlave] = {}
        self._owned: dict[tuple[str, str, str, bytes], RegisteredSlave] = {}
        """The slaves by user, channel, UUID and owner. A slave that registers again is found here."""
        self._holders: dict[tuple[str, str, str | int], RegisteredSlave] = {}
        """The slaves that dump, by user, channel and UUID, and also by user, channel and server id."""
        self._idle = _Weights()
        """The memory of the registrations of slaves without a running dump. The slave that is idle the longest comes
        first.
        """
        self._dumping = _Weights()
        """The memory of the filters of slaves that dump."""
        self._shared_flags: WeakValueDictionary[Hashable, TableFlags] = WeakValueDictionary()
        """The decisions of the filters in use, by a key of the filters' rules. Slaves with equal filters share them."""
        self._lock = threading.Lock()
        self._dumps = 0
        self.counters = CounterBook()
        """The counts of each slave, which outlive its registrations."""

    def add(
        self,
        peer: Peer,
        rule_filter: ReplicationFilter,
        *,
        origin: OriginFilter | None = None,
        password: StoredPassword | None = None,
        secret: bytes = b"",
    ) -> RegisteredSlave:
        """Register a slave with its filter and the filters imposed on it. Return the registered slave.

        A slave that registers again, with the same user, UUID, channel and secret, replaces its old registration and
        ends its old dump. ``origin`` says from which servers and domains the slave wants transactions; None: from all.
        ``password`` is the user's stored password; None if the master has no users. ``secret`` is the slave's
        registration secret; empty for none.

        Raises AlreadyRegistered when the UUID or the server id is in use by another slave that is dumping.
        """
        # A digest with a random key makes look-ups by it safe: their time tells nothing about the secret.
        owner = hmac.digest(self._key, secret, "sha256") if secret else secrets.token_bytes(32)
        with self._lock:
            imposed = imposed_on(self.imposed, peer)
            flags = self._flags(rule_filter, imposed)
            slave = RegisteredSlave(
                slave_id=secrets.token_urlsafe(_ID_BYTES),
                peer=peer,
                change=FilterChange(flags, 1, origin),
                password=password,
                owner=owner,
                imposed=imposed,
                record=self.counters.record(SlaveKey(peer.user, peer.channel, peer.uuid)),
            )
            self._check_free(slave)
            old = self._owned.get(slave.owned_key)
            if old is not None:
                self._forget(old)
                slave.earlier, slave.other_filter_until = old.earlier, old.other_filter_until
                if old.flags is not flags:
                    slave.leave_filter(old)
            elif slave.record.filter_digest not in ("", self._digest(slave)):
                # The filter changed while the master was down, or while the slave was away for long.
                slave.earlier = (self._everything,)
                slave.other_filter_until = slave.record.file, slave.record.position
            self._slaves[slave.slave_id] = slave
            self._owned[slave.owned_key] = slave
            self._become_idle(slave)
            return slave

    def _check_free(self, slave: RegisteredSlave) -> None:
        """Raise AlreadyRegistered when the slave's UUID or server id is in use by another slave that is dumping."""
        peer = slave.peer
        holder = self._holders.get(slave.uuid_key)
        if holder is not None and holder.owner != slave.owner:
            raise AlreadyRegistered(
                f"the server uuid {peer.uuid} is in use on channel {peer.channel!r} by {_described(holder.peer)}, "
                "which registered with another secret. If that is this slave, with a relay directory that is lost, "
                f"{_WAIT_OR_UNREGISTER}; if not, give this one a server uuid of its own"
            )
        # Programs that read binlogs like replicas may all have server id 0.
        holder = self._holders.get(slave.server_id_key) if peer.server_id else None
        if holder is not None and holder.peer.uuid != peer.uuid:
            raise AlreadyRegistered(
                f"the server id {peer.server_id} is in use on channel {peer.channel!r} by {_described(holder.peer)}; "
                f"give this one another --server-id. If that is this slave, with a relay directory that is lost, "
                f"{_WAIT_OR_UNREGISTER}"
            )

    def _become_idle(self, slave: RegisteredSlave) -> None:
        """Record that the slave has no running dump. While the idle slaves exceed the limit on their number or memory,
        remove the slave that has been idle the longest.
        """
        self._idle.weigh(slave.slave_id, slave.weight)
        # The last slave has just registered or ended its dump. The register must not forget that slave.
        while len(self._idle) > 1 and (
            len(self._idle) > self._most_idle or self._idle.total > self._most_idle_weight
        ):
            self._forget(self._slaves[next(iter(self._idle))])

    def _forget(self, slave: RegisteredSlave) -> None:
        """Remove a slave from the register and end its dump. The caller holds the lock.

        The dump is notified last, because it may check at once, in another thread, whether the slave is still
        registered.
        """
        del self._slaves[slave.slave_id]
        self._owned.pop(slave.owned_key, None)
        self._idle.weigh(slave.slave_id, 0)
        self._release(slave)
        slave.notify()

    def _release(self, slave: RegisteredSlave) -> None:
        """Release the slave's UUID and server id, because it no longer dumps."""
        self._dumping.weigh(slave.slave_id, 0)
        for key in (slave.uuid_key, slave.server_id_key):
            if self._holders.get(key) is slave:
                del self._holders[key]

    def get(self, slave_id: str) -> RegisteredSlave:
        """Return the registered slave with this id. Raises NotRegistered."""
        with self._lock:
            return self._known(slave_id)

    def _known(self, slave_id: str) -> RegisteredSlave:
        try:
            return self._slaves[slave_id]
        except KeyError:
            raise NotRegistered(
                "no slave is registered under this id (the master may have restarted): register again"
            ) from None

    def remove(self, slave_id: str) -> RegisteredSlave:
        """Remove a slave from the register and end its dump. Return the slave. Raises NotRegistered."""
        with self._lock:
            slave = self._known(slave_id)
            self._forget(slave)
            return slave

    def remove_all(
        self, reason: Callable[[RegisteredSlave], DumpfilterError | None]
    ) -> list[RegisteredSlave]:
        """Remove each slave for which ``reason`` returns an error, and return these slaves.

        A running dump of such a slave ends with the error.
        """
        with self._lock:
            gone = []
            for slave in list(self._slaves.values()):
                slave.ended_by = reason(slave)
                if slave.ended_by is not None:
                    self._forget(slave)
                    gone.append(slave)
            return gone

    def change_filter(
        self,
        slave_id: str,
        rule_filter: ReplicationFilter,
        *,
        origin: OriginFilter | None = None,
    ) -> RegisteredSlave:
        """Replace a slave's filter. Raises NotRegistered for an unknown id, and Overloaded if the filter takes too
        much memory.

        The slave's running dump uses the new filter from its next transaction on. ``origin`` says from which servers
        and domains the slave wants transactions; None: from all.
        """
        with self._lock:
            slave = self._known(slave_id)
            flags = self._flags(rule_filter, slave.imposed)
            change = FilterChange(flags, slave.change.version + 1, origin)
            if slave.dump:
                self._check_weight(slave, change)
            self._change(slave, change)
            if slave.dump:
                self._dumping.weigh(slave.slave_id, change.weight + slave.earlier_weight)
            if slave_id in self._idle:
                self._become_idle(slave)
            return slave

    def _change(self, slave: RegisteredSlave, change: FilterChange) -> None:
        if slave.flags is not change.flags:
            slave.leave_filter(slave)
        slave.change = change
        if slave.dump:
            slave.record.filter_digest = self._digest(slave)
        slave.notify()

    def earlier(
        self, slave: RegisteredSlave, names: Sequence[str], start: tuple[str, int], *, is_any: bool = False
    ) -> Earlier | None:
        """Return the earlier filters that may have selected the transactions which a slave already has when its next
        dump begins. Return None if the present filter selected all of them.

        The dump begins to read at ``start``, a binlog file and position. ``names`` are the binlog files in order.
        ``is_any`` says that the slave may have had any filter. The register remembers only the last few filters of a
        slave.
        """
        filters, until = slave.earlier, slave.other_filter_until
        if is_any:
            return Earlier((self._everything,), (self._everything,))
        if not filters or until is None:
            return None
        before = frozenset(names[: names.index(until[0])] if until[0] in names else ())
        found = Earlier(filters, filters, *until, before)
        is_known = start == until or found.has(*start)
        return found if is_known else found._replace(older=(*filters, slave.flags))

    @property
    def write_filter(self) -> ReplicationFilter | None:
        """The filter with rules like ``--binlog-do-db`` that applies to all slaves; None without such rules."""
        return self._write_filter

    def change_write_filter(self, write_filter: ReplicationFilter) -> None:
        """Replace the filter that applies to all slaves, for the statement CHANGE BINLOG.

        Running dumps use the new filter from their next transaction on.
        """
        with self._lock:
            self._write_filter = write_filter
            for slave in self._slaves.values():
                flags = self._flags(slave.filter, slave.imposed)
                self._change(slave, replace(slave.change, flags=flags, version=slave.change.version + 1))

    def _flags(self, rule_filter: ReplicationFilter, imposed: tuple[ImposedFilter, ...]) -> TableFlags:
        """Return the verdicts (send or drop) about tables and statements by a slave's filter, the filters imposed on
        it, and the master's write rules together.

        Slaves with equal filters get one shared object. Only slaves with the same object can share the messages of
        their dumps. The caller holds the lock.
        """
        key = self._filters_key(rule_filter, imposed)
        found = self._shared_flags.get(key)
        if found is None:
            found = self._shared_flags[key] = TableFlags(
                rule_filter,
                self._subjects,
                write_filter=self._write_filter,
                imposed=[one.boundary for one in imposed],
            )
        return found

    def _filters_key(self, rule_filter: ReplicationFilter, imposed: tuple[ImposedFilter, ...]) -> Hashable:
        return (
            definition(rule_filter),
            None if self._write_filter is None else definition(self._write_filter),
            tuple((definition(one.filter), one.on_undecided, one.name) for one in imposed),
        )

    def _digest(self, slave: RegisteredSlave) -> str:
        text = repr(self._filters_key(slave.filter, slave.imposed))
        return hashlib.sha256(text.encode("utf-8", "surrogatepass")).hexdigest()[:16]

    def begin_dump(self, slave: RegisteredSlave, notify: Callable[[], None] = _nobody) -> int:
        """Record a new dump for a slave and return its number. An earlier dump of the same slave then ends.

        The register calls ``notify``, from any thread, when the slave's filter changes or the dump must end. Raises
        NotRegistered when the slave has been removed, and AlreadyRegistered when another slave with its UUID or server
        id has begun to dump.
        """
        with self._lock:
            self._known(slave.slave_id)
            self._check_free(slave)
            self._check_weight(slave, slave.change)
            self._dumps += 1
            slave.dump = self._dumps
            slave.record = self.counters.begin_dump(slave.record, slave.peer)
            slave.record.filter_digest = self._digest(slave)
            slave.notify()
            slave.notify = notify
            self._idle.weigh(slave.slave_id, 0)
            self._dumping.weigh(slave.slave_id, slave.change.weight + slave.earlier_weight)
            self._holders[slave.uuid_key] = self._holders[slave.server_id_key] = slave
            return self._dumps

    def _check_weight(self, slave: RegisteredSlave, change: FilterChange) -> None:
        """Raise Overloaded when the filters of all dumping slaves together would take too much memory.

        ``change`` is the filter that the slave is to have.
        """
        others = self._dumping.total - self._dumping.get(slave.slave_id, 0)
        if others and others + change.weight + slave.earlier_weight > self._most_dumping_weight:
            raise Overloaded(
                f"the filters of the slaves that dump take {others >> 20} MiB, and this slave's filter would exceed "
                f"the bound of {self._most_dumping_weight >> 20} MiB; give the slave fewer rules (it has "
                f"{len(change.flags.filter.rules)}), for example wild rules"
            )

    def end_dump(self, slave: RegisteredSlave, dump: int) -> None:
        """Record that dump number ``dump`` has ended, unless a newer dump of the slave has begun."""
        with self._lock:
            if slave.dump == dump:
                slave.dump = 0
                slave.notify = _nobody
                slave.last_seen_at = time.time()
                self.counters.see(slave.record)
                self._release(slave)
                if slave.slave_id in self._slaves:
                    self._become_idle(slave)

    def holds(self, slave: RegisteredSlave, dump: int) -> bool:
        """Tell whether ``dump`` is still the number of the slave's newest dump, and the slave is still registered.
        Otherwise the dump must end.
        """
        return slave.dump == dump and slave.slave_id in self._slaves

    def progress(self, slave: RegisteredSlave, file: str, position: int, counts: Counts | None) -> None:
        """Record the binlog position that a slave's dump has reached, and add the counts of its last chunk.

        ``counts`` is None for a message without counts, such as a heartbeat.
        """
        slave.file, slave.position = file, position
        slave.last_seen_at = time.time()
        self.counters.add(slave.record, file, position, counts)

    def finish(self, slave: RegisteredSlave) -> None:
        """Record that a slave asked for the binlog up to its end, and got it. The slave does not count as missing after
        it disconnects.
        """
        self.counters.finish(lambda record: record is slave.record)

    def all(self) -> list[RegisteredSlave]:
        """Return the registered slaves, in the order of their registration."""
        with self._lock:
            return list(self._slaves.values())

    def listed(self) -> list[RegisteredSlave]:
        """Return the slaves that SHOW REPLICAS lists: all but real replicas (MySQL or MariaDB servers) without a
        running dump.

        A server, too, lists no replica that has disconnected.
        """
        return [slave for slave in self.all() if slave.dump or not slave.peer.is_real_replica]

    @property
    def idle(self) -> tuple[int, int]:
        """The number of slaves without a running dump, and the memory that their registrations take, bytes."""
        return len(self._idle), self._idle.total


def definition(rule_filter: ReplicationFilter) -> Hashable:
    """Return a key of a filter: its class, its rules for the comparison of names, and its filter rules. Filters with
    equal keys decide every event alike.
    """
    return type(rule_filter), rule_filter.names, rule_filter.rules


def _described(peer: Peer) -> str:
    host = f"{peer.host}:{peer.port}" if peer.host else "host not told"
    return f"a slave that is dumping (server id {peer.server_id}, uuid {peer.uuid}, {host}, from {peer.endpoint})"
