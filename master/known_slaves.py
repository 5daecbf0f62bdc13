"""The slaves that a master knows: registered ones, disconnected ones, and replicas that the configuration names.

The console, the status, the metrics and the gRPC call Status all read the list of slaves here.
"""

from __future__ import annotations

import enum
import threading
import time
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import UTC, datetime
from typing import Any

from dumpfilter.base.recent import Recent
from dumpfilter.master.counters import SlaveCounts, SlaveKey
from dumpfilter.master.drain import Drains
from dumpfilter.master.register import Register, RegisteredSlave
from dumpfilter.master.replica_entry import ReplicaEntry
from dumpfilter.master.who import Peer, Who

_Identity = tuple[str, str, int | str]

KEEP_SECONDS = 7 * 86_400.0
"""The default of ``--keep-slaves``, the time for which a disconnected slave counts as missing, seconds."""


MOST_REFUSALS = 1000
"""The largest number of slaves whose refusal the master remembers."""


class Presence(enum.StrEnum):
    """The state of a slave at its master, from the running dump (connected) to a slave that only the configuration
    names (never seen). The console and the metrics show the state.
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
        Unless the operator has drained the slave, this is a problem.
        """
        return self in (Presence.GONE, Presence.REFUSED, Presence.DRAINED, Presence.NEVER_SEEN)


@dataclass
class KnownSlave(SlaveCounts):
    """A slave's statistics with its present state. ``last_seen_at`` is 0 for a slave that was never seen."""

    presence: Presence = Presence.GONE
    port: int = 0
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
        """The time at which a missing slave was last seen, ISO 8601 in UTC. Empty for any other slave."""
        if not (self.presence.is_missing and self.last_seen_at):
            return ""
        return datetime.fromtimestamp(self.last_seen_at, UTC).isoformat(timespec="seconds")

    @property
    def place(self) -> tuple[str, int]:
        """The binlog file and position that the slave's dumps have reached."""
        return self.file, self.position

    @property
    def identity(self) -> _Identity:
        """The slave's user, channel and server id. If the server id is 0, the UUID takes its place.

        A slave that returns with another UUID, such as a replica that was set up anew, has an equal identity.
        """
        return self.key.user, self.key.channel, self.server_id or self.key.uuid


