"""The input of a simulation: its plan, and the traffic of its origins (nodes that write binlogs).

The plan has for each node the links from the origins to it, and the filter on each link. A link has also the waits
with which its reader reconnects after an outage. One pass over an origin's binlogs makes its :class:`SetTraffic`, which
has the bytes of each transaction under each distinct filter.
"""

from __future__ import annotations

import contextlib
import enum
import math
import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from functools import cached_property

import numpy as np

from dumpfilter.analyse.traffic.facts import Ints
from dumpfilter.analyse.traffic.transactions import Sent
from dumpfilter.base.errors import OptionError
from dumpfilter.base.options.arguments import ALIASES
from dumpfilter.binlog.format import NameRules
from dumpfilter.filter.base import AllFilters, OriginFilter, ReplicationFilter
from dumpfilter.filter.rules import FilterSemantics
from dumpfilter.topology.links.shape import PLAIN, LinkShape
from dumpfilter.topology.model import Node, Topology, filter_of
from dumpfilter.topology.notations import to_toml
from dumpfilter.topology.slaves_file import SlaveDefinition

_UNKNOWN = re.compile("binlog-|defaults-|(do|ignore)-(server|domain)-ids|filter-|lower-case-|replicate-")
"""The beginnings of the options of masters and slaves that change what a reader is sent, and that are not modelled."""

MOST_WAYS = 10_000
"""The limit of paths from origins (nodes that write binlogs) to one node. Each node with several sources can double the
number of paths.
"""


class Sender(enum.IntEnum):
    """The kinds of nodes that send a binlog. They differ in the times at which they find new transactions in it."""

    SERVER = 0
    """A real server, which sends each transaction at once, and filters nothing for its readers."""
    FILES = 1
    """A master that reads files of another process."""
    RECEIVER = 2
    """A master that receives the binlog of a running server."""
    SLAVE = 3
    """A slave, which sends what its I/O thread has written to the relay log."""


Layers = tuple[tuple[str, ...], ...]
"""The filter rules of several nodes on one path, one tuple per node that has rules. An event must pass all of them."""


@dataclass(frozen=True)
class FilterKey:
    """The rules of all filters that an event passes on its way to a node, in a form that can be a dictionary key.

    Links with equal keys carry the same events, so the bytes that the filters pass are computed once for each key.
    """

    layers: Layers
    origin: OriginFilter | None = None
    lower_case_table_names: int = 0
    semantics: FilterSemantics | None = None
    """The semantics of the rules: effective (DO and IGNORE rules, WL#2516), or classic (``--replicate-*``). None:
    derived from the rules' names.
    """

    @property
    def is_on(self) -> bool:
        """Whether the filters that an event passes on its way to a node can drop any event."""
        return bool(self.layers) or (self.origin is not None and self.origin.is_on)

    def filter(self, names: NameRules) -> ReplicationFilter:
        """Return one filter that passes an event only if every filter on the event's way to a node passes it.

        ``names`` has the server's settings for comparing schema and table names. Raises OptionError for a bad rule.
        """
        names = names._replace(lower_case_table_names=self.lower_case_table_names)
        layers = [filter_of(rules, names, self.semantics) for rules in self.layers or ((),)]
        return layers[0] if len(layers) == 1 else AllFilters(layers)


@dataclass(frozen=True, eq=False)
class Leg:
    """One link on the path from the node that writes a binlog to another node, with the filters of the events that
    cross the link.

    Objects are compared by identity, since the computation of their rules' hashes would take long.
    """

    source: str
    target: str
    shape: LinkShape
    is_grpc: bool
    """Whether both ends are nodes of dumpfilter, so that the link carries gRPC. Other links carry MySQL's
    replication protocol.
    """
    sender: Sender
    sent: FilterKey
    """The filter of the events that cross the link when masters filter."""
    logged: FilterKey
    """The filter of the events that cross the link when only readers filter. Real replicas on the path log only the
    events that they applied.
    """
    retries: Retries
    """The waits of the link's target (the reading node) between attempts to reconnect after an outage."""
    chunk_size: int = 0
    """The size of a gRPC message that the link's target (the reading node) requests, bytes of events. 0: the master
    chooses.
    """
    restarts: tuple[float, ...] = ()
    """The times at which readers of the link's source (the sending node) receive events again after an outage,
    ascending. They are seconds since the start of the run.
    """

    @property
    def link(self) -> str:
        """The name of this network link between two nodes, ``SOURCE:TARGET``."""
        return f"{self.source}:{self.target}"

    @property
    def unfiltered(self) -> FilterKey:
        """The filter of this link in a simulation without filter rules, with which filtering is compared. This filter
        passes everything except the server ids and domain ids that a slave on the path ignores.
        """
        return FilterKey((), self.logged.origin)


