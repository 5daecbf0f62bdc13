"""The notations of topologies: TOML, with a table ``[node.NAME]`` for each node, a short string, and Python, with a
function for each kind of node.

A short string is for example ``m >> web[do-db=shop] ; m >> hr[do-db=hr] >> hr2``. The grammar::

    topology  = chain { ";" chain }
    chain     = nodes { ">>" nodes }
    nodes     = node { "," node }
    node      = NAME [ "[" attribute { "," attribute } "]" ]
    attribute = KEY "=" ( VALUE | QUOTED )

A line break separates chains, too. Each node reads from all nodes before the arrow. A value with a comma, a bracket or
a quote stands in double quotes.

The first mention of a node says what the node is. The rules and the link in brackets belong to the arrow before them.
A node without an arrow before it and without ``server``, ``connect`` or ``binlogs`` is a master with a generated
workload. Each notation writes the tables of :class:`dumpfilter.topology.model.Node`.

In Python:

>>> m = workload("m")
>>> web = slave("web", m, rules=["do-db=shop"], link=link("2mbit", delay="50ms"))
>>> [each.name for each in make_topology(m, web).links]
['m:web']
"""

from __future__ import annotations

import json
import os
import re
from collections.abc import Callable, Mapping, Sequence
from pathlib import Path
from typing import Any, NoReturn

from pydantic import ValidationError

from dumpfilter.base.errors import OptionError
from dumpfilter.base.options.config_files import parse_toml, read_toml, reason_of
from dumpfilter.base.options.values import did_you_mean
from dumpfilter.binlog.format import Family
from dumpfilter.topology.links.shape import LinkShape
from dumpfilter.topology.model import (
    KEYS,
    RULE_KINDS,
    LinkTable,
    Node,
    NodeError,
    Reading,
    Topology,
    Workload,
    node_of,
    resolve,
)

_TOKEN = re.compile(
    r"(?P<space>[ \t\r]+)|(?P<arrow>>>|→)|(?P<end>[;\n])|(?P<comma>,)|(?P<name>[A-Za-z0-9_][A-Za-z0-9_-]*)"
)
_OPENED = re.compile(r"[ \t]*\[(?P<empty>\s*\])?")
_ATTRIBUTE = re.compile(
    r"""\s*(?:--)?(?P<key>[A-Za-z_-]+)\s*=\s*(?P<value>"(?:[^"\\]|\\.)*"|[^,\]"]*)(?:\s*(?P<after>[,\]]))?"""
)

_LINK_KEYS = tuple(field.alias or name for name, field in LinkTable.model_fields.items())
_WORKLOAD_KEYS = tuple(key for key in Workload.model_fields if key not in _LINK_KEYS)
_SPELLED_OTHERWISE = ("name", "workload", "reads", "rules", "link", "options")
"""The fields of a node that are no keys in a topology's short string, such as ``m >> web[rate=2mbit]``."""
_NODE_KEYS = (*(key for key in Node.model_fields if key not in _SPELLED_OTHERWISE), *_WORKLOAD_KEYS, "option")
_LISTS = {"init": "init", "option": "options", "down": "down"}
"""The keys that may be repeated in a topology's short string, other than rules. The value is the TOML key that has the
list of all values.
"""
_SAY_WHAT = {"from", "role", *(key for key, *_ in KEYS.values())}
"""The keys that determine a node's kind, such as ``server``. A node in a topology's short string that has none of them
is a generated workload.
"""


# -- TOML


def parse_toml_topology(
    text: str, *, file: str = "topology", directory: Path = Path(), name: str = "topology"
) -> Topology:
    """Return the topology that a text in TOML describes.

    ``file`` is the file's name for errors. Relative paths of binlogs begin at ``directory``. ``name`` is the name of a
    topology whose text has none. Raises OptionError, which names the file and the key, for an invalid topology.
    """
    return topology_of_tables(parse_toml(text, file), file=file, directory=directory, name=name)


