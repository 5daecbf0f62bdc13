"""The slaves of a master: registrations with their filters and running dumps, statistics, and refusals.

The :class:`Register` has the registered slaves. The :class:`CounterBook` has the statistics of all slaves that the
master has served. :class:`KnownSlaves` makes one list of both, which console, status, metrics and gRPC show.
"""

from __future__ import annotations

import enum
import hashlib
import hmac
import secrets
import threading
import time
from collections.abc import Callable, Hashable, Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime
from itertools import chain
from operator import attrgetter
from typing import Any
from weakref import WeakKeyDictionary, WeakValueDictionary

from pydantic import NonNegativeInt

from dumpfilter.base.errors import DumpfilterError
from dumpfilter.base.security.listening import host_and_port
from dumpfilter.base.security.passwords import StoredPassword
from dumpfilter.base.security.throttle import Recent
from dumpfilter.dump.chunk import Counts
from dumpfilter.dump.xa import Earlier
from dumpfilter.filter.base import OriginFilter, ReplicationFilter
from dumpfilter.filter.filter import Filter, WriteFilter
from dumpfilter.filter.flags import TableFlags
from dumpfilter.index.subjects import Subjects
from dumpfilter.master.config import ImposedFilter, ReplicaEntry, imposed_on
from dumpfilter.master.limits import Overloaded
from dumpfilter.master.who import Drains, Peer, SlaveIdentity, SlaveKey, Who

MOST_REFUSALS = 1000
"""The largest number of slaves whose refusal the master remembers."""
KEEP_SECONDS = 7 * 86_400.0
"""The default of ``--keep-slaves``, the time for which a disconnected slave counts as missing, seconds."""

_SAVED_SECONDS = 60.0
"""The longest time until the state directory saves that a slave was seen, if the slave got messages without events
only, seconds.
"""

_SLAVE_WEIGHT = 2000
_RULE_WEIGHT = 3000
_CHARACTER_WEIGHT = 4
_ID_WEIGHT = 100
"""The approximate memory of one item, bytes. ``_SLAVE_WEIGHT`` is for a registration, ``_RULE_WEIGHT`` for a rule,
``_CHARACTER_WEIGHT`` for a character of a rule, and ``_ID_WEIGHT`` for a server or domain id in a list.
"""

_MOST_EARLIER = 3
"""The number of a slave's earlier filters that the register remembers besides the last one."""

_ID_BYTES = 32
"""The number of random bytes in a slave's id. A client that knows the id can change and end the registration."""

_WAIT_OR_UNREGISTER = (
    "wait until the master has noticed that its connection is gone (a minute), or let the master's operator "
    "give UNREGISTER REPLICA on the master's console"
)


def _new_id() -> str:
    """Return a random id for a slave's registration, which no client can guess."""
    return secrets.token_urlsafe(_ID_BYTES)


def _nobody() -> None:
    """Do nothing. A slave without a running dump has this function as its ``notify``, since there is no dump to
    wake.
    """


class NotRegistered(DumpfilterError):
    """The error for a request with an id that belongs to no registered slave."""

    grpc_code = "NOT_FOUND"


class AlreadyRegistered(DumpfilterError):
    """The error for a slave whose server id or UUID is in use by another slave that is dumping on the same channel."""

    grpc_code = "ALREADY_EXISTS"


class DumpOver(DumpfilterError):
    """The error for a dump whose slave has registered or begun a dump anew, or has unregistered."""

    grpc_code = "ABORTED"


class Unregistered(DumpfilterError):
    """The error for a dump whose registration the master's operator has ended."""

    grpc_code = "ABORTED"


@dataclass
class SlaveCounts:
    """The statistics of one slave, and its identity at its last dump. Times are Unix times, seconds.

    A slave that registers again with an equal key (user, channel, UUID) continues its statistics. With a state
    directory, they also continue after a restart of the master.
    """

    peer: Peer
    dumps: NonNegativeInt = 0
    """The number of dumps that the slave has begun."""
    first_seen_at: float = field(default_factory=time.time)
    last_seen_at: float = field(default_factory=time.time)
    counts: Counts = field(default_factory=Counts)
    file: str = ""
    position: NonNegativeInt = 0
    """The position in the binlog file ``file`` that the slave's dumps have reached, bytes."""
    filter_digest: str = ""
    """A digest of the filters that selected the events of the slave's last dump. When the slave registers again, the
    master learns from the digest whether the filters have changed.
    """
    is_done: bool = False
    """Whether the slave is not expected back: it read to the end and left, or UNREGISTER REPLICA named it."""


