"""Filters that the master imposes on slaves (WL#2387's open issue): by server id, user or network."""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable
from dataclasses import dataclass
from urllib.parse import unquote

from dumpfilter.errors import OptionError
from dumpfilter.filter import ReplicationFilter

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network

_LOOPBACK = ipaddress.IPv4Address("127.0.0.1")
_PEER = re.compile(r"(?:ipv4:([^:]+)|ipv6:\[([^\]]+)\]):\d+")


@dataclass(frozen=True)
class ImposedFilter:
    """A filter and on whom it is imposed: on the slaves that meet every condition that is not empty.

    A slave gets what passes its own filter and each that is imposed on it; the rules speak of the master's names,
    before any rewriting. What the filter cannot decide is sent, counted, and left to the slave, which is told the
    rules. Raises OptionError for a rewrite rule.
    """

    name: str
    filter: ReplicationFilter
    server_ids: frozenset[int] = frozenset()
    users: frozenset[str] = frozenset()
    networks: tuple[Network, ...] = ()

    def __post_init__(self) -> None:
        for rule in self.filter.rules:
            if rule.kind.is_rewrite:
                raise OptionError(
                    f"{rule}: a master imposes what passes; names are rewritten by the slave alone"
                )

    def applies(self, server_id: int, user: str, address: Address | None) -> bool:
        """Whether it is imposed on a slave. ``address`` None: it cannot be told, so a condition on networks is met."""
        return (
            (not self.server_ids or server_id in self.server_ids)
            and (not self.users or user in self.users)
            and (not self.networks or address is None or any(address in network for network in self.networks))
        )


def imposed_on(
    filters: Iterable[ImposedFilter], *, server_id: int, user: str, peer: str
) -> tuple[ImposedFilter, ...]:
    """Those of ``filters`` that a slave is under; ``peer`` as gRPC tells it (:func:`peer_address`)."""
    address = peer_address(peer)
    return tuple(one for one in filters if one.applies(server_id, user, address))


def peer_address(peer: str) -> Address | None:
    """The address in gRPC's name of a peer; None when there is none in it. A Unix socket's is this machine.

    >>> peer_address("ipv4:10.1.2.3:50000"), peer_address("ipv6:%5B::ffff:10.1.2.3%5D:50000")
    (IPv4Address('10.1.2.3'), IPv4Address('10.1.2.3'))
    >>> peer_address("unix:/run/x")
    IPv4Address('127.0.0.1')
    """
    if peer.startswith(("unix:", "unix-abstract:")):
        return _LOOPBACK
    match = _PEER.fullmatch(unquote(peer))
    if match is None:
        return None
    try:
        address = ipaddress.ip_address((match[1] or match[2]).partition("%")[0])
    except ValueError:
        return None
    mapped = getattr(address, "ipv4_mapped", None)
    return address if mapped is None else mapped