def topology_of_tables(
    tables: Mapping[str, Any], *, file: str = "topology", directory: Path = Path(), name: str = "topology"
) -> Topology:
    """Return the topology that the parsed tables of a TOML configuration file describe. The table ``node`` has all
    nodes by name.

    ``file`` is the file's name for errors. Relative paths of binlogs begin at ``directory``. ``name`` is the name of a
    topology whose tables have none. Raises OptionError, which names the file and the key, for an invalid topology.
    """

    def where(node: str, key: str) -> str:
        return f"{file}: node.{node}{'.' if key else ''}{key}"

    for key in tables:
        if key not in ("name", "node"):
            raise OptionError(f"{file}: {key}: there is no such key{did_you_mean(key, ['name', 'node'])}")
    written = tables.get("node")
    if not written or not isinstance(written, Mapping):
        raise OptionError(f"{file}: has no [node.NAME]; the smallest topology has two of them")
    name = tables.get("name", name)
    if not isinstance(name, str):
        raise OptionError(f'{file}: name: is no text; write name = "fan-out"')
    return _topology_of(written, name, where, directory)


def _topology_of(
    tables: Mapping[str, object], name: str, where: Callable[[str, str], str], directory: Path
) -> Topology:
    """Return the topology called ``name``. ``tables`` has the values that a person wrote for each node, by the node's
    name. Raises OptionError for an invalid topology.

    ``where`` is called for the error's text with the names of a node and of a key, and says where this key was written.
    Relative paths of binlogs begin at ``directory``.
    """
    try:
        nodes = [node_of(key, table) for key, table in tables.items()]
        return resolve(
            [node.with_(binlogs=directory / node.binlogs) if node.binlogs else node for node in nodes], name
        )
    except NodeError as error:
        raise OptionError(f"{where(error.node, error.key)}: {error.what}") from None


def to_toml(topology: Topology) -> str:
    """Return a topology as TOML text, which :func:`parse_toml_topology` reads.

    The text has all nodes, even the masters that a person may leave out.
    """
    parts = [] if topology.name == "topology" else [f"name = {toml_value(topology.name)}\n"]
    for node in topology.nodes:
        lines = [f"{key} = {toml_value(value)}\n" for key, value in _table(node).items()]
        parts.append(f"[node.{node.name}]\n{''.join(lines)}")
    return "\n".join(parts)


def _table(node: Node) -> dict[str, Any]:
    """Return a node as a table ``[node.NAME]`` of a TOML configuration file, without keys that have default values.

    If all sources have equal rules and links, these are keys of the node. Otherwise each source has a table with its
    rules and link.
    """
    table = node.model_dump(by_alias=True, exclude_defaults=True)
    sources = table.pop("from", ())
    shared = [{key: value for key, value in source.items() if key != "node"} for source in sources]
    if sources and all(each == shared[0] for each in shared):
        names = [source["node"] for source in sources]
        table |= {"from": names[0] if len(names) == 1 else names, **shared[0]}
    elif sources:
        table["from"] = sources
    return table


def toml_value(value: object) -> str:
    """Return a Python value (text, number, truth value, list or dictionary) in TOML notation. Dictionaries become
    inline tables.
    """
    if isinstance(value, dict):
        return f"{{ {', '.join(f'{key} = {toml_value(one)}' for key, one in value.items())} }}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(toml_value, value))}]"
    # A text of JSON is a basic string of TOML but for DEL, which TOML wants escaped.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")


# -- the short string


def parse_string(text: str) -> Topology:
    """Return the topology that a short string such as ``m >> web[do-db=shop]`` describes.

    The arrow means that ``web`` reads from ``m``. Relative paths of binlogs begin at the working directory.

    Raises OptionError, whose text names the node and the key, or the column of the string.

    >>> [link.name for link in parse_string("m >> web[do-db=shop, rate=2mbit]; m >> hr >> hr2").links]
    ['m:web', 'm:hr', 'hr:hr2']
    """
    tables = _tables(text)
    for key, table in tables.items():
        _complete(key, table)
    return _topology_of(tables, "topology", _where, Path())


