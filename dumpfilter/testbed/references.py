"""Reference replicas: hidden servers that read the unfiltered origin, with which real replicas are compared.

The law says that filtering before a replica is invisible to the replica's data. A reference is a server of the same
program with the same rules as the replica. The reference reads the origin (the node that wrote the binlog) itself, and
no other filter comes before its own. Replica and reference must have the same data and GTID set.

A filter between origin and replica that differs from the replica's own filter gets a server, too. The replica's
reference then reads from this server.
"""

from __future__ import annotations

import time
from collections.abc import Sequence
from typing import NamedTuple

from dumpfilter.base.errors import ConnectionLost, ReplicaBehind, ServerError
from dumpfilter.testbed.errors import NotCaughtUp
from dumpfilter.testbed.ground import HOST, REPLICATION_USER, Ground
from dumpfilter.testbed.node import Feed, TestbedNode
from dumpfilter.testbed.own_nodes import Master
from dumpfilter.testbed.server_nodes import SqlNode, StartedServer
from dumpfilter.testbed.servers import Server, wait_for_gtids
from dumpfilter.testbed.servers.data import differences, equal_gtids, read_data
from dumpfilter.topology.model import Node, Reading

_POLL = 0.1
_REWRITE = "replicate-rewrite-db"

Filters = tuple[tuple[str, ...], ...]
"""The rules of each filter on a way, as options, in the order in which the filters apply."""


def filters_on_the_way(feed: Feed) -> Filters:
    """Return the rules of each filter between the origin (the node that wrote the binlog) and the node of a feed.

    The last filter is the node's own one.
    """
    found = [feed.reading.rules]
    node = feed.source
    while not node.writes_binlog:
        found.append(node.feeds[0].reading.rules)
        node = node.feeds[0].source
    return tuple(found[::-1])


def distinct(filters: Filters) -> Filters:
    """Return the filters without those that change nothing. If none is left, the result is one filter without rules.

    A filter changes nothing if it has no rules, or repeats the filter before without renaming databases.
    """
    found: list[tuple[str, ...]] = []
    for rules in filters:
        renames = any(rule.startswith(_REWRITE) for rule in rules)
        if rules and (rules not in found[-1:] or renames):
            found.append(rules)
    return tuple(found) or ((),)


class _Reference(NamedTuple):
    """The reference of one replica."""

    server: Server
    ways: Sequence[tuple[TestbedNode, Sequence[Server]]]
    """The origin of each channel, and the servers that apply filters on the way, the nearest to the origin first."""

    @property
    def has_all_gtids(self) -> bool:
        """Whether the reference's GTID set includes the transactions that filters before the reference dropped.

        A MySQL server writes an empty transaction into its binlog for each transaction that it drops. MariaDB writes
        nothing.
        """
        return self.server.family == "mysql" or not any(between for _, between in self.ways)

    def reach(self, gtids: str, deadline: float) -> None:
        """Wait until the reference has applied the replica's GTID set ``gtids``.

        Raises ReplicaBehind at ``deadline``, a time of ``time.monotonic``.
        """
        if self.has_all_gtids:
            wait_for_gtids(self.server, gtids, _left(deadline))
            return
        for origin, between in self.ways:
            end = origin.all_gtids()
            for server in between:
                wait_for_gtids(server, end, _left(deadline))
                end = server.binlog_gtids()
            wait_for_gtids(self.server, end, _left(deadline))

    def gtids(self) -> str:
        """Return the GTID set that the replica must have."""
        if self.has_all_gtids:
            return self.server.applied_gtids()
        firsts = [between[0] if between else self.server for _, between in self.ways]
        return ",".join(
            sorted({each for first in firsts for each in first.applied_gtids().split(",") if each})
        )


def _left(deadline: float) -> float:
    return max(deadline - time.monotonic(), 1.0)


