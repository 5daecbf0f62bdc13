"""Topologies in TOML: a table ``[node.NAME]`` for each node."""

from __future__ import annotations

import json
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Annotated, Any

from pydantic import BeforeValidator, Field, ValidationError

from dumpfilter.binlog.format import Family
from dumpfilter.errors import OptionError
from dumpfilter.links.shape import PLAIN, LinkShape, Outage
from dumpfilter.options.near import did_you_mean
from dumpfilter.options.sizes import parse_size
from dumpfilter.options.small_file import read_small_file
from dumpfilter.options.toml_file import Model, parse_toml
from dumpfilter.topology.drafts import (
    Draft,
    DraftReading,
    Kind,
    Recording,
    Role,
    Running,
    Server,
    Where,
    Workload,
)
from dumpfilter.topology.inference import role_to_say, style_to_say
from dumpfilter.topology.model import (
    MasterNode,
    Node,
    RecordingNode,
    RunningNode,
    ServerNode,
    SlaveNode,
    Topology,
    WorkloadNode,
)
from dumpfilter.topology.resolve import resolve
from dumpfilter.topology.units import (
    format_outage,
    format_rate,
    format_size,
    format_speed,
    format_time,
    parse_outage,
    parse_rate,
    parse_speed,
    parse_time,
)

_PLACE_OF_KEY = {
    "rate": 'the rate of the link: link = { rate = "2mbit" }',
    "delay": 'the delay of the link: link = { delay = "50ms" }',
    "jitter": 'the jitter of the link: link = { jitter = "5ms" }',
    "down": 'the outages of the link: link = { down = ["60s-120s"] }',
    "size": 'the size of the workload: workload = { size = "1M" }',
    "do-db": 'a filter rule: rules = ["replicate-do-db=…"]',
}
"""The right place of keys that people write directly into a node."""


def _units(parse: Callable[[str], Any]) -> BeforeValidator:
    """Return a validator that reads a text with a unit. Pydantic adds the key to the errors of a ValueError."""

    def validate(value: object) -> Any:
        if not isinstance(value, str):
            raise ValueError(f'{value!r} has no unit; write a text, such as "{_EXAMPLES[parse]}"')
        try:
            return parse(value)
        except OptionError as error:
            raise ValueError(str(error)) from None

    return BeforeValidator(validate)


def _size(text: str) -> int:
    return parse_size(text, least=1)


_EXAMPLES: dict[Callable[[str], Any], str] = {
    parse_rate: "2mbit",
    parse_time: "50ms",
    parse_outage: "60s-120s",
    _size: "1M",
}


def _as_tuple(value: object) -> object:
    return (value,) if isinstance(value, str | dict) else value


def _as_sources(value: object) -> object:
    sources = _as_tuple(value)
    if not isinstance(sources, list | tuple):
        raise ValueError(f'{value!r} names no node; write from = "m" or from = ["m", "n"]')
    return tuple({"node": each} if isinstance(each, str) else each for each in sources)


def _as_workload(value: object) -> object:
    return {"size": value} if isinstance(value, str) else value


def _as_speed(value: object) -> object:
    if isinstance(value, bool) or not isinstance(value, str | int | float):
        raise ValueError(f'{value!r} is not a speed; write 1, 10 or "at-once"')
    try:
        return parse_speed(str(value))
    except OptionError as error:
        raise ValueError(str(error)) from None


_Texts = Annotated[tuple[str, ...], BeforeValidator(_as_tuple)]
_Rate = Annotated[int, _units(parse_rate)]
_Time = Annotated[float, _units(parse_time)]


class LinkTable(Model):
    """The table ``link`` of a node or of one of its sources."""

    rate: _Rate | None = None
    delay: _Time = 0.0
    jitter: _Time = 0.0
    down: Annotated[tuple[Annotated[Outage, _units(parse_outage)], ...], BeforeValidator(_as_tuple)] = ()

    def shape(self) -> LinkShape:
        """Return the shape of the link."""
        return LinkShape(self.rate, self.delay, self.jitter, self.down)


class WorkloadTable(Model):
    """The table ``workload`` of a node."""

    size: Annotated[int, _units(_size)] = Workload().size
    rate: _Rate | None = None
    seed: Annotated[int, Field(ge=0, lt=1 << 63)] = 1
    style: Family | None = None


class SourceTable(Model):
    """An entry of ``from`` with a link or rules of its own."""

    node: str
    link: LinkTable | None = None
    rules: _Texts | None = None