@dataclass(frozen=True)
class Channel:
    """One path of links from an origin (a node that writes binlogs) to a node that receives its transactions.

    If two paths lead from an origin to a node, the node has a channel for each.
    """

    name: str
    origin: str
    legs: tuple[Leg, ...]
    applied: FilterKey
    """The filter of the events that the node applies."""


@dataclass(frozen=True)
class PlannedNode:
    """A node of a simulated topology that receives transactions, with the paths over which they come (``channels``)."""

    name: str
    channels: tuple[Channel, ...]


@dataclass(frozen=True)
class Plan:
    """The nodes, links and filters of a topology, as a simulation needs them: each node with the paths of links that
    lead from origins to the node. The plan does not contain the binlog's transactions.
    """

    name: str
    origins: tuple[str, ...]
    """The names of the origins: nodes that write binlogs and read from no other node."""
    nodes: tuple[PlannedNode, ...]
    topology: str = ""
    """The topology in TOML, for reports."""

    @cached_property
    def filters(self) -> tuple[FilterKey, ...]:
        """The distinct filters of all links and nodes. Other modules refer to a filter by its index in this tuple."""
        keys = (
            key
            for node in self.nodes
            for channel in node.channels
            for key in (*(key for leg in channel.legs for key in (leg.sent, leg.logged)), channel.applied)
        )
        return tuple(dict.fromkeys(key for key in keys if key.is_on))

    @property
    def links(self) -> list[str]:
        """The names (``SOURCE:TARGET``) of all links of the topology, without duplicates."""
        legs = (leg for node in self.nodes for channel in node.channels for leg in channel.legs)
        return list(dict.fromkeys(leg.link for leg in legs))


def plan_topology(topology: Topology) -> Plan:
    """Return the nodes, links and filters of a topology for a simulation. Raises OptionError if no node reads over a
    link, if more than :data:`MOST_WAYS` paths lead to a node, or for a bad option in a node's command line.
    """
    restarts = {
        source.name: tuple(
            sorted(
                retries_of(reader).restart(outage.start, outage.end, one.link, outage.connected)
                for reader in topology.readers[source.name]
                for one in reader.reads
                if one.source == source.name
                for outage in one.link.outages
                if outage.end is not None
            )
        )
        for source in topology.nodes
    }
    depth: dict[str, int] = {}
    for node in topology.nodes:
        depth[node.name] = max((depth[reading.source] + 1 for reading in node.reads), default=0)
    # For each way from an origin to a node, the origin, the links, and the filters that events passed: of what the node
    # was sent, and of what it logged.
    contents: dict[str, list[tuple[str, tuple[Leg, ...], Layers, Layers]]] = {}
    planned = []
    # The results list the nodes by their distance from the origins.
    for node in sorted(topology.nodes, key=lambda node: depth[node.name]):
        for option in filter(_UNKNOWN.match, map(_name_of, node.options if node.is_own else ())):
            raise OptionError(
                f"node {node.name}: options: --{option}: a simulation does not know what it drops; leave it out"
            )
        if not node.reads:
            contents[node.name] = [(node.name, (), (), ())]
            continue
        ways = [(reading, content) for reading in node.reads for content in contents[reading.source]]
        if len(ways) > MOST_WAYS:
            raise OptionError(
                f"{topology.name}: {len(ways):,} ways lead from origins to {node.name}, and the limit is "
                f"{MOST_WAYS:,}; let nodes read from fewer others"
            )
        contents[node.name] = []
        channels = []
        for reading, (origin, legs, passed, logged) in ways:
            source = topology[reading.source]
            own = (*passed, *((reading.rules,) if reading.rules else ()))
            sent = own if source.is_own else passed
            if not source.is_files:
                leg = Leg(
                    source.name,
                    node.name,
                    reading.link,
                    source.is_own and node.kind == "slave",
                    _sender(topology, source),
                    FilterKey(sent),
                    FilterKey(logged),
                    retries_of(node),
                    int(number_of(node, "chunk-size") or 0),
                    restarts[source.name],
                )
                legs = (*legs, leg)
                channels.append(Channel(source.name, origin, legs, FilterKey(own)))
            # A server logs what it applied. A slave of dumpfilter serves what it was sent.
            contents[node.name].append((origin, legs, *((own, own) if node.server else (sent, logged))))
        if channels:
            planned.append(PlannedNode(node.name, tuple(channels)))
    if not planned:
        raise OptionError(f"{topology.name}: no node reads over a link; add a slave, such as m >> web")
    origins = tuple(node.name for node in topology.nodes if not node.reads)
    return Plan(topology.name, origins, tuple(planned), to_toml(topology))


