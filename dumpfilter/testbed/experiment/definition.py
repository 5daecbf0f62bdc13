"""The definition of an experiment: a comparison of variants, which are ways to bring the binlog to the slaves.

The definition is a configuration file ``EXPERIMENT.toml``. The topologies with which the variants are run are derived
from the topology in this file.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Annotated, Any

from pydantic import ConfigDict, Field, SkipValidation
from pydantic.dataclasses import dataclass

from dumpfilter.base.errors import OptionError
from dumpfilter.base.options.config_files import Model, load_toml
from dumpfilter.base.options.values import did_you_mean
from dumpfilter.simulation.plan import number_of
from dumpfilter.simulation.results import Variant
from dumpfilter.topology import parse_toml_topology, topology_from
from dumpfilter.topology.links.shape import Outage
from dumpfilter.topology.model import Node, NodeError, Rate, Reading, Texts, Time, Topology, check_topology

STRICT = ConfigDict(extra="forbid")


@dataclass(frozen=True, config=STRICT)
class Load:
    """The table ``[load.NODE]`` of an experiment's configuration file: SQL statements that run on the server NODE
    during all phases of the experiment.

    One statement runs at each interval. After the last statement the first one runs again.
    """

    sql: Texts
    """The statements, which are run in turn. ``{n}`` stands for the number of the statement, from 1."""
    every: Time
    """The interval between the starts of two statements, seconds."""


@dataclass(frozen=True, config=STRICT)
class Change:
    """A table below ``[phase.links]`` of an experiment's configuration file: the rate, delay and jitter that a link (a
    connection between two nodes) has during a phase. None: the value of the topology.
    """

    rate: Rate | None = None
    delay: Time | None = None
    jitter: Time | None = None


@dataclass(frozen=True, config=STRICT)
class Phase:
    """The table ``[[phase]]`` of an experiment's configuration file: a period of the experiment, with its faults, such
    as cut connections or killed processes. The faults end with the phase.
    """

    seconds: Annotated[Time, Field(alias="for")]
    name: str = ""
    cut: Texts = ()
    """The links that are cut during this phase."""
    silent: Texts = ()
    """The links that pass no byte although their connections stay open."""
    killed: Texts = ()
    """The nodes that are killed at the beginning, and started again at the end."""
    links: dict[str, Change] = Field(default_factory=dict)
    """The rates and delays of links in this phase that differ from the topology's, by the link's name."""

    @property
    def only_cuts(self) -> bool:
        """Whether the phase has no faults other than cut links (connections between two nodes). A simulation supports
        only this fault.
        """
        return not self.silent and not self.killed and not self.links


class Experiment(Model):
    """An experiment: a topology of servers and slaves, the statements that run, the phases with faults, and the
    compared variants (ways to bring the binlog to the slaves).
    """

    model_config = ConfigDict(populate_by_name=True)

    name: str = ""
    topology: Annotated[Topology, SkipValidation]
    """The topology. In the file it is a short string, the name of a file beside the experiment's, or a text in TOML."""
    phases: tuple[Phase, ...] = Field((), alias="phase")
    loads: dict[str, Load] = Field(default_factory=dict, alias="load")
    """The statements that run on each server, by the node's name."""
    variants: tuple[Variant, ...] = (Variant.MASTER,)
    repetitions: Annotated[int, Field(ge=1, le=1000)] = 1
    limit: Time = 1.0
    """The limit for the lag, seconds. The results say how long each node's lag was above this limit."""
    patience: Time = 300.0
    """The time limit, after the last phase, for all nodes to catch up, seconds."""


def load_experiment(path: Path) -> Experiment:
    """Read an experiment from a TOML file and check it. Raises OptionError that names the file and the key."""
    file = load_toml(path, Experiment)
    try:
        topology = _topology(file.topology, path)
        experiment = file.model_copy(update={"name": file.name or path.stem, "topology": topology})
        check(experiment)
    except OptionError as error:
        raise OptionError(f"{path}: {error}") from None
    return experiment


def _topology(text: object, path: Path) -> Topology:
    """Return the topology that the key ``topology`` of an experiment's configuration file describes.

    ``text`` is a short string such as ``m >> web``, the name of a TOML file, or TOML itself. ``path`` is the
    experiment's file, beside which a named file is sought.
    """
    if not isinstance(text, str):
        raise OptionError("topology: must be a text: a short string, the name of a TOML file, or its content")
    if "[node." in text:
        return parse_toml_topology(text, file="topology", directory=path.parent, name=path.stem)
    beside = path.parent / text
    return topology_from(beside if text.endswith(".toml") and ">>" not in text else text)


