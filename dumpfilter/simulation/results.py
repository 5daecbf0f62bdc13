"""The data model of the results of simulations and experiments. JSON, Parquet and the page all show this data.

All times are whole microseconds. Times without the word Unix count from the beginning of a run, which is the commit of
the first transaction. Rates are bits per second, as networks have them. Bytes are bytes of binlog events with headers
and checksums.
"""

from __future__ import annotations

import enum

from pydantic import BaseModel, ConfigDict

FORMAT = 1
"""The version number of the results' format. It grows when a release changes the meaning of a field."""


class Variant(enum.StrEnum):
    """A way to bring the binlog to the slaves."""

    NONE = "no-filter"
    """Nobody filters. The slaves apply everything."""
    SLAVE = "filter-on-slave"
    """Everything is sent, and each slave applies what passes its filter."""
    MASTER = "filter-on-master"
    """The master sends what passes the slave's filter."""
    NONE_COMPRESSED = "no-filter-zstd"
    """Everything is sent as zstd. The bytes are estimates."""
    MASTER_COMPRESSED = "filter-on-master-zstd"
    """The master sends what passes the slave's filter as zstd. The bytes are estimates."""
    SPLIT = "split"
    """The binlog is split by schema. The slave reads the whole binlog of each schema that it needs."""
    REPLICA = "real-replica"
    """The master sends what passes the filter to real replicas, with stand-ins for dropped transactions."""
    PLAIN = "plain-replication"
    """The source sends everything to real replicas, without dumpfilter. Only experiments have this variant."""


SIMULATED = tuple(variant for variant in Variant if variant is not Variant.PLAIN)
"""The variants that ``dumpfilter simulate`` supports: all but plain replication, which only an experiment can
measure.
"""


class Method(enum.StrEnum):
    """The way in which a run's figures were obtained: simulated or measured."""

    SIMULATED = "simulated"
    MEASURED = "measured"


class Basis(enum.StrEnum):
    """The event from which a transaction counts as present on a node: received or applied."""

    RECEIVED = "received"
    APPLIED = "applied"


class Figures(BaseModel):
    """The base class of all parts of the results: immutable, without unknown fields."""

    model_config = ConfigDict(extra="forbid", frozen=True)


class OutageFigures(Figures):
    """An outage of a link, and the time until a node had caught up after the outage."""

    start: int
    """Microseconds since the run's first commit."""
    end: int | None
    """The end; None if nobody healed the link."""
    catch_up: int | None
    """The time from the outage's end until the link's reader was as close to the source as before; None if never."""


class LinkFigures(Figures):
    """The traffic of one link in one run."""

    name: str
    """``SOURCE:TARGET``."""
    source: str
    """The node that sends."""
    target: str
    """The node that reads."""
    rate: int | None
    """The link's rate; None: no limit."""
    delay: int
    """The link's delay."""
    jitter: int
    """The link's jitter."""
    bytes: int
    """Bytes of events that the reader got, with the 5 bytes of MySQL's own protocol for each event."""
    transactions: int
    """Transactions that the reader got."""
    messages: int | None = None
    """Messages of the protocol. None: not known."""
    overhead: int | None = None
    """Bytes of the protocols around the events. None: not known."""
    resent: int = 0
    """Bytes that the source sent in vain, because an outage lost them."""
    estimated: bool = False
    """Whether ``bytes`` is an estimate, as it is for compressed events."""
    outages: tuple[OutageFigures, ...] = ()
    count: int = 1
    """Links with equal figures. ``name`` is the first."""


class LagFigures(Figures):
    """The lag of a node's transactions, microseconds. Each transaction that the node was sent counts once."""

    p50: int
    """The median lag of a transaction."""
    p95: int
    """The 95th percentile."""
    p99: int
    """The 99th percentile."""
    worst: int
    """The greatest lag."""
    above: int
    """The time during which the node's lag was above `--lag`, or above an experiment's `limit`."""


