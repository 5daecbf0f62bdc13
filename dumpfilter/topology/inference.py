"""Facts about a node that follow from the other nodes, so that a notation need not say them."""

from __future__ import annotations

from collections.abc import Sequence

from dumpfilter.binlog.format import Family
from dumpfilter.topology.drafts import Role
from dumpfilter.topology.model import MasterNode, Node, ServerNode, SlaveNode, Topology

NodeFacts = tuple[str, Sequence[str], Family | None]
"""The name of a node, the names of its sources, and its family if the node is a real server."""

DEFAULT_STYLE: Family = "mysql"
"""The style of a workload that reaches no real server."""


def inferred_role(sources: Sequence[Role | None], *, has_rules: bool, has_readers: bool) -> Role:
    """Return the role of a node that says no more than its sources.

    ``sources`` has the role of each source. None stands for a server, a recording or a workload.
    """
    return "master" if list(sources) == [None] and has_readers and not has_rules else "slave"


def role_of(node: Node) -> Role | None:
    """Return the role of a node. None: the node is no node of dumpfilter's own."""
    return "master" if isinstance(node, MasterNode) else "slave" if isinstance(node, SlaveNode) else None


def role_to_say(topology: Topology, node: Node) -> Role | None:
    """Return the role that a notation of the topology must say. None: the role follows from the other nodes."""
    role = role_of(node)
    inferred = inferred_role(
        [role_of(topology[reading.source]) for reading in node.reads],
        has_rules=any(reading.rules for reading in node.reads),
        has_readers=bool(topology.readers(node.name)),
    )
    return None if role == inferred else role


def inferred_style(name: str, nodes: Sequence[NodeFacts]) -> Family:
    """Return the style of a workload: the family of the first real server that it reaches, or else the default.

    ``nodes`` has the name, the sources and the family of each node, with sources before their readers.
    """
    reached = {name}
    for node, sources, family in nodes:
        if reached.intersection(sources):
            if family is not None:
                return family
            reached.add(node)
    return DEFAULT_STYLE


def style_to_say(topology: Topology, name: str, style: Family) -> Family | None:
    """Return the style of a workload that a notation must say. None: the style follows from the other nodes."""
    nodes: list[NodeFacts] = [
        (
            node.name,
            [reading.source for reading in node.reads],
            node.family if isinstance(node, ServerNode) else None,
        )
        for node in topology.nodes
    ]
    return None if style == inferred_style(name, nodes) else style