def check(experiment: Experiment) -> None:
    """Check that an experiment can be run, for example that its links and nodes exist. Raises OptionError that names
    the key of the configuration file.
    """
    topology = experiment.topology
    links = [link.name for link in topology.links]
    nodes = [node.name for node in topology.nodes]
    for number, phase in enumerate(experiment.phases, start=1):
        where = f"phase[{number}]"
        for key in ("cut", "silent", "links"):
            _check_names(f"{where}.{key}", getattr(phase, key), links, "link")
        _check_names(f"{where}.killed", phase.killed, nodes, "node")
        if phase.seconds <= 0:
            raise OptionError(f"{where}.for: a phase takes time; write more than 0s")
    for node, load in experiment.loads.items():
        key = f"load.{node}"
        _check_names(key, [node], nodes, "node")
        if topology[node].kind not in ("server", "running"):
            raise OptionError(f"{key}: {node} is no server, and takes no SQL; name a node with server = …")
        if not load.sql:
            raise OptionError(f"{key}.sql: write at least one statement")
        if load.every <= 0:
            raise OptionError(f"{key}.every: write more than 0s")
    if not experiment.loads and not any(node.is_files for node in topology.nodes):
        raise OptionError("load: nothing would be written; add [load.NODE] with sql, or read from a workload")


def _check_names(key: str, names: Iterable[str], known: list[str], what: str) -> None:
    """Raise OptionError for a name in a configuration file that is not in ``known``.

    ``names`` are the names to check, such as those of links. For the error's text, ``key`` is the configuration file's
    key that has the names, and ``what`` says what they name, such as ``link``.
    """
    for name in names:
        if name not in known:
            raise OptionError(f"{key}: there is no {what} {name!r}{did_you_mean(name, known)}")


# -- the variants

KEEP_RELAY_LOGS = "--relay-log-purge=0"
"""The option by which a real replica keeps applied relay logs, from which its received transactions are read."""

CONNECT_RETRY = "--connect-retry"
SHORT_RETRY = f"{CONNECT_RETRY}=0.1"
"""The option by which a slave of dumpfilter reconnects soon after an outage. Its waits are random."""

FILTER_ON_SLAVE = "--filter-on=slave"


def topology_for(topology: Topology, variant: Variant) -> Topology:
    """Return the changed ``topology`` with which a variant of an experiment is run. A variant is a way to bring the
    binlog to the slaves. Other nodes may filter, or MySQL or MariaDB servers replace slaves.

    Raises OptionError for a variant that the topology does not support.
    """
    masters = _masters(topology) if variant is Variant.PLAIN else {}
    nodes = tuple(
        _keeping(_node(topology, node, variant)) for node in topology.nodes if node.name not in masters
    )
    found = Topology(nodes, topology.name)
    try:
        check_topology(found)
    except NodeError as error:
        raise OptionError(f"variants: {variant}: {error.node}: {error.key}: {error.what}") from None
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
    """Return a dictionary from the name of each link in ``topology`` to the link's name when a variant of an experiment
    is run. A variant is a way to bring the binlog to the slaves.

    Plain replication (``Variant.PLAIN``) has no masters of dumpfilter. The links to these masters are left out. Links
    from these masters are named after the masters' sources.
    """
    masters = _masters(topology) if variant is Variant.PLAIN else {}
    return {
        link.name: f"{masters.get(link.source, link.source)}:{link.target}"
        for link in topology.links
        if link.target not in masters
    }


def _masters(topology: Topology) -> dict[str, str]:
    """Return a dictionary from the name of each master of dumpfilter to the name of the node that the master reads."""
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
    """Return a copy of the node in which its sources have other properties, such as filter rules or links.

    ``change`` is called with each source, and returns a dictionary of the properties that differ.
    """
    return node.with_(reads=tuple(one.model_copy(update=change(one)) for one in node.reads))


def _filtering_alone(node: Node) -> Node:
    """Return the replica ``node`` (a MySQL or MariaDB server) without a filter on its master: the filter rules of its
    source become options of the replica's own command line.

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
    """Return a real replica (MySQL or MariaDB server) in place of ``node``, for plain replication. It reads the sources
    of the node's masters directly, and filters for itself.

    ``topology`` has the masters. Raises OptionError if two of them have the same source.
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
    """Return a real replica (MySQL or MariaDB server) that replaces the slave ``node`` of dumpfilter in a variant of an
    experiment.

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

    A real replica (MySQL or MariaDB server) keeps its relay logs, from which its lag is measured. A slave of dumpfilter
    reconnects soon after an outage, unless the user has set the interval. Other nodes are returned unchanged.
    """
    if node.kind == "slave" and number_of(node, CONNECT_RETRY) is None:
        return node.with_options(SHORT_RETRY)
    if node.server and node.reads:
        return node.with_options(KEEP_RELAY_LOGS)
    return node