class CounterBook:
    """The statistics of all slaves that the master remembers. Thread-safe.

    Above the limit :attr:`most`, a new slave displaces the one that was not seen for the longest time. A slave is added
    at its first dump, so that clients that only register displace no slaves.
    """

    most = 10_000
    """The largest number of slaves whose statistics are stored. A further slave displaces the one that was not seen for
    the longest time.
    """

    def __init__(self, records: Iterable[SlaveCounts] = ()) -> None:
        self._lock = threading.Lock()
        self._records = {record.peer.key: record for record in sorted(records, key=_last_seen)[-self.most :]}
        self.generation = 0
        """A number that grows with each change, so that the saving thread knows whether there is something to save."""
        self._noted_at = 0.0
        """The Unix time at which :meth:`see` last increased :attr:`generation` because a slave was seen, seconds."""

    def record(self, peer: Peer) -> SlaveCounts:
        """Return the stored statistics of the slave ``peer``, which is registering; its later dumps add to them. For a
        slave that is not stored, return new statistics with all counts 0, without storing them.
        """
        with self._lock:
            return self._records.get(peer.key) or SlaveCounts(peer)

    def begin_dump(self, record: SlaveCounts, peer: Peer) -> SlaveCounts:
        """Record that a dump for a slave begins. Return the slave's stored statistics, which may be another object than
        ``record``.

        A new slave is stored, if necessary in place of the slave that was not seen for the longest time.
        """
        with self._lock:
            found = self._records.get(peer.key)
            if found is None:
                if len(self._records) >= self.most:
                    del self._records[min(self._records.values(), key=_last_seen).peer.key]
                found = self._records[peer.key] = record
            found.dumps += 1
            found.peer = peer
            found.is_done = False
        self.see(found)
        return found

    def finish(self, slaves: Callable[[SlaveCounts], bool]) -> list[SlaveCounts]:
        """Mark the slaves for which the function ``slaves`` returns true as finished, so that they do not count as
        missing. Return the statistics of the newly marked ones.

        A slave has finished if it got all events that it asked for, or if the operator has ended its registration. A
        new dump of a slave removes the mark.
        """
        with self._lock:
            found = [one for one in self._records.values() if not one.is_done and slaves(one)]
            for record in found:
                record.is_done = True
            self.generation += bool(found)
            return found

    def add(self, record: SlaveCounts, file: str, position: int, counts: Counts | None) -> None:
        """Record the binlog position that a slave's dump has reached, and add the counts of the chunk (message of
        events) that the slave was sent last.

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
        """Record in ``record``, the statistics of a slave, that the slave was seen now. If ``is_news`` is True, mark
        the statistics of all slaves as changed, so that the state directory saves them soon. Otherwise mark them at
        most once a minute.
        """
        record.last_seen_at = time.time()
        if is_news or record.last_seen_at - self._noted_at >= _SAVED_SECONDS:
            self._noted_at = record.last_seen_at
            self.generation += 1

    def records(self) -> list[SlaveCounts]:
        """Return a copy of the statistics (counts and positions of dumps) of all slaves, ordered by the time when each
        was last seen, oldest first.
        """
        with self._lock:
            copies = [replace(record, counts=replace(record.counts)) for record in self._records.values()]
        return sorted(copies, key=_last_seen)


_last_seen = attrgetter("last_seen_at")


@dataclass
class RegisteredSlave:
    """A registered slave: its identity, its filter, its running dump, and its counts of dumps and of events sent and
    dropped. SHOW REPLICAS lists such slaves.
    """

    slave_id: str = field(repr=False)
    peer: Peer
    """The slave's identity, such as user, address, server id and channel. By these properties the operator's settings
    select slaves.
    """
    flags: TableFlags
    """The verdicts (send or drop) of the slave's filter, of the filters imposed on the slave, and of the master's write
    rules. Each change of a filter replaces the object.
    """
    record: SlaveCounts = field(repr=False)
    """The slave's counts over all its registrations. From its first dump on, the counts are stored in
    :class:`CounterBook`.
    """
    password: StoredPassword | None = field(default=None, repr=False)
    """The user's stored password at the time of the registration. None if the master had no users."""
    origin: OriginFilter | None = None
    """The servers and domains from which the slave wants transactions. None: from all."""
    filter_version: int = 1
    """The version of the slave's filter: 1 at registration, and one more after each change."""
    owner: bytes = field(default=b"", repr=False)
    """A digest of the slave's registration secret. Only a slave with the same digest can replace this registration."""
    imposed: tuple[ImposedFilter, ...] = ()
    """The filters that the master's operator imposes on the slave, besides the slave's own filter."""
    file: str = ""
    position: int = 0
    earlier: tuple[TableFlags, ...] = ()
    """The decisions (send or drop) about tables and statements by each filter that the slave had before the position
    :attr:`other_filter_until`.
    """
    other_filter_until: tuple[str, int] | None = None
    """The binlog file and position before which events may have been selected by another filter; None if not known.

    A registration that replaces an older one takes over this value and :attr:`earlier`.
    """
    registered_at: float = field(default_factory=time.time)
    line_rate: int = 0
    """The bytes per second that the slave's connection surely carries, as the slave reported last; 0 if it reported
    nothing.
    """
    dump: int = 0
    """The number of the dump that is sending events to the slave; 0 when no dump is running."""
    notify: Callable[[], None] = field(default=_nobody, repr=False)
    """The function that wakes the running dump, because the filter has changed or the dump must end."""
    ended_by: DumpfilterError | None = None
    """The error with which a running dump ends, because the master has ended the registration. None otherwise."""

    @property
    def owned_key(self) -> tuple[SlaveKey, bytes]:
        """The slave's user, channel and UUID, with the digest of its registration secret. When a slave with an equal
        key registers, its registration replaces the present one.
        """
        return self.peer.key, self.owner

    @property
    def place(self) -> tuple[str, int] | None:
        """The binlog file and position (bytes) that the slave's dumps have reached.

        Before the first dump of this registration, the value is the position that the slave's earlier registration had
        reached, or None if that position is not known.
        """
        return (self.file, self.position) if self.file else self.other_filter_until

    def leave_filter(self, old: RegisteredSlave) -> None:
        """Record that the slave's filter changes at the binlog position that the slave has now reached. Add the filter
        of ``old`` to the slave's former filters (:attr:`earlier`), which selected the events before that position.

        ``old`` is this registration before a change of its filter, or the registration that this one replaces. The
        slave may still need the XA COMMIT or XA ROLLBACK of transactions that only the old filter sent.
        """
        others = tuple(flags for flags in old.earlier if flags is not old.flags)
        # A filter under which no dump has moved has selected nothing.
        is_used = old.place != old.other_filter_until
        self.earlier = (*others[-_MOST_EARLIER:], old.flags) if is_used else old.earlier
        self.other_filter_until = old.place

    @property
    def filter(self) -> ReplicationFilter:
        """The filter that the slave sent, without the filters that the master's operator imposes, and without the
        master's ``--binlog-do-db`` rules.
        """
        return self.flags.filter

    @property
    def weight(self) -> int:
        """The approximate memory of the slave's registration, bytes. Most of it is for the rules of the present filter
        and of the slave's last few former filters. The register keeps the former filters, because the slave may need
        the XA COMMIT or XA ROLLBACK of transactions that passed these filters.
        """
        filters = [one.filter for one in (self.flags, *self.earlier)]
        origin = self.origin or OriginFilter()
        lists = origin.ignore_server_ids, origin.do_domain_ids, origin.ignore_domain_ids
        of_rules = sum(_RULE_WEIGHT * len(one.rules) + _CHARACTER_WEIGHT * one.characters for one in filters)
        return _SLAVE_WEIGHT + of_rules + _ID_WEIGHT * sum(map(len, lists))