class KnownSlaves:
    """The list of all slaves that a master knows, from registrations, stored statistics, refusals and the
    configuration.
    """

    def __init__(self, register: Register, drains: Drains) -> None:
        self._register = register
        self._drains = drains
        self.keep_seconds = KEEP_SECONDS
        self.entries: Callable[[], Sequence[ReplicaEntry]] = tuple
        """Returns the ``[[replica]]`` tables in force. A master without a port for replicas has none."""
        self._lock = threading.Lock()
        self._refused: Recent[_Identity, KnownSlave] = Recent(MOST_REFUSALS)
        """The slaves that were refused, by user, channel and server id. The newest refusal comes last."""

    def refuse(self, peer: Peer, reason: str) -> None:
        """Record that the master refused a slave with an error at which slaves stop. ``reason`` is the error's text."""
        slave = KnownSlave(
            SlaveKey(peer.user, peer.channel, peer.uuid),
            peer.server_id,
            peer.host,
            peer=peer.endpoint,
            presence=Presence.REFUSED,
            refusal=reason,
        )
        with self._lock:
            self._refused[slave.identity] = slave

    def forget(self, who: Who) -> list[KnownSlave]:
        """Delete the refusals of the slaves that ``who`` selects. Return these slaves."""
        with self._lock:
            gone = [slave for slave in self._refused.values() if who.fits(slave.as_peer)]
            for slave in gone:
                del self._refused[slave.identity]
        return gone

    def all(self) -> list[KnownSlave]:
        """Return all slaves that the master knows. Registered slaves come first, and last the slaves that only a
        ``[[replica]]`` table names.

        Disconnected slaves are left out when they were last seen longer ago than the time of ``--keep-slaves``, unless
        a table names them.
        """
        records = self._register.counters.records()
        by_key = {record.key: record for record in records}
        registered = _newest(_of_registration(slave, by_key) for slave in self._register.all())
        gone = _newest(_of_record(record) for record in records if not record.is_done)
        oldest = time.time() - self.keep_seconds
        # A registration says more than a record, and registrations come first.
        known = [
            one
            for one in (registered | gone | registered).values()
            if one.presence is not Presence.GONE or one.last_seen_at > oldest
        ]
        known = list(self._with_refusals(known, oldest))
        known += self._awaited(known, records)
        return [self._drained(one) for one in known]

    def _drained(self, slave: KnownSlave) -> KnownSlave:
        """Return ``slave``, or a copy that is marked as drained if the operator has drained it (sent it away)."""
        if self._drains.of(slave.as_peer) is None:
            return slave
        presence = Presence.DRAINED if slave.presence.is_missing else slave.presence
        return replace(slave, presence=presence, is_drained=True)

    def _with_refusals(self, known: Iterable[KnownSlave], oldest: float) -> Iterator[KnownSlave]:
        """Yield the slaves of ``known``, each as refused if its last refusal is newer, and then the slaves that are
        only known by a refusal.

        Refusals before the Unix time ``oldest`` are ignored.
        """
        with self._lock:
            refused = {key: one for key, one in self._refused.items() if one.last_seen_at > oldest}
        for slave in known:
            refusal = refused.pop(slave.identity, slave)
            if refusal.last_seen_at > slave.last_seen_at and slave.presence is not Presence.CONNECTED:
                yield replace(slave, presence=Presence.REFUSED, refusal=refusal.refusal)
            else:
                yield slave
        yield from refused.values()

    def of(self, slave: RegisteredSlave) -> KnownSlave:
        """Return the state and the statistics of a registered slave."""
        records = {slave.record.key: slave.record} if slave.record.dumps else {}
        return self._drained(next(self._with_refusals([_of_registration(slave, records)], 0.0)))

    def of_user(self, user: str) -> list[KnownSlave]:
        """Return the known slaves that log in as ``user``."""
        return [one for one in self.all() if one.key.user == user]

    def _awaited(self, known: Sequence[KnownSlave], records: Sequence[SlaveCounts]) -> Iterator[KnownSlave]:
        """Yield the slaves that ``[[replica]]`` tables name and that are not in ``known``.

        A table without server ids stands for one slave, with any server id. A slave that a table names is listed even
        after the time of ``--keep-slaves``.
        """
        # A table may name thousands of server ids, so that slaves are looked up by theirs.
        present, remembered = _by_server_id(known), _by_server_id(records)
        for entry in self.entries():
            for who in _named_by(entry.who):
                server_id = next(iter(who.server_ids), None)
                if any(who.fits(peer) for peer, _ in present.get(server_id, ())):
                    continue
                # The record that was seen last comes last.
                found = [record for peer, record in remembered.get(server_id, ()) if who.fits(peer)]
                if not found:
                    key = SlaveKey(entry.user, who.channel or "", "")
                    yield KnownSlave(
                        key,
                        server_id or 0,
                        last_seen_at=0.0,
                        presence=Presence.NEVER_SEEN,
                        entry=entry.key,
                    )
                elif not found[-1].is_done:
                    yield _of_record(found[-1])


def _by_server_id(slaves: Iterable[SlaveCounts]) -> dict[int | None, list[tuple[Peer, SlaveCounts]]]:
    """Return the slaves with each server id, and under None all slaves. The order stays."""
    pairs = [(slave.as_peer, slave) for slave in slaves]
    found: dict[int | None, list[tuple[Peer, SlaveCounts]]] = {None: pairs}
    for peer, slave in pairs:
        found.setdefault(peer.server_id, []).append((peer, slave))
    return found


def _named_by(who: Who) -> list[Who]:
    """Split a condition with several server ids into one condition for each server id. A condition without server ids
    is returned unchanged, in a list.
    """
    return [replace(who, server_ids=frozenset([one])) for one in sorted(who.server_ids)] or [who]


def _newest(slaves: Iterable[KnownSlave]) -> dict[_Identity, KnownSlave]:
    """Return one slave for each identity (user, channel, server id): the connected one, or else the slave that was seen
    last.
    """
    found: dict[_Identity, KnownSlave] = {}
    for one in slaves:
        other = found.setdefault(one.identity, one)
        if _rank(one) > _rank(other):
            found[one.identity] = one
    return found


def _rank(slave: KnownSlave) -> tuple[bool, float]:
    return slave.presence is Presence.CONNECTED, slave.last_seen_at


def _of_registration(slave: RegisteredSlave, records: Mapping[SlaveKey, SlaveCounts]) -> KnownSlave:
    record = records.get(slave.record.key)
    if slave.dump:
        presence = Presence.CONNECTED
    elif record is None or (record.is_done and not slave.file):
        # UNREGISTER REPLICA ended what the slave did before this registration.
        presence = Presence.REGISTERED
    else:
        presence = Presence.FINISHED if record.is_done else Presence.GONE
    peer = slave.peer
    return _of_record(
        record or slave.record,
        presence=presence,
        registered=slave,
        server_id=peer.server_id,
        host=peer.host,
        port=peer.port,
        peer=peer.endpoint,
        last_seen_at=slave.last_seen_at,
    )


def _of_record(record: SlaveCounts, **more: Any) -> KnownSlave:
    return KnownSlave(**{**vars(record), **more})
