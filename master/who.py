"""The identity of a slave, and conditions that select slaves. The tables ``[[imposed]]`` and ``[[replica]]`` of the
configuration have such conditions, and the operator's statements DRAIN and UNREGISTER.
"""

from __future__ import annotations

import ipaddress
import threading
import time
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from datetime import UTC, datetime
from functools import cached_property
from typing import Any
from urllib.parse import unquote

from dumpfilter.base.errors import DumpfilterError, OptionError
from dumpfilter.base.printable import printable
from dumpfilter.base.security.audit import audit
from dumpfilter.base.security.throttle import Recent
from dumpfilter.dump.stream.message import PROTOCOL

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network


MYSQL_PROTOCOL = 0
"""The protocol version in :class:`Peer` that stands for MySQL's own replication protocol, which real replicas use."""


SlaveKey = tuple[str, str, str]
"""User, channel and UUID of a slave. A slave that returns with an equal key continues its statistics."""

SlaveIdentity = tuple[str, str, int | str]
"""User, channel and server id of a slave. If the server id is 0, the UUID takes its place."""

ReplicaRow = tuple[int, str, int, int, str]
"""A row of SHOW REPLICAS: the replica's server id, host and port, the source's server id, and the replica's UUID."""


@dataclass(frozen=True)
class Peer:
    """The identity of a slave or replica: user, channel, server id, UUID, addresses and versions. The slave itself
    states all fields but ``endpoint``, which the master observes.
    """

    user: str = ""
    channel: str = ""
    """The name of the slave's replication channel. A MariaDB replica never sends it, and has ``""``."""
    server_id: int = 0
    endpoint: str = ""
    """The address and port from which the slave connects, in gRPC's notation."""
    uuid: str = ""
    host: str = ""
    """The host name or address that the slave reports (``report_host``)."""
    port: int = 0
    """The port that the slave reports (``report_port``)."""
    protocol: int = PROTOCOL
    """The version of the protocol that the slave uses with the master; MYSQL_PROTOCOL for a real replica."""
    program_version: str = ""
    """The version of the slave's program."""

    @cached_property
    def address(self) -> Address | None:
        """The IP address from which the slave connects. None if it is not known."""
        return peer_address(self.endpoint)

    @property
    def key(self) -> SlaveKey:
        """User, channel and UUID. At most one of the slaves with an equal key can have a running dump."""
        return self.user, self.channel, self.uuid

    @property
    def identity(self) -> SlaveIdentity:
        """The key by which the master recognizes a slave that returns: user, channel and server id. A slave that was
        set up anew has another UUID, and is recognized by its server id. For server id 0 the UUID takes the place of
        the server id.
        """
        return self.user, self.channel, self.server_id or self.uuid

    def row(self, source_id: int) -> ReplicaRow:
        """Return the slave's row of SHOW REPLICAS. ``source_id`` is the server id of the source."""
        return self.server_id, self.host, self.port, source_id, self.uuid

    @property
    def fields(self) -> dict[str, object]:
        """The fields that identify the slave in log lines: server id, channel and user."""
        return {
            "server_id": self.server_id,
            "channel": printable(self.channel),
            "user": printable(self.user),
        }

    @property
    def is_real_replica(self) -> bool:
        """Whether the slave is a MySQL or MariaDB server, or a program such as mysqlbinlog that reads binlogs as a
        server does.
        """
        return self.protocol == MYSQL_PROTOCOL


def audit_slave(what: str, slave: Peer, peer: str, result: str = "ok", **details: str | int) -> None:
    """Write a line about a slave to the audit log. ``what`` is the action, ``peer`` the address that the request came
    from, and ``result`` the outcome. ``details`` are further fields of the line.
    """
    details = {"server_id": slave.server_id, "channel": slave.channel, **details}
    audit(what, account=slave.user, peer=peer, result=result, **details)