class _Weights(dict[str, int]):
    """The memory of each registration, bytes, by the slave's id. ``total`` is the sum of all values. It is updated with
    each change, because adding up thousands of values at each registration would take long.
    """

    total = 0


class Register:
    """The registered slaves, by id. Thread-safe.

    ``write_filter`` has rules like ``--binlog-do-db`` and applies to every slave. The master serves the binlog as a
    server with these rules would have written it. Above the limits on slaves without a running dump, the register
    removes those that have been idle the longest. A removed slave registers again when it connects.

    A slave's UUID and server id are in use while it dumps. Another slave of the same user is then refused, unless it
    has the same UUID and the same secret. A slave that does not dump blocks nobody, and only a slave with the same
    secret replaces its registration. Slaves of different users never block each other.
    """

    most_idle = 10_000
    """The largest number of slaves without a running dump that stay registered, which limits the register's memory."""
    most_idle_weight = 256 << 20
    """The limit on the memory of the filter rules of all slaves without a running dump, bytes."""
    most_dumping_weight = 1 << 30
    """The limit on the memory of the filter rules of all slaves with a running dump, bytes."""

    def __init__(
        self,
        subjects: Subjects,
        write_filter: ReplicationFilter | None = None,
        *,
        imposed: tuple[ImposedFilter, ...] = (),
    ) -> None:
        self._subjects = subjects
        self.write_filter: ReplicationFilter = WriteFilter() if write_filter is None else write_filter
        """The filter with rules like ``--binlog-do-db`` that applies to all slaves."""
        self._everything = TableFlags(Filter(()), subjects)
        self.imposed = imposed
        """The filters that the master's operator imposes on slaves that register from now on."""
        self._key = secrets.token_bytes(32)
        self._slaves: dict[str, RegisteredSlave] = {}
        self._owned: dict[tuple[SlaveKey, bytes], RegisteredSlave] = {}
        """The slaves by user, channel, UUID and digest of the registration secret. A slave that registers again is
        found by this key.
        """
        self._holders: dict[SlaveKey | SlaveIdentity, RegisteredSlave] = {}
        """The slaves that dump, by user, channel and UUID, and also by user, channel and server id."""
        self._idle = _Weights()
        """The memory of each registration without a running dump, by the slave's id, bytes. The slave that is idle the
        longest comes first.
        """
        self._dumping = _Weights()
        """The memory of each registration with a running dump, by the slave's id, bytes."""
        self._shared_flags: WeakValueDictionary[Hashable, TableFlags] = WeakValueDictionary()
        """The decisions of the filters in use, by a key of the filters' rules. Slaves with equal filters share them."""
        self._digests: WeakKeyDictionary[TableFlags, str] = WeakKeyDictionary()
        """The digest (hash) of the rules of each filter in use. The digests are computed in advance, because the
        asyncio loop, in which dumps begin, must not spend the time to read 10,000 rules.
        """
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
        """Register a slave with its filter and the filters that the master's operator imposes on it. Return the
        registered slave.

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
                slave_id=_new_id(),
                peer=peer,
                flags=flags,
                origin=origin,
                password=password,
                owner=owner,
                imposed=imposed,
                record=self.counters.record(peer),
            )
            self._check_free(slave)
            old = self._owned.get(slave.owned_key)
            if old is not None:
                self._forget(old)
                slave.file, slave.position = old.file, old.position
                slave.earlier, slave.other_filter_until = old.earlier, old.other_filter_until
                if old.flags is not flags:
                    slave.leave_filter(old)
            self._note_unknown_filter(slave)
            self._slaves[slave.slave_id] = slave
            self._owned[slave.owned_key] = slave
            self._weigh(slave)
            return slave

    def _note_unknown_filter(self, slave: RegisteredSlave) -> None:
        """Record that another, unknown filter selected the events that a slave has from its earlier dumps, if only the
        slave's statistics tell of these dumps. The master was restarted since then, or the slave was away for long.
        """
        record = slave.record
        if slave.place is None and record.filter_digest not in ("", self._digests[slave.flags]):
            slave.earlier = (self._everything,)
            slave.other_filter_until = record.file, record.position

    def _check_free(self, slave: RegisteredSlave) -> None:
        """Raise AlreadyRegistered when the slave's UUID or server id is in use by another slave that is dumping.

        A dumping slave with the same UUID and the same secret counts as the same slave. So does a dumping slave with
        the same server id and the same UUID.
        """
        peer = slave.peer
        holder = self._holders.get(peer.key)
        if holder is not None and holder.owner != slave.owner:
            raise AlreadyRegistered(
                f"the server uuid {peer.uuid} is in use on channel {peer.channel!r} by {_described(holder.peer)}, "
                "which registered with another secret. If that is this slave, with a relay directory that is lost, "
                f"{_WAIT_OR_UNREGISTER}; if not, give this one a server uuid of its own"
            )
        # Programs that read binlogs like replicas may all have server id 0. Their identity has the UUID instead.
        holder = self._holders.get(peer.identity)
        if holder is not None and holder.peer.uuid != peer.uuid:
            raise AlreadyRegistered(
                f"the server id {peer.server_id} is in use on channel {peer.channel!r} by {_described(holder.peer)}; "
                f"give this one another --server-id. If that is this slave, with a relay directory that is lost, "
                f"{_WAIT_OR_UNREGISTER}"
            )

    def _weigh(self, slave: RegisteredSlave) -> None:
        """Add the memory of a slave's registration to the total of the idle slaves, or of those with a running dump.
        While the idle slaves exceed the limit on their number or memory, remove the slave that has been idle the
        longest.
        """
        weights = self._dumping if slave.dump else self._idle
        weights.total += slave.weight - weights.pop(slave.slave_id, 0)
        weights[slave.slave_id] = slave.weight
        # The last slave has just registered or ended its dump. The register must not forget that slave.
        while len(self._idle) > 1 and (
            len(self._idle) > self.most_idle or self._idle.total > self.most_idle_weight
        ):
            self._forget(self._slaves[next(iter(self._idle))])

    def _forget(self, slave: RegisteredSlave) -> None:
        """Remove a slave from the register and end its dump. The caller holds the register's lock.

        The dump is notified last, because the dump may check at once, in another thread, whether the slave is still
        registered.
        """
        del self._slaves[slave.slave_id]
        self._owned.pop(slave.owned_key, None)
        self._release(slave)
        slave.notify()

    def _release(self, slave: RegisteredSlave) -> None:
        """Mark the slave's UUID and server id as not in use, so that other slaves may dump with them.

        Also subtract the memory of the slave's registration from the register's sums. One sum is the memory of all idle
        slaves' registrations, the other that of all dumping slaves' registrations.
        """
        for weights in (self._idle, self._dumping):
            weights.total -= weights.pop(slave.slave_id, 0)
        for key in (slave.peer.key, slave.peer.identity):
            if self._holders.get(key) is slave:
                del self._holders[key]

    def get(self, slave_id: str) -> RegisteredSlave:
        """Return the registered slave with this id. Raises NotRegistered for an unknown id."""
        found = self._slaves.get(slave_id)
        if found is None:
            raise NotRegistered(
                "no slave is registered under this id (the master may have restarted): register again"
            )
        return found

    def remove(self, slave_id: str) -> RegisteredSlave:
        """Remove a slave from the register and end its dump. Return the slave. Raises NotRegistered for an unknown
        id.
        """
        with self._lock:
            slave = self.get(slave_id)
            self._forget(slave)
            return slave

    def remove_all(
        self, reason: Callable[[RegisteredSlave], DumpfilterError | None]
    ) -> list[RegisteredSlave]:
        """End the registration of each slave for which the function ``reason`` returns an error, and return these
        slaves. A slave for which ``reason`` returns None stays.

        The running dump of a removed slave ends with the error. If the error is NotRegistered, the slave will register
        again, and may still need the end of XA transactions that its former filter sent. The register therefore keeps a
        copy of the registration, without a dump and under a new id.
        """
        with self._lock:
            gone = []
            for slave in list(self._slaves.values()):
                if slave.slave_id not in self._slaves:
                    # The copy of another registration has displaced this one, which was idle the longest.
                    continue
                slave.ended_by = reason(slave)
                if slave.ended_by is not None:
                    self._forget(slave)
                    gone.append(slave)
                if isinstance(slave.ended_by, NotRegistered):
                    idle = replace(slave, slave_id=_new_id(), dump=0, notify=_nobody, ended_by=None)
                    self._slaves[idle.slave_id] = self._owned[idle.owned_key] = idle
                    self._weigh(idle)
            return gone

    def change_filter(self, slave_id: str, rule_filter: ReplicationFilter) -> RegisteredSlave:
        """Replace the filter of the slave with the id ``slave_id``, and return the slave. Raises NotRegistered for an
        unknown id, and Overloaded if the filter takes too much memory.

        The slave's running dump uses the new filter from its next transaction on.
        """
        with self._lock:
            slave = self.get(slave_id)
            if slave.dump:
                self._check_weight(replace(slave, flags=self._flags(rule_filter, slave.imposed)))
            self._change(slave, rule_filter, slave.imposed)
            self._weigh(slave)
            return slave

    def _change(
        self, slave: RegisteredSlave, rule_filter: ReplicationFilter, imposed: tuple[ImposedFilter, ...]
    ) -> None:
        """Give a slave the filter ``rule_filter``, the filters ``imposed`` (imposed by the operator), and the master's
        present write rules (like ``--binlog-do-db``), also in its running dump. Do nothing if these filters decide as
        the slave's present filters. The caller holds the lock.
        """
        flags = self._flags(rule_filter, imposed)
        if flags is slave.flags:
            return
        slave.leave_filter(slave)
        slave.flags, slave.imposed = flags, imposed
        slave.filter_version += 1
        self._note_unknown_filter(slave)
        if slave.dump:
            slave.record.filter_digest = self._digests[slave.flags]
        slave.notify()

    def earlier(
        self, slave: RegisteredSlave, names: Sequence[str], start: tuple[str, int], *, is_any: bool = False
    ) -> Earlier | None:
        """Return the slave's former filters, if one of them may have selected transactions that the slave has from
        earlier dumps. Return None if the present filter selected all transactions that the slave has.

        The next dump needs the former filters for XA transactions. The slave may have prepared an XA transaction that
        the present filter drops, and then needs the XA COMMIT or XA ROLLBACK.

        The next dump begins to read at ``start``, a binlog file and position. ``names`` are the binlog files in order.
        ``is_any`` says that the slave may have had any filter before; the result is then one filter that sends
        everything. The register remembers only the last few filters of a slave.
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

    def change_write_filter(self, write_filter: ReplicationFilter) -> None:
        """Replace the filter with rules like ``--binlog-do-db``, which applies to all slaves, for the statement CHANGE
        BINLOG.

        Running dumps use the new filter from their next transaction on.
        """
        with self._lock:
            self.write_filter = write_filter
            for slave in self._slaves.values():
                self._change(slave, slave.filter, slave.imposed)

    def change_imposed(self, imposed: tuple[ImposedFilter, ...]) -> None:
        """Impose the operator's filters ``imposed`` on slaves that register from now on, and on registered real
        replicas, besides their own filters. A running dump of a real replica uses the new filters from its next
        transaction on.

        A registered slave of dumpfilter keeps the filters that were imposed on it when it registered, because only the
        answer to a registration tells the slave its imposed filters.
        """
        with self._lock:
            self.imposed = imposed
            for slave in self._slaves.values():
                if slave.peer.is_real_replica:
                    self._change(slave, slave.filter, imposed_on(imposed, slave.peer))

    def _flags(self, rule_filter: ReplicationFilter, imposed: tuple[ImposedFilter, ...]) -> TableFlags:
        """Return the verdicts (send or drop) about tables and statements by all filters for a slave together. These are
        the slave's own filter, those that the operator imposes, and the master's write rules (like ``--binlog-do-db``).

        Slaves with equal filters get one shared object. Only slaves with the same object can share the messages of
        their dumps. The caller holds the lock.
        """
        key = (
            definition(rule_filter),
            definition(self.write_filter),
            tuple(one.sends for one in imposed),
        )
        found = self._shared_flags.get(key)
        if found is None:
            found = self._shared_flags[key] = TableFlags(
                rule_filter,
                self._subjects,
                write_filter=self.write_filter,
                imposed=[one.boundary for one in imposed],
            )
            text = repr(key).encode("utf-8", "surrogatepass")
            self._digests[found] = hashlib.sha256(text).hexdigest()[:16]
        return found

    def begin_dump(self, slave: RegisteredSlave, notify: Callable[[], None] = _nobody) -> int:
        """Record a new dump for a slave and return the dump's number, which :meth:`holds` and :meth:`end_dump` take. An
        earlier dump of the same slave then ends.

        The register calls ``notify``, from any thread, when the slave's filter changes or the dump must end.

        Raises NotRegistered when the slave has been removed, and AlreadyRegistered when another slave with its UUID or
        server id has begun to dump. Raises Overloaded when the filters of all dumping slaves would take too much
        memory.
        """
        with self._lock:
            self.get(slave.slave_id)
            self._check_free(slave)
            self._check_weight(slave)
            self._dumps += 1
            slave.dump = self._dumps
            slave.record = self.counters.begin_dump(slave.record, slave.peer)
            slave.record.filter_digest = self._digests[slave.flags]
            slave.notify()
            slave.notify = notify
            self._release(slave)
            self._weigh(slave)
            self._holders[slave.peer.key] = self._holders[slave.peer.identity] = slave
            return self._dumps

    def _check_weight(self, slave: RegisteredSlave) -> None:
        """Raise Overloaded when the filters of all dumping slaves, ``slave`` among them, would take too much memory."""
        others = self._dumping.total - self._dumping.get(slave.slave_id, 0)
        if others and others + slave.weight > self.most_dumping_weight:
            raise Overloaded(
                f"the filters of the slaves that dump take {others >> 20} MiB, and this slave's filter would exceed "
                f"the bound of {self.most_dumping_weight >> 20} MiB; give the slave fewer rules (it has "
                f"{len(slave.filter.rules)}), for example wild rules"
            )

    def end_dump(self, slave: RegisteredSlave, dump: int) -> None:
        """Record that a dump of ``slave`` has ended. ``dump`` is the number that :meth:`begin_dump` returned. The slave
        counts as idle from now on, and its UUID and server id are free for other slaves.

        Do nothing if a newer dump of the slave has begun.
        """
        with self._lock:
            if slave.dump == dump:
                slave.dump = 0
                slave.notify = _nobody
                self.counters.see(slave.record)
                self._release(slave)
                if slave.slave_id in self._slaves:
                    self._weigh(slave)

    def holds(self, slave: RegisteredSlave, dump: int) -> bool:
        """Tell whether a dump may continue: whether the slave is still registered, and ``dump`` is the number of its
        newest dump. If not, this dump must end.
        """
        return slave.dump == dump and slave.slave_id in self._slaves

    def progress(self, slave: RegisteredSlave, file: str, position: int, counts: Counts | None) -> None:
        """Record the binlog position that a slave's dump has reached, and add the counts of the chunk (message of
        events) that the slave was sent last.

        ``counts`` is None for a message without counts, such as a heartbeat.
        """
        slave.file, slave.position = file, position
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


