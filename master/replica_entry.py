"""The tables ``[[replica]]`` of the master's configuration: which filter a real MySQL or MariaDB replica gets.

A real replica cannot send its filter to a source. Its user, proved by a password, says which filter the master holds
for it. Channel, server id and network refine the choice.
"""

from __future__ import annotations

import enum
import ipaddress
from collections.abc import Iterable, Iterator, Sequence
from dataclasses import dataclass, field, replace
from itertools import combinations
from pathlib import Path

from dumpfilter.binlog.format import Family
from dumpfilter.errors import OptionError
from dumpfilter.filter import FilterSemantics, ReplicationFilter
from dumpfilter.master.imposed import Address, Network
from dumpfilter.security.passwords import ConsolePassword

CONNECT_TIMEOUT = 10.0
"""The longest time that the master waits for a replica while it reads the replica's filter, seconds."""


@dataclass(frozen=True)
class ReplicaPeer:
    """The facts about a connected replica that choose its filter."""

    user: str
    channel: str
    """The name of the replica's channel. A MariaDB replica never tells it, and has ``""``."""
    server_id: int
    address: Address | None
    """The address from which the replica connects."""
    uuid: str = ""
    host: str = ""
    """The option report_host of the replica, from COM_REGISTER_SLAVE."""
    port: int = 0
    """The replica's own port, from COM_REGISTER_SLAVE."""
    family: Family = "mysql"


class OnDrift(enum.StrEnum):
    """The fate of a replica whose own filter would apply events that the master drops for it."""

    WARN = "warn"
    """The master and the replica log a warning, and the replica is served."""
    REFUSE = "refuse"
    """The master refuses the replica with error 1236."""


class ConnectTls(enum.StrEnum):
    """The use of TLS on the connection to a replica, with the names of the servers' client option --ssl-mode."""

    DISABLED = "disabled"
    REQUIRED = "required"
    """TLS with any certificate."""
    VERIFY_CA = "verify_ca"
    """TLS with a certificate of a known CA, whatever its name."""
    VERIFY_IDENTITY = "verify_identity"
    """TLS with a certificate of a known CA for the replica's host name."""


@dataclass(frozen=True)
class ConnectBack:
    """The way in which the master connects to a replica to read the replica's own filter."""

    user: str
    password_file: Path | None = None
    password_env: str | None = None
    """The environment variable with the password. Exactly one of ``password_file`` and ``password_env`` is set."""
    host: str | None = None
    """The replica's host. None: the address from which the replica connects."""
    port: int | None = None
    """The replica's port. None: the port with which the replica registers (COM_REGISTER_SLAVE)."""
    tls: ConnectTls = ConnectTls.REQUIRED
    tls_ca: Path | None = None
    """The file with the certificates of known CAs. None: those of the system."""
    timeout: float = CONNECT_TIMEOUT
    commas_separate: bool = False
    """Whether the operator vouches that no name in the replica's rules has a comma.

    A server shows its rules with commas between them. A rule for one database ``a,b`` looks like two rules.
    """


