"""The model of a topology: its nodes, which node reads from which, and the links between them.

Each notation (TOML, the short string, Python) writes the same tables: the fields of :class:`Node` and of the models
within it. :func:`resolve` makes a :class:`Topology` of them. :mod:`dumpfilter.testbed` runs a topology with real
processes, and :mod:`dumpfilter.simulation` computes it from a binlog.

The nodes that a person wrote are completed to a topology. A node whose table of the configuration file has only sources
is a master or a slave of dumpfilter. Such a node is a master if it has readers, no rules, and one source, which is a
server, a recording or a workload. Otherwise the node is a slave.

A slave cannot read a server, a recording (replayed binlogs) or a workload (generated binlogs) directly, and a real
replica cannot read binlog files. A master is then inserted. Links and SQL belong to the master of a recording or
workload ``m``. Therefore this master takes the name ``m``, and the files are called ``m-recording`` or ``m-workload``.
The master of a real server ``m`` is ``m-master``.

The rules that a topology must obey are the same for all notations, and stand here, too.
"""

from __future__ import annotations

import math
import re
from collections.abc import Callable, Iterable, Iterator, Mapping, Sequence
from contextlib import suppress
from dataclasses import dataclass
from functools import cached_property
from pathlib import Path
from typing import TYPE_CHECKING, Annotated, Any, Literal

from pydantic import (
    AfterValidator,
    BeforeValidator,
    Field,
    PlainSerializer,
    ValidationError,
    ValidationInfo,
    WrapValidator,
)