def definition(rule_filter: ReplicationFilter) -> Hashable:
    """Return a key of a filter: its class, its rules for the comparison of names, and its filter rules. Filters with
    equal keys decide every event alike.
    """
    return type(rule_filter), rule_filter.names, rule_filter.rules


def _described(peer: Peer) -> str:
    host = host_and_port(peer.host, peer.port) if peer.host else "host not told"
    return f"a slave that is dumping (server id {peer.server_id}, uuid {peer.uuid}, {host}, from {peer.endpoint})"


class Presence(enum.StrEnum):
    """A state of a slave at its master, from connected (a dump is running) to never seen (only the configuration names
    the slave). The console and the metrics show the state.
    """

    CONNECTED = "connected"
    """A dump to the slave is running."""
    GONE = "gone"
    """The slave was served within the time of ``--keep-slaves``, and no dump to it is running."""
    REFUSED = "refused"
    """The master refused the slave with an error at which slaves stop, and no dump to the slave has begun since."""
    DRAINED = "drained"
    """The operator has drained the slave (sent it away). Otherwise it would count as gone, refused or never seen."""
    NEVER_SEEN = "never seen"
    """A ``[[replica]]`` of the configuration names the slave, and the master has never served such a slave."""
    FINISHED = "finished"
    """The slave asked for the binlog up to its end, and got it; or the operator gave UNREGISTER REPLICA for it."""
    REGISTERED = "registered"
    """The slave has registered, and has not asked for a dump yet."""

    @property
    def is_missing(self) -> bool:
        """Whether a slave in this state should have a running dump and has none: gone, refused, drained or never seen.
        Unless the operator has drained the slave (sent it away), this is a problem.
        """
        return self in (Presence.GONE, Presence.REFUSED, Presence.DRAINED, Presence.NEVER_SEEN)