@dataclass(frozen=True)
class Who:
    """Conditions on user, channel, server id, network, UUID and host, which select slaves. A slave is selected if it
    meets every condition. An empty condition is met by every slave.
    """

    users: frozenset[str] = frozenset()
    channel: str | None = None
    server_ids: frozenset[int] = frozenset()
    networks: tuple[Network, ...] = ()
    uuids: frozenset[str] = frozenset()
    hosts: frozenset[str] = frozenset()
    """The addresses from which slaves connect, or host names that slaves report."""

    @classmethod
    def of(cls, channel: str | None = None, **by: str | int) -> Who:
        """Return the conditions that select slaves by the values ``by`` of properties: ``server_id``, ``uuid``,
        ``user`` or ``host``. Without properties they select all slaves. ``channel`` is a further condition; None for
        any channel.

        >>> Who.of(host="2001:DB8:0::1").hosts
        frozenset({'2001:db8::1'})
        """
        normal: dict[str, Callable[[Any], str | int]] = {"server_id": int, "uuid": str.lower, "host": _host}
        values: dict[str, Any] = {
            f"{name}s": frozenset([normal.get(name, str)(value)]) for name, value in by.items()
        }
        return cls(channel=channel, **values)

    @property
    def by(self) -> tuple[str, str]:
        """The name and the value of the property by which these conditions select slaves, such as ``("user", "repl")``.
        The conditions for all slaves have ``("all", "")``.
        """
        for by in ("server_id", "uuid", "user", "host", "network"):
            if values := getattr(self, f"{by}s"):
                return by, ",".join(map(str, values if by == "network" else sorted(values)))
        return "all", ""

    def __str__(self) -> str:
        where = "" if self.channel is None else f" on channel {printable(self.channel)!r}"
        by, value = self.by
        # Slaves of a master without users have an empty user name.
        chosen = "all slaves" if by == "all" else f"{by.replace('_', ' ')} {printable(value) or repr('')}"
        return chosen + where

    def fits(self, peer: Peer, *, unknown_address: bool = False) -> bool:
        """Tell whether the slave ``peer`` meets all of these conditions on its user, channel, server id, UUID, host and
        network. Every slave meets an empty condition.

        ``unknown_address`` is the result of a condition on networks for a slave whose address is not known.
        """
        address = peer.address
        return (
            self.channel in (None, peer.channel)
            and (not self.server_ids or peer.server_id in self.server_ids)
            and (not self.users or peer.user in self.users)
            and (not self.uuids or peer.uuid in self.uuids)
            and (not self.hosts or not self.hosts.isdisjoint(_hosts(peer)))
            and (
                not self.networks
                or (unknown_address if address is None else any(address in one for one in self.networks))
            )
        )

    def covers(self, other: Who) -> bool:
        """Tell whether every slave that meets the conditions ``other`` surely meets these conditions, too. Only users,
        channel, server ids and networks are compared.
        """
        return (
            _covers(self.users, other.users)
            and self.channel in (None, other.channel)
            and _covers(self.server_ids, other.server_ids)
            and (
                not self.networks
                or (
                    bool(other.networks)
                    and all(any(_contains(mine, one) for mine in self.networks) for one in other.networks)
                )
            )
        )


def _covers(mine: frozenset[Any], others: frozenset[Any]) -> bool:
    return not mine or (bool(others) and others <= mine)


def _contains(outer: Network, inner: Network) -> bool:
    return outer.version == inner.version and inner.subnet_of(outer)  # type: ignore[arg-type]  # the versions are equal


def endpoint_of(address: Address | str, port: int) -> str:
    """Return gRPC's notation for an address and port.

    >>> endpoint_of("::1", 50000)
    'ipv6:%5B::1%5D:50000'
    """
    return f"ipv6:%5B{address}%5D:{port}" if ":" in str(address) else f"ipv4:{address}:{port}"


def peer_address(peer: str) -> Address | None:
    """Return the IP address of a connection. ``peer`` is the connection's other end in gRPC's notation. Return None if
    it is no IP address.

    An IPv4 address inside an IPv6 address counts as IPv4.

    >>> peer_address("ipv4:10.1.2.3:50000"), peer_address("ipv6:%5B::ffff:10.1.2.3%5D:50000")
    (IPv4Address('10.1.2.3'), IPv4Address('10.1.2.3'))
    """
    host, _, _ = unquote(peer).partition(":")[2].rpartition(":")
    try:
        address = ipaddress.ip_address(host.strip("[]").partition("%")[0])
    except ValueError:
        return None
    return getattr(address, "ipv4_mapped", None) or address


def _hosts(peer: Peer) -> list[str]:
    """Return the texts by which a condition on hosts can select the slave ``peer``: its address, and the host name that
    it reports. A condition selects slaves, for example for a DRAIN.
    """
    names = [] if peer.address is None else [str(peer.address)]
    return [*names, _host(peer.host)] if peer.host else names


def _host(host: str) -> str:
    """Return ``host`` for a comparison: an IP address in its shortest notation, or a host name in lower case."""
    try:
        return str(ipaddress.ip_address(host.strip("[]")))
    except ValueError:
        return host.lower()


MOST_DRAINS = 10_000
"""The largest number of drains (the operator's orders to send some slaves away) that are in force at a time. A drain of
all slaves is accepted beyond this limit.
"""

_MOST_FOUND = 20_000
"""The largest number of slaves for which it is cached whether a drain (the operator's order to send slaves away)
concerns them.
"""

SHUTTING_DOWN = "the master is shutting down"
"""The reason that slaves are told when a master sends all of them away because the master shuts down."""