from dumpfilter.base.errors import OptionError
from dumpfilter.base.options.config_files import WRITTEN, Model, reason_of
from dumpfilter.base.options.values import (
    MOST_RATE,
    MOST_SECONDS,
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


KEYS: Mapping[Kind, tuple[str, ...]] = {
    "server": ("server", "program", "root", "init"),
    "running": ("connect",),
    "recording": ("binlogs", "speed"),
    "workload": ("workload",),
}
"""The keys in a topology file that only nodes of one kind, such as ``server``, have. A node with the first key of a
kind is of this kind. A master or slave of dumpfilter has none of these keys.
"""

_ONLY_SERVE: Mapping[Kind, str] = {
    "running": "a running server",
    "recording": "a recording",
    "workload": "a workload",
}
"""The kinds of nodes that can have no sources, options and certificate, each with its name for errors."""

DEFAULT_STYLE: Family = "mysql"
"""The server family (MySQL or MariaDB) whose binlog format a generated workload has if no real server reads it."""

AT_ONCE = "at-once"
"""The value of the key ``speed`` of a recording (replayed binlogs) that makes all transactions available when the
topology starts.
"""


def parse_outage(text: str) -> Outage:
    """Return the outage that a text such as ``60s-120s`` describes. ``60s-`` has no end. Raises OptionError for another
    text, and for an end that is not after the start.

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
    """Return a pydantic validator for a field whose values have a unit, such as a rate. The validator converts a text
    by ``parse``.

    ``example`` is a valid text, for errors. Numbers without a unit are accepted from Python calls, but not from a TOML
    file or a short string, which people write.
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


def _speed(value: Any) -> float | None:
    """Return the speed of a recording's replay: a factor of the original pace, or None for all transactions at once.

    ``value`` is the speed as a number or text, or ``at-once`` or None for no pace. Raises ValueError for other values.
    """
    if value is None or value == AT_ONCE:
        return None
    with suppress(TypeError, ValueError, OverflowError):
        if 0 < (speed := float(value)) < math.inf and value is not True:
            return speed
    what = "write 1 for the recording's own pace, 10 for ten times faster, or"
    raise ValueError(f"{value!r} is not a speed: {what} {AT_ONCE}")


def _listed(value: object) -> object:
    return (value,) if isinstance(value, str | dict | Reading) else value


def _load(value: object) -> object:
    return {"size": value} if isinstance(value, str) else value


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
        near = did_you_mean(name, dict.fromkeys(kind.option for kind in RULE_KINDS.values()))
        raise OptionError(f"{text!r} is no filter rule{near}")
    if not equals:
        raise OptionError(f"{text!r}: the value is missing; write {name}={kind.metavar}")
    semantics = FilterSemantics.CLASSIC if isinstance(kind, RuleKind) else FilterSemantics.EFFECTIVE
    return str(parse_option(f"--{kind.option}={value.strip()}", semantics)).removeprefix("--")


def semantics_of(rules: Iterable[str]) -> FilterSemantics:
    """Return how a channel's filter rules are interpreted: EFFECTIVE if one is a DO, IGNORE or REWRITE rule, otherwise
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
Rate = Annotated[int, _unit(parse_rate, "2mbit"), Field(ge=1, le=MOST_RATE), PlainSerializer(format_rate)]
Time = Annotated[
    float,
    _unit(parse_time, "50ms"),
    Field(le=MOST_SECONDS, allow_inf_nan=False),
    PlainSerializer(format_time),
]
Size = Annotated[
    int, _unit(lambda text: parse_size(text, least=1), "1M"), Field(ge=1), PlainSerializer(format_size)
]
Down = Annotated[Outage, _unit(parse_outage, "60s-120s"), PlainSerializer(format_outage)]
Speed = Annotated[
    float | None, BeforeValidator(_speed), PlainSerializer(lambda speed: AT_ONCE if speed is None else speed)
]


class LinkTable(Model):
    """The table ``link`` of a TOML configuration file: a connection's rate, delay and jitter as texts such as
    ``2mbit``, and its outages (key ``down``).

    Nodes of a topology, their sources, and slaves of a slaves file have this table. In the table of a node the
    connection is the one between the node and its source.
    """

    rate: Rate | None = None
    delay: Time = 0.0
    jitter: Time = 0.0
    outages: Annotated[tuple[Down, ...], BeforeValidator(_listed), Field(alias="down")] = ()


def _as_shape(value: object, read: Callable[[object], LinkTable]) -> LinkShape:
    return value if isinstance(value, LinkShape) else LinkShape(**dict(read(value)))


def _as_table(shape: LinkShape) -> dict[str, Any]:
    return LinkTable.model_construct(**vars(shape)).model_dump(by_alias=True, exclude_defaults=True)


if TYPE_CHECKING:
    Shape = LinkShape
else:
    Shape = Annotated[LinkTable, WrapValidator(_as_shape), PlainSerializer(_as_table)]


class Reading(Model):
    """One source of a node: the name of the node to replicate from, the channel's filter rules, and the link to the
    source.
    """

    source: Annotated[str, Field(alias="node")]
    """The name of the node from which this node reads."""
    rules: Rules = ()
    """Filter rules of this channel, as options without dashes, such as ``replicate-do-db=shop``."""
    link: Shape = PLAIN


class Workload(Model):
    """A generated binlog set. With a ``rate`` it grows steadily, as if a server were writing it."""

    size: Size = 1 << 20
    """The size of the whole generated set, bytes."""
    rate: Rate | None = None
    """The bits per second by which the set grows. None: all of it is there at once."""
    seed: Annotated[int, Field(ge=0, lt=1 << 63)] = 1
    style: Family | None = None
    """The server family (MySQL or MariaDB) in whose binlog format the workload is generated. None (only before the
    topology is resolved): the family of the first real server that reads the workload, or else ``mysql``.
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
    connect: str | None = None
    """The URL of a server that runs already. The topology reads from it, and never stops it."""
    binlogs: Annotated[Path, PlainSerializer(str)] | None = None
    """The path of a binlog set that is replayed as if a server were writing it."""
    speed: Speed = 1.0
    """The speed of the replay. 1: at the pace of the events' timestamps. n: n times as fast. None: all at once."""
    workload: Annotated[Workload, BeforeValidator(_load)] | None = None
    role: Role | None = None
    """Whether a node of dumpfilter is a master or a slave. A workload (generated binlogs) with the role ``master``
    becomes two nodes, and the workload gets another name.
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
        """The kinds of this node, such as ``server``. A node is of a kind if the field is set that :data:`KEYS` lists
        first for this kind. The tuple is empty for a master or slave of dumpfilter. More than one kind is an error of
        the topology.
        """
        return tuple(kind for kind, (key, *_) in KEYS.items() if getattr(self, key) is not None)

    @property
    def kind(self) -> Kind:
        """The kind of the node, such as ``server``. A node whose fields name no kind is a master or (by default) slave
        of dumpfilter.
        """
        return next(iter(self.kinds), self.role or "slave")

    @property
    def is_files(self) -> bool:
        """Whether the node is a binlog set without a server, whose files a master reads on the same machine."""
        return self.kind in ("recording", "workload")

    @property
    def is_own(self) -> bool:
        """Whether the node is a process of dumpfilter (a master or a slave), and not a database server or binlog
        files.
        """
        return self.kind in ("master", "slave")

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
        """Return a copy of the node in which each source without its own filter rules or link has those of the node.

        The returned node itself has neither rules nor a link.
        """
        reads = tuple(
            one.model_copy(
                update={key: getattr(self, key) for key in {"rules", "link"} - one.model_fields_set}
            )
            for one in self.reads
        )
        return self.with_(reads=reads, rules=(), link=PLAIN) if reads else self

    def with_options(self, *options: str) -> Node:
        """Return a copy of the node with further options at the end of its process's command line."""
        return self.with_(options=(*self.options, *options))


@dataclass(frozen=True)
class Link:
    """The network connection between a node (``target``) and one of the nodes that it reads, with its shape: rate,
    delay, jitter and outages.
    """

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

    def __getitem__(self, name: str) -> Node:
        """Return a node by its name. Raises KeyError for a name that no node has."""
        return self._by_name[name]

    @cached_property
    def readers(self) -> Mapping[str, list[Node]]:
        """A dictionary from the name of each node to the nodes that read directly from it."""
        found: dict[str, list[Node]] = {node.name: [] for node in self.nodes}
        for node in self.nodes:
            for reading in node.reads:
                found[reading.source].append(node)
        return found

    @cached_property
    def writers(self) -> Mapping[str, Mapping[str, Node]]:
        """A dictionary from the name of each node to a dictionary of the node's writers by name. The writers of a
        master or slave of dumpfilter are the nodes whose binlogs it passes on. A server, a recording (replayed binlogs)
        and a workload (generated binlogs) are their own only writers.
        """
        found: dict[str, dict[str, Node]] = {}
        for node in self.nodes:
            found[node.name] = {} if node.is_own else {node.name: node}
            for reading in node.reads if node.is_own else ():
                found[node.name] |= found[reading.source]
        return found

    @property
    def links(self) -> tuple[Link, ...]:
        """The network connections between the nodes.

        A master that reads a recording (replayed binlogs) or a workload (generated binlogs) has no connection to it,
        since the master reads files.
        """
        return tuple(
            Link(reading.source, node.name, reading.link)
            for node in self.nodes
            for reading in node.reads
            if not self._by_name[reading.source].is_files
        )


# -- the completion of the nodes that a person wrote

MOST_NODES = 1000
"""The limit of a topology's nodes. Most nodes become a process."""

MOST_SOURCES = 64
"""The maximum number of nodes, one after another, that transactions pass before they reach a node. A simulation
computes each such chain anew.
"""

LONGEST_NAME = 50
"""The limit of a node name's length, characters. A channel has the name of its source, with at most 64 characters, and
this source may be an added node such as ``NAME-recording``.
"""

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]*")

