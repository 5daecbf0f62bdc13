"""The plan of a simulation: for each node the links from the origins to it, and the filters of what crosses
each link.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass, field

from dumpfilter.base.errors import OptionError
from dumpfilter.binlog.format import NameRules
from dumpfilter.filter import FilterSemantics
from dumpfilter.filter.base import ReplicationFilter
from dumpfilter.filter.kinds import AllFilters
from dumpfilter.filter.origin import OriginFilter
from dumpfilter.simulation.results import NodeDescription
from dumpfilter.simulation.retries import Retries, all_down, option_of, retries_of
from dumpfilter.topology.links.shape import LinkShape
from dumpfilter.topology.model import Node, Topology, filter_of
from dumpfilter.topology.slaves_file import SlaveDefinition

Layers = tuple[tuple[str, ...], ...]
"""The filter rules of consecutive nodes, one tuple for each node with rules. An event must pass all of them."""


@dataclass(frozen=True)
class FilterKey:
    """The filters of all nodes on the way to a node, combined into one. Equal keys are computed once."""

    layers: Layers
    origin: OriginFilter | None = None
    lower_case_table_names: int = 0
    semantics: FilterSemantics | None = None
    """The semantics of the rules (DO and IGNORE, or ``--replicate-*``). None: it follows from the rules' names."""

    @property
    def is_on(self) -> bool:
        """Whether the filter may drop anything."""
        return bool(self.layers) or (self.origin is not None and self.origin.is_on)

    def filter(self, names: NameRules) -> ReplicationFilter:
        """Return the combined replication filter. ``names`` says how the server compares schema and table names. Raises
        OptionError.
        """
        names = names._replace(lower_case_table_names=self.lower_case_table_names)
        layers = [filter_of(rules, names, self.semantics) for rules in self.layers or ((),)]
        return layers[0] if len(layers) == 1 else AllFilters(layers)


@dataclass(frozen=True)
class Leg:
    """A link on the way to a node, with the filter of what crosses it."""

    source: str
    target: str
    shape: LinkShape
    is_grpc: bool
    """Whether a slave of dumpfilter reads a node of dumpfilter. Other links carry MySQL's protocol."""
    filters: bool
    """Whether the source is a node of dumpfilter, which can filter for the target."""
    looks: bool
    """Whether the source is a master that polls files which another process writes.

    A slave, and a master that receives from a running server, are woken by their own receiver.
    """
    sent: FilterKey
    """The filter of what is sent if masters filter."""
    logged: FilterKey
    """The filter of what is sent if only readers filter. Real replicas on the way log only what they applied."""
    retries: Retries
    """The waits of the target between its attempts to connect again after an outage."""
    chunk_size: int = 0
    """The bytes of events in a gRPC message that the target asks for. 0: the master chooses."""
    idle: tuple[tuple[float, float], ...] = ()
    """The intervals in which the source has no reader at all, seconds since the begin of the run."""

    @property
    def link(self) -> str:
        """The link's name, ``SOURCE:TARGET``."""
        return f"{self.source}:{self.target}"


@dataclass(frozen=True)
class Channel:
    """One source of a node, with all links from an origin (a node that writes binlogs) to the node.

    If two chains of links lead from an origin to a node, the node has a channel for each.
    """

    name: str
    origin: str
    legs: tuple[Leg, ...]
    applied: FilterKey
    """The filter of what the node applies."""


@dataclass(frozen=True)
class PlannedNode:
    """A node that gets transactions over links, with its channels."""

    name: str
    channels: tuple[Channel, ...]


@dataclass(frozen=True)
class Plan:
    """The facts about a topology that a simulation needs, without its traffic."""

    name: str
    origins: tuple[str, ...]
    """The names of the nodes that write binlogs and read no other node."""
    nodes: tuple[PlannedNode, ...]
    descriptions: tuple[NodeDescription, ...] = ()
    """All nodes of the topology, for reports."""
    filters: tuple[FilterKey, ...] = field(init=False)
    """The distinct filters. Elsewhere a filter is named by its index here."""

    def __post_init__(self) -> None:
        keys = dict.fromkeys(
            key
            for node in self.nodes
            for channel in node.channels
            for key in (*(key for leg in channel.legs for key in (leg.sent, leg.logged)), channel.applied)
            if key.is_on
        )
        object.__setattr__(self, "filters", tuple(keys))

    @property
    def links(self) -> list[str]:
        """The names of all links."""
        legs = (leg for node in self.nodes for channel in node.channels for leg in channel.legs)
        return list(dict.fromkeys(leg.link for leg in legs))


