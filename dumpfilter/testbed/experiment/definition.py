"""The definition of an experiment (a comparison of ways to bring the binlog to the slaves), and the file
``EXPERIMENT.toml`` that holds it.
"""

from __future__ import annotations

from collections.abc import Iterable
from pathlib import Path
from typing import Annotated

from pydantic import ConfigDict, Field, SkipValidation
from pydantic.dataclasses import dataclass

from dumpfilter.base.errors import OptionError
from dumpfilter.base.options.config_files import Model, load_toml
from dumpfilter.base.options.values import did_you_mean
from dumpfilter.simulation.results import Variant
from dumpfilter.topology import parse_toml_topology, topology_from
from dumpfilter.topology.model import Rate, Texts, Time, Topology

VARIANTS = (Variant.MASTER, Variant.SLAVE, Variant.NONE, Variant.REPLICA, Variant.PLAIN)
"""The variants (ways to bring the binlog to the slaves) that can be run for real. A simulation has more."""


STRICT = ConfigDict(extra="forbid")


@dataclass(frozen=True, config=STRICT)
class Load:
    """The table ``[load.NODE]`` of an experiment's file: SQL statements that run on the server NODE during all phases
    of the experiment.

    One statement runs at each interval. After the last statement the first one runs again.
    """

    sql: Texts
    """The statements, which are run in turn. ``{n}`` stands for the number of the statement, from 1."""
    every: Time
    """The interval between the starts of two statements, seconds."""


@dataclass(frozen=True, config=STRICT)
class Change:
    """A table below ``[phase.links]`` of an experiment's file: the rate, delay and jitter that a link (a connection
    between two nodes) has during a phase. None: the value of the topology.
    """

    rate: Rate | None = None
    delay: Time | None = None
    jitter: Time | None = None


@dataclass(frozen=True, config=STRICT)
class Phase:
    """The table ``[[phase]]`` of an experiment's file: a period of the experiment, with its faults, such as cut
    connections or killed processes. The faults end with the phase.
    """

    seconds: Annotated[Time, Field(alias="for")]
    name: str = ""
    cut: Texts = ()
    """The links that are cut."""
    silent: Texts = ()
    """The links that pass no byte although their connections stay open."""
    killed: Texts = ()
    """The nodes that are killed at the beginning, and started again at the end."""
    links: dict[str, Change] = Field(default_factory=dict)
    """Other rates and delays, by link."""

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

    @property
    def limit_microseconds(self) -> int:
        """The limit for the replication lag, microseconds. The results say how long each node's lag was above this
        limit.
        """
        return round(self.limit * 1_000_000)


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
    """Return the topology of a short string, of a file beside the experiment's, or of a text in TOML."""
    if not isinstance(text, str):
        raise OptionError("topology: must be a text: a short string, the name of a TOML file, or its content")
    if "[node." in text:
        return parse_toml_topology(text, file="topology", directory=path.parent, name=path.stem)
    beside = path.parent / text
    return topology_from(beside if text.endswith(".toml") and ">>" not in text else text)


def check(experiment: Experiment) -> None:
    """Check that an experiment can be run, for example that its links, nodes and variants exist. Raises OptionError
    that names the key.
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
    for variant in experiment.variants:
        if variant not in VARIANTS:
            raise OptionError(
                f"variants: {variant} can only be simulated; these can be run: {', '.join(VARIANTS)}"
            )
    if not experiment.loads and not any(node.is_files for node in topology.nodes):
        raise OptionError("load: nothing would be written; add [load.NODE] with sql, or read from a workload")


def _check_names(key: str, names: Iterable[str], known: list[str], what: str) -> None:
    """Raise OptionError for a name that is not in ``known``. ``what`` is the kind of the named things."""
    for name in names:
        if name not in known:
            raise OptionError(f"{key}: there is no {what} {name!r}{did_you_mean(name, known)}")
