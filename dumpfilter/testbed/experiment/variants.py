"""The topologies with which the variants of an experiment (ways to bring the binlog to the slaves) are run."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import replace
from typing import Any

from dumpfilter.base.errors import OptionError
from dumpfilter.simulation.results import Variant
from dumpfilter.simulation.retries import number_of
from dumpfilter.topology.links.shape import Outage
from dumpfilter.topology.model import Node, Reading, Topology
from dumpfilter.topology.resolve import check_topology

KEEP_RELAY_LOGS = "--relay-log-purge=0"
"""The option by which a real replica keeps applied relay logs, from which its received transactions are read."""

CONNECT_RETRY = "--connect-retry"
SHORT_RETRY = f"{CONNECT_RETRY}=0.1"
"""The option by which a slave of dumpfilter reconnects soon after an outage. Its waits are random."""

FILTER_ON_SLAVE = "--filter-on=slave"


def topology_for(topology: Topology, variant: Variant) -> Topology:
    """Return the topology (nodes, and which node reads which) with which a variant of an experiment is run. A variant
    is a way to bring the binlog to the slaves.

    Raises OptionError for a variant that the topology does not support.
    """
    masters = _masters(topology) if variant is Variant.PLAIN else {}
    nodes = tuple(
        _keeping(_node(topology, node, variant)) for node in topology.nodes if node.name not in masters
    )
    found = Topology(nodes, topology.name)
    check_topology(found, lambda name, key: f"variants: {variant}: {name}: {key}")
    return found


def planned(topology: Topology, variant: Variant) -> Topology:
    """Return the topology (nodes, and which node reads which) that is simulated for a variant of an experiment. A
    variant is a way to bring the binlog to the slaves.

    In most variants that is the original topology. The variants that replace slaves by real servers are simulated from
    the changed topology, because such a server sends its own replicas what it has applied.
    """
    replaces = variant in (Variant.REPLICA, Variant.PLAIN)
    return topology_for(topology, variant) if replaces else topology


def links_for(topology: Topology, variant: Variant) -> dict[str, str]:
    """Return the names that the links of ``topology`` have when a variant of an experiment is run, by their own names.
    A variant is a way to bring the binlog to the slaves.

    Plain replication (``Variant.PLAIN``) has no masters of dumpfilter. The links to these masters are left out, and the
    other links get the names that they have without masters.
    """
    masters = _masters(topology) if variant is Variant.PLAIN else {}
    return {
        link.name: f"{masters.get(link.source, link.source)}:{link.target}"
        for link in topology.links
        if link.target not in masters
    }


def _masters(topology: Topology) -> dict[str, str]:
    """Return the name of the source of each master of dumpfilter, by the master's name."""
    return {node.name: node.reads[0].source for node in topology.nodes if node.kind == "master"}


def simulated(topology: Topology, outages: Mapping[str, tuple[Outage, ...]]) -> Topology:
    """Return a copy of ``topology`` for the simulation that is compared with a measured run. In the copy each link
    (connection between two nodes) has the outages that it had in the run.
    """

    def node_for(node: Node) -> Node:
        def link(one: Reading) -> dict[str, Any]:
            return {"link": replace(one.link, outages=outages.get(f"{one.source}:{node.name}", ()))}

        return _keeping(_with_reads(node, link))

    return Topology(tuple(map(node_for, topology.nodes)), topology.name)


def _node(topology: Topology, node: Node, variant: Variant) -> Node:
    match variant:
        case Variant.NONE:
            return _with_reads(node, lambda _: {"rules": ()})
        case Variant.SLAVE if node.kind == "slave":
            return node.with_options(FILTER_ON_SLAVE)
        case Variant.SLAVE if node.server and any(topology[one.source].is_own for one in node.reads):
            return _filtering_alone(node)
        case Variant.REPLICA if node.kind == "slave":
            return _as_replica(topology, node, variant)
        case Variant.PLAIN if node.reads:
            return _at_the_source(topology, node)
    return node


def _with_reads(node: Node, change: Callable[[Reading], dict[str, Any]]) -> Node:
    """Return the node with other properties of its sources. ``change`` returns the new properties of a source."""
    return node.with_(reads=tuple(one.model_copy(update=change(one)) for one in node.reads))


def _filtering_alone(node: Node) -> Node:
    """Return a real replica that has its rules on its own command line instead of the master's configuration.

    Raises OptionError for a replica with several sources.
    """
    if len(node.reads) > 1:
        raise OptionError(
            f"variants: {Variant.SLAVE}: {node.name} has several sources, and its rules belong to channels; "
            "leave the variant out, or use slaves of dumpfilter"
        )
    rules = tuple(f"--{rule.removeprefix('--')}" for rule in node.reads[0].rules)
    return _with_reads(node, lambda _: {"rules": ()}).with_options(*rules)


def _at_the_source(topology: Topology, node: Node) -> Node:
    """Return a real replica that reads the masters' sources directly, and filters for itself.

    Raises OptionError if two of its masters have the same source.
    """
    masters = _masters(topology)
    replica = _as_replica(topology, node, Variant.PLAIN) if node.kind == "slave" else node
    found = _with_reads(replica, lambda one: {"source": masters.get(one.source, one.source)})
    if len({one.source for one in found.reads}) < len(found.reads):
        raise OptionError(
            f"variants: {Variant.PLAIN}: {node.name} reads two masters of one source, which a server reads once; leave "
            "the variant out, or one of the masters"
        )
    return found


def _as_replica(topology: Topology, node: Node, variant: Variant) -> Node:
    """Return a real replica that replaces the slave ``node`` of dumpfilter.

    Raises OptionError if a binlog that the slave reads was not written by a real server of the topology.
    """
    origins = _origins(topology, node)
    for origin in origins:
        if not origin.server:
            raise OptionError(
                f"variants: {variant}: {node.name} would apply the events of {origin.name}, whose tables it does not "
                "have; let the topology begin with a real server"
            )
    # A system that has MySQL beside this machine's is named by the origin alone.
    return node.with_(server=origins[0].server, root=origins[0].root, role=None, options=())


def _origins(topology: Topology, node: Node) -> list[Node]:
    sources = [topology[reading.source] for reading in node.reads]
    return [origin for source in sources for origin in _origins(topology, source)] or [node]


def _keeping(node: Node) -> Node:
    """Return the node with options that a measured run needs.

    A real replica keeps its relay logs. A slave of dumpfilter reconnects soon after an outage, unless the user has set
    the interval. Other nodes are returned unchanged.
    """
    if node.kind == "slave" and number_of(node, CONNECT_RETRY) is None:
        return node.with_options(SHORT_RETRY)
    if node.server and node.reads:
        return node.with_options(KEEP_RELAY_LOGS)
    return node