class NodeTable(Model):
    """The table ``[node.NAME]``."""

    server: Family | None = None
    program: str | None = None
    init: _Texts = ()
    gtid: bool = True
    connect: str | None = None
    binlogs: Path | None = None
    speed: Annotated[float | None, BeforeValidator(_as_speed)] = 1.0
    workload: Annotated[WorkloadTable, BeforeValidator(_as_workload)] | None = None
    role: Role | None = None
    sources: Annotated[tuple[SourceTable, ...], BeforeValidator(_as_sources), Field(alias="from")] = ()
    link: LinkTable = LinkTable()
    rules: _Texts = ()
    options: _Texts = ()


class TopologyTable(Model):
    """The whole file."""

    name: str | None = None
    node: dict[str, NodeTable]


_TABLES: Mapping[str, type[Model]] = {"link": LinkTable, "workload": WorkloadTable, "from": SourceTable}
_KINDS = ("server", "connect", "binlogs", "workload")
_ONLY_WITH = {"program": "server", "init": "server", "gtid": "server", "speed": "binlogs"}


def load_toml_topology(path: Path) -> Topology:
    """Read a topology from a TOML file. Relative paths in the file begin at the file's directory.

    Raises OptionError that names the file and the key.
    """
    try:
        text = read_small_file(path).decode("utf-8")
    except (OSError, UnicodeDecodeError) as error:
        raise OptionError(f"{path}: cannot be read: {getattr(error, 'strerror', None) or error}") from None
    return parse_toml_topology(text, file=str(path), directory=path.parent, name=path.stem)


def parse_toml_topology(
    text: str, *, file: str = "topology", directory: Path = Path(), name: str = "topology"
) -> Topology:
    """Return the topology of a text in TOML.

    ``file`` is the file's name for errors. Relative paths begin at ``directory``. ``name`` is the name of a topology
    whose text has none. Raises OptionError that names the file and the key.
    """
    return topology_of_tables(parse_toml(text, file), file=file, directory=directory, name=name)


def topology_of_tables(
    tables: Mapping[str, Any], *, file: str = "topology", directory: Path = Path(), name: str = "topology"
) -> Topology:
    """Return the topology of parsed TOML tables. The arguments and errors are those of :func:`parse_toml_topology`."""
    try:
        table = TopologyTable.model_validate(tables)
    except ValidationError as error:
        raise OptionError(f"{file}: {_reason(error)}") from None
    drafts = [_draft(key, node, file, directory) for key, node in table.node.items()]
    try:
        return resolve(drafts, table.name or name)
    except OptionError as error:
        raise error if drafts else OptionError(f"{file}: {error}") from None


def _reason(error: ValidationError) -> str:
    errors = error.errors(include_url=False)
    # A misspelt key is often the reason why another key is missing.
    first = next((each for each in errors if each["type"] == "extra_forbidden"), errors[0])
    location = first["loc"]
    key = "".join(f"[{part + 1}]" if isinstance(part, int) else f".{part}" for part in location).lstrip(".")
    match first["type"]:
        case "extra_forbidden":
            return f"{key}: there is no such key{_near_key(location)}"
        case "missing" if location == ("node",):
            return "has no [node.NAME]; the smallest topology has two of them"
        case "missing":
            return f"{key}: is missing"
        case "value_error":
            return f"{key}: {first['ctx']['error']}"
        case "literal_error":
            return f"{key}: {first['input']!r} is not one of {first['ctx']['expected']}"
    shown = "" if "connect" in location else f"{str(first['input'])[:60]!r}: "
    return f"{key}: {shown}{first['msg'][:1].lower()}{first['msg'][1:]}"


def _near_key(location: tuple[int | str, ...]) -> str:
    *parents, key = location
    if not parents:
        return did_you_mean(str(key), ["name", "node"])
    names = [part for part in parents if isinstance(part, str)]
    table = _TABLES.get(names[-1], NodeTable) if len(names) > 2 else NodeTable
    if table is NodeTable and key in _PLACE_OF_KEY:
        return f"; write {_PLACE_OF_KEY[str(key)]}"
    return did_you_mean(str(key), [field.alias or name for name, field in table.model_fields.items()])


def _draft(name: str, table: NodeTable, file: str, directory: Path) -> Draft:
    def where(key: str) -> str:
        return f"{file}: node.{name}{'.' if key else ''}{key}"

    given = {
        field.alias or key for key, field in NodeTable.model_fields.items() if key in table.model_fields_set
    }
    kinds = [key for key in _KINDS if key in given]
    if len(kinds) > 1:
        raise OptionError(f"{where(kinds[1])}: stands beside {kinds[0]}; a node is one of them")
    for key, owner in _ONLY_WITH.items():
        if key in given and owner not in given:
            raise OptionError(f"{where(key)}: goes with {owner} only; leave it out, or say {owner}")
    if not table.sources:
        for key in sorted(given & {"link", "rules"}):
            raise OptionError(f"{where(key)}: the node reads nothing; say from, or leave {key} out")
    return Draft(
        name,
        where,
        _kind(table, directory),
        table.role,
        tuple(_reading(source, number, table, where) for number, source in enumerate(table.sources, 1)),
        table.options,
    )


