"""Topologies in TOML: a table ``[node.NAME]`` for each node."""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import Any

from dumpfilter.base.errors import OptionError
from dumpfilter.base.options.near import did_you_mean
from dumpfilter.base.options.toml_file import parse_toml, read_toml
from dumpfilter.topology.model import Node, Topology
from dumpfilter.topology.resolve import topology_of


def load_toml_topology(path: Path) -> Topology:
    """Return the topology that a TOML file describes. Relative paths in the file begin at the file's directory.

    Raises OptionError that names the file and the key.
    """
    return topology_of_tables(read_toml(path), file=str(path), directory=path.parent, name=path.stem)


def parse_toml_topology(
    text: str, *, file: str = "topology", directory: Path = Path(), name: str = "topology"
) -> Topology:
    """Return the topology that a text in TOML describes.

    ``file`` is the file's name for errors. Relative paths begin at ``directory``. ``name`` is the name of a topology
    whose text has none. Raises OptionError that names the file and the key.
    """
    return topology_of_tables(parse_toml(text, file), file=file, directory=directory, name=name)


def topology_of_tables(
    tables: Mapping[str, Any], *, file: str = "topology", directory: Path = Path(), name: str = "topology"
) -> Topology:
    """Return the topology that parsed TOML tables describe, with a table ``node`` of all nodes by name.

    ``file`` is the file's name for errors. Relative paths begin at ``directory``. ``name`` is the name of a topology
    whose tables have none. Raises OptionError that names the file and the key.
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
    for key, table in written.items():
        if not isinstance(table, Mapping):
            raise OptionError(f"{where(key, '')}: is no table; write [node.{key}]")
    return topology_of(written, name, where, directory)


def to_toml(topology: Topology) -> str:
    """Return a topology as TOML text, which :func:`parse_toml_topology` reads.

    The text has all nodes, even the masters that a person may leave out.
    """
    parts = [] if topology.name == "topology" else [f"name = {toml_value(topology.name)}\n"]
    for node in topology.nodes:
        lines = [
            f"[node.{node.name}]",
            *(f"{key} = {toml_value(value)}" for key, value in _table(node).items()),
        ]
        parts.append("\n".join(lines) + "\n")
    return "\n".join(parts)


def _table(node: Node) -> dict[str, Any]:
    """Return a node as a TOML table.

    Rules and links that all sources share are keys of the node. Otherwise each source has its own.
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
    """Return a value as TOML text, with tables as inline tables."""
    if isinstance(value, dict):
        return f"{{ {', '.join(f'{key} = {toml_value(one)}' for key, one in value.items())} }}"
    if isinstance(value, list | tuple):
        return f"[{', '.join(map(toml_value, value))}]"
    # A text of JSON is a basic string of TOML but for DEL, which TOML wants escaped.
    return json.dumps(value, ensure_ascii=False).replace("\x7f", "\\u007f")
