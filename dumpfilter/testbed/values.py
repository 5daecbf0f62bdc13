"""The status of a running topology (a set of sources, masters and slaves for tests), its nodes, replication channels
and links: binlog positions, lags, rates and problems.
"""

from __future__ import annotations

import functools
from collections.abc import Iterable, Mapping
from dataclasses import asdict, dataclass, field
from typing import TYPE_CHECKING, Any, Literal, NamedTuple

if TYPE_CHECKING:
    from dumpfilter.topology.model import Kind

State = Literal["starting", "running", "stopped", "failed"]
"""The state of a node. ``failed`` means that its process ended by itself, ``stopped`` that a user ended it."""


@functools.total_ordering
@dataclass(frozen=True)
class Place:
    """A position in a node's binlog set: a file and a byte offset. Positions of one set compare in binlog order.

    >>> Place("bin.999999", 900) < Place("bin.1000000", 4)
    True
    >>> str(Place("bin.000001", 4))
    'bin.000001:4'
    """

    file: str
    position: int

    def __str__(self) -> str:
        return f"{self.file}:{self.position}" if self.file else "the beginning"

    @property
    def key(self) -> tuple[int, int]:
        """The sort key of this position in a binlog: the number in the file's name, and the byte offset. A position
        without a file sorts before all others.
        """
        number = self.file.rpartition(".")[2]
        return (int(number) if number.isdigit() else 0, self.position)

    def __lt__(self, other: Place) -> bool:
        return self.key < other.key


NOWHERE = Place("", 0)
"""The position of a node that has received nothing."""


class Lag(NamedTuple):
    """The distance of a replicating node behind the binlogs of the nodes that wrote its data, in seconds and in
    bytes.
    """

    seconds: float
    """The age of the oldest transaction of an origin (a node that wrote a binlog) that the node has not applied,
    seconds; 0 if it has applied all.
    """
    bytes: int
    """The number of bytes after the node's position in the binlog of the origin (the node that wrote the binlog)."""


NO_LAG = Lag(0.0, 0)


@dataclass(frozen=True)
class ChannelState:
    """The state of one replication channel of a node.

    It has the channel's source, the positions received and applied, the lag, the states and errors of the threads, and
    the bytes received and dropped.
    """

    channel: str
    """The channel's name; empty for a node with one source."""
    source: str
    """The name of the node from which the channel reads."""
    received: Place
    """The position up to which the node has received events, in the binlog of the origin (the node that wrote the
    binlog).
    """
    applied: Place
    """The position up to which the node has applied events, in the binlog of the origin (the node that wrote the
    binlog). For a master of dumpfilter it is ``received``.
    """
    gtids: str
    """The GTID set that the channel has applied."""
    lag: Lag
    io: str = ""
    """``Replica_IO_Running``: Yes, No or Connecting. Empty if it is not known."""
    sql: str = ""
    errors: tuple[str, ...] = ()
    bytes_received: int | None = None
    """The bytes of events that the node has received. None: they are not counted, as at a real source."""
    bytes_dropped: int | None = None
    """The bytes of events that filters on the way dropped for the node. None: they are not counted."""

    @property
    def threads(self) -> str:
        """The states of this replication channel's I/O thread and SQL thread, and their errors, as one text. The text
        begins with the channel's name, unless this is empty.
        """
        name = f"channel {self.channel}: " if self.channel else ""
        return (
            f"{name}I/O thread {self.io}, SQL thread {self.sql}{''.join(f'; {one}' for one in self.errors)}"
        )

    @property
    def problem(self) -> str:
        """A text with the states and errors of this replication channel's I/O thread and SQL thread, if one of them
        does not run; otherwise empty.
        """
        return "" if (self.io, self.sql) in (("Yes", "Yes"), ("", "")) else self.threads


@dataclass(frozen=True)
class _Status:
    """The base class of the statuses of a running topology, a node and a link, with their conversion for JSON."""

    def as_dict(self) -> dict[str, Any]:
        """Return the status of the topology, node or link as nested dictionaries that JSON can represent, by field
        name.
        """
        return asdict(self, dict_factory=_plain)


@dataclass(frozen=True)
class NodeStatus(_Status):
    """The status of one node of a running topology at one moment: its process, ports, SQL login, position, GTIDs, lag,
    channels and problems.
    """

    name: str
    kind: Kind
    state: State
    pid: int | None = None
    directory: str = ""
    ports: Mapping[str, int] = field(default_factory=dict)
    """The node's ports: ``sql`` for clients, ``grpc`` for slaves, ``replica`` for real replicas."""
    url: str = ""
    """The address for clients, ``mysql://USER[:PASSWORD]@HOST:PORT/``."""
    user: str = ""
    password: str = ""
    place: Place = NOWHERE
    """The end of the node's own binlog, or ``NOWHERE`` for a server that does not run. For a node without a binlog, the
    applied position of its first channel.
    """
    gtids: str = ""
    lag: Lag = NO_LAG
    """The largest lag of the node's channels."""
    rate: float = 0.0
    """The rate at which bytes came over the node's links in the last seconds, bytes per second."""
    saved: int | None = 0
    """The bytes of events that filters on the way dropped for the node. None: they are not counted."""
    channels: tuple[ChannelState, ...] = ()
    is_done: bool | None = None
    """Whether a recording (replayed binlogs) or workload (generated binlogs) has been written completely. None for
    other nodes.
    """
    problems: tuple[str, ...] = ()


@dataclass(frozen=True)
class LinkStatus(_Status):
    """The status of one link (network connection between two nodes) at one moment: its state, its limits of rate and
    delay, and the bytes and connections that it has carried.
    """

    name: str
    source: str
    target: str
    state: str
    """``up``, ``cut`` (connections are closed and refused) or ``silent`` (connections stay open and carry nothing)."""
    rate: int | None
    """The rate limit, bits per second; None for no limit."""
    delay: float
    jitter: float
    bytes_to_target: int
    """The bytes that passed from the source to the target, with the protocol's overhead."""
    bytes_to_source: int
    connections: int
    """The number of connections that were ever made."""
    throughput: float = 0.0
    """The rate of bytes towards the target in the last seconds, bytes per second."""


@dataclass(frozen=True)
class TestbedStatus(_Status):
    """The status of a running topology at one moment: its directory and process, how long it has run, and the status of
    each node and link by name.
    """

    __test__ = False

    name: str
    directory: str
    pid: int
    nodes: Mapping[str, NodeStatus]
    links: Mapping[str, LinkStatus]
    uptime: float
    problems: tuple[str, ...]
    """The problems of all nodes, as sentences, such as a process that has ended or a stopped replication thread."""


def sum_known(numbers: Iterable[int | None]) -> int | None:
    """Return the sum of the numbers that are not None, or None if all are.

    >>> sum_known([1, None, 2]), sum_known([None])
    (3, None)
    """
    known = [number for number in numbers if number is not None]
    return sum(known) if known else None


def _plain(fields: list[tuple[str, Any]]) -> dict[str, Any]:
    return {name: value._asdict() if isinstance(value, Lag) else value for name, value in fields}
