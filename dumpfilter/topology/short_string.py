"""Topologies in a short string, such as ``m >> web[do-db=shop] ; m >> hr[do-db=hr] >> hr2``.

The grammar::

    topology  = chain { ";" chain }
    chain     = nodes { ">>" nodes }
    nodes     = node { "," node }
    node      = NAME [ "[" attribute { "," attribute } "]" ]
    attribute = KEY "=" ( VALUE | QUOTED )

A line break separates chains, too. Each node reads from all nodes before the arrow. A value with a comma, a bracket or
a quote stands in double quotes.

The first mention of a node says what the node is. The rules and the link in brackets belong to the arrow before them.
A node without an arrow before it and without ``server``, ``connect`` or ``binlogs`` is a master with a generated
workload.
"""

from __future__ import annotations

import json
import re
from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass, field
from itertools import groupby
from pathlib import Path
from typing import Any, NamedTuple, NoReturn, get_args

from dumpfilter.binlog.format import Family
from dumpfilter.errors import OptionError
from dumpfilter.filter.rules import EffectiveRuleKind, RuleKind
from dumpfilter.links.shape import PLAIN, LinkShape
from dumpfilter.options.near import did_you_mean
from dumpfilter.options.sizes import parse_size
from dumpfilter.topology.drafts import (
    Draft,
    DraftReading,
    Kind,
    Recording,
    Role,
    Running,
    Server,
    Workload,
)
from dumpfilter.topology.inference import role_to_say, style_to_say
from dumpfilter.topology.model import (
    MasterNode,
    Node,
    Reading,
    RecordingNode,
    RunningNode,
    ServerNode,
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

_TOKEN = re.compile(
    r"""
    (?P<space>[ \t\r]+)
    | (?P<arrow>>>|→)
    | (?P<end>[;\n])
    | (?P<comma>,)
    | (?P<open>\[)
    | (?P<name>[A-Za-z0-9_][A-Za-z0-9_-]*)
    """,
    re.VERBOSE,
)
_KEY = re.compile(r"\s*(?:--)?([A-Za-z_-]+)\s*=\s*")
_QUOTED = re.compile(r'"(?:[^"\\]|\\.)*"')
_PLAIN_VALUE = re.compile(r'[^,\]"]*')
_AFTER_VALUE = re.compile(r"\s*([,\]])")

_KIND_KEYS = ("server", "connect", "binlogs")
_WORKLOAD_KEYS = ("size", "seed", "style")
_NODE_KEYS = (*_KIND_KEYS, *_WORKLOAD_KEYS, "program", "init", "gtid", "speed", "role", "option")
_LINK_KEYS = ("rate", "delay", "jitter", "down")
_REPEATABLE = ("init", "option", "down")
_RULE_KEYS = {
    name
    for kind in (*RuleKind, *EffectiveRuleKind)
    for name in (kind.option, kind.option.removeprefix("replicate-"))
}
_OWNERS = {
    "program": "server",
    "init": "server",
    "gtid": "server",
    "speed": "binlogs",
}


class _Attribute(NamedTuple):
    key: str
    value: str
    column: int


@dataclass
class _Mention:
    """One place of the string at which a node stands."""

    name: str
    column: int
    attributes: list[_Attribute]
    sources: list[str] = field(default_factory=list)

    def values(self, key: str) -> list[_Attribute]:
        return [each for each in self.attributes if each.key == key]

    def value(self, key: str, parse: Callable[[str], Any], default: Any = None) -> Any:
        """Return the parsed value of an attribute. Raises OptionError that names node, key and value."""
        found = self.values(key)
        return default if not found else self.parsed(found[0], parse)

    def parsed(self, attribute: _Attribute, parse: Callable[[str], Any]) -> Any:
        try:
            return parse(attribute.value)
        except OptionError as error:
            raise OptionError(f"{_where(self.name, attribute.key)}: {error}") from None


def parse_string(text: str, *, name: str = "topology", directory: Path = Path()) -> Topology:
    """Return the topology of a short string. Relative paths begin at ``directory``.

    Raises OptionError that names the node and the key, or the column.

    >>> [link.name for link in parse_string("m >> web[do-db=shop, rate=2mbit]; m >> hr >> hr2").links]
    ['m:web', 'm:hr', 'hr:hr2']
    """
    mentions: dict[str, list[_Mention]] = {}
    for mention in _mentions(text):
        mentions.setdefault(mention.name, []).append(mention)
    return resolve([_draft(each, directory) for each in mentions.values()], name)


def _where(name: str, key: str = "") -> str:
    return f"topology string: {name}[{key}]" if key and key != "from" else f"topology string: {name}"


def _mentions(text: str) -> Iterable[_Mention]:
    """Yield the mentions of a string in order, with the sources that the arrows give to them."""
    at = 0
    sources: list[str] = []
    nodes: list[_Mention] = []
    wanted = True  # a node must come next
    while at < len(text):
        token = _TOKEN.match(text, at)
        if token is None:
            _refuse(text, at, f"{text[at]!r} has no meaning here; write NODE >> NODE[KEY=VALUE]")
        kind, column, at = token.lastgroup, at, token.end()
        if kind == "space":
            continue
        if kind == "name":
            if not wanted:
                _refuse(text, column, f"an arrow is missing before {token[0]}; write >> between nodes")
            mention = _Mention(token[0], column, [], list(sources))
            opened = re.compile(r"[ \t]*\[").match(text, at)
            if opened:
                mention.attributes, at = _attributes(text, opened.end(), token[0])
            nodes.append(mention)
            wanted = False
            yield mention
            continue
        if kind == "end" and (text[column] == "\n" or not nodes) and wanted:
            continue  # an empty chain, or a chain that goes on in the next line
        if wanted or kind == "open":
            _refuse(text, column, f"a node is missing before {token[0]!r}")
        if kind == "arrow":
            sources, nodes = [each.name for each in nodes], []
        elif kind == "end":
            sources, nodes = [], []
        wanted = True
    if wanted and (nodes or sources):
        _refuse(text, len(text), "a node is missing at the end")


def _refuse(text: str, at: int, what: str) -> NoReturn:
    line = text.count("\n", 0, at) + 1
    column = at - text.rfind("\n", 0, at)
    where = f"line {line}, column {column}" if "\n" in text.strip() else f"column {column}"
    raise OptionError(f"topology string: {where}: {what}")


def _attributes(text: str, at: int, name: str) -> tuple[list[_Attribute], int]:
    """Return the attributes in the brackets that open before ``at``, and the offset after the brackets."""
    found: list[_Attribute] = []
    if re.compile(r"\s*\]").match(text, at):
        return found, text.index("]", at) + 1
    while True:
        key = _KEY.match(text, at)
        if key is None:
            _refuse(text, at, f"{name}[…] holds KEY=VALUE, such as {name}[do-db=shop, rate=2mbit]")
        column, at = at, key.end()
        quoted = _QUOTED.match(text, at)
        if quoted:
            try:
                value = json.loads(quoted[0], strict=False)
            except ValueError:
                _refuse(
                    text, at, f"{quoted[0]} has a backslash without meaning; write \\\\ for one backslash"
                )
            at = quoted.end()
        else:
            plain = _PLAIN_VALUE.match(text, at)
            assert plain is not None
            value, at = plain[0].strip(), plain.end()
        found.append(_attribute(key[1], value, column, name, found))
        after = _AFTER_VALUE.match(text, at)
        if after is None:
            if at >= len(text):
                _refuse(text, at, f"the bracket of {name}[ is not closed")
            _refuse(text, at, f"the value of {key[1]} goes on here; put it into double quotes")
        at = after.end()
        if after[1] == "]":
            return found, at


def _attribute(key: str, value: str, column: int, name: str, before: list[_Attribute]) -> _Attribute:
    key = key.replace("_", "-")
    key = "option" if key == "options" else key
    if key not in _RULE_KEYS and key not in _NODE_KEYS and key not in _LINK_KEYS:
        near = did_you_mean(key, [*_NODE_KEYS, *_LINK_KEYS, *sorted(_RULE_KEYS)])
        raise OptionError(f"{_where(name, key)}: there is no such key{near}")
    if not value:
        raise OptionError(f"{_where(name, key)}: the value is missing")
    if key not in _RULE_KEYS and key not in _REPEATABLE and any(each.key == key for each in before):
        raise OptionError(f"{_where(name, key)}: stands there twice; keep one")
    return _Attribute(key, value, column)


def _draft(mentions: list[_Mention], directory: Path) -> Draft:
    first = mentions[0]
    reading = [mention for mention in mentions if mention.sources]
    for mention in mentions[1:]:
        for attribute in mention.attributes:
            if attribute.key in _NODE_KEYS:
                raise OptionError(
                    f"{_where(mention.name, attribute.key)}: says what the node is; write it where {mention.name} "
                    "stands first"
                )
    for mention in mentions:
        for attribute in mention.attributes:
            is_workload_rate = attribute.key == "rate" and mention is first and not reading
            if attribute.key not in _NODE_KEYS and not mention.sources and not is_workload_rate:
                raise OptionError(
                    f"{_where(mention.name, attribute.key)}: belongs to an arrow; write it after the arrow, as in "
                    f"m >> {mention.name}[{attribute.key}={attribute.value}]"
                )
    kind = _kind(first, directory, reads=bool(reading))
    return Draft(
        first.name,
        lambda key: _where(first.name, re.sub(r"^rules.*", "rules", key)),
        kind,
        first.value("role", _one_of(get_args(Role))),
        tuple(each for mention in reading for each in _readings(mention)),
        tuple(each.value for each in first.values("option")),
        own_master=isinstance(kind, Workload),
    )


def _readings(mention: _Mention) -> Iterable[DraftReading]:
    link = LinkShape(
        mention.value("rate", parse_rate),
        mention.value("delay", parse_time, 0.0),
        mention.value("jitter", parse_time, 0.0),
        tuple(mention.parsed(each, parse_outage) for each in mention.values("down")),
    )
    rules = [each for each in mention.attributes if each.key in _RULE_KEYS]

    def where(key: str) -> str:
        number = re.fullmatch(r"rules\[(\d+)\]", key)
        return _where(mention.name, rules[int(number[1]) - 1].key if number else key)

    for source in mention.sources:
        yield DraftReading(source, where, link, tuple(f"{each.key}={each.value}" for each in rules))


def _kind(mention: _Mention, directory: Path, *, reads: bool) -> Kind | None:
    keys = {each.key for each in mention.attributes}
    kinds = [key for key in _KIND_KEYS if key in keys]
    if len(kinds) > 1:
        raise OptionError(
            f"{_where(mention.name, kinds[1])}: stands beside {kinds[0]}; a node is one of them"
        )
    for key in [*_OWNERS, *_WORKLOAD_KEYS]:
        if key in keys and key in _OWNERS and _OWNERS[key] not in keys:
            owner = _OWNERS[key]
            raise OptionError(
                f"{_where(mention.name, key)}: goes with {owner} only; say {owner}, or leave it out"
            )
        if key in keys and key in _WORKLOAD_KEYS and (reads or kinds):
            raise OptionError(
                f"{_where(mention.name, key)}: belongs to a generated workload, which reads nothing; leave it out"
            )
    match kinds:
        case ["server"]:
            return Server(
                mention.value("server", _one_of(get_args(Family))),
                mention.value("program", str),
                tuple(each.value for each in mention.values("init")),
                mention.value("gtid", _switch, True),
            )
        case ["connect"]:
            return Running(mention.value("connect", str))
        case ["binlogs"]:
            return Recording(
                directory / mention.value("binlogs", str), mention.value("speed", parse_speed, 1.0)
            )
    if reads or "role" in keys:
        return None
    default = Workload()
    return Workload(
        mention.value("size", _size, default.size),
        mention.value("rate", parse_rate),
        mention.value("seed", _seed, default.seed),
        mention.value("style", _one_of(get_args(Family))),
    )


def _one_of(values: tuple[str, ...]) -> Callable[[str], str]:
    def parse(text: str) -> str:
        if text not in values:
            raise OptionError(f"{text!r} is not one of {', '.join(values)}")
        return text

    return parse


def _switch(text: str) -> bool:
    return _one_of(("yes", "no"))(text) == "yes"


def _size(text: str) -> int:
    return parse_size(text, least=1)


def _seed(text: str) -> int:
    if not re.fullmatch(r"\d{1,18}", text, re.ASCII):
        raise OptionError(f"{text!r} is no number; write one from 0 on")
    return int(text)


def to_string(topology: Topology) -> str:
    """Return a topology as a short string.

    >>> to_string(parse_string("m>>web [replicate-do-db = shop] ;m>>hr; hr, m>>hr2[delay=0.05s]"))
    'm >> web[do-db=shop]; m >> hr; hr, m >> hr2[delay=50ms]'
    """
    hidden = _hidden_workloads(topology)
    hidden_names = {workload.name for workload in hidden.values()}
    chains: list[str] = []
    last: str | None = None
    mentioned: set[str] = set()
    for node in topology.nodes:
        if node.name in hidden_names:
            continue
        own = _node_attributes(topology, node, hidden)
        arrows = [] if node.name in hidden else [list(group) for _, group in groupby(node.reads, _arrow_key)]
        if not arrows:
            chains.append(_mention(node.name, own))
        for number, readings in enumerate(arrows):
            mention = _mention(node.name, [*(own if number == 0 else []), *_arrow_attributes(readings[0])])
            sources = [reading.source for reading in readings]
            if sources == [last] and number == 0:
                chains[-1] += f" >> {mention}"
            else:
                chains.append(f"{', '.join(sources)} >> {mention}")
        mentioned.add(node.name)
        last = node.name
    return "; ".join(chains)


def _hidden_workloads(topology: Topology) -> Mapping[str, WorkloadNode]:
    """Return the workloads that the string need not name, by the names of their masters."""
    hidden = {}
    for node in topology.nodes:
        source = topology[node.reads[0].source] if len(node.reads) == 1 else None
        if (
            isinstance(node, MasterNode)
            and isinstance(source, WorkloadNode)
            and source.name == f"{node.name}-workload"
            and len(topology.readers(source.name)) == 1
            and not node.options
        ):
            hidden[node.name] = source
    return hidden


def _arrow_key(reading: Reading) -> tuple[LinkShape, tuple[str, ...]]:
    return reading.link, reading.rules


def _node_attributes(
    topology: Topology, node: Node, hidden: Mapping[str, WorkloadNode]
) -> list[tuple[str, str]]:
    found: list[tuple[str, str]] = []
    match hidden.get(node.name, node):
        case WorkloadNode() as load:
            default = Workload()
            if load.size != default.size:
                found.append(("size", format_size(load.size)))
            if load.rate is not None:
                found.append(("rate", format_rate(load.rate)))
            if load.seed != default.seed:
                found.append(("seed", str(load.seed)))
            style = style_to_say(topology, load.name, load.style)
            found += [("style", style)] if style else []
        case ServerNode(family=family, program=program, init=init, gtid=gtid):
            found.append(("server", family))
            found += [("program", program)] if program is not None else []
            found += [("init", statement) for statement in init]
            found += [] if gtid else [("gtid", "no")]
        case RunningNode(url=url):
            found.append(("connect", url))
        case RecordingNode(binlogs=binlogs, speed=speed):
            found.append(("binlogs", str(binlogs)))
            found += [] if speed == 1 else [("speed", format_speed(speed))]
        case _:
            source = topology[node.reads[0].source]
            role = "master" if isinstance(source, WorkloadNode) else role_to_say(topology, node)
            found += [("role", role)] if role else []
    return [*found, *(("option", option) for option in node.options)]


def _arrow_attributes(reading: Reading) -> Iterable[tuple[str, str]]:
    for rule in reading.rules:
        key, _, value = rule.partition("=")
        yield key.removeprefix("replicate-"), value
    shape = reading.link
    if shape != PLAIN:
        if shape.rate is not None:
            yield "rate", format_rate(shape.rate)
        if shape.delay:
            yield "delay", format_time(shape.delay)
        if shape.jitter:
            yield "jitter", format_time(shape.jitter)
        for outage in shape.outages:
            yield "down", format_outage(outage)


def _mention(name: str, attributes: list[tuple[str, str]]) -> str:
    return (
        f"{name}[{', '.join(f'{key}={_value(value)}' for key, value in attributes)}]" if attributes else name
    )


def _value(value: str) -> str:
    plain = _PLAIN_VALUE.fullmatch(value) and value == value.strip() and "\n" not in value and value
    return value if plain else json.dumps(value, ensure_ascii=False)
