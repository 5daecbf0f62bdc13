"""The check of the law: filtering between an origin and a node must be invisible to the node's data.

An origin is the node that wrote the binlog. A slave of dumpfilter is compared with a reference: the state of a slave
that reads everything of the origin and filters for itself. The reference of a real replica is a replica that reads
everything of the origin and filters for itself.
"""

from __future__ import annotations

import time
from collections.abc import Mapping, Sequence
from typing import Any

from dumpfilter.binlog.gtid import parse_gtid_set
from dumpfilter.binlog.reader import iter_events
from dumpfilter.filter.kinds import AllFilters
from dumpfilter.index.fileset import BinlogSet
from dumpfilter.slave.targets import SummaryTarget
from dumpfilter.slave.threads.applier import EventApplier
from dumpfilter.testbed.errors import LawBroken
from dumpfilter.testbed.node import Feed, TestbedNode
from dumpfilter.testbed.own_nodes import Slave
from dumpfilter.testbed.references import References, filters_on_the_way
from dumpfilter.testbed.server_nodes import StartedServer
from dumpfilter.testbed.servers.data import equal_gtids
from dumpfilter.testbed.values import Place
from dumpfilter.topology.model import filter_of

LEAST_CHECK = 10.0
"""The minimum time limit for the check of one real replica, seconds, since its reference may have to be started."""


def check_law(nodes: Mapping[str, TestbedNode], references: References, timeout: float) -> None:
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
            broken += references.check(node, max(deadline - time.monotonic(), LEAST_CHECK))
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
