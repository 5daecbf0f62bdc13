"""The model of a topology: its nodes, which node reads from which, and the links between them.

Each notation (TOML, the short string, Python) writes the same tables: the fields of :class:`Node` and of the models
within it. :func:`dumpfilter.topology.resolve.resolve` makes a :class:`Topology` of them. :mod:`dumpfilter.testbed` runs
a topology with real processes, and :mod:`dumpfilter.simulation` computes it from a binlog.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal, NamedTuple

from pydantic import AfterValidator, BeforeValidator, Field, PlainSerializer, ValidationInfo, WrapValidator

from dumpfilter.base.errors import OptionError
from dumpfilter.base.options.config_files import WRITTEN, Model
from dumpfilter.base.options.values import (
    did_you_mean,
    format_rate,
    format_size,
    format_time,
    parse_rate,
    parse_size,
    parse_time,
)
from dumpfilter.binlog.format import Family, NameRules
from dumpfilter.filter.base import ReplicationFilter
from dumpfilter.filter.filter import make_filter
from dumpfilter.filter.rules import EffectiveRuleKind, FilterSemantics, RuleKind, parse_option
from dumpfilter.topology.links.shape import PLAIN, LinkShape, Outage

Role = Literal["master", "slave"]
Kind = Literal["server", "running", "recording", "workload", "master", "slave"]


class KindOfNode(NamedTuple):
    """One kind of nodes of a topology, such as servers or recordings. It has the keys that a TOML table of such a node
    may have, and whether the node consists of files.
    """

    key: str = ""
    """The key of a node's table that determines this kind. Empty: a node of dumpfilter, whose role determines it."""
    keys: tuple[str, ...] = ()
    """The further keys that only nodes of this kind may have."""
    is_files: bool = False
    """Whether the node is a binlog set, which its master reads without a network."""
    only_serves: str = ""
    """A name of the kind for errors, such as "a recording", if such a node can have no sources, options and
    certificate. Else empty.
    """


KINDS: Mapping[Kind, KindOfNode] = {
    "server": KindOfNode("server", ("program", "root", "init", "gtid")),
    "running": KindOfNode("connect", only_serves="a running server"),
    "recording": KindOfNode("binlogs", ("speed",), is_files=True, only_serves="a recording"),
    "workload": KindOfNode("workload", is_files=True, only_serves="a workload"),
    "master": KindOfNode(),
    "slave": KindOfNode(),
}

DEFAULT_STYLE: Family = "mysql"
"""The server family whose style a workload has if its events reach no real server."""

AT_ONCE = "at-once"
"""The word for a speed at which a whole recording is there from the beginning."""


def parse_outage(text: str) -> Outage:
    """Return the outage that a text such as ``60s-120s`` describes. ``60s-`` has no end. Raises OptionError.

    >>> parse_outage("60s-2m")
    Outage(start=60.0, end=120.0)
    """
    start, dash, end = text.partition("-")
    if not dash:
        raise OptionError(f"{text!r} is not an outage: write its start and end, such as 60s-120s")
    outage = Outage(parse_time(start), parse_time(end) if end.strip() else None)
    if outage.end is not None and outage.end <= outage.start:
        raise OptionError(f"{text!r}: the outage ends before it begins; write the earlier time first")
    return outage


def format_outage(outage: Outage) -> str:
    """Return an outage as text that :func:`parse_outage` reads.

    >>> format_outage(Outage(60, 120)), format_outage(Outage(5, None))
    ('60s-120s', '5s-')
    """
    return f"{format_time(outage.start)}-{'' if outage.end is None else format_time(outage.end)}"


def _unit(parse: Callable[[str], Any], example: str) -> BeforeValidator:
    """Return a pydantic validator that parses a text with a unit by ``parse``. ``example`` is a right text, for errors.

    Numbers without a unit are accepted in Python, but not in a notation that a person wrote.
    """

    def validate(value: Any, info: ValidationInfo) -> Any:
        if isinstance(value, str):
            return _checked(parse, value)
        if info.context == WRITTEN:
            raise ValueError(f'{value!r} has no unit; write a text with a unit, such as "{example}"')
        if isinstance(value, int | float) and value < 0:
            raise ValueError(f"{value} is negative")
        return value

    return BeforeValidator(validate)


def _checked(parse: Callable[[str], Any], text: str) -> Any:
    try:
        return parse(text)
    except OptionError as error:
        raise ValueError(str(error)) from None