class NodeFigures(Figures):
    """The lag of one node in one run, or of one channel of a node with several sources."""

    name: str
    channel: str | None = None
    """The source of the channel. None: the whole node."""
    count: int = 1
    """Nodes with equal figures. ``name`` is the first."""
    members: tuple[str, ...] = ()
    """The names of all nodes with equal figures, if there are several."""
    transactions: int
    """Transactions that the node was sent."""
    missing: int = 0
    """Transactions that never arrived, because a link stayed down."""
    bytes: int
    """Bytes that came over the node's own links."""
    lag: LagFigures


class Series(Figures):
    """Figures over time. Each tuple has one entry for each span of ``width`` microseconds from ``start`` on.

    With thousands of nodes, those with the greatest lag have a series.
    """

    start: int
    width: int
    offered: dict[str, tuple[int, ...]]
    """The bytes for each link at the time at which their source had them, by the link's name."""
    carried: dict[str, tuple[int, ...]]
    """The bytes that left the source over each link, by the link's name."""
    lag: dict[str, tuple[int, ...]]
    """The greatest lag of each node in each span, by the node's name."""


class Setting(Figures):
    """The parameters of one run: the variant, the load, and a changed rate or delay."""

    variant: Variant
    load: float = 1.0
    """The factor by which transactions follow one another faster than in the binlog."""
    rate: int | None = None
    """The rate of a sweep, bits per second. None: the topology's own rates."""
    delay: int | None = None
    """The delay of a sweep. None: the topology's own delays."""
    link: str | None = None
    """The link to which ``rate`` and ``delay`` apply. None: all links."""

    @property
    def is_plain(self) -> bool:
        """Whether the run uses the topology's rates and delays and the binlog's load unchanged."""
        return self.load == 1 and self.rate is None and self.delay is None


class Run(Figures):
    """One run of a topology, simulated or measured."""

    method: Method
    setting: Setting
    repetition: int = 1
    basis: Basis = Basis.RECEIVED
    duration: int
    """The time from the first commit until the last node had everything."""
    links: tuple[LinkFigures, ...]
    nodes: tuple[NodeFigures, ...]
    series: Series | None = None


class Found(Figures):
    """The answer of a search: the slowest rate, or the longest delay, that keeps a node's lag within the limit."""

    node: str
    """The node's name."""
    count: int = 1
    """Nodes with the same answer. ``node`` is the first."""
    variant: Variant
    """The way to bring the binlog to the slaves."""
    load: float = 1.0
    """The factor of the binlog's load."""
    what: str
    """``rate`` (bits per second) or ``delay`` (microseconds)."""
    link: str | None = None
    """The link that was changed. None: all links."""
    value: int | None
    """The rate or delay. None: no value keeps the limit."""
    worst: int | None = None
    """The worst lag at this value."""


class SourceFigures(Figures):
    """One origin of a topology, with the binlog set that was read for it."""

    node: str
    files: tuple[str, ...]
    bytes: int
    transactions: int
    family: str
    server_version: str
    clock: str
    """The source of the times of commits: ``gtid``, ``header`` or ``measured``."""
    first_time: int | None
    """The first commit, Unix microseconds."""
    last_time: int | None
    active_seconds: int
    """The time span without pauses of more than a day, seconds."""


class NodeDescription(Figures):
    """One node of the topology."""

    name: str
    kind: str
    reads: tuple[str, ...]
    rules: tuple[str, ...]
    """The rules of all channels. A rule of one channel begins with ``CHANNEL:`` if the node has several."""


class Results(Figures):
    """All results of a simulation or an experiment."""

    format: int = FORMAT
    name: str
    command: str = "dumpfilter simulate"
    sources: tuple[SourceFigures, ...]
    nodes: tuple[NodeDescription, ...] = ()
    """The nodes of the topology. Empty for a slaves file with thousands of slaves."""
    limit: int
    """The limit of the lag, microseconds, for the time above it and for searches."""
    runs: tuple[Run, ...]
    found: tuple[Found, ...] = ()
    warnings: tuple[str, ...] = ()
