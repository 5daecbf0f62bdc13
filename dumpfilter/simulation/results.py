"""The data model of the results of simulations and experiments. JSON and the page show this data.

All times are whole microseconds. Times without the word Unix count from the beginning of a run, which is the commit of
the first transaction. Rates are bits per second, as networks have them. Bytes are bytes of binlog events with headers
and checksums.
"""

from __future__ import annotations

import enum

from dumpfilter.analyse.report.measures import Model
from dumpfilter.analyse.report.text import NOTHING, human_rate_of_bits, human_seconds

FORMAT = 1
"""The version number of the results' format. It grows when a release changes the meaning of a field."""


class Variant(enum.StrEnum):
    """A way to bring the binlog from the master to the slaves, such as with filters on the master or with none.

    A simulation compares several variants.
    """

    NONE = "no-filter"
    """No filter: the master sends all events, and the slaves apply all of them."""
    SLAVE = "filter-on-slave"
    """The master sends all events, and each slave applies the events that its own filter passes."""
    MASTER = "filter-on-master"
    """The master sends only the events that the slave's filter passes."""
    REPLICA = "real-replica"
    """The master sends to real replicas the events that their filter passes, and stand-ins (empty transactions) for
    dropped transactions.
    """
    PLAIN = "plain-replication"
    """The source server sends all events to real replicas, without dumpfilter. Only experiments have this variant."""


SIMULATED = tuple(variant for variant in Variant if variant is not Variant.PLAIN)
"""The variants that ``dumpfilter simulate`` supports: all but plain replication, which only an experiment can
measure.
"""


class Method(enum.StrEnum):
    """A way to obtain the lag and traffic of a run of a topology: simulated, or measured with real processes."""

    SIMULATED = "simulated"
    MEASURED = "measured"


class Basis(enum.StrEnum):
    """The end of the lag that a run measures for each transaction on a node. The lag ends when the node has received
    the transaction, or has applied it.
    """

    RECEIVED = "received"
    APPLIED = "applied"


class OutageFigures(Model):
    """An outage of a link in one run, and the time until the node behind the link had caught up."""

    start: int
    """The begin of the outage, microseconds since the run's first commit."""
    end: int | None
    """The end of the outage; None if the link stayed down."""
    catch_up: int | None
    """The time from the outage's end until the link's reader was as close to the source as before, microseconds. None:
    never, or a transaction of the run never arrived over the link.
    """


class LinkFigures(Model):
    """The rate, delay and outages of one link between two nodes in one run of a simulation or experiment, and the
    bytes, transactions and messages that crossed the link.
    """

    name: str
    """The link's name, ``SOURCE:TARGET``."""
    source: str
    """The node that sends over the link."""
    target: str
    """The node that reads from the link."""
    count: int = 1
    """Number of links with these figures. ``name`` is the first."""
    members: tuple[str, ...] = ()
    """The names of all links with equal figures, if there are several."""
    rate: int | None
    """The link's rate, bits per second; None: no limit."""
    delay: int
    """The link's one-way delay, microseconds."""
    jitter: int
    """The largest random change of the link's delay, microseconds."""
    bytes: int
    """Bytes of events that the reader got, with the 5 bytes of MySQL's own protocol for each event."""
    transactions: int
    """Number of transactions that the reader got over the link."""
    messages: int | None = None
    """Number of protocol messages on the link. None: not known."""
    overhead: int | None = None
    """Bytes that the protocols add to the events. None: not known."""
    outages: tuple[OutageFigures, ...] = ()


class LagFigures(Model):
    """Statistics of the lag of a node's transactions, microseconds. Each transaction that the node was sent counts
    once. The lag of a transaction that never arrives is its age at the end of the run.
    """

    p50: int
    """The median lag of a transaction."""
    p95: int
    """The 95th percentile of the lag."""
    p99: int
    """The 99th percentile of the lag."""
    worst: int
    """The greatest lag of a transaction."""
    above: int
    """The time during which the node's lag was above `--lag`, or above an experiment's `limit`."""


class NodeFigures(Model):
    """The transactions, bytes and lag of one node of the topology in one run of a simulation or experiment.

    A node with several sources also has such figures for the transactions from each source.
    """

    name: str
    channel: str | None = None
    """The source whose transactions are counted. None: all sources."""
    count: int = 1
    """Number of nodes with these figures. ``name`` is the first."""
    members: tuple[str, ...] = ()
    """The names of all nodes with equal figures, if there are several."""
    transactions: int
    """Number of transactions that the node was sent."""
    missing: int = 0
    """Number of transactions that never arrived, because a link stayed down."""
    bytes: int
    """Bytes that the node received over its own links."""
    lag: LagFigures


class Series(Model):
    """The bytes on links and the lag of nodes over time. Each tuple has one entry for each interval of ``width``
    microseconds, beginning at ``start``.

    In a topology with thousands of nodes, only the nodes with the greatest lag have figures.
    """

    start: int
    width: int
    offered: dict[str, tuple[int, ...]]
    """For each link by name, the bytes that became available at its sending node in each interval."""
    carried: dict[str, tuple[int, ...]]
    """For each link by name, the bytes that left its sending node in each interval."""
    lag: dict[str, tuple[int, ...]]
    """For each node by name, the greatest lag in each interval, microseconds."""