def _speed(value: object) -> float | None:
    """Return the speed of a recording's replay: a factor, or None for ``at-once``. Raises ValueError."""
    if value is None or value == AT_ONCE:
        return None
    try:
        speed = float(value) if isinstance(value, str | int | float) and not isinstance(value, bool) else 0.0
    except ValueError:
        speed = 0.0
    if not 0 < speed < float("inf"):
        raise ValueError(
            f"{value!r} is not a speed: write 1 for the recording's own pace, 10 for ten times faster, or {AT_ONCE}"
        )
    return speed


def _listed(value: object) -> object:
    return (value,) if isinstance(value, str | dict | Reading) else value


def _sources(value: object) -> object:
    sources = _listed(value)
    if not isinstance(sources, list | tuple):
        raise ValueError(f'{value!r} names no node; write from = "m" or from = ["m", "n"]')
    return tuple({"node": each} if isinstance(each, str) else each for each in sources)


RULE_KINDS: Mapping[str, RuleKind | EffectiveRuleKind] = {
    **{kind.worklog_option: kind for kind in RuleKind if kind.worklog_option},
    **{kind.option.removeprefix("replicate-"): kind for kind in RuleKind},
    **{kind.option: kind for kind in (*RuleKind, *EffectiveRuleKind)},
}
"""The kinds of filter rules by the names that topologies accept, such as ``do-db`` and ``replicate-do-db``."""


def full_rule(text: str) -> str:
    """Return a filter rule, which may be shortened or spelled with underscores, with the full name of its option.

    Raises OptionError for a name that is no rule, and for a wrong value.

    >>> full_rule("do-db=shop"), full_rule("--replicate_do_db=shop"), full_rule("do=shop.%")
    ('replicate-do-db=shop', 'replicate-do-db=shop', 'do=shop.%')
    """
    name, equals, value = text.strip().removeprefix("--").partition("=")
    name = name.strip().replace("_", "-")
    kind = RULE_KINDS.get(name)
    if kind is None:
        near = did_you_mean(name, [kind.option for kind in RULE_KINDS.values()])
        raise OptionError(f"{text!r} is no filter rule{near}")
    if not equals:
        raise OptionError(f"{text!r}: the value is missing; write {name}={kind.metavar}")
    semantics = FilterSemantics.CLASSIC if isinstance(kind, RuleKind) else FilterSemantics.EFFECTIVE
    return str(parse_option(f"--{kind.option}={value.strip()}", semantics)).removeprefix("--")


def semantics_of(rules: Iterable[str]) -> FilterSemantics:
    """Return how a channel's filter rules are to be read: EFFECTIVE if one is a DO, IGNORE or REWRITE rule, otherwise
    CLASSIC.

    Classic rules are those of the servers' manuals. Effective rules (WL#2516) decide by the tables that a statement
    changes.

    >>> str(semantics_of(("do=shop.%",)))
    'effective'
    """
    effective = any(EffectiveRuleKind.of_option(rule.partition("=")[0]) for rule in rules)
    return FilterSemantics.EFFECTIVE if effective else FilterSemantics.CLASSIC


def filter_of(
    rules: Sequence[str], names: NameRules, semantics: FilterSemantics | None = None
) -> ReplicationFilter:
    """Return the replication filter that a channel's rules describe. Raises OptionError for an invalid rule.

    A rule is a text such as ``replicate-do-db=shop``, with or without leading dashes. ``names`` says how the server
    compares schema and table names. With ``semantics`` None, the names of the rules decide whether they are classic or
    effective (see :func:`semantics_of`).
    """
    semantics = semantics or semantics_of(rules)
    options = [parse_option(f"--{rule.removeprefix('--')}", semantics) for rule in rules]
    return make_filter(semantics, options, names=names)


Texts = Annotated[tuple[str, ...], BeforeValidator(_listed)]
Rules = Annotated[
    tuple[Annotated[str, AfterValidator(lambda text: _checked(full_rule, text))], ...],
    BeforeValidator(_listed),
]
Rate = Annotated[int, _unit(parse_rate, "2mbit"), PlainSerializer(format_rate)]
Time = Annotated[float, _unit(parse_time, "50ms"), PlainSerializer(format_time)]
Size = Annotated[
    int, _unit(lambda text: parse_size(text, least=1), "1M"), Field(ge=1), PlainSerializer(format_size)
]
Down = Annotated[Outage, _unit(parse_outage, "60s-120s"), PlainSerializer(format_outage)]
Speed = Annotated[
    float | None,
    BeforeValidator(_speed),
    PlainSerializer(lambda speed: AT_ONCE if speed is None else speed),
]


