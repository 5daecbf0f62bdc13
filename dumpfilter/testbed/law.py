"""The check of the law: filtering between an origin (the node that wrote a binlog) and a node must be invisible to the
node's data.

A slave of dumpfilter is compared with a computed reference: the state of a slave that reads everything of the origin
and filters for itself.

The reference of a real replica is another server, which the check starts. It has the same program and rules, and reads
the origin itself, so that no other filter comes before its own. Replica and reference must have the same data and GTID
set. A filter between origin and replica may differ from the replica's own filter. Then a further server with that
filter stands between the origin and the reference.
"""

from __future__ import annotations

import functools
import operator
import time
from collections.abc import Mapping, Sequence
from typing import Any

from dumpfilter.binlog.gtid import parse_gtid_set
from dumpfilter.binlog.reader import iter_events
from dumpfilter.filter.base import AllFilters
from dumpfilter.index.fileset import BinlogSet
from dumpfilter.slave.applier import EventApplier
from dumpfilter.slave.targets import SummaryTarget
from dumpfilter.testbed.errors import LawBroken, NodeIsDown, NotCaughtUp, SqlFailed
from dumpfilter.testbed.node import Feed, Ground, TestbedNode
from dumpfilter.testbed.nodes import Master, Slave, SqlNode, StartedServer
from dumpfilter.testbed.servers.server import REPLICATION, Server
from dumpfilter.testbed.servers.sql import differences, equal_gtids, read_data
from dumpfilter.testbed.values import Place
from dumpfilter.topology.model import Node, Reading, filter_of

LEAST_CHECK = 10.0
"""The minimum time limit for the check of one real replica, seconds, since the server with which it is compared may
have to be started.
"""

_POLL = 0.1

Filters = tuple[tuple[str, ...], ...]
"""The rules of consecutive filters, in the order in which the filters apply. Each filter is a tuple of options such as
``replicate-do-db=shop``.
"""


def check_law(nodes: Mapping[str, TestbedNode], references: References, deadline: float) -> None:
    """Check that filtering has not changed the data of the replicas among ``nodes``. Each slave of dumpfilter, and each
    running real replica (MySQL or MariaDB server), is compared with its reference.

    A reference reads everything, filters for itself, and must have the same data. ``references`` has the references of
    real replicas, and ``deadline`` is a time of ``time.monotonic``. Raises LawBroken with all differences. Raises
    NotCaughtUp for a replica that cannot be compared in time, and StartFailed if a reference does not start.
    """
    broken: list[str] = []
    for node in nodes.values():
        if isinstance(node, Slave):
            for feed in node.feeds:
                broken += slave_differences(node, feed)
        elif isinstance(node, StartedServer) and node.feeds and node.is_running:
            broken += references.check(node, max(deadline, time.monotonic() + LEAST_CHECK))
            # The replica's data may be right all the same, if another channel has brought the same transactions.
            stopped = (one for one in node.channels() if one.sql == "No" and one.errors)
            broken += [f"{node.name}: {one.threads}" for one in stopped]
    if broken:
        raise LawBroken("the law is broken:\n" + "\n".join(broken))


def filters_on_the_way(feed: Feed) -> Filters:
    """Return the filter rules that transactions pass from the server that wrote them to a replicating node, one tuple
    of rules for each filter.

    ``feed`` is one source of the node. The last filter is the node's own one.
    """
    return tuple(one.reading.rules for one in feed.way)


# -- slaves of dumpfilter


def slave_differences(node: Slave, feed: Feed) -> list[str]:
    """Compare the tables, databases and GTID set that a slave of dumpfilter has applied from one source (``feed``) with
    the reference. Return the differences as sentences. The list is empty for a slave that has applied nothing.

    The reference is the computed state of a slave that read the whole binlog up to the same position. Such a slave
    applies every filter between the server that wrote the binlog and ``node`` by itself. A position in a file that the
    server does not have is also a difference.
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


def reference(binlogs: BinlogSet, end: Place, filters: Filters) -> tuple[dict[str, Any], str]:
    """Compute the state of a slave that has read the whole binlog up to the position ``end`` and filtered for itself.

    ``filters`` has a tuple of rules for each filter between the server that wrote ``binlogs`` and the slave. The
    slave's own filter is the last. Return a pair: a dictionary with the counts and hashes of the changes of each table
    and database, and the GTID set as text.
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
    return ", ".join(f"{name} {one}" for name, one in value.items()) if value else "nothing"


# -- real replicas


def gtids_of(firsts: Sequence[StartedServer]) -> str:
    """Return the GTID set that a replica must have, as text, for comparison with the set that it has.

    The check starts hidden servers between the node that wrote the binlog and the replica, one for each filter on the
    path. ``firsts`` has the first of these servers for each channel. The result is the union of the GTID sets that they
    have applied.
    """
    sets = (parse_gtid_set(first.server.applied_gtids(), first.server.family) for first in firsts)
    return str(functools.reduce(operator.or_, sets))