class Setting(Model):
    """The parameters of one run of a topology.

    The parameters are a variant (way to bring the binlog to the slaves) and a load (factor of the pace of commits). A
    rate or a delay may replace the rates or delays of the links.
    """

    variant: Variant
    load: float = 1.0
    """The factor by which the pace of the binlog's commits is multiplied."""
    rate: int | None = None
    """The rate that replaces the links' own rates in this run, bits per second. None: the rates are unchanged."""
    delay: int | None = None
    """The delay that replaces the links' own delays in this run, microseconds. None: the delays are unchanged."""
    link: str | None = None
    """The name of the only link to which ``rate`` and ``delay`` apply. None: they apply to all links."""


class Run(Model):
    """The lag and the traffic of all nodes and links of a topology in one run, simulated or measured.

    A run has one setting: the way to bring the binlog to the slaves, the load (factor of the pace of commits), and the
    links' rates and delays.
    """

    method: Method
    setting: Setting
    repetition: int = 1
    basis: Basis = Basis.RECEIVED
    duration: int
    """The time from the first commit until the last node had received everything, microseconds."""
    links: tuple[LinkFigures, ...]
    nodes: tuple[NodeFigures, ...]
    series: Series

    @property
    def whole_nodes(self) -> list[NodeFigures]:
        """The transactions, bytes and lag of each node (or group of equal nodes), counted over all sources of the node
        together.
        """
        return [node for node in self.nodes if node.channel is None]


class Found(Model):
    """The result of a search for one node: the slowest rate, or the longest delay, of links with which the node's lag
    stays within the limit. There may be no such rate or delay.
    """

    node: str
    """The node's name."""
    count: int = 1
    """Number of nodes with the same result. ``node`` is the first."""
    variant: Variant
    """The way to bring the binlog to the slaves."""
    load: float = 1.0
    """The factor by which the pace of the binlog's commits was multiplied."""
    what: str
    """The searched property of links: ``rate`` (bits per second) or ``delay`` (microseconds)."""
    link: str | None = None
    """The link whose rate or delay was varied. None: all links."""
    value: int | None
    """The found rate or delay. None: no value keeps the lag within the limit."""
    worst: int | None = None
    """The greatest lag of the node at this value, microseconds."""


class SourceFigures(Model):
    """The files, size, transactions, server and commit times of the binlog set of one origin, a node of the topology
    that writes binlogs.
    """

    node: str
    files: tuple[str, ...]
    bytes: int
    transactions: int
    family: str
    server_version: str
    clock: str
    """The source of the commit times: ``gtid`` (GTID events), ``header`` (event headers) or ``measured``."""
    first_time: int | None
    """The time of the first commit, Unix microseconds (with the clock ``measured``: microseconds of the machine's
    monotonic clock). None: there are no commits.
    """
    last_time: int | None
    active_seconds: int
    """The time from the first to the last commit, without pauses of more than a day, seconds."""

    @property
    def duration(self) -> int:
        """The time from the first to the last commit of the binlog set, microseconds."""
        return (self.last_time or 0) - (self.first_time or 0)


class Results(Model):
    """All results of a simulation, which computes lag and traffic, or of an experiment. An experiment measures lag and
    traffic, and its results also have a simulation of each run if possible.
    """

    format: int = FORMAT
    name: str
    command: str = "dumpfilter simulate"
    sources: tuple[SourceFigures, ...]
    topology: str = ""
    """The topology in TOML. Empty if the slaves come from a slaves file."""
    limit: int
    """The limit of the lag, microseconds. Runs count the time above it, and searches look for values with which
    the lag is at most the limit.
    """
    runs: tuple[Run, ...]
    found: tuple[Found, ...] = ()
    warnings: tuple[str, ...] = ()

    @property
    def active_seconds(self) -> int:
        """The time in which binlogs were written, without pauses of more than a day, seconds. The longest time of all
        origins (nodes that write binlogs) counts.
        """
        return max((source.active_seconds for source in self.sources), default=0)


def microseconds(value: int | None) -> str:
    """Format a time in microseconds with a fitting unit. None gives a dash.

    >>> microseconds(0), microseconds(1500), microseconds(2_345_678), microseconds(None)
    ('0 s', '1.5 ms', '2.35 s', '–')
    """
    return NOTHING if value is None else human_seconds(value / 1e6)


def title_of(setting: Setting, method: Method = Method.SIMULATED) -> str:
    """Return the title of a run's table: its variant (way to bring the binlog to the slaves), load (factor of the pace
    of commits), and changed rate or delay.

    >>> title_of(Setting(variant=Variant.MASTER, load=2, rate=512_000))
    'filter-on-master, load × 2, all links 512 kbit/s'
    """
    parts = [setting.variant.value]
    if method is Method.MEASURED:
        parts.append("measured")
    if setting.load != 1:
        parts.append(f"load × {setting.load:g}")
    changed = []
    if setting.rate is not None:
        changed.append(human_rate_of_bits(setting.rate))
    if setting.delay is not None:
        changed.append(f"delay {microseconds(setting.delay)}")
    if changed:
        parts.append(f"{setting.link or 'all links'} {', '.join(changed)}")
    return ", ".join(parts)


def value_of(found: Found) -> str:
    """Format the rate or delay that a search found as text. If the search found none, the text says that no value keeps
    the lag within the limit.
    """
    if found.value is None:
        return f"no {found.what} is enough"
    return human_rate_of_bits(found.value) if found.what == "rate" else microseconds(found.value)