class LinkTable(Model):
    """The TOML table ``link`` with the rate, delay, jitter and outages of a connection, as texts such as ``2mbit``.

    Nodes of a topology, their sources, and slaves of a slaves file have this table.
    """

    rate: Rate | None = None
    delay: Time = 0.0
    jitter: Time = 0.0
    down: Annotated[tuple[Down, ...], BeforeValidator(_listed)] = ()

    @classmethod
    def of(cls, shape: LinkShape) -> dict[str, Any]:
        """Return a link's shape (rate, delay, jitter, outages) as a TOML table, with texts such as ``2mbit`` as values.

        Keys that have default values are left out.
        """
        table = cls(rate=shape.rate, delay=shape.delay, jitter=shape.jitter, down=shape.outages)
        return table.model_dump(exclude_defaults=True)

    def shape(self) -> LinkShape:
        """Parse the texts of the table, such as ``2mbit``, and return the rate, delay, jitter and outages that they
        mean.
        """
        return LinkShape(self.rate, self.delay, self.jitter, self.down)


def _as_shape(value: object, read: Callable[[object], LinkTable]) -> LinkShape:
    return value if isinstance(value, LinkShape) else read(value).shape()


if TYPE_CHECKING:
    Shape = LinkShape
else:
    Shape = Annotated[LinkTable, WrapValidator(_as_shape), PlainSerializer(LinkTable.of)]


class Reading(Model):
    """One source of a node: the name of the node to replicate from, the channel's filter rules, and the link to the
    source.
    """

    source: Annotated[str, Field(alias="node")]
    """The name of the node that is read."""
    rules: Rules = ()
    """Filter rules of this channel, as options without dashes, such as ``replicate-do-db=shop``."""
    link: Shape = PLAIN


class Workload(Model):
    """A generated binlog set, which grows at a steady rate as if a server were writing it."""

    size: Size = 1 << 20
    """The size of the whole generated set, bytes."""
    rate: Rate | None = None
    """The bits per second by which the set grows. None: all of it is there at once."""
    seed: Annotated[int, Field(ge=0, lt=1 << 63)] = 1
    style: Family | None = None
    """The server family whose style the events have. None (only before the topology is resolved): the family of the
    first real server that is reached, or else ``mysql``.
    """