def plan_topology(topology: Topology) -> Plan:
    """Return what a simulation needs to know about a topology. Raises OptionError for a topology without links."""
    contents: dict[str, list[_Content]] = {}
    origins = []
    planned = []
    idle = {
        node.name: all_down(
            (one.link, retries_of(reader))
            for reader in topology.readers(node.name)
            for one in reader.reads
            if one.source == node.name
        )
        for node in topology.nodes
        if node.is_own
    }
    depth: dict[str, int] = {}
    for node in topology.nodes:
        depth[node.name] = max((depth[reading.source] + 1 for reading in node.reads), default=0)
    # The results list the nodes by their distance from the origins.
    for node in sorted(topology.nodes, key=lambda node: depth[node.name]):
        if not node.reads:
            origins.append(node.name)
            contents[node.name] = [_Content(node.name, (), (), ())]
            continue
        found: list[_Content] = []
        channels = []
        for reading in node.reads:
            source = topology[reading.source]
            has_link = not source.is_files
            for content in contents[reading.source]:
                own = (*content.sent, *((reading.rules,) if reading.rules else ()))
                filters = source.is_own
                sent = own if filters else content.sent
                legs = content.legs
                if has_link:
                    leg = Leg(
                        reading.source,
                        node.name,
                        reading.link,
                        filters and node.kind == "slave",
                        filters,
                        source.kind == "master"
                        and any(topology[one.source].is_files for one in source.reads),
                        FilterKey(sent),
                        FilterKey(content.logged),
                        retries_of(node),
                        int(option_of(node, "--chunk-size") or 0),
                        idle.get(reading.source, ()),
                    )
                    legs = (*legs, leg)
                    channels.append(Channel(reading.source, content.origin, legs, FilterKey(own)))
                # A server logs what it applied. A slave of dumpfilter serves what it was sent.
                logged = own if node.server else content.logged
                found.append(_Content(content.origin, legs, own if node.server else sent, logged))
        contents[node.name] = found
        if channels:
            planned.append(PlannedNode(node.name, tuple(channels)))
    if not planned:
        raise OptionError(f"{topology.name}: no node reads over a link; add a slave, such as m >> web")
    return Plan(topology.name, tuple(origins), tuple(planned), describe(topology))


def describe(topology: Topology) -> tuple[NodeDescription, ...]:
    """Return name, kind, sources and rules of each node of a topology, for reports."""
    return tuple(map(_description, topology.nodes))


def _description(node: Node) -> NodeDescription:
    is_one = len(node.reads) == 1
    rules = (
        rule if is_one else f"{reading.source}:{rule}" for reading in node.reads for rule in reading.rules
    )
    reads = tuple(reading.source for reading in node.reads)
    return NodeDescription(name=node.name, kind=kind_of(node), reads=reads, rules=tuple(rules))


_FAMILIES = {"mariadb": "MariaDB", "mysql": "MySQL"}

MASTER = "master"
"""The name of the origin, and of the master, of the slaves of a slaves file."""


def plan_slaves(definitions: Sequence[SlaveDefinition], name: str) -> Plan:
    """Return the plan of slaves that all read one master, each over its own link. The master reads its files without a
    link.
    """
    nodes = []
    for one in definitions:
        origin = FilterKey((), one.origin)
        key = origin
        if one.rules:
            key = FilterKey((one.rules,), one.origin, one.lower_case_table_names, one.semantics)
        leg = Leg(MASTER, one.name, one.link, True, True, True, key, origin, Retries())
        nodes.append(PlannedNode(one.name, (Channel(MASTER, MASTER, (leg,), key),)))
    return Plan(name, (MASTER,), tuple(nodes))


@dataclass(frozen=True)
class _Content:
    """The transactions of one origin that a node can serve, with the links over which they came and the filters that
    they passed.
    """

    origin: str
    legs: tuple[Leg, ...]
    sent: Layers
    logged: Layers


def kind_of(node: Node) -> str:
    """Return the kind of a node as text for people, such as ``MariaDB replica``."""
    if node.server:
        return f"{_FAMILIES[node.server]} {'replica' if node.reads else 'server'}"
    return "running server" if node.kind == "running" else node.kind
