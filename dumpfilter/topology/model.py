"""The model of a topology: its nodes, who reads from whom, and the links between them.

The three notations (TOML, the short string, Python objects) all make a :class:`Topology`. The model says what a
topology is. :mod:`dumpfilter.testbed` runs it with real processes, and :mod:`dumpfilter.simulation` computes it from a
binlog.
"""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from dumpfilter.binlog.format import Family
from dumpfilter.links.shape import PLAIN, LinkShape


@dataclass(frozen=True)
class Reading:
    """One source of a node: a channel of the node, the link to the source, and the filter of the channel."""

    source: str
    """The name of the node that is read."""
    link: LinkShape = PLAIN
    rules: tuple[str, ...] = ()
    """Filter rules of this channel, as options such as ``replicate-do-db=shop``."""


@dataclass(frozen=True)
class Node:
    """A node of a topology. The subclasses are the kinds of node."""

    name: str
    reads: tuple[Reading, ...] = ()
    """The sources of the node. With more than one source, each channel has the name of its source."""
    options: tuple[str, ...] = ()
    """Further options of the node's command line, such as ``--binlog-format=ROW``."""


@dataclass(frozen=True)
class ServerNode(Node):
    """A real server that is started for the topology. A server that reads from another node is a real replica."""

    family: Family = "mariadb"
    program: str | None = None
    """The server's program. None: the program of the family on the PATH."""
    init: tuple[str, ...] = ()
    """SQL statements that run once, when the server is new."""
    gtid: bool = True
    """Whether a replica goes on by GTIDs. False: by file and position."""


@dataclass(frozen=True)
class RunningNode(Node):
    """A server that runs already. The topology reads from it, and never stops it."""

    url: str = ""
    """Its address, ``mysql://USER@HOST:PORT/``."""


@dataclass(frozen=True)
class RecordingNode(Node):
    """A binlog set that is replayed as if a server were writing it."""

    binlogs: Path = Path()
    speed: float | None = 1.0
    """1: at the pace of the events' times. n: n times faster. None: all at once."""


@dataclass(frozen=True)
class WorkloadNode(Node):
    """A generated binlog set that grows at a steady rate."""

    size: int = 1 << 20
    """The bytes that are generated in all."""
    rate: int | None = None
    """The bits per second at which the set grows. None: all at once."""
    seed: int = 1
    style: Family = "mysql"


@dataclass(frozen=True)
class MasterNode(Node):
    """A master of dumpfilter, which reads one source and serves it, filtered for each reader."""


@dataclass(frozen=True)
class SlaveNode(Node):
    """A slave of dumpfilter. Its readers are served from its relay log."""


@dataclass(frozen=True)
class Link:
    """The network connection between a node and one of its sources."""

    source: str
    target: str
    shape: LinkShape

    @property
    def name(self) -> str:
        """The link's name in commands: ``SOURCE:TARGET``."""
        return f"{self.source}:{self.target}"


@dataclass(frozen=True)
class Topology:
    """Nodes that read from one another, without circles."""

    nodes: tuple[Node, ...]
    name: str = "topology"
    _by_name: dict[str, Node] = field(init=False, repr=False, compare=False, hash=False, default_factory=dict)
    _readers: dict[str, list[Node]] = field(
        init=False, repr=False, compare=False, hash=False, default_factory=dict
    )

    def __post_init__(self) -> None:
        self._by_name.update((node.name, node) for node in self.nodes)
        for node in self.nodes:
            for source in dict.fromkeys(reading.source for reading in node.reads):
                self._readers.setdefault(source, []).append(node)

    def __getitem__(self, name: str) -> Node:
        """Return a node by its name. Raises KeyError."""
        return self._by_name[name]

    def __contains__(self, name: object) -> bool:
        return name in self._by_name

    def readers(self, name: str) -> tuple[Node, ...]:
        """Return the nodes that read from a node."""
        return tuple(self._readers.get(name, ()))

    @property
    def links(self) -> tuple[Link, ...]:
        """The network connections. A master reads a recording or a workload from files, without a link."""
        return tuple(
            Link(reading.source, node.name, reading.link)
            for node in self.nodes
            for reading in node.reads
            if not isinstance(self._by_name[reading.source], RecordingNode | WorkloadNode)
        )
