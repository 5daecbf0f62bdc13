"""Reference replicas: servers that read the unfiltered source, with which real replicas are compared.

The law says that filtering before a replica is invisible to the replica's data. A reference is a server of the same
program with the same rules as the replica. The reference reads the source itself, and no other filter comes before its
own. Replica and reference must have the same data and GTID set.

A filter between source and replica that differs from the replica's own filter gets a reference server, too. The
replica's reference then reads from this server.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from dumpfilter.base.errors import ReplicaBehind, ServerError
from dumpfilter.testbed.servers.data import differences, equal_gtids, read_data
from dumpfilter.testbed.servers.dialect import SourceAddress
from dumpfilter.testbed.servers.programs import Program
from dumpfilter.testbed.servers.replica import wait_for_gtids
from dumpfilter.testbed.servers.server import Server, Spawn, end_servers, spawn_here
from dumpfilter.testbed.servers.session import Account, SqlServer

_FIRST_SERVER_ID = 4_000_000_000
_POLL = 0.1
_REWRITE = "replicate-rewrite-db"


@dataclass(frozen=True)
class Route:
    """The path of one channel's data: the unfiltered source, and the filters on the way to the replica, in order."""

    source: SourceAddress
    filters: tuple[tuple[str, ...], ...]
    """The rules of each filter, as options. The last one is the replica's own filter."""

    @property
    def distinct(self) -> tuple[tuple[str, ...], ...]:
        """The filters in order, without those that change nothing. If none is left, one filter without rules.

        A filter changes nothing if it has no rules, or repeats the filter before without renaming databases.
        """
        found: list[tuple[str, ...]] = []
        for rules in self.filters:
            if rules and (rules not in found[-1:] or _rewrites(rules)):
                found.append(rules)
        return tuple(found) or ((),)


def _rewrites(rules: Sequence[str]) -> bool:
    """Tell whether rules rename databases, so that applying the filter twice differs from applying it once."""
    return any(rule.removeprefix("--").startswith(_REWRITE) for rule in rules)


def _once(routes: Mapping[str, Route]) -> dict[str, Route]:
    """Return ``routes`` without channels that read the same source through the same filters as an earlier channel.

    MariaDB refuses two channels that read the same server.
    """
    found: dict[tuple[SourceAddress, tuple[tuple[str, ...], ...]], str] = {}
    for channel, route in routes.items():
        found.setdefault((route.source, route.distinct), channel)
    return {channel: routes[channel] for channel in found.values()}


class _Reference:
    """The reference of one replica, with the servers that apply the filters between the source and the replica."""

    def __init__(self, server: Server) -> None:
        self.server = server
        self.between: dict[str, list[Server]] = {}
        """The intermediate servers of each channel, the nearest to the source first."""
        self.sources: dict[str, SourceAddress] = {}

    @property
    def has_all_gtids(self) -> bool:
        """Whether the reference's GTID set includes the transactions that filters before the reference dropped.

        A MySQL server writes an empty transaction into its binlog for each transaction that it drops. MariaDB writes
        nothing.
        """
        return self.server.family == "mysql" or not any(self.between.values())

    def reach(self, gtids: str, deadline: float) -> None:
        """Wait until the reference has applied the replica's GTID set ``gtids``.

        Raises ReplicaBehind at ``deadline``, a time of ``time.monotonic``.
        """
        if self.has_all_gtids:
            wait_for_gtids(self.server, gtids, _left(deadline))
            return
        for channel, address in self.sources.items():
            account = Account(address.user, address.password)
            source = SqlServer(
                f"source of {self.server.name}", self.server.family, address.host, address.port, account
            )
            end = source.binlog_gtids()
            for server in self.between[channel]:
                wait_for_gtids(server, end, _left(deadline))
                end = server.binlog_gtids()
            wait_for_gtids(self.server, end, _left(deadline))

    def gtids(self) -> str:
        """Return the GTID set that the replica must have."""
        if self.has_all_gtids:
            return self.server.applied_gtids()
        firsts = [servers[0] if servers else self.server for servers in self.between.values()]
        return ",".join(
            sorted({each for first in firsts for each in first.applied_gtids().split(",") if each})
        )