def topology_from(text: str | os.PathLike[str] | Topology) -> Topology:
    """Return the topology of a TOML file's path or of a short string. A :class:`Topology` is returned as it is.

    A text with an arrow or a bracket is a short string. Another text is a file if it ends in ``.toml``, has a slash, or
    names an existing file. Raises OptionError for a file that does not exist, for an invalid topology, and for
    another type.
    """
    if isinstance(text, Topology):
        return text
    if not isinstance(text, str | os.PathLike):
        raise OptionError(
            f"{text!r} is no topology: give a short string, the path of a TOML file, or a Topology"
        )
    path = Path(text)
    if isinstance(text, str):
        names_file = path.suffix == ".toml" or os.sep in text or os.path.isfile(text)
        if ">>" in text or "[" in text or not names_file:
            return parse_string(text)
        if not os.path.exists(text):
            near = did_you_mean(path.name, [each.name for each in path.parent.glob("*.toml")])
            raise OptionError(f"{text}: there is no such file{near}")
    return topology_of_tables(read_toml(path), file=str(path), directory=path.parent, name=path.stem)


def _where(name: str, key: str) -> str:
    """Return the beginning of an error's text, which says where in a short string a node's key stands, such as
    ``topology string: web[rate]``.

    A key such as ``from[1].link.rate`` is shortened to its last part, because only this part is in the short string.
    """
    key = re.sub(r"\[\d+\]", "", key).rpartition(".")[2]
    return f"topology string: {name}[{key}]" if key and key != "from" else f"topology string: {name}"


def _tables(text: str) -> dict[str, dict[str, Any]]:
    """Parse a short string such as ``m >> web[do-db=shop]``. Return a dictionary from each node's name to its keys and
    values, as a TOML file would have them.

    A workload (generated binlog set) that the string only implies is not yet added. Raises OptionError, which names the
    column, for a syntax error.
    """
    tables: dict[str, dict[str, Any]] = {}
    at = 0
    sources: list[str] = []
    nodes: list[str] = []
    is_wanted = True  # a node must come next
    while at < len(text):
        token = _TOKEN.match(text, at)
        if token is None:
            _refuse(text, at, f"{text[at]!r} has no meaning here; write NODE >> NODE[KEY=VALUE]")
        kind, column, at = token.lastgroup, at, token.end()
        if kind == "name":
            if not is_wanted:
                _refuse(text, column, f"an arrow is missing before {token[0]}; write >> between nodes")
            attributes, at = _attributes(text, at, token[0])
            nodes.append(token[0])
            is_wanted = False
            _add(tables, token[0], attributes, sources)
        elif kind != "space" and not is_wanted:
            if kind != "comma":
                sources, nodes = nodes if kind == "arrow" else [], []
            is_wanted = True
        elif kind != "space" and token[0] != "\n" and (kind != "end" or nodes or sources):
            # A chain may be empty, and may go on in the next line.
            _refuse(text, column, f"a node is missing before {token[0]!r}")
    if is_wanted and (nodes or sources):
        _refuse(text, len(text), "a node is missing at the end")
    return tables


def _refuse(text: str, at: int, what: str) -> NoReturn:
    line = text.count("\n", 0, at) + 1
    column = at - text.rfind("\n", 0, at)
    where = f"line {line}, column {column}" if "\n" in text.strip() else f"column {column}"
    raise OptionError(f"topology string: {where}: {what}")


def _attributes(text: str, at: int, name: str) -> tuple[list[tuple[str, str]], int]:
    """Parse the attributes in brackets after a node's name in a short string, such as ``[do-db=shop]``. Return pairs of
    key and value, and the offset in ``text`` after the brackets.

    ``at`` is the offset in ``text`` after the name, and ``name`` is the name for errors. A node without brackets has no
    attributes. Raises OptionError for a syntax error.
    """
    found: list[tuple[str, str]] = []
    opened = _OPENED.match(text, at)
    at = opened.end() if opened else at
    after = "," if opened and not opened["empty"] else ""
    while after == ",":
        one = _ATTRIBUTE.match(text, at)
        if one is None:
            _refuse(text, at, f"{name}[…] holds KEY=VALUE, such as {name}[do-db=shop, rate=2mbit]")
        value = one["value"].strip()
        if value.startswith('"'):
            try:
                value = json.loads(value, strict=False)
            except ValueError:
                what = f"{value} has a backslash without meaning; write \\\\ for one backslash"
                _refuse(text, one.start("value"), what)
        found.append((one["key"].replace("_", "-"), value))
        at, after = one.end(), one["after"]
        if not after and at >= len(text):
            _refuse(text, at, f"the bracket of {name}[ is not closed")
        if not after:
            _refuse(text, at, f"the value of {one['key']} goes on here; put it into double quotes")
    return found, at