class References:
    """The references of a topology's real replicas (MySQL or MariaDB servers). A reference is a hidden server that
    filters for itself, and is compared with its replica.

    Each channel of a reference starts at the unfiltered source. If the replica's channel receives the source's events
    through several filters, a chain of hidden servers applies these filters. The reference applies the last one. The
    first check of a replica starts these servers, which run until :meth:`close`.
    """

    def __init__(self, ground: Ground) -> None:
        self._ground = ground
        self._nodes: dict[str, TestbedNode] = {}
        """The servers and masters that checks have started for comparisons, by name. They are no nodes of the topology.
        """

    def check(self, node: StartedServer, deadline: float) -> list[str]:
        """Compare a real replica (MySQL or MariaDB server) with its reference, and return the differences as sentences.

        The reference is a server with the replica's own rules that reads the unfiltered source. Both are compared when
        they have the same GTID set, or at ``deadline``, a time of ``time.monotonic``.

        Raises StartFailed if the reference does not start. Raises NotCaughtUp if a server has not caught up in time,
        still applies transactions, or does not answer. Raises NotCaughtUp, too, for a replica that reads one source
        over two channels with different filters, since no reference is then possible.
        """
        try:
            return self._check(node.server, *self._reference(node), deadline)
        except (NodeIsDown, NotCaughtUp, SqlFailed) as error:
            raise NotCaughtUp(f"{node.name}: cannot be compared with its reference: {error}") from None

    @staticmethod
    def _check(
        replica: Server, reference: StartedServer, firsts: Sequence[StartedServer], deadline: float
    ) -> list[str]:
        server = reference.server
        while True:
            reference.catch_up(max(deadline, time.monotonic() + 1.0))
            is_late = time.monotonic() > deadline
            ours, theirs = replica.applied_gtids(), gtids_of(firsts)
            is_equal = equal_gtids(ours, theirs)
            if not is_late and not is_equal:
                time.sleep(_POLL)
                continue
            told = differences(replica, read_data(replica), server, read_data(server))
            if not is_equal:
                told.insert(
                    0, f"{replica.name}: GTID set: found {ours or 'none'}, expected {theirs or 'none'}"
                )
            # A transaction that only one of the two applied meanwhile is no difference.
            if replica.applied_gtids() == ours and gtids_of(firsts) == theirs:
                return told
            if is_late:
                raise NotCaughtUp(
                    f"{replica.name}: goes on while it is compared: stop writing on its source, and check again"
                )

    def close(self) -> None:
        """End the hidden servers (no nodes of the topology) with which checks have compared replicas. Also end the
        servers and masters from which these servers read.
        """
        for node in self._nodes.values():
            node.close()

    def _reference(self, node: StartedServer) -> tuple[StartedServer, Sequence[StartedServer]]:
        """Return the reference of a real replica (the server with which it is compared), and a list with the server
        that applies the first filter of each channel. The check starts these servers, which are no nodes of the
        topology. The reference applies the last filter of each channel. The list therefore has the reference itself for
        a channel with only one filter.
        """
        # MariaDB refuses two channels that read the same server. One of equal ways has the data of both.
        ways: dict[tuple[str, Filters], Feed] = {}
        for feed in node.feeds:
            filters = tuple(rules for rules in filters_on_the_way(feed) if rules) or ((),)
            ways.setdefault((feed.origin.name, filters), feed)
        if len({origin for origin, _ in ways}) < len(ways):
            # The server skips the second arrival of a GTID, whatever the first arrival's filter left of it.
            raise NotCaughtUp(
                f"{node.name}: has two channels from one source with different filters, so that the filter of a "
                "transaction is a matter of chance: give both channels the same rules"
            )
        feeds: list[Feed] = []
        firsts: list[StartedServer | None] = []
        for (_, filters), feed in ways.items():
            source = self._unfiltered(feed.origin)
            between: list[StartedServer] = []
            for number, rules in enumerate(filters[:-1], 1):
                name = f"{node.name}.{feed.channel}.{number}"
                source = self._server(name, node.node.with_(options=()), [_feed(source, "", rules)])
                between.append(source)
            feeds.append(_feed(source, feed.channel, filters[-1]))
            firsts.append(between[0] if between else None)
        found = self._server(node.name, node.node, feeds)
        return found, [first or found for first in firsts]

    def _server(self, name: str, model: Node, feeds: Sequence[Feed]) -> StartedServer:
        """Return the running hidden server ``name``, which is started if necessary. A hidden server is no node of the
        topology, and is started only to check a replica. The replica is compared with a hidden server, whose sources
        may be hidden servers, too.

        The server has the properties of the replica ``model``, but reads from the sources ``feeds``.
        """
        found = self._nodes.get(name)
        if not isinstance(found, StartedServer):
            reads = tuple(feed.reading for feed in feeds)
            hidden = model.with_(name=f"reference-of-{name}", reads=reads, tls=False)
            found = self._nodes[name] = StartedServer(self._ground, hidden, feeds)
        found.start()
        return found

    def _unfiltered(self, origin: TestbedNode) -> TestbedNode:
        """Return the node from which a reference (a server that filters for itself, for comparison with a replica)
        reads the whole binlog of ``origin``, the node that wrote the binlog. That is ``origin`` itself if it is a
        server, and otherwise a master.
        """
        if isinstance(origin, SqlNode):
            return origin
        name = f"master-of-{origin.name}"
        if name not in self._nodes:
            node = Node(name=name, role="master")
            master = self._nodes[name] = Master(self._ground, node, [_feed(origin, "", ())])
            master.accounts = [{"user": REPLICATION, "rules": []}]
        self._nodes[name].start()
        return self._nodes[name]


def _feed(source: TestbedNode, channel: str, rules: tuple[str, ...]) -> Feed:
    """Return the source, channel and filter rules (feed) of a server or master that a check starts. The server or
    master reads ``source`` directly, without the proxy that limits rate and delay. ``channel`` is the name of the
    replication channel, empty for the default channel.
    """
    reading = Reading.model_validate({"node": source.name, "rules": rules})
    return Feed(reading, channel, source, None)