@dataclass
class KnownSlave(SlaveCounts):
    """A slave's statistics with its present state, such as connected or gone. ``last_seen_at`` is 0 for a slave that
    was never seen.
    """

    presence: Presence = Presence.GONE
    registered: RegisteredSlave | None = None
    """The slave's registration. None for a slave that is known from earlier dumps, or from the configuration only."""
    entry: str = ""
    """The key of the ``[[replica]]`` table that names a slave which was never seen, such as ``replica[2]``. Empty for
    others.
    """
    is_drained: bool = False
    refusal: str = ""
    """The text of the error with which the master refused a slave in the state ``REFUSED``."""

    @property
    def gone_since(self) -> str:
        """The time at which a missing slave (one that should have a running dump and has none) was last seen, ISO 8601
        in UTC. Empty for any other slave.
        """
        if not (self.presence.is_missing and self.last_seen_at):
            return ""
        return datetime.fromtimestamp(self.last_seen_at, UTC).isoformat(timespec="seconds")

    @property
    def place(self) -> tuple[str, int]:
        """The binlog file and position that the slave's dumps have reached."""
        return self.file, self.position


class KnownSlaves:
    """The list of all slaves that a master knows. A slave is known if it is registered, was served before, was refused,
    or is named in the configuration.
    """

    def __init__(
        self, register: Register, drains: Drains, entries: Callable[[], Sequence[ReplicaEntry]] = tuple
    ) -> None:
        self._register = register
        self._drains = drains
        self.keep_seconds = KEEP_SECONDS
        self._entries = entries
        """The function that returns the ``[[replica]]`` tables in force."""
        self._lock = threading.Lock()
        self._refused: Recent[SlaveIdentity, KnownSlave] = Recent(MOST_REFUSALS)
        """The slaves that were refused, by user, channel and server id. The newest refusal comes last."""

    def refuse(self, peer: Peer, reason: str) -> None:
        """Record that the master refused a slave with an error at which slaves stop. ``reason`` is the error's text."""
        with self._lock:
            self._refused[peer.identity] = KnownSlave(peer, presence=Presence.REFUSED, refusal=reason)

    def forget(self, who: Who) -> list[KnownSlave]:
        """Delete the records of those slaves that the master refused, for example because of a bad filter rule, and
        that meet the conditions ``who`` (user, server id and the like). Return these slaves.
        """
        with self._lock:
            gone = [slave for slave in self._refused.values() if who.fits(slave.peer)]
            for slave in gone:
                del self._refused[slave.peer.identity]
        return gone

    def all(self) -> list[KnownSlave]:
        """Return all slaves that the master knows. Registered slaves come first, and last the slaves that only a
        ``[[replica]]`` table of the configuration file names.

        A slave that is gone or refused is left out when it was last seen longer ago than the time of ``--keep-slaves``,
        unless a table names it. A slave has finished if it got all events that it asked for, or if the operator has
        ended its registration. A finished slave is left out once it is no longer registered.
        """
        records = self._register.counters.records()
        by_key = {record.peer.key: record for record in records}
        registered = (_of_registration(slave, by_key.get(slave.peer.key)) for slave in self._register.all())
        gone = (_of_record(record) for record in records if not record.is_done)
        oldest = time.time() - self.keep_seconds
        found: dict[SlaveIdentity, KnownSlave] = {}
        # A slave may have several registrations and records. The one of the highest rank tells the slave's state.
        for one in chain(registered, gone):
            if one.presence is not Presence.GONE or one.last_seen_at > oldest:
                found[one.peer.identity] = max(found.get(one.peer.identity, one), one, key=_rank)
        with self._lock:
            refused = [one for one in self._refused.values() if one.last_seen_at > oldest]
        for one in refused:
            found.setdefault(one.peer.identity, one)
        known = list(found.values())
        return [self._present(one) for one in (*known, *self._awaited(known, records))]

    def of(self, slave: RegisteredSlave) -> KnownSlave:
        """Return a registered slave's present state (such as connected or drained) and its statistics."""
        return self._present(_of_registration(slave, slave.record if slave.record.dumps else None))

    def _present(self, slave: KnownSlave) -> KnownSlave:
        """Return ``slave``, or a copy that is marked as refused or drained. A slave is refused if the master has
        refused the slave since it was seen last, and no dump to the slave is running. A slave is drained if the
        operator has sent it away.
        """
        refusal = self._refused.get(slave.peer.identity, slave)
        if refusal.last_seen_at > slave.last_seen_at and slave.presence is not Presence.CONNECTED:
            slave = replace(slave, presence=Presence.REFUSED, refusal=refusal.refusal)
        if self._drains.of(slave.peer) is None:
            return slave
        presence = Presence.DRAINED if slave.presence.is_missing else slave.presence
        return replace(slave, presence=presence, is_drained=True)

    def _awaited(self, known: Sequence[KnownSlave], records: Sequence[SlaveCounts]) -> Iterator[KnownSlave]:
        """Yield the slaves that ``[[replica]]`` tables of the configuration file name and that are not in ``known``,
        except slaves that have finished. ``records`` are the statistics of all slaves that the master remembers.

        A slave has finished if it got all events that it asked for, or if the operator has ended its registration. A
        table without server ids stands for one slave, with any server id. A slave that a table names is listed even
        after the time of ``--keep-slaves``.
        """
        # A table may name thousands of server ids, so that slaves are looked up by theirs. Listed slaves come after the
        # records, of which the one that was seen last comes last.
        candidates = _by_server_id([*records, *known])
        for entry in self._entries():
            for server_id in sorted(entry.server_ids) or [0]:
                who = replace(entry.who, server_ids=frozenset([server_id])) if server_id else entry.who
                fitting = (one for one in reversed(candidates.get(server_id, [])) if who.fits(one.peer))
                last = next(fitting, None)
                if last is None:
                    peer = Peer(entry.user, who.channel or "", server_id)
                    never = Presence.NEVER_SEEN
                    yield KnownSlave(peer, last_seen_at=0.0, presence=never, entry=entry.key)
                elif not isinstance(last, KnownSlave) and not last.is_done:
                    yield _of_record(last)