@dataclass(frozen=True)
class ReplicaEntry:
    """One table ``[[replica]]``: the filter of a user's replicas, and the conditions that choose the table.

    A condition that is not set is met by every replica of the user.
    """

    key: str
    """The table's place in the configuration, such as ``replica[2]``."""
    user: str
    password: ConsolePassword = field(repr=False)
    filter: ReplicationFilter | None
    """The filter with the table's rules. None: the master adopts the replica's own filter."""
    semantics: FilterSemantics = FilterSemantics.CLASSIC
    channel: str | None = None
    server_ids: frozenset[int] = frozenset()
    networks: tuple[Network, ...] = ()
    connect: ConnectBack | None = None
    """The way to read the replica's own filter. None: the master never reads it."""
    on_drift: OnDrift = OnDrift.WARN

    @property
    def adopts(self) -> bool:
        """Whether the master uses the filter that the replica itself has."""
        return self.filter is None

    def applies(self, channel: str, server_id: int, address: Address | None) -> bool:
        """Tell whether a replica of the user meets the conditions.

        A replica with an unknown address (None) meets no condition on networks.
        """
        return (
            self.channel in (None, channel)
            and (not self.server_ids or server_id in self.server_ids)
            and (
                not self.networks
                or (address is not None and any(address in network for network in self.networks))
            )
        )

    def within(self, other: ReplicaEntry) -> bool:
        """Tell whether every replica that meets these conditions meets the conditions of ``other``, too."""
        return (
            other.channel in (None, self.channel)
            and (not other.server_ids or (bool(self.server_ids) and self.server_ids <= other.server_ids))
            and (
                not other.networks
                or (bool(self.networks) and all(_inside(one, other.networks) for one in self.networks))
            )
        )

    @property
    def conditions(self) -> str:
        """The conditions for texts, such as ``channel='a', server_ids=7``. Without conditions: ``any replica``."""
        told = []
        if self.channel is not None:
            told.append(f"channel={self.channel!r}")
        if self.server_ids:
            told.append("server_ids=" + ",".join(map(str, sorted(self.server_ids))))
        if self.networks:
            told.append("networks=" + ",".join(map(str, self.networks)))
        return ", ".join(told) or "any replica"


def most_specific(
    entries: Iterable[ReplicaEntry], *, user: str, channel: str, server_id: int, address: Address | None
) -> ReplicaEntry | None:
    """Return the entry for a replica, or None when the replica meets no entry's conditions.

    Of several entries the one with the narrowest conditions wins. :func:`check_clear` makes sure that there is one.
    """
    chosen: ReplicaEntry | None = None
    for entry in entries:
        meets = entry.user == user and entry.applies(channel, server_id, address)
        if meets and (chosen is None or entry.within(chosen)):
            chosen = entry
    return chosen


def check_clear(path: Path, entries: Sequence[ReplicaEntry]) -> None:
    """Raise OptionError unless each possible replica meets the conditions of one most specific entry at most."""
    for one, other in combinations(entries, 2):
        if one.user != other.user:
            continue
        if one.within(other) and other.within(one):
            raise OptionError(
                f"{path}: {other.key}: {other.conditions}: {one.key} has the same user and the same conditions; "
                "keep one of the two"
            )
        if one.within(other) or other.within(one):
            continue
        common = _intersection(one, other)
        if common is None:
            continue
        if not any(
            entry.user == one.user and common.within(entry) and entry.within(one) and entry.within(other)
            for entry in entries
        ):
            raise OptionError(
                f"{path}: {other.key}: {other.conditions}: a replica of user {one.user!r} may meet these conditions "
                f"and those of {one.key} ({one.conditions}), and neither is more specific: add a [[replica]] for "
                f"{common.conditions}"
            )


def _intersection(one: ReplicaEntry, other: ReplicaEntry) -> ReplicaEntry | None:
    """Return an entry with the conditions of both entries, or None when no replica can meet both."""
    if one.channel is not None and other.channel is not None and one.channel != other.channel:
        return None
    server_ids = one.server_ids | other.server_ids
    if one.server_ids and other.server_ids:
        server_ids = one.server_ids & other.server_ids
        if not server_ids:
            return None
    networks = (*one.networks, *other.networks)
    if one.networks and other.networks:
        networks = tuple(_common(one.networks, other.networks))
        if not networks:
            return None
    channel = one.channel if one.channel is not None else other.channel
    return replace(one, channel=channel, server_ids=server_ids, networks=networks)


def _common(some: Sequence[Network], others: Sequence[Network]) -> Iterator[Network]:
    for one in some:
        for other in others:
            if _inside(one, [other]):
                yield one
            elif _inside(other, [one]):
                yield other


def _inside(network: Network, others: Iterable[Network]) -> bool:
    return any(_is_subnet(network, other) for other in others)


def _is_subnet(network: Network, other: Network) -> bool:
    if isinstance(network, ipaddress.IPv4Network):
        return isinstance(other, ipaddress.IPv4Network) and network.subnet_of(other)
    return isinstance(other, ipaddress.IPv6Network) and network.subnet_of(other)
