"""The check of the law: filtering between an origin and a node must be invisible to the node's data.

An origin is the node that wrote the binlog. A slave of dumpfilter is compared with a reference: the state of a slave
that reads everything of the origin and filters for itself. The reference of a real replica is a replica that reads
everything of the origin and filters for itself.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from dumpfilter.base.errors import ConnectionLost, ServerError
from dumpfilter.binlog.gtid import parse_gtid_set
from dumpfilter.binlog.reader import iter_events
from dumpfilter.filter.kinds import AllFilters
from dumpfilter.index.fileset import BinlogSet
from dumpfilter.slave.targets import SummaryTarget
from dumpfilter.slave.threads.applier import EventApplier
from dumpfilter.testbed.errors import LawBroken, NotCaughtUp
from dumpfilter.testbed.ground import HOST, Ground
from dumpfilter.testbed.node import Feed, TestbedNode
from dumpfilter.testbed.own_nodes import Master, Slave
from dumpfilter.testbed.server_nodes import SqlNode, StartedServer
from dumpfilter.testbed.servers import References, Route, SourceAddress
from dumpfilter.testbed.servers.data import equal_gtids
from dumpfilter.testbed.values import Place
from dumpfilter.topology.model import Node, Reading, filter_of

_USER = "reference"

LEAST_CHECK = 10.0
"""The minimum time limit for the check of one real replica, seconds, since its reference may have to be started."""


def check_law(nodes: Mapping[str, TestbedNode], server_law: ServerLaw, timeout: float) -> None:
    """Check that filtering on the way has not changed the data of any slave or running real replica.

    Each node is compared with a reference that reads everything and filters for itself. ``timeout`` is in seconds.
    Raises LawBroken with all differences, and NotCaughtUp.
    """
    deadline = time.monotonic() + timeout
    broken: list[str] = []
    for node in nodes.values():
        if isinstance(node, Slave):
            for feed in node.feeds:
                broken += differences(node, feed)
        elif isinstance(node, StartedServer) and node.feeds and node.is_running:
            filters = {feed.channel: filters_on_the_way(feed) for feed in node.feeds}
            left = max(deadline - time.monotonic(), LEAST_CHECK)
            broken += server_law.check(node, filters, left)
            broken += stopped_channels(node)
    if broken:
        raise LawBroken("the law is broken:\n" + "\n".join(broken))


def stopped_channels(node: StartedServer) -> list[str]:
    """Return a sentence about each channel of a real replica that an error has stopped.

    The replica's data may be right all the same, if another channel has brought the same transactions.
    """
    found = []
    for one in node.channels():
        if one.sql == "No" and one.errors:
            channel = f", channel {one.channel}" if one.channel else ""
            found.append(f"{node.name}{channel}: the SQL thread has stopped: {'; '.join(one.errors)}")
    return found


def filters_on_the_way(feed: Feed) -> list[tuple[str, ...]]:
    """Return the rules of each filter between the origin (the server that wrote the binlog) and the node of a feed.

    The filters are in the order in which they apply. The last one is the node's own filter.
    """
    found = [feed.reading.rules]
    node = feed.source
    while not node.writes_binlog:
        found.append(node.feeds[0].reading.rules)
        node = node.feeds[0].source
    return found[::-1]


def differences(node: Slave, feed: Feed) -> list[str]:
    """Return the differences between a slave's channel (``feed``) and its reference, as sentences.

    The reference is the state of a slave that read everything up to the same position, and filtered for itself.
    """
    found = node.applied(feed)
    if not found.source_file:
        return []
    place = Place(found.source_file, found.source_position)
    origin = feed.origin
    opened = origin.watched.opened()
    if opened is None or place.file not in opened:
        return [f"{node.name}: is at {place}, a file that {origin.name} does not have"]
    expected, gtids = reference(opened, place, filters_on_the_way(feed))
    where = f"{node.name}{f', channel {feed.channel}' if feed.channel else ''} at {place} of {origin.name}"
    broken = []
    for what in ("tables", "databases"):
        ours, theirs = found.target.get(what, {}), expected.get(what, {})
        for name in sorted(ours.keys() | theirs.keys()):
            if ours.get(name) != theirs.get(name):
                broken.append(
                    f"{where}: {what.removesuffix('s')} {name}: has {_shown(ours.get(name))}, and should have "
                    f"{_shown(theirs.get(name))}"
                )
    if not equal_gtids(found.executed, gtids):
        broken.append(f"{where}: GTID set: has {found.executed or 'none'}, and should have {gtids or 'none'}")
    return broken


def reference(binlogs: BinlogSet, end: Place, filters: Sequence[Sequence[str]]) -> tuple[dict[str, Any], str]:
    """Return the state of a slave that read everything of a binlog set up to the position ``end`` and filtered itself.

    ``filters`` are the rules of the filters on the way. The result is the state of the slave's target, and its GTID
    set.
    """
    with binlogs.file(binlogs.names[0]) as first:
        names, family = first.format_description.names, first.format_description.family
    *before, own = [filter_of(rules, names) for rules in filters]
    target = SummaryTarget()
    gtids = parse_gtid_set("", family)
    applier = EventApplier(AllFilters([own, *before]), target, on_complete=gtids.add)
    for name in binlogs.names:
        with binlogs.path(name).open("rb") as file:
            for event in iter_events(file, file=name):
                if Place(name, event.offset) >= end:
                    return target.state(), str(gtids)
                applier.feed(event, file=name)
    return target.state(), str(gtids)


def _shown(value: Any) -> str:
    if not value:
        return "nothing"
    return ", ".join(f"{name} {one}" for name, one in value.items())


class ServerLaw:
    """The references of a topology's real replicas: replicas that read everything and filter for themselves.

    They are started at the first check, and end with the topology.
    """

    def __init__(self, ground: Ground) -> None:
        self._ground = ground
        self._directory = ground.directory / "references"
        self._references = References(
            self._directory, ground.spawner("reference", self._directory / "start.log")
        )
        self._masters: dict[str, UnfilteredMaster] = {}
        """A master without filters for each origin that consists of files, by the origin's name."""

    def check(
        self, node: StartedServer, filters: Mapping[str, Sequence[tuple[str, ...]]], timeout: float
    ) -> list[str]:
        """Return the differences between a real replica and its reference, which reads everything and filters itself.

        The result is empty if there are none. ``filters`` has, for each channel, the rules of the filters from the
        origin to the replica, in order. Raises NotCaughtUp after ``timeout`` seconds, and StartFailed.
        """
        self._directory.mkdir(exist_ok=True)
        try:
            routes = {
                feed.channel: Route(self._source(feed.origin), tuple(filters[feed.channel]))
                for feed in node.feeds
            }
            return self._references.check(node.server, routes, timeout, node.node.options)
        except (ServerError, ConnectionLost) as error:
            raise NotCaughtUp(f"{node.name}: cannot be compared with its reference: {error}") from None

    def close(self) -> None:
        """End the reference servers, and the masters that serve binlog files to them."""
        self._references.close()
        for master in self._masters.values():
            master.close()
        self._masters.clear()

    def _source(self, origin: TestbedNode) -> SourceAddress:
        """Return the address at which a reference server reads the whole binlog that the node ``origin`` wrote."""
        if isinstance(origin, SqlNode):
            return SourceAddress(origin.host, origin.port, origin.account.user, origin.account.password)
        master = self._masters.get(origin.name)
        if master is None:
            master = self._masters[origin.name] = UnfilteredMaster(self._ground, origin)
        master.start()
        return master.address


class UnfilteredMaster(Master):
    """A master of dumpfilter that serves an origin's binlog files without a filter, for real replicas' references."""

    def __init__(self, ground: Ground, origin: TestbedNode) -> None:
        node = Node(name=f"master-of-{origin.name}", role="master")
        feed = Feed(Reading.model_validate({"node": origin.name}), "", origin, None)
        super().__init__(ground, node, [feed])

    @property
    def address(self) -> SourceAddress:
        """The address at which the reference servers of real replicas read the whole binlog."""
        port = self._known("--replica-port")
        return SourceAddress(HOST, port, _USER, self._ground.replication_password)

    def _port_options(self) -> list[str]:
        return ["--port", "--console-port", "--replica-port"]

    def _accounts(self) -> list[dict[str, object]]:
        return [{"user": _USER, "rules": []}]