class Node(Model):
    """A node of a topology: a database server, a binlog set (recorded or generated), or a master or slave of
    dumpfilter.

    The fields that are set determine its kind. In a checked :class:`Topology` the field ``role`` of a master or slave
    is set. The fields ``rules`` and ``link`` have been copied there to each source.
    """

    name: Annotated[str, Field(exclude=True)] = ""
    server: Family | None = None
    """The family of a database server that is started for the topology. A server that reads a node is a replica."""
    program: str | None = None
    """The path of the server's executable. None: the family's executable on the PATH."""
    root: str | None = None
    """The root directory of another system with MySQL, so that a machine with MariaDB can start MySQL's server."""
    init: Texts = ()
    """SQL statements that run once, when the server is new."""
    gtid: bool = True
    """Whether a replica continues by GTIDs. False: by binlog file and position."""
    connect: str | None = None
    """The URL of a server that runs already. The topology reads from it, and never stops it."""
    binlogs: Annotated[Path, PlainSerializer(str)] | None = None
    """The path of a binlog set that is replayed as if a server were writing it."""
    speed: Speed = 1.0
    """The speed of the replay. 1: at the pace of the events' timestamps. n: n times as fast. None: all at once."""
    workload: (
        Annotated[
            Workload, BeforeValidator(lambda value: {"size": value} if isinstance(value, str) else value)
        ]
        | None
    ) = None
    role: Role | None = None
    """Whether a node of dumpfilter is a master or a slave. A workload with the role ``master`` becomes two nodes, and
    the workload gets another name.
    """
    reads: Annotated[tuple[Reading, ...], BeforeValidator(_sources), Field(alias="from")] = ()
    """The sources that the node reads. With several sources, the channel of each has the source's name."""
    rules: Rules = ()
    """The filter rules of each source that has none of its own."""
    link: Shape = PLAIN
    """The link to each source that has none of its own."""
    options: Texts = ()
    """Further options for the command line of the node's process, such as ``--binlog-format=ROW``."""
    tls: bool = False
    """Whether the readers of the node connect by TLS, and verify the topology's certificate."""

    @property
    def kinds(self) -> tuple[Kind, ...]:
        """The kinds of node, such as ``server``, whose characteristic field is set. A master or slave of dumpfilter has
        none, and several are an error.
        """
        return tuple(
            kind for kind, facts in KINDS.items() if facts.key and getattr(self, facts.key) is not None
        )

    @property
    def kind(self) -> Kind:
        """The kind of the node. A node whose fields name no kind is a master or (by default) slave of dumpfilter."""
        return next(iter(self.kinds), self.role or "slave")

    @property
    def is_files(self) -> bool:
        """Whether the node is a binlog set without a server, whose files a master reads on the same machine."""
        return KINDS[self.kind].is_files

    @property
    def is_own(self) -> bool:
        """Whether the node is a process of dumpfilter (a master or a slave), and not a database server or binlog
        files.
        """
        return not KINDS[self.kind].key

    @property
    def family(self) -> Family:
        """The family (``mariadb`` or ``mysql``) of a server that the topology starts. Only such nodes have this
        property.
        """
        assert self.server is not None
        return self.server

    def with_(self, **changes: object) -> Node:
        """Return a copy of the node in which the given fields have other values."""
        return self.model_copy(update=changes)

    def with_own_sources(self) -> Node:
        """Return a copy in which each source without its own filter rules or link has those of the node.

        The copy itself has neither rules nor a link.
        """
        if not self.reads:
            return self
        shared = {"rules": self.rules, "link": self.link}
        reads = tuple(
            one.model_copy(
                update={key: value for key, value in shared.items() if key not in one.model_fields_set}
            )
            for one in self.reads
        )
        return self.with_(reads=reads, rules=(), link=PLAIN)

    def with_options(self, *options: str) -> Node:
        """Return a copy of the node with further options at the end of its process's command line."""
        return self.with_(options=(*self.options, *options))


@dataclass(frozen=True)
class Link:
    """The network connection from a node (``target``) to one of its sources, and the rate and delay that it gets."""

    source: str
    target: str
    shape: LinkShape

    @property
    def name(self) -> str:
        """The name by which commands name the link: the names of its two nodes as ``SOURCE:TARGET``."""
        return f"{self.source}:{self.target}"


@dataclass(frozen=True)
class Topology:
    """A checked set of nodes (servers, binlog sets, masters, slaves) that replicate from one another, without cycles.

    In ``nodes`` each source stands before its readers.
    """

    nodes: tuple[Node, ...]
    name: str = "topology"

    @cached_property
    def _by_name(self) -> dict[str, Node]:
        return {node.name: node for node in self.nodes}

    @cached_property
    def _readers(self) -> dict[str, list[Node]]:
        found: dict[str, list[Node]] = {}
        for node in self.nodes:
            for reading in node.reads:
                found.setdefault(reading.source, []).append(node)
        return found

    def __getitem__(self, name: str) -> Node:
        """Return a node by its name. Raises KeyError."""
        return self._by_name[name]

    def readers(self, name: str) -> tuple[Node, ...]:
        """Return the nodes that read directly from the node with this name."""
        return tuple(self._readers.get(name, ()))

    @cached_property
    def _writers(self) -> dict[str, dict[str, Node]]:
        found: dict[str, dict[str, Node]] = {}
        for node in self.nodes:
            found[node.name] = {} if node.is_own else {node.name: node}
            for reading in node.reads if node.is_own else ():
                found[node.name] |= found[reading.source]
        return found

    def writers(self, name: str) -> tuple[Node, ...]:
        """Return the nodes (servers, recordings and workloads) that wrote the binlog events which the node ``name``
        passes on to its readers.
        """
        return tuple(self._writers[name].values())

    @property
    def links(self) -> tuple[Link, ...]:
        """The network connections between the nodes.

        A master that reads a recording or a workload has no connection to it, since the master reads files.
        """
        return tuple(
            Link(reading.source, node.name, reading.link)
            for node in self.nodes
            for reading in node.reads
            if not self._by_name[reading.source].is_files
        )