class References:
    """The references of a topology's real replicas. A check starts them, and they end with the topology."""

    def __init__(self, ground: Ground) -> None:
        self._ground = ground
        self._nodes: dict[str, TestbedNode] = {}
        """The hidden nodes by name: references, servers between, and masters without filters."""

    def check(self, node: StartedServer, timeout: float) -> list[str]:
        """Return the differences between a real replica and its reference, as sentences.

        Both servers are compared when they have the same GTID set, or after ``timeout`` seconds. Raises StartFailed.
        Raises NotCaughtUp if the reference does not reach the replica's GTID set in time, or if a server still applies
        transactions then. A replica that can have no reference is NotCaughtUp, too.
        """
        try:
            return self._check(node.server, self._reference(node), time.monotonic() + timeout)
        except (ServerError, ConnectionLost) as error:
            raise NotCaughtUp(f"{node.name}: cannot be compared with its reference: {error}") from None

    @staticmethod
    def _check(replica: Server, reference: _Reference, deadline: float) -> list[str]:
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
        """End all hidden nodes."""
        for node in self._nodes.values():
            node.close()

    def _reference(self, node: StartedServer) -> _Reference:
        # MariaDB refuses two channels that read the same server. One of equal ways has the data of both.
        ways: dict[tuple[str, Filters], Feed] = {}
        for feed in node.feeds:
            ways.setdefault((feed.origin.name, distinct(filters_on_the_way(feed))), feed)
        if len({origin for origin, _ in ways}) < len(ways):
            # The server skips the second arrival of a GTID, whatever the first arrival's filter left of it.
            raise ServerError(
                f"{node.name}: has two channels from one source with different filters, so that the filter of a "
                "transaction is a matter of chance: give both channels the same rules"
            )
        feeds, found = [], []
        for (_, filters), feed in ways.items():
            source = self._unfiltered(feed.origin)
            between = []
            for number, rules in enumerate(filters[:-1], 1):
                name = f"{node.name}.{feed.channel}.{number}"
                source = self._server(name, node.node.with_(options=()), [_feed(source, "", rules)])
                between.append(source.server)
            feeds.append(_feed(source, feed.channel, filters[-1]))
            found.append((feed.origin, between))
        return _Reference(self._server(node.name, node.node, feeds).server, found)

    def _server(self, name: str, model: Node, feeds: Sequence[Feed]) -> StartedServer:
        """Return the running hidden server ``name``, which has the keys of the replica ``model``."""
        found = self._nodes.get(name)
        if not isinstance(found, StartedServer):
            reads = tuple(feed.reading for feed in feeds)
            hidden = model.with_(name=f"reference-of-{name}", reads=reads, tls=False, gtid=True)
            found = self._nodes[name] = StartedServer(self._ground, hidden, feeds)
        found.start()
        return found

    def _unfiltered(self, origin: TestbedNode) -> TestbedNode:
        """Return the node at which a reference reads the whole binlog of an origin: the origin itself, or a master."""
        if isinstance(origin, SqlNode):
            return origin
        name = f"master-of-{origin.name}"
        master = self._nodes.setdefault(name, UnfilteredMaster(self._ground, name, origin))
        master.start()
        return master


def _feed(source: TestbedNode, channel: str, rules: tuple[str, ...]) -> Feed:
    """Return the feed of a hidden server that reads ``source`` without a link."""
    reading = Reading.model_validate({"node": source.name, "rules": rules})
    host = source.host if isinstance(source, SqlNode) else HOST
    return Feed(reading, channel, source, None, source.replica_port, host)


class UnfilteredMaster(Master):
    """A master of dumpfilter that serves an origin's binlog files without a filter, for real replicas' references."""

    def __init__(self, ground: Ground, name: str, origin: TestbedNode) -> None:
        feed = Feed(Reading.model_validate({"node": origin.name}), "", origin, None)
        super().__init__(ground, Node(name=name, role="master"), [feed])

    def _port_options(self) -> list[str]:
        return ["--port", "--console-port", "--replica-port"]

    def _accounts(self) -> list[dict[str, object]]:
        return [{"user": REPLICATION_USER, "rules": []}]