_PLACE_OF_KEY = {
    **dict.fromkeys(("rate", "delay", "jitter", "down"), 'link = {{ {} = "…" }}'),
    **dict.fromkeys(("size", "seed", "style"), "workload = {{ {} = … }}"),
    **dict.fromkeys(RULE_KINDS, 'rules = ["{}=…"]'),
}
"""The keys that people write directly into a node's table by mistake. The value shows where the key belongs, for the
error's text.
"""


class NodeError(OptionError):
    """An error about a key of a node in a topology. The text names the node and the key.

    A notation (TOML, short string) catches this error, and raises an OptionError that says where in the user's text the
    key stands.
    """

    def __init__(self, node: str, key: str, what: str) -> None:
        self.node = node
        self.key = key
        self.what = what
        super().__init__(": ".join(part for part in (f"node {node}", key, what) if part))


Problems = Iterator[tuple[str, str]]
"""The broken rules of a node as pairs: the key that breaks the rule, and a text that says what is wrong and how to mend
it. The check ends at the first pair, so a later rule may rely on an earlier one.
"""


def _refuse(node: Node, problems: Problems) -> None:
    for key, text in problems:
        raise NodeError(node.name, key, text)


def node_of(name: str, table: object, *, written: bool = True) -> Node:
    """Check the table ``[node.NAME]`` of a TOML configuration file, and return the node ``name``. Raises NodeError for
    an unknown key or a wrong value.

    ``table`` has the values by key. With ``written`` a person wrote the table, so that sizes and times need units.
    Otherwise they may be numbers (bytes, bits per second, seconds).
    """
    try:
        node = Node.model_validate(table, context=WRITTEN if written else None)
    except ValidationError as error:
        key, reason = reason_of(error, Node)
        if key in _PLACE_OF_KEY:
            reason = f"there is no such key; write {_PLACE_OF_KEY[key].format(key)}"
        raise NodeError(name, key, reason) from None
    if "name" in node.model_fields_set:
        raise NodeError(name, "name", "there is no such key; the table has the node's name")
    return node.with_(name=name)


