"""The definition of an experiment, and the file ``EXPERIMENT.toml`` that holds it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Annotated, Any

from pydantic import BeforeValidator, Field

from dumpfilter.errors import OptionError
from dumpfilter.options.near import did_you_mean
from dumpfilter.options.toml_file import Model, load_toml
from dumpfilter.simulation.results import Variant
from dumpfilter.topology import parse_toml_topology, topology_from
from dumpfilter.topology.model import Topology
from dumpfilter.topology.units import parse_rate, parse_time

MICROSECONDS = 1_000_000

VARIANTS = (Variant.MASTER, Variant.SLAVE, Variant.NONE, Variant.REPLICA)
"""The variants that can be run for real. A simulation has more."""


@dataclass(frozen=True)
class Load:
    """SQL statements that run on a real server, one after the other, from the first phase to the last."""

    node: str
    statements: tuple[str, ...]
    """The statements, which take turns. ``{n}`` stands for the number of the statement, from 1."""
    every: float
    """The time from the begin of one statement to the begin of the next, seconds."""


@dataclass(frozen=True)
class Change:
    """Other properties of a link for the time of a phase. None: as in the topology."""

    rate: int | None = None
    delay: float | None = None
    jitter: float | None = None


@dataclass(frozen=True)
class Phase:
    """A span of time of an experiment, with the faults that last for it."""

    name: str
    seconds: float
    cut: tuple[str, ...] = ()
    """The links that are cut."""
    silent: tuple[str, ...] = ()
    """The links over which no byte passes, and whose connections stay open."""
    killed: tuple[str, ...] = ()
    """The nodes that are killed at the begin, and started again at the end."""
    links: Mapping[str, Change] = field(default_factory=dict)
    """Other properties of links."""

    @property
    def only_cuts(self) -> bool:
        """Whether the phase has no faults but cut links, which a simulation knows, too."""
        return not self.silent and not self.killed and not self.links


@dataclass(frozen=True)
class Experiment:
    """A topology, what happens to it, and the variants that are compared."""

    name: str
    topology: Topology
    phases: tuple[Phase, ...] = ()
    loads: tuple[Load, ...] = ()
    variants: tuple[Variant, ...] = (Variant.MASTER,)
    repetitions: int = 1
    limit: int = MICROSECONDS
    """The limit of the lag, microseconds."""
    patience: float = 300.0
    """The longest time after the last phase until all nodes have caught up, seconds."""


def _units(parse: Callable[[str], Any], example: str) -> BeforeValidator:
    def validate(value: object) -> Any:
        if not isinstance(value, str):
            raise ValueError(f'write a text with a unit, such as "{example}"')
        try:
            return parse(value)
        except OptionError as error:
            raise ValueError(str(error)) from None

    return BeforeValidator(validate)


def _as_tuple(value: object) -> object:
    return (value,) if isinstance(value, str) else value


_Texts = Annotated[tuple[str, ...], BeforeValidator(_as_tuple)]
_Time = Annotated[float, _units(parse_time, "10s")]
_Rate = Annotated[int, _units(parse_rate, "2mbit")]


class ChangeTable(Model):
    """A table below ``[phase.links]``."""

    rate: _Rate | None = None
    delay: _Time | None = None
    jitter: _Time | None = None


class PhaseTable(Model):
    """The table ``[[phase]]``."""

    name: str = ""
    seconds: Annotated[_Time, Field(alias="for")]
    cut: _Texts = ()
    silent: _Texts = ()
    killed: _Texts = ()
    links: dict[str, ChangeTable] = Field(default_factory=dict)


class LoadTable(Model):
    """The table ``[load.NODE]``."""

    sql: _Texts
    every: _Time


class ExperimentTable(Model):
    """The whole file."""

    name: str | None = None
    topology: str
    variants: tuple[Variant, ...] = (Variant.MASTER,)
    repetitions: Annotated[int, Field(ge=1, le=1000)] = 1
    limit: _Time = 1.0
    patience: _Time = 300.0
    phase: tuple[PhaseTable, ...] = ()
    load: dict[str, LoadTable] = Field(default_factory=dict)


def load_experiment(path: Path) -> Experiment:
    """Read an experiment from a TOML file. Raises OptionError that names the file and the key."""
    table = load_toml(path, ExperimentTable)
    try:
        topology = _topology(table.topology, path)
        experiment = Experiment(
            table.name or path.stem,
            topology,
            tuple(_phase(one, number) for number, one in enumerate(table.phase, start=1)),
            tuple(Load(node, one.sql, one.every) for node, one in table.load.items()),
            table.variants,
            table.repetitions,
            round(table.limit * MICROSECONDS),
            table.patience,
        )
        check(experiment)
    except OptionError as error:
        raise OptionError(f"{path}: {error}") from None
    return experiment


def _topology(text: str, path: Path) -> Topology:
    """Return the topology of a short string, of a file beside the experiment's, or of a text in TOML."""
    if "[node." in text:
        return parse_toml_topology(text, file="topology", directory=path.parent, name=path.stem)
    beside = path.parent / text
    return topology_from(beside if text.endswith(".toml") and ">>" not in text else text)


def _phase(table: PhaseTable, number: int) -> Phase:
    return Phase(
        table.name or f"phase {number}",
        table.seconds,
        table.cut,
        table.silent,
        table.killed,
        {name: Change(one.rate, one.delay, one.jitter) for name, one in table.links.items()},
    )


def check(experiment: Experiment) -> None:
    """Check that an experiment can be run. Raises OptionError that names the key."""
    topology = experiment.topology
    links = [link.name for link in topology.links]
    nodes = [node.name for node in topology.nodes]
    for number, phase in enumerate(experiment.phases, start=1):
        named: tuple[tuple[str, tuple[str, ...], list[str], str], ...] = (
            ("cut", phase.cut, links, "link"),
            ("silent", phase.silent, links, "link"),
            ("links", tuple(phase.links), links, "link"),
            ("killed", phase.killed, nodes, "node"),
        )
        for key, names, known, what in named:
            for name in names:
                if name not in known:
                    near = did_you_mean(name, known)
                    raise OptionError(f"phase[{number}].{key}: there is no {what} {name!r}{near}")
        if phase.seconds <= 0:
            raise OptionError(f"phase[{number}].for: a phase takes time; write more than 0s")
    for load in experiment.loads:
        _check_load(load, topology, nodes)
    for variant in experiment.variants:
        if variant not in VARIANTS:
            raise OptionError(
                f"variants: {variant} can only be simulated; these can be run: {', '.join(VARIANTS)}"
            )
    if not experiment.loads and not any(node.is_files for node in topology.nodes):
        raise OptionError("load: nothing would be written; add [load.NODE] with sql, or read from a workload")


def _check_load(load: Load, topology: Topology, nodes: list[str]) -> None:
    key = f"load.{load.node}"
    if load.node not in nodes:
        raise OptionError(f"{key}: there is no node {load.node!r}{did_you_mean(load.node, nodes)}")
    if topology[load.node].kind not in ("server", "running"):
        raise OptionError(f"{key}: {load.node} is no server, and takes no SQL; name a node with server = …")
    if not load.statements:
        raise OptionError(f"{key}.sql: write at least one statement")
    if load.every <= 0:
        raise OptionError(f"{key}.every: write more than 0s")