def _kind(table: NodeTable, directory: Path) -> Kind | None:
    if table.server:
        return Server(table.server, table.program, table.init, table.gtid)
    if table.connect is not None:
        return Running(table.connect)
    if table.binlogs is not None:
        return Recording(directory / table.binlogs, table.speed)
    if table.workload is not None:
        load = table.workload
        return Workload(load.size, load.rate, load.seed, load.style)
    return None


def _reading(source: SourceTable, number: int, table: NodeTable, where: Where) -> DraftReading:
    def where_in_source(key: str) -> str:
        owns = source.rules is not None if key.startswith("rules") else source.link is not None
        return where(f"from[{number}].{key}" if owns else key)

    link = table.link if source.link is None else source.link
    return DraftReading(
        source.node, where_in_source, link.shape(), table.rules if source.rules is None else source.rules
    )


def to_toml(topology: Topology) -> str:
    """Return a topology in TOML. The text names every node, also the masters that a notation may leave out."""
    parts = [] if topology.name == "topology" else [f"name = {_text(topology.name)}\n"]
    for node in topology.nodes:
        lines = [f"[node.{node.name}]", *(f"{key} = {value}" for key, value in _keys(topology, node))]
        parts.append("\n".join(lines) + "\n")
    return "\n".join(parts)


def _keys(topology: Topology, node: Node) -> Iterable[tuple[str, str]]:
    match node:
        case ServerNode():
            yield "server", _text(node.family)
            if node.program is not None:
                yield "program", _text(node.program)
            if node.init:
                yield "init", _texts(node.init)
            if not node.gtid:
                yield "gtid", "false"
        case RunningNode():
            yield "connect", _text(node.url)
        case RecordingNode():
            yield "binlogs", _text(str(node.binlogs))
            if node.speed != 1:
                speed = format_speed(node.speed)
                yield "speed", _text(speed) if node.speed is None else speed
        case WorkloadNode():
            keys = [("size", _text(format_size(node.size)))]
            if node.rate is not None:
                keys.append(("rate", _text(format_rate(node.rate))))
            if node.seed != 1:
                keys.append(("seed", str(node.seed)))
            style = style_to_say(topology, node.name, node.style)
            if style:
                keys.append(("style", _text(style)))
            yield "workload", _table(keys)
        case MasterNode() | SlaveNode():
            role = role_to_say(topology, node)
            if role:
                yield "role", _text(role)
    yield from _source_keys(node)
    if node.options:
        yield "options", _texts(node.options)


def _source_keys(node: Node) -> Iterable[tuple[str, str]]:
    links, rules = {reading.link for reading in node.reads}, {reading.rules for reading in node.reads}
    if len(links) > 1 or len(rules) > 1:
        sources = [
            _table([("node", _text(each.source)), *_link_keys(each.link), *_rule_keys(each.rules)])
            for each in node.reads
        ]
        yield "from", f"[{', '.join(sources)}]"
        return
    if node.reads:
        names = [reading.source for reading in node.reads]
        yield "from", _text(names[0]) if len(names) == 1 else _texts(names)
        yield from _rule_keys(node.reads[0].rules)
        yield from _link_keys(node.reads[0].link)


def _link_keys(shape: LinkShape) -> Iterable[tuple[str, str]]:
    if shape == PLAIN:
        return
    keys = []
    if shape.rate is not None:
        keys.append(("rate", _text(format_rate(shape.rate))))
    if shape.delay:
        keys.append(("delay", _text(format_time(shape.delay))))
    if shape.jitter:
        keys.append(("jitter", _text(format_time(shape.jitter))))
    if shape.outages:
        keys.append(("down", _texts(format_outage(each) for each in shape.outages)))
    yield "link", _table(keys)


def _rule_keys(rules: tuple[str, ...]) -> Iterable[tuple[str, str]]:
    if rules:
        yield "rules", _texts(rules)


def _text(text: str) -> str:
    # A string of JSON is a basic string of TOML but for DEL, which TOML wants escaped.
    return json.dumps(text, ensure_ascii=False).replace("\x7f", "\\u007f")


def _texts(texts: Iterable[str]) -> str:
    return f"[{', '.join(map(_text, texts))}]"


def _table(keys: Iterable[tuple[str, str]]) -> str:
    return f"{{ {', '.join(f'{key} = {value}' for key, value in keys)} }}"