class Drained(DumpfilterError):
    """The error for a slave that the master's operator has drained (sent away for a while). The slave tries again until
    the drain ends.
    """

    grpc_code = "UNAVAILABLE"


@dataclass(frozen=True)
class Drain:
    """One drain (the operator's order to send slaves away): the conditions that select these slaves, the operator's
    reason, and the Unix time of its beginning, seconds.
    """

    who: Who
    reason: str = ""
    since: float = field(default_factory=time.time)

    @property
    def ends_with_master(self) -> bool:
        """Whether the drain (order to send slaves away) is part of the master's shutdown. If so, the next run of the
        master does not restore the drain.
        """
        return self.who == Who() and self.reason == SHUTTING_DOWN

    def error(self) -> Drained:
        """Return the error with which the master refuses a slave that the operator has drained (sent away), and with
        which it ends the slave's dump.
        """
        if self.ends_with_master:
            return Drained(f"drained: {SHUTTING_DOWN}; the slave tries again, and goes on where it was")
        since = datetime.fromtimestamp(self.since, UTC).isoformat(timespec="seconds")
        reason = f": {printable(self.reason)}" if self.reason else ""
        return Drained(
            f"drained: the master's operator has drained {self.who} since {since}{reason}; the slave tries again, "
            "and goes on where it was after UNDRAIN on the master's console"
        )


class Drains:
    """The drains (the operator's orders to send slaves away) in force. Thread-safe.

    Each function of ``on_change`` is called after every change, without the lock. Look-ups are cached, because a dump
    does one after every message, and an operator may drain thousands of slaves one by one.
    """

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._drains: dict[Who, Drain] = {}
        self._found: Recent[Peer, Drain | None] = Recent(_MOST_FOUND)
        """The drain (order to send slaves away) that concerns each looked-up slave; None for a slave that is not
        drained. A change of the drains removes the entries of the slaves that the change concerns.
        """
        self.on_change: list[Callable[[], object]] = []
        self._telling = threading.Lock()

    def _set(self, drains: dict[Who, Drain], changed: Who) -> None:
        self._drains = drains
        for peer in [one for one in self._found if changed.fits(one)]:
            del self._found[peer]

    def drain(self, who: Who, reason: str = "") -> Drain:
        """Drain (send away) the slaves that ``who`` selects, so that their dumps end and the master refuses them from
        now on. Return the drain.

        A second drain with an equal ``who`` replaces only the reason. Raises OptionError when MOST_DRAINS drains are in
        force; a drain of all slaves is always possible.
        """
        with self._lock:
            old = self._drains.get(who)
            # The drain of all slaves is one more, so that a master can always shut down.
            if old is None and who != Who() and len(self._drains) >= MOST_DRAINS:
                raise OptionError(f"{MOST_DRAINS} drains are in force: end some, or drain ALL REPLICAS")
            new = Drain(who, reason) if old is None else Drain(who, reason, old.since)
            self._set({**self._drains, who: new}, who)
        self._changed()
        return new

    def restore(self, drains: Iterable[Drain]) -> None:
        """Put the drains (orders to send slaves away) into force that an earlier run of the master has saved."""
        with self._lock:
            self._set({**self._drains, **{drain.who: drain for drain in drains}}, Who())
        self._changed()

    def undrain(self, who: Who) -> int:
        """End the drain (order to send slaves away) whose condition is exactly ``who``. The condition for all slaves
        ends every drain. Return the number of ended drains.
        """
        with self._lock:
            kept = {other: drain for other, drain in self._drains.items() if who not in (other, Who())}
            ended = len(self._drains) - len(kept)
            self._set(kept, who)
        if ended:
            self._changed()
        return ended

    def of(self, peer: Peer) -> Drain | None:
        """Return a drain (order to send slaves away) whose condition the slave ``peer`` meets, or None if the slave is
        not drained.
        """
        # A dump asks after every message, mostly while no drain is in force.
        if not self._drains:
            return None
        try:
            return self._found[peer]
        except KeyError:
            with self._lock:
                found = next((one for who, one in self._drains.items() if who.fits(peer)), None)
                self._found[peer] = found
                return found

    def check(self, peer: Peer) -> None:
        """Raise Drained when the operator has drained the slave ``peer`` (sent it away)."""
        drain = self.of(peer)
        if drain is not None:
            raise drain.error()

    def all(self) -> list[Drain]:
        """Return the drains in force (orders to send slaves away), in the order in which they began."""
        return list(self._drains.values())

    @property
    def is_all(self) -> bool:
        """Whether the operator has drained every slave (sent it away), so that the master serves nobody."""
        return Who() in self._drains

    def _changed(self) -> None:
        # The last call must see the last change, since one of the functions saves the drains.
        with self._telling:
            for call in self.on_change:
                call()