def resolve(nodes: Iterable[Node], name: str = "topology") -> Topology:
    """Complete and check the given nodes, and return their topology, in which each source stands before its readers.
    ``name`` is the topology's name in reports.

    A node whose role (master or slave of dumpfilter) is not given gets one. A master is inserted where a slave reads a
    server or files. Raises OptionError, whose text says the remedy, for nodes that make no valid topology.
    """
    written = _by_name([node.with_own_sources() for node in nodes])
    for node in written.values():
        _refuse(node, _problems_of_keys(node, written))
    topology = Topology(tuple(_completed(_sources_first(written))), name)
    check_topology(topology)
    return topology


def _by_name(nodes: list[Node]) -> dict[str, Node]:
    if not nodes:
        raise OptionError("the topology has no nodes; the smallest one is m >> web")
    if len(nodes) > MOST_NODES:
        what = f"the topology has {len(nodes)} nodes, and the limit is {MOST_NODES}; leave nodes out"
        raise NodeError(nodes[MOST_NODES].name, "", what)
    folded: dict[str, Node] = {}
    """The nodes by their case-folded names, since names must differ not only in case."""
    for node in nodes:
        name = node.name
        if not _NAME.fullmatch(name) or len(name) > LONGEST_NAME:
            what = f"{name!r} is no name of a node: use at most {LONGEST_NAME} letters, digits, - and _"
            raise NodeError(name, "", what)
        other = folded.setdefault(name.casefold(), node)
        if other is not node:
            what = f"the names {other.name} and {name} do not differ, apart from the case of letters"
            raise NodeError(name, "", f"{what}; give one node another name")
    return {node.name: node for node in nodes}


def _sources_first(nodes: Mapping[str, Node]) -> list[Node]:
    """Return the nodes in an order in which each node follows its sources. ``nodes`` maps names to nodes.

    Raises NodeError for a cycle, and for a node with more than ``MOST_SOURCES`` nodes before it in a chain.
    """
    before: dict[str, int] = {}
    """For each node that is already in the order, the number of nodes in the longest chain of sources before this node.
    """

    def visit(name: str, *readers: str) -> int:
        if name in readers:
            path = " >> ".join((name, *reversed(readers[readers.index(name) :])))
            raise NodeError(name, "from", f"the nodes read in a circle, {path}; leave one arrow out")
        if name not in before and len(readers) <= MOST_SOURCES:
            lengths = [visit(reading.source, *readers, name) + 1 for reading in nodes[name].reads]
            before[name] = max(lengths, default=0)
        if before.get(name, MOST_SOURCES + 1) > MOST_SOURCES:
            last = (*readers, name)[0]
            what = f"more than {MOST_SOURCES} nodes stand before {last} in a chain, and that is the limit"
            raise NodeError(last, "from", f"{what}; let nodes read from an earlier one")
        return before[name]

    for name in nodes:
        visit(name)
    return [nodes[name] for name in before]


