"""The topologies by which the variants of an experiment are run."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace

from dumpfilter.base.errors import OptionError
from dumpfilter.binlog.format import Family
from dumpfilter.simulation.results import Variant
from dumpfilter.topology.links.shape import Outage
from dumpfilter.topology.model import Node, Reading, Topology

KEEP_RELAY_LOGS = "--relay-log-purge=0"
"""The option by which a real replica keeps the relay logs that it has applied. They tell what it received."""

CONNECT_RETRY = "--connect-retry"
SHORT_RETRY = f"{CONNECT_RETRY}=0.1"
"""The option by which a slave of dumpfilter often tries to connect after an outage. Its waits are random."""

FILTER_ON_SLAVE = "--filter-on=slave"


def topology_for(topology: Topology, variant: Variant) -> Topology:
    """Return the topology by which a variant is run. Raises OptionError for a variant that it cannot have."""
    nodes = tuple(_keeping(_node(topology, node, variant)) for node in topology.nodes)
    return Topology(nodes, topology.name)


def simulated(topology: Topology, outages: Mapping[str, tuple[Outage, ...]]) -> Topology:
    """Return the topology by which a run is simulated. Each link has the outages that it had in the run."""

    def reading(node: Node, one: Reading) -> Reading:
        found = outages.get(f"{one.source}:{node.name}", ())
        return one.model_copy(update={"link": replace(one.link, outages=found)})

    nodes = (node.with_(reads=tuple(reading(node, one) for one in node.reads)) for node in topology.nodes)
    return Topology(tuple(_keeping(node) for node in nodes), topology.name)


def _node(topology: Topology, node: Node, variant: Variant) -> Node:
    match variant:
        case Variant.NONE:
            return node.with_(reads=_without_rules(node))
        case Variant.SLAVE if node.kind == "slave":
            return node.with_options(FILTER_ON_SLAVE)
        case Variant.SLAVE if node.server and _reads_dumpfilter(topology, node):
            return _filtering_alone(node)
        case Variant.REPLICA if node.kind == "slave":
            return _as_replica(topology, node)
    return node


def _without_rules(node: Node) -> tuple[Reading, ...]:
    return tuple(reading.model_copy(update={"rules": ()}) for reading in node.reads)


def _reads_dumpfilter(topology: Topology, node: Node) -> bool:
    return any(topology[reading.source].is_own for reading in node.reads)


def _filtering_alone(node: Node) -> Node:
    """Return a real replica that has its rules on its command line, so that no master knows them."""
    if len(node.reads) > 1:
        raise OptionError(
            f"variants: {Variant.SLAVE}: {node.name} has several sources, and its rules belong to channels; "
            "leave the variant out, or use slaves of dumpfilter"
        )
    rules = tuple(f"--{rule.removeprefix('--')}" for rule in node.reads[0].rules)
    return node.with_(reads=_without_rules(node)).with_options(*rules)


def _as_replica(topology: Topology, node: Node) -> Node:
    """Return a real replica in place of a slave of dumpfilter."""
    families: dict[Family, Node] = {}
    for name in _origins(topology, node):
        origin = topology[name]
        if not origin.server:
            raise OptionError(
                f"variants: {Variant.REPLICA}: {node.name} would apply the events of {name}, whose tables it does not "
                "have; let the topology begin with a real server"
            )
        families[origin.server] = origin
    if len(families) > 1:
        raise OptionError(f"variants: {Variant.REPLICA}: {node.name} reads servers of both families")
    ((family, origin),) = families.items()
    # A system that has MySQL beside this machine's is named by the origin alone.
    return node.with_(server=family, root=origin.root, role=None, options=())


def _origins(topology: Topology, node: Node) -> set[str]:
    if not node.reads:
        return {node.name}
    return {name for reading in node.reads for name in _origins(topology, topology[reading.source])}


def _keeping(node: Node) -> Node:
    """Return a node that keeps its relay logs, and that soon finds out that a link is up again."""
    if node.kind == "slave" and not any(one.startswith(CONNECT_RETRY) for one in node.options):
        return node.with_options(SHORT_RETRY)
    if node.server and node.reads:
        return node.with_options(KEEP_RELAY_LOGS)
    return node