def _add(
    tables: dict[str, dict[str, Any]], name: str, attributes: list[tuple[str, str]], sources: list[str]
) -> None:
    """Add one occurrence of the node ``name`` in a short string (such as ``m >> web``) to ``tables``, which has the
    keys and values of each node by name.

    ``sources`` are the nodes before the arrow that leads to this occurrence. The filter rules and the properties of the
    link (such as its rate) in ``attributes`` (pairs of key and value) belong to these sources. Other keys are allowed
    at the first occurrence only. Raises OptionError for a key that is unknown or misplaced.
    """
    is_first = name not in tables
    table = tables.setdefault(name, {})
    rules: list[str] = []
    link: dict[str, Any] = {}
    for written, value in attributes:
        key = "option" if written == "options" else written
        where = _where(name, key)
        belongs_to_arrow = key in RULE_KINDS or key in _LINK_KEYS
        if not belongs_to_arrow and key not in _NODE_KEYS:
            near = did_you_mean(key, [*_NODE_KEYS, *_LINK_KEYS, *sorted(RULE_KINDS)])
            raise OptionError(f"{where}: there is no such key{near}")
        if not value:
            raise OptionError(f"{where}: the value is missing")
        if not belongs_to_arrow and not is_first:
            raise OptionError(f"{where}: says what the node is; write it where {name} stands first")
        # The rate of a node that reads nothing is the rate at which its workload grows.
        if belongs_to_arrow and not sources and not (key == "rate" and is_first):
            raise _misplaced(name, key, value)
        into = link if sources and key in _LINK_KEYS else table
        if key in RULE_KINDS:
            rules.append(f"{key}={value}")
        elif key in _LISTS:
            into.setdefault(_LISTS[key], []).append(value)
        elif key in into:
            raise OptionError(f"{where}: stands there twice; keep one")
        else:
            into[key] = value
    for source in sources:
        table.setdefault("from", []).append({"node": source, "rules": rules, "link": link})


def _misplaced(name: str, key: str, value: str) -> OptionError:
    remedy = f"write it after the arrow, as in SOURCE >> {name}[{key}={value}]"
    return OptionError(f"{_where(name, key)}: belongs to an arrow; {remedy}")


def _complete(name: str, table: dict[str, Any]) -> None:
    """Make a node a workload (generated binlog set) if it has no source, and no key that says what it is. The node is
    from a topology's short string, such as ``m >> web``.

    ``table`` has the keys and values of the node ``name``, and is changed. Raises OptionError for another node with the
    keys of a workload.
    """
    load = {key: table.pop(key) for key in ("rate", *_WORKLOAD_KEYS) if key in table}
    if not table.keys() & _SAY_WHAT:
        table |= {"workload": load, "role": "master"}
    elif "rate" in load:
        raise _misplaced(name, "rate", load["rate"])
    elif load:
        what = "belongs to a generated workload, which reads nothing; leave it out"
        raise OptionError(f"{_where(name, next(iter(load)))}: {what}")


# -- Python

Source = str | Node | Reading
"""A source that a node reads: its name, the node itself, or the result of :func:`read`, with a link and rules of its
own.
"""


def link(
    rate: str | int | None = None,
    *,
    delay: str | float = 0.0,
    jitter: str | float = 0.0,
    down: str | Sequence[str] = (),
) -> LinkShape:
    """Return the shape of a link (network connection of two nodes): its rate, delay, jitter and outages.

    ``down`` has the outages, such as ``"60s-120s"`` since the start. Raises OptionError for a wrong value.
    """
    keys = {"rate": rate, "delay": delay, "jitter": jitter, "down": down}
    try:
        return LinkShape(**dict(LinkTable.model_validate(keys)))
    except ValidationError as error:
        key, reason = reason_of(error, LinkTable)
        raise OptionError(f"{key}: {reason}") from None