def _completed(ordered: list[Node]) -> list[Node]:
    """Return the nodes with their roles (master or slave of dumpfilter), with the new masters that are inserted, and
    with the styles of workloads (generated binlog sets). A style is the server family whose binlog format a set has.

    A master is inserted where a source and its readers need one between them, such as a server and a slave. A workload
    without its own style gets the family of the first real server that reads its binlog, directly or through other
    nodes. ``ordered`` has sources before their readers, and so has the result.
    """
    written = Topology(tuple(ordered))
    # The readers of a recording have the roles that they would have without a master in between.
    roles: dict[str, Role | None] = {}
    families: dict[str, Family] = {}
    for node in ordered:
        has_rules = any(reading.rules for reading in node.reads)
        reads_one = [roles[reading.source] for reading in node.reads] == [None]
        inferred: Role = "master" if reads_one and written.readers[node.name] and not has_rules else "slave"
        roles[node.name] = node.role if node.kinds else node.role or inferred
        for reading in node.reads if node.server else ():
            for writer in written.writers[reading.source]:
                families.setdefault(writer, node.family)
    taken = {node.name.casefold() for node in ordered}
    read_as: dict[str, dict[Role | None, str]] = {}
    """For each node as the user wrote it, the name of the node that its readers read instead, by their role: masters,
    slaves and servers (None).
    """
    made: list[Node] = []
    for node in ordered:
        name, role = node.name, roles[node.name]
        readers = {roles[each.name] for each in written.readers[name]}
        own, served = name, name
        if node.workload and not node.workload.style:
            style = families.get(name, DEFAULT_STYLE)
            node = node.with_(workload=node.workload.model_copy(update={"style": style}))
        if node.is_files and readers != {"master"}:
            # The master takes the name of the files, which links and SQL name.
            own = _free_name(name, node.kind, taken)
            node = node.with_(tls=False)
        elif node.kinds and "slave" in readers:
            served = _free_name(name, "master", taken)
        read_as[name] = {"master": own, "slave": served, None: name}
        reads = tuple(one.model_copy(update={"source": read_as[one.source][role]}) for one in node.reads)
        made.append(node.with_(name=own, role=role if own == name else None, reads=reads))
        if own != served:
            tls = written[name].tls
            made.append(Node.model_validate({"name": served, "role": "master", "from": own, "tls": tls}))
    return made


def _free_name(name: str, kind: Kind, taken: set[str]) -> str:
    """Return a name that is not in ``taken`` for a node that is added to the topology beside the node ``name``. An
    example is ``m-recording`` for the kind ``recording``. The new name, case-folded, is added to ``taken``, the set of
    all case-folded names.
    """
    number, free = 2, f"{name}-{kind}"
    while free.casefold() in taken:
        free, number = f"{name}-{kind}-{number}", number + 1
    taken.add(free.casefold())
    return free


# -- the rules that a topology must obey


def check_topology(topology: Topology) -> None:
    """Check that each node of a topology can replicate from its sources, and that its filter rules are valid.

    Raises NodeError, which names the node and the key, for the first problem.
    """
    for node in topology.nodes:
        _refuse(node, _problems(topology, node))


def _problems_of_keys(node: Node, nodes: Mapping[str, Node]) -> Problems:
    """Yield what is wrong with the keys of a node: keys that exclude each other, and sources that do not exist. A
    problem is a pair of the wrong key and a text about the problem. The key is empty if the node as a whole is wrong.

    ``nodes`` are all nodes of the topology by name.
    """
    kinds, given = node.kinds, node.model_fields_set
    if len(kinds) > 1:
        yield KEYS[kinds[1]][0], f"stands beside {KEYS[kinds[0]][0]}; a node is one of them"
    for kind, (first, *keys) in KEYS.items():
        for key in keys:
            if key in given and kind != node.kind:
                yield key, f"goes with {first} only; leave it out, or say {first}"
    if not node.reads:
        for key in ("link", "rules"):
            if key in given and getattr(node, key) != Node.model_fields[key].default:
                yield key, f"the node reads nothing; say from, or leave {key} out"
        if not kinds:
            what = "give server, connect, binlogs, workload or from"
            yield "", f"says neither what the node is nor what it reads; {what}"
    for option in () if kinds else node.options:
        if option.lstrip("-").partition("=")[0].replace("_", "-") in RULE_KINDS:
            yield "options", f"{option} is a filter rule, which a check would not know; write it into rules"
    what = _ONLY_SERVE.get(node.kind, "")
    if what and node.reads:
        yield "from", f"{node.name} is {what}, which reads nothing; leave from out"
    if what and node.options:
        yield "options", f"{node.name} is {what}, which has no command line; leave options out"
    if kinds and node.role and (node.kind, node.role) != ("workload", "master"):
        remedy = "leave role out, or leave out what says that the node is a server or files"
        yield "role", f"{node.role} is a role of dumpfilter's own nodes; {remedy}"
    sources = [reading.source for reading in node.reads]
    for number, source in enumerate(sources):
        if source not in nodes:
            near = did_you_mean(source, [each for each in nodes if each != node.name])
            yield "from", f"there is no node {source!r}{near}"
        if source in sources[:number]:
            yield "from", f"{source} stands there twice; a node reads a source once"