def _left(deadline: float) -> float:
    return max(deadline - time.monotonic(), 1.0)


class References:
    """The reference servers of a topology's real replicas, which read the unfiltered sources. A check starts them."""

    def __init__(self, directory: Path, spawn: Spawn = spawn_here) -> None:
        self._directory = directory
        self._spawn = spawn
        self._servers: dict[str, Server] = {}
        self._references: dict[str, _Reference] = {}

    def check(
        self,
        replica: Server,
        routes: Mapping[str, Route],
        timeout: float,
        options: Sequence[str] = (),
    ) -> list[str]:
        """Return the differences between a replica and its reference, a server that reads the unfiltered source.

        ``routes`` has the route of each channel, and ``options`` the replica's own options. Both servers are compared
        when they have the same GTID set, or after ``timeout`` seconds. Without differences the result is empty.

        Raises ReplicaBehind if the reference does not reach the replica's GTID set in time, or if a server still
        applies transactions then. Raises ServerError, also for routes that no reference can have.
        """
        reference = self._reference(replica, routes, options)
        deadline = time.monotonic() + timeout
        while True:
            reference.reach(replica.applied_gtids(), deadline)
            is_late = time.monotonic() > deadline
            ours, theirs = replica.applied_gtids(), reference.gtids()
            if not is_late and not equal_gtids(ours, theirs):
                time.sleep(_POLL)
                continue
            told = differences(replica, read_data(replica), reference.server, read_data(reference.server))
            if not equal_gtids(ours, theirs):
                told.insert(
                    0, f"{replica.name}: GTID set: found {ours or 'none'}, expected {theirs or 'none'}"
                )
            # A transaction that only one of the two applied meanwhile is no difference.
            if replica.applied_gtids() == ours and reference.gtids() == theirs:
                return told
            if is_late:
                raise ReplicaBehind(
                    f"{replica.name}: goes on while it is compared: stop writing on its source, and check again"
                )

    def close(self) -> None:
        """End the reference servers, and remove their files."""
        end_servers(tuple(self._servers.values()))
        for server in self._servers.values():
            server.remove()
        self._servers.clear()
        self._references.clear()

    def _reference(self, replica: Server, routes: Mapping[str, Route], options: Sequence[str]) -> _Reference:
        found = self._references.get(replica.name)
        if found is not None and found.server.is_running:
            return found
        routes = _once(routes)
        if len({route.source for route in routes.values()}) < len(routes):
            # The server skips the second arrival of a GTID, whatever the first arrival's filter left of it.
            raise ServerError(
                f"{replica.name}: has two channels from one source with different filters, so that the filter of a "
                "transaction is a matter of chance: give both channels the same rules"
            )
        own = {channel: route.distinct[-1] for channel, route in routes.items()}
        reference = _Reference(self._start(replica.name, replica.program, own, options))
        for channel, route in routes.items():
            address = reference.sources[channel] = route.source
            servers = reference.between[channel] = []
            for number, rules in enumerate(route.distinct[:-1], 1):
                name = f"{replica.name}.{channel}.{number}"
                servers.append(self._start(name, replica.program, {"": rules}, ()))
                servers[-1].channel().follow(address)
                address = servers[-1].replication_address
            reference.server.channel(channel).follow(address)
        self._references[replica.name] = reference
        return reference

    def _start(
        self, name: str, program: Program, rules: Mapping[str, Sequence[str]], options: Sequence[str]
    ) -> Server:
        server = self._servers.get(name)
        if server is None:
            server = self._servers[name] = Server(
                program,
                self._directory / name,
                name=f"reference of {name}",
                server_id=_FIRST_SERVER_ID + len(self._servers),
                options=options,
                rules=rules,
                is_replica=True,
                spawn=self._spawn,
            )
        server.start()
        return server