def _by_server_id(slaves: Sequence[SlaveCounts]) -> dict[int, list[SlaveCounts]]:
    """Return a dictionary from each server id to the list of slaves with this server id. The key 0 has all slaves. Each
    list has the order of ``slaves``.
    """
    found: dict[int, list[SlaveCounts]] = {}
    for slave in slaves:
        found.setdefault(slave.peer.server_id, []).append(slave)
    return {**found, 0: list(slaves)}


def _rank(slave: KnownSlave) -> tuple[bool, bool, float]:
    return slave.presence is Presence.CONNECTED, slave.registered is not None, slave.last_seen_at


def _of_registration(slave: RegisteredSlave, record: SlaveCounts | None) -> KnownSlave:
    if slave.dump:
        presence = Presence.CONNECTED
    elif record is None or (record.is_done and not slave.file):
        # UNREGISTER REPLICA ended what the slave did before this registration.
        presence = Presence.REGISTERED
    else:
        presence = Presence.FINISHED if record.is_done else Presence.GONE
    record = record or slave.record
    seen = max(record.last_seen_at, slave.registered_at)
    return _of_record(record, peer=slave.peer, last_seen_at=seen, registered=slave, presence=presence)


def _of_record(record: SlaveCounts, **more: Any) -> KnownSlave:
    return KnownSlave(**{**vars(record), **more})