def _sender(topology: Topology, node: Node) -> Sender:
    if not node.is_own:
        return Sender.SERVER
    if node.kind == "slave":
        return Sender.SLAVE
    return Sender.FILES if any(topology[one.source].is_files for one in node.reads) else Sender.RECEIVER


MASTER = "master"
"""The name, in a plan that is made from a slaves file, of the node from which all slaves read. The node stands for the
writer of the binlog and for its dumpfilter master.
"""


def plan_slaves(definitions: Sequence[SlaveDefinition], name: str) -> Plan:
    """Return the input of a simulation of slaves that all read from one master, each over its own link.

    ``definitions`` has the filter and the link of each slave, and ``name`` is the name of the simulated topology. The
    master reads its binlog files locally.
    """
    nodes = []
    for one in definitions:
        origin = FilterKey((), one.origin)
        key = origin
        if one.rules:
            key = FilterKey((one.rules,), one.origin, one.lower_case_table_names, one.semantics)
        leg = Leg(MASTER, one.name, one.link, True, Sender.FILES, key, origin, Retries())
        nodes.append(PlannedNode(one.name, (Channel(MASTER, MASTER, (leg,), key),)))
    return Plan(name, (MASTER,), tuple(nodes))


_MEAN = 0.75
"""The mean of the random factor (0.5 to 1) by which dumpfilter multiplies its reconnect waits."""
_BITS = 8