def read(source: str | Node, **keys: Any) -> Reading:
    """Return one source of a node with its own filter rules and link, for the argument ``reads`` of :func:`slave` or
    :func:`server`. ``source`` is the node to replicate from, or its name. ``keys`` are ``rules`` (filter rules) and
    ``link`` (the shape of the network connection). Raises OptionError for a wrong key or value.
    """
    name = source if isinstance(source, str) else source.name
    return _node(name, name, **keys).reads[0]


def server(name: str, family: Family = "mariadb", reads: Source | Sequence[Source] = (), **keys: Any) -> Node:
    """Return the node of a database server (``family``: MariaDB or MySQL) that is started for the topology.

    A server with ``reads`` (the nodes to replicate from) is a replica. ``keys`` are the keys of a server in TOML, such
    as ``rules``, ``link`` and ``options``. Raises OptionError for a wrong key or value.
    """
    return _node(name, reads, server=family, **keys)


def running(name: str, url: str) -> Node:
    """Return the node ``name`` of a server that runs already, at an address such as ``mysql://repl@db1:3306/``.

    The topology reads its binlog, and neither stops nor changes the server.
    """
    return _node(name, connect=url)


def recording(name: str, binlogs: str | os.PathLike[str], *, speed: float | None = 1.0) -> Node:
    """Return the node of a recorded binlog set. ``binlogs`` is the path of its index file or directory. The
    transactions are written again, ``speed`` times as fast as at the recording.

    With ``speed`` None the whole set exists from the beginning.
    """
    return _node(name, binlogs=Path(binlogs), speed=speed)


def workload(name: str, size: str | int = "1M", **keys: Any) -> Node:
    """Return the node of a master that serves a generated binlog set of ``size`` bytes (a workload).

    ``keys`` are the other keys of a workload in TOML, such as ``rate``. A rate that is a number is in bits per second.
    In the topology the generated files are another node, which is called ``NAME-workload``. Raises OptionError for a
    wrong key or value.
    """
    return _node(name, workload={"size": size, **keys}, role="master")


def master(name: str, reads: Source, **keys: Any) -> Node:
    """Return the node of a master of dumpfilter, which reads one node and serves the binlog to slaves and replicas.

    ``reads`` is a server, a recording (replayed binlogs) or a workload (generated binlogs). ``keys`` are ``link`` (the
    shape of the network connection to the node that is read), ``options`` (for the master's command line) and ``tls``
    (whether readers connect by TLS).
    """
    return _node(name, reads, role="master", **keys)


def slave(name: str, reads: Source | Sequence[Source], **keys: Any) -> Node:
    """Return the node of a slave of dumpfilter. ``reads`` are its sources. A slave reads masters and other slaves. If a
    source is a server, a recording (replayed binlogs) or a workload (generated binlogs), :func:`make_topology` inserts
    a master between the source and the slave.

    ``keys`` are ``rules`` (filter rules), ``link`` (the shape of the network connection to the sources), ``options``
    (for the command line) and ``tls`` (whether readers connect by TLS). A source that :func:`read` made has rules and a
    link of its own. Raises OptionError for a wrong key or value.
    """
    return _node(name, reads, role="slave", **keys)


def make_topology(*nodes: Node, name: str = "topology") -> Topology:
    """Return the checked topology of the given nodes. Masters that a slave needs, and that are missing, are added.

    ``name`` is the topology's name in reports. Raises OptionError for nodes that make no valid topology; the text names
    the node and the remedy.
    """
    return resolve(nodes, name)


def _node(name: str, reads: Source | Sequence[Source] = (), **table: Any) -> Node:
    sources = [reads] if isinstance(reads, str | Node | Reading) else reads
    if sources:
        table["from"] = tuple(each.name if isinstance(each, Node) else each for each in sources)
    # Each source has its own rules and link from here on, so that the node can stand in a topology as it is.
    return node_of(name, table, written=False).with_own_sources()
