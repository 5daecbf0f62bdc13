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
workload. The module writes the tables of :class:`dumpfilter.topology.model.Node`.
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Iterator
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any, NamedTuple, NoReturn

from dumpfilter.base.errors import OptionError
from dumpfilter.base.options.near import did_you_mean
from dumpfilter.filter.rules import EffectiveRuleKind, RuleKind
from dumpfilter.topology.model import KINDS, LinkTable, Node, Topology, Workload
from dumpfilter.topology.resolve import node_of, resolve
from dumpfilter.topology.toml_notation import below, load_toml_topology

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
_OPENED = re.compile(r"[ \t]*\[")
_CLOSED = re.compile(r"\s*\]")
_KEY = re.compile(r"\s*(?:--)?([A-Za-z_-]+)\s*=\s*")
_QUOTED = re.compile(r'"(?:[^"\\]|\\.)*"')
_PLAIN_VALUE = re.compile(r'[^,\]"]*')
_AFTER_VALUE = re.compile(r"\s*([,\]])")

_KIND_KEYS = tuple(facts.key for kind, facts in KINDS.items() if facts.key and kind != "workload")
_LINK_KEYS = tuple(LinkTable.model_fields)
_WORKLOAD_KEYS = tuple(key for key in Workload.model_fields if key not in _LINK_KEYS)
_NODE_KEYS = (
    *(
        key
        for key in Node.model_fields
        if key not in ("name", "workload", "reads", "rules", "link", "options")
    ),
    *_WORKLOAD_KEYS,
    "option",
)
_REPEATABLE = ("init", "option", "down")
_RULE_KEYS = {
    name
    for kind in (*RuleKind, *EffectiveRuleKind)
    for name in (kind.option, kind.option.removeprefix("replicate-"))
}


class _Attribute(NamedTuple):
    key: str
    value: str


@dataclass
class _Mention:
    """One occurrence of a node in the short string, with its attributes and its sources.

    The sources are the nodes before the arrow that leads to this occurrence; empty without an arrow.
    """

    name: str
    attributes: list[_Attribute] = field(default_factory=list)
    sources: list[str] = field(default_factory=list)

    def table(self, keys: tuple[str, ...]) -> dict[str, Any]:
        """Return the values of the attributes whose keys are in ``keys``, by key.

        A key that may be repeated, such as ``init``, has a list of values.
        """
        found: dict[str, Any] = {}
        for key, value in self.attributes:
            if key in keys and key in _REPEATABLE:
                found.setdefault(key, []).append(value)
            elif key in keys:
                found[key] = value
        return found


def parse_string(text: str, *, name: str = "topology", directory: Path = Path()) -> Topology:
    """Return the topology that a short string describes. Relative paths in the string begin at ``directory``.

    Raises OptionError, whose text names the node and the key, or the column of the string.

    >>> [link.name for link in parse_string("m >> web[do-db=shop, rate=2mbit]; m >> hr >> hr2").links]
    ['m:web', 'm:hr', 'hr:hr2']
    """
    mentions: dict[str, list[_Mention]] = {}
    for mention in _mentions(text):
        mentions.setdefault(mention.name, []).append(mention)
    nodes = [node_of(key, _table(each), _where) for key, each in mentions.items()]
    return resolve([below(directory, node) for node in nodes], name, _where)


def topology_from(text: str | os.PathLike[str] | Topology) -> Topology:
    """Return the topology of a TOML file's path or of a short string. A :class:`Topology` is returned as it is.

    A text with an arrow or a bracket is a short string. Another text is a file if it ends in ``.toml``, has a slash,
    or names an existing file. Raises OptionError.
    """
    if isinstance(text, Topology):
        return text
    if not isinstance(text, str):
        return load_toml_topology(Path(text))
    if ">>" in text or "[" in text:
        return parse_string(text)
    path = Path(text)
    if path.suffix == ".toml" or os.sep in text or path.is_file():
        if not path.exists():
            near = did_you_mean(path.name, [each.name for each in path.parent.glob("*.toml")])
            raise OptionError(f"{text}: there is no such file{near}")
        return load_toml_topology(path)
    return parse_string(text)


