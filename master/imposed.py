"""Filters that the master's operator imposes on slaves, chosen by server id, user or network.

WL#2387 leaves such filters as an open issue.
"""

from __future__ import annotations

import ipaddress
import re
from collections.abc import Iterable
from dataclasses import dataclass, replace
from typing import Any
from urllib.parse import unquote

from dumpfilter.errors import OptionError
from dumpfilter.filter import ReplicationFilter

Address = ipaddress.IPv4Address | ipaddress.IPv6Address
Network = ipaddress.IPv4Network | ipaddress.IPv6Network

_LOOPBACK = ipaddress.IPv4Address("127.0.0.1")
_PEER = re.compile(r"(?:ipv4:([^:]+)|ipv6:\[([^\]]+)\]):\d+")


@dataclass(frozen=True)
class ImposedFilter:
    """A filter that the master's operator imposes on some slaves, with the conditions that choose these slaves.

    A slave gets the events that pass its own filter and every filter imposed on it. The conditions name server ids,
    users and networks; an empty condition is met by every slave. The rules compare the names that databases have on
    the master, before any ``--replicate-rewrite-db`` of the slave. When the filter cannot decide about a statement, the
    master sends and counts the statement. The slave decides then, because the master also sends it the rules. Raises
    OptionError for a rewrite rule.
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

    def sends_as(self, other: ImposedFilter) -> bool:
        """Tell whether two filters send and drop the same, whatever the conditions are that choose their slaves."""
        same_rules = (
            type(self.filter) is type(other.filter)
            and self.filter.rules == other.filter.rules
            and self.filter.names == other.filter.names
        )
        anywhere: dict[str, Any] = {"server_ids": frozenset(), "users": frozenset(), "networks": ()}
        return same_rules and replace(self, **anywhere) == replace(other, **anywhere, filter=self.filter)

    def applies(self, server_id: int, user: str, address: Address | None) -> bool:
        """Tell whether this filter is imposed on a slave with this server id, user and network address.

        A slave with an unknown address (None) meets every condition on networks, so that no slave escapes the filter.
        """
        return (
            (not self.server_ids or server_id in self.server_ids)
            and (not self.users or user in self.users)
            and (not self.networks or address is None or any(address in network for network in self.networks))
        )


def imposed_on(
    filters: Iterable[ImposedFilter], *, server_id: int, user: str, peer: str
) -> tuple[ImposedFilter, ...]:
    """Return the filters that are imposed on a slave. ``peer`` is the slave's address as gRPC spells it."""
    address = peer_address(peer)
    return tuple(one for one in filters if one.applies(server_id, user, address))


def peer_address(peer: str) -> Address | None:
    """Return the IP address of a connection from its name in gRPC, or None when the name has no address.

    A connection over a Unix socket counts as 127.0.0.1. An IPv4 address inside an IPv6 address counts as IPv4.

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