@dataclass(frozen=True)
class Retries:
    """The waits of a slave between attempts to reconnect, seconds.

    The first wait is ``first``, and each further one is twice as long, up to ``longest``. The defaults are those of a
    dumpfilter slave with ``--connect-retry=60``.
    """

    first: float = 0.075
    longest: float = 45.0
    round_trips: float = 4.1
    """The number of round trips from the start of a connection to the first event: TCP handshake, login or
    registration, and the dump request. Measured.
    """
    nbytes: int = 950
    """The bytes sent in both directions while a connection is established, up to the first event. Measured."""

    def restart(
        self, start: float, end: float, shape: LinkShape = PLAIN, connected: float | None = None
    ) -> float:
        """Return the time at which a slave receives events again after an outage of its link, seconds since the start
        of the run.

        The slave loses its connection at ``start``, and its attempts to connect fail until ``end``. ``shape`` gives the
        link's delay and rate. ``connected`` is the time of the successful attempt; None: it is computed from the
        slave's waits between attempts.
        """
        if connected is None:
            at, wait = start, self.first
            # After the doubling all waits are equal, so the attempts before the end need no loop.
            while at < end and wait < self.longest:
                at += wait
                wait = min(2 * wait, self.longest)
            if at < end and self.longest:
                at += -(-(end - at) // self.longest) * self.longest
            connected = max(at, end)
        on_line = 0.0 if shape.rate is None else self.nbytes * _BITS / shape.rate
        return connected + 2 * self.round_trips * shape.delay + on_line


def retries_of(node: Node) -> Retries:
    """Return the waits of a node between attempts to reconnect. The node's option ``--connect-retry`` sets the longest
    wait. Raises OptionError if the option's value is no number of 0 or more.

    Waits of dumpfilter are random, from half of the nominal wait to all of it. The simulation uses the mean.
    """
    found = number_of(node, "connect-retry")
    if found is not None:
        return Retries(min(Retries.first, _MEAN * found), _MEAN * found)
    if node.server:
        # A real replica, as dumpfilter.testbed configures it, queries many variables of its source when it connects.
        return Retries(1.0, 1.0, 16.5, 1300)
    if node.kind == "master":
        # The master receives the binlog from a running server.
        return Retries(longest=_MEAN * 15, round_trips=11.2, nbytes=1100)
    # dumpfilter.testbed starts its slaves with --connect-retry=0.5.
    return Retries(longest=_MEAN * 0.5)


def number_of(node: Node, name: str) -> float | None:
    """Return the number that a node's command line gives for the option ``name``, such as ``connect-retry``, in any
    server's spelling of the name. None if the command line does not have the option.

    Raises OptionError for a missing value, and for one that is no number of 0 or more.
    """
    found, options = None, iter(node.options)
    for option in options:
        _, equals, value = option.partition("=")
        if _name_of(option) == name:
            found = value if equals else next(options, "")
    if found is None:
        return None
    with contextlib.suppress(ValueError):
        number = float(found)
        if 0 <= number < math.inf:
            return number
    raise OptionError(f"node {node.name}: options: --{name}={found}: give a number of 0 or more")


def _name_of(option: str) -> str:
    name = option.partition("=")[0].lstrip("-").replace("_", "-").lower().removeprefix("loose-")
    return ALIASES.get(name, name)


# -- the traffic of an origin


class Clock(enum.StrEnum):
    """The kinds of clocks from which the transactions' commit times come, such as the headers of the binlog's
    events.
    """

    MICROSECONDS = "gtid"
    """The commit timestamps in the GTID events of MySQL 8.0.1 and later, in microseconds."""
    SECONDS = "header"
    """The timestamps in the event headers, in whole seconds. The transactions of one second are spread evenly
    over it.
    """
    GIVEN = "measured"
    """The times at which a program saw the transactions arrive in the binlog, in microseconds."""


@dataclass(frozen=True, eq=False)
class SetTraffic:
    """The transactions of a binlog set, with the bytes of each that a slave receives, under each filter of the
    simulation.
    """

    time: Ints
    """The commit time of each transaction, microseconds since 1970. It never decreases."""
    clock: Clock
    end: Ints
    """The byte offset at which each transaction ends in its binlog file."""
    file: Ints
    """The index in ``files`` of the binlog file in which each transaction ends."""
    files: tuple[str, ...]
    sent: Callable[[int | None], Sent]
    """A function that returns the traffic of a slave, by the index of the slave's filter (None: no filter)."""
    first_equal: Mapping[int | None, int] = field(default_factory=dict)
    """For each filter by index, the index of the first filter that passes the same events, if known."""
    stand_in_bytes: Ints = field(default_factory=lambda: np.zeros(0, np.int64))
    """For each transaction, the bytes of the stand-in (empty transaction) that a real replica gets when the
    transaction is dropped. 0: the transaction has no GTID.
    """
    gap_stand_in_bytes: int = 0
    """The bytes of a stand-in that a slave makes for a transaction that its own master dropped. 0: as many as that
    master's stand-in has.
    """
    stand_in_events: int = 0
    """The number of events in one stand-in (an empty transaction in place of a dropped one)."""
    stand_ins_joined: bool = False
    """Whether one stand-in (empty transaction) replaces a run of consecutive dropped transactions, as for MariaDB."""
    warnings: tuple[str, ...] = ()
    server_version: str = ""
    family: str = "mysql"
    nbytes: int = 0
    """The total size of the set's files, bytes."""

    def __len__(self) -> int:
        return len(self.time)