def _problems(topology: Topology, node: Node) -> Problems:
    sources = [topology[reading.source] for reading in node.reads]
    match node.kind:
        case "master":
            yield from _problems_of_master(node, sources)
        case "slave":
            for source in sources:
                if not source.is_own:
                    what = "a slave of dumpfilter reads masters and slaves of dumpfilter"
                    yield "from", f"{what}, and {source.name} is none; put a master between"
            if len({source.tls for source in sources}) > 1:
                what = "a slave of dumpfilter has one setting of TLS for all its sources"
                yield "from", f"{what}; say tls for all of them, or for none"
        case "server":
            yield from _problems_of_server(topology, node, sources)
        case "running":
            yield from _problems_of_address(node.connect or "")
    if node.tls and node.kind in _ONLY_SERVE:
        what = f"{node.name} is {_ONLY_SERVE[node.kind]}, to which the topology gives no certificate"
        yield "tls", f"{what}; say tls for a master, a slave or a server with server = …"
    for reading in node.reads:
        if node.server and semantics_of(reading.rules) is FilterSemantics.EFFECTIVE:
            what = "a real server does not know the rules do, ignore and rewrite"
            yield "rules", f"{what}; use replicate-… rules"
        try:
            filter_of(reading.rules, NameRules())
        except OptionError as error:
            yield "rules", str(error)


def _problems_of_master(node: Node, sources: list[Node]) -> Problems:
    if len(sources) != 1:
        names = ", ".join(source.name for source in sources)
        what = f"a master has one source, not {len(sources)} ({names})"
        yield "from", f"{what}; make one master for each source, or a slave"
    (reading,), (source,) = node.reads, sources
    if reading.rules:
        yield "rules", "a master has no rules of its own; give them to its readers"
    if source.is_own:
        what = f"a master reads a server, a recording or a workload, and {source.name} is a {source.kind}"
        yield "role", f"{what} of dumpfilter; say role = slave"
    if source.is_files and reading.link != PLAIN:
        what = f"{node.name} reads the {source.kind} {source.name} from files, without a network"
        yield "link", f"{what}; give the link to the readers of {node.name}"


def _problems_of_server(topology: Topology, node: Node, sources: list[Node]) -> Problems:
    if node.root and node.server != "mysql":
        yield "root", "goes with server = mysql only; leave it out"
    for source in sources:
        if source.is_files:
            yield "from", f"a real server cannot read the files of {source.name}; put a master between"
        for writer in topology.writers[source.name].values():
            family = writer.server or (writer.workload and writer.workload.style)
            if family not in (None, node.server):
                what = f"a {node.server} server cannot replicate from {writer.name}, which is {family}"
                yield "server", f"{what}; say server = {family}"


def _problems_of_address(url: str) -> Problems:
    scheme, separator, rest = url.partition("://")
    if not separator or scheme not in ("mysql", "mariadb"):
        yield "connect", "the address of a server begins with mysql://, as in mysql://repl@db1:3306/"
    user, at, _ = rest.partition("/")[0].rpartition("@")
    if at and ":" in user:
        what = "the address has a password, which others can see; leave it out, and put it into a file"
        yield "connect", f"{what}, as in mysql://repl@db1:3306/?password-file=FILE"