def _where(name: str, key: str) -> str:
    """Return the place of a node's key for errors, such as ``topology string: web[rate]``.

    The string has only the last part of a key such as ``from[1].link.rate``.
    """
    key = re.sub(r"\[\d+\]", "", key).rpartition(".")[2]
    return f"topology string: {name}[{key}]" if key and key != "from" else f"topology string: {name}"


def _mentions(text: str) -> Iterator[_Mention]:
    """Yield the occurrences of nodes in a short string in order, each with the nodes before its arrow as sources.

    Raises OptionError, which names the column, for a syntax error.
    """
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
            mention = _Mention(token[0], sources=list(sources))
            opened = _OPENED.match(text, at)
            if opened:
                at = _attributes(text, opened.end(), mention)
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


def _attributes(text: str, at: int, mention: _Mention) -> int:
    """Parse the attributes in brackets that begin at offset ``at``, and add them to ``mention``.

    Returns the offset after the brackets. Raises OptionError for a syntax error and for an unknown key.
    """
    closed = _CLOSED.match(text, at)
    if closed:
        return closed.end()
    name = mention.name
    while True:
        key = _KEY.match(text, at)
        if key is None:
            _refuse(text, at, f"{name}[…] holds KEY=VALUE, such as {name}[do-db=shop, rate=2mbit]")
        at = key.end()
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
        _add(mention, key[1].replace("_", "-"), value)
        after = _AFTER_VALUE.match(text, at)
        if after is None:
            if at >= len(text):
                _refuse(text, at, f"the bracket of {name}[ is not closed")
            _refuse(text, at, f"the value of {key[1]} goes on here; put it into double quotes")
        at = after.end()
        if after[1] == "]":
            return at


def _add(mention: _Mention, key: str, value: str) -> None:
    key = "option" if key == "options" else key
    if key not in _RULE_KEYS and key not in _NODE_KEYS and key not in _LINK_KEYS:
        near = did_you_mean(key, [*_NODE_KEYS, *_LINK_KEYS, *sorted(_RULE_KEYS)])
        raise OptionError(f"{_where(mention.name, key)}: there is no such key{near}")
    if not value:
        raise OptionError(f"{_where(mention.name, key)}: the value is missing")
    if (
        key not in _RULE_KEYS
        and key not in _REPEATABLE
        and any(each.key == key for each in mention.attributes)
    ):
        raise OptionError(f"{_where(mention.name, key)}: stands there twice; keep one")
    mention.attributes.append(_Attribute(key, value))


def _table(mentions: list[_Mention]) -> dict[str, Any]:
    """Return the table of a node (the keys of its TOML table) from all occurrences of the node.

    Raises OptionError for a key that stands at the wrong occurrence, such as ``server`` at a later one.
    """
    first, *later = mentions
    name = first.name
    reads = any(mention.sources for mention in mentions)
    table = first.table(_NODE_KEYS)
    is_workload = not reads and not table.keys() & {*_KIND_KEYS, "role"}
    for mention in later:
        for key in mention.table(_NODE_KEYS):
            raise OptionError(
                f"{_where(name, key)}: says what the node is; write it where {name} stands first"
            )
    for mention in mentions:
        for key, value in mention.attributes:
            belongs_to_load = key == "rate" and mention is first and not reads
            if key not in _NODE_KEYS and not mention.sources and not belongs_to_load:
                raise OptionError(
                    f"{_where(name, key)}: belongs to an arrow; write it after the arrow, as in "
                    f"m >> {name}[{key}={value}]"
                )
    if "option" in table:
        table["options"] = table.pop("option")
    load = {key: table.pop(key) for key in _WORKLOAD_KEYS if key in table}
    if is_workload:
        load |= first.table(("rate",))
        table |= {"workload": load, "role": "master"}
    elif load:
        raise OptionError(
            f"{_where(name, next(iter(load)))}: belongs to a generated workload, which reads nothing; leave it out"
        )
    if reads:
        table["from"] = [
            {
                "node": source,
                "rules": [f"{key}={value}" for key, value in mention.attributes if key in _RULE_KEYS],
                "link": mention.table(_LINK_KEYS),
            }
            for mention in mentions
            for source in mention.sources
        ]
    return table
