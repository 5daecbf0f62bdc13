"""Reference replicas: what a real replica must have, told by a server that reads the unfiltered source.

The law says that filtering before a replica is invisible to the replica's data. A reference is a server of the same
program with the same rules. It reads the source itself, and filters alone. Replica and reference must have the same
data and GTID set.

A filter between source and replica that differs from the replica's own filter is a reference of its own, from which
the replica's reference reads.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from pathlib import Path

from dumpfilter.errors import ReplicaBehind
from dumpfilter.servers.data import Difference, ServerData, differences, equal_gtids, read_data
from dumpfilter.servers.dialect import SourceAddress
from dumpfilter.servers.programs import Program
from dumpfilter.servers.replica import wait_for_gtids
from dumpfilter.servers.server import Server, Spawn, end_servers, spawn_here

_FIRST_SERVER_ID = 4_000_000_000
_POLL = 0.1
_REWRITE = "replicate-rewrite-db"


@dataclass(frozen=True)
class Route:
    """The way of one channel's data: the unfiltered source, and the filters on the way to the replica, in order."""

    source: SourceAddress
    filters: tuple[tuple[str, ...], ...]
    """The rules of each filter, as options. The last one is the replica's own filter."""

    @property
    def distinct(self) -> tuple[tuple[str, ...], ...]:
        """The filters without those that change nothing, with the replica's own filter as the last one."""
        *before, own = self.filters or ((),)
        found = [rules for rules in before if rules and (rules != own or _rewrites(rules))]
        return (*found, own)


def _rewrites(rules: Sequence[str]) -> bool:
    """Tell whether rules rename databases, so that a filter in force twice is another one."""
    return any(rule.removeprefix("--").startswith(_REWRITE) for rule in rules)


class References:
    """The references of a topology's replicas. They are started when they are needed, and stay until the end."""

    def __init__(self, directory: Path, spawn: Spawn = spawn_here) -> None:
        self._directory = directory
        self._spawn = spawn
        self._servers: dict[str, Server] = {}

    def check(
        self,
        replica: Server,
        routes: Mapping[str, Route],
        timeout: float,
        options: Sequence[str] = (),
    ) -> tuple[Difference, ...]:
        """Return the differences between a replica and its reference. There are none if the law holds.

        ``routes`` has the way of each channel, and ``options`` the replica's own options. The replica and the reference
        are compared when both have the same GTID set and neither goes on. Raises ReplicaBehind if the replica is not
        where the reference is within ``timeout`` seconds, and ServerError.
        """
        reference = self._reference(replica, routes, options)
        deadline = time.monotonic() + timeout
        while True:
            found, expected = self._moment(replica, reference, deadline)
            told = differences(replica.name, replica, found, reference, expected)
            if replica.applied_gtids() == found.gtids and reference.applied_gtids() == expected.gtids:
                return told
            if time.monotonic() > deadline:
                raise ReplicaBehind(
                    f"{replica.name}: goes on while it is compared: stop writing on its source, and check again"
                )

    def close(self) -> None:
        """End the references, and remove their files."""
        end_servers(tuple(self._servers.values()))
        for server in self._servers.values():
            server.remove()
        self._servers.clear()

    def _moment(self, replica: Server, reference: Server, deadline: float) -> tuple[ServerData, ServerData]:
        """Return the data of both at a moment at which both have the same GTID set, or at the end of the time."""
        while True:
            position = replica.applied_gtids()
            wait_for_gtids(reference, position, max(deadline - time.monotonic(), 1.0))
            if equal_gtids(replica.applied_gtids(), reference.applied_gtids()) or time.monotonic() > deadline:
                return read_data(replica), read_data(reference)
            time.sleep(_POLL)

    def _reference(self, replica: Server, routes: Mapping[str, Route], options: Sequence[str]) -> Server:
        found = self._servers.get(replica.name)
        if found is not None and found.is_running:
            return found
        own = {channel: route.distinct[-1] for channel, route in routes.items()}
        server = self._start(replica.name, replica.program, own, options)
        for channel, route in routes.items():
            source = route.source
            for number, rules in enumerate(route.distinct[:-1], 1):
                name = f"{replica.name}.{channel}.{number}"
                between = self._start(name, replica.program, {"": rules}, ())
                between.channel().follow(source)
                source = between.replication_address
            server.channel(channel).follow(source)
        return server

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
