"""The completion of the nodes that a person wrote to a topology: names, roles, and the masters that were left out.

A node whose table has only sources is a master or a slave of dumpfilter. Such a node is a master if it has readers, no
rules, and one source, which is a server, a recording or a workload. Otherwise the node is a slave.

A slave cannot read a server, a recording or a workload directly, and a real replica cannot read binlog files. A master
is then inserted. Links and SQL belong to the master of a recording or workload ``m``. Therefore this master takes the
name ``m``, and the files are called ``m-recording`` or ``m-workload``. The master of a real server ``m`` is
``m-master``.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from dumpfilter.base.errors import OptionError
from dumpfilter.base.options.toml_file import WRITTEN, reason_of
from dumpfilter.binlog.format import Family
from dumpfilter.topology.checks import Where, check_topology, of_node, problems_of_keys, refuse
from dumpfilter.topology.model import DEFAULT_STYLE, Node, Role, Topology

MOST_NODES = 1000
"""The limit of a topology's nodes. Each one becomes a process."""

MOST_SOURCES = 64
"""The limit of the nodes in a chain before a node. A simulation computes each chain anew."""

LONGEST_NAME = 64
"""The limit of a node name's length, characters, since a channel has the name of its source."""

_NAME = re.compile(r"[A-Za-z0-9_][A-Za-z0-9_-]*")

_PLACE_OF_KEY = {
    "rate": 'the rate of the link: link = { rate = "2mbit" }',
    "delay": 'the delay of the link: link = { delay = "50ms" }',
    "jitter": 'the jitter of the link: link = { jitter = "5ms" }',
    "down": 'the outages of the link: link = { down = ["60s-120s"] }',
    "size": 'the size of the workload: workload = { size = "1M" }',
    "do-db": 'a filter rule: rules = ["replicate-do-db=…"]',
}
"""For keys that people write directly into a node: where they belong, for the error's text."""


def node_of(name: str, table: Mapping[str, Any], where: Where, *, written: bool = True) -> Node:
    """Return the node ``name`` with the fields of ``table``, whose keys are those of a TOML table ``[node.NAME]``.

    ``written`` means that a person wrote the table, so that sizes and times need units. Raises OptionError, whose text
    begins with ``where(NODE, KEY)``.
    """
    if "name" in table:
        raise OptionError(f"{where(name, 'name')}: there is no such key; the table has the node's name")
    try:
        node = Node.model_validate(table, context=WRITTEN if written else None)
    except ValidationError as error:
        key, reason = reason_of(error, Node)
        if key in _PLACE_OF_KEY:
            reason = f"there is no such key; write {_PLACE_OF_KEY[key]}"
        raise OptionError(f"{where(name, key)}: {reason}") from None
    return node.with_(name=name)


def topology_of(
    tables: Mapping[str, Mapping[str, Any]], name: str, where: Where, directory: Path
) -> Topology:
    """Return the checked topology that a person has written as tables, one for each node's name.

    Relative paths of binlogs begin at ``directory``. Raises OptionError, whose text begins with ``where(NODE, KEY)``.
    """
    nodes = [node_of(key, table, where) for key, table in tables.items()]
    return resolve(
        [node.with_(binlogs=directory / node.binlogs) if node.binlogs else node for node in nodes],
        name,
        where,
    )


def resolve(
    nodes: Iterable[Node],
    name: str = "topology",
    where: Where = of_node,
) -> Topology:
    """Return the checked topology of the given nodes, in which each source stands before its readers.

    Nodes without a role get one, and a master is inserted where a slave reads a server or files. Raises OptionError,
    whose text begins with ``where(NODE, KEY)`` and says the remedy.
    """
    written = _by_name([node.with_own_sources() for node in nodes], where)
    for node in written.values():
        refuse(node, problems_of_keys(node, written), where)
    topology = _with_styles(Topology(tuple(_with_masters(_sources_first(written, where))), name))
    check_topology(topology, where)
    return topology


def _by_name(nodes: list[Node], where: Where) -> dict[str, Node]:
    if not nodes:
        raise OptionError("the topology has no nodes; the smallest one is m >> web")
    if len(nodes) > MOST_NODES:
        raise OptionError(
            f"{where(nodes[MOST_NODES].name, '')}: the topology has {len(nodes)} nodes, and the limit is {MOST_NODES}; "
            "leave nodes out"
        )
    found: dict[str, Node] = {}
    folded: dict[str, str] = {}
    for node in nodes:
        here = where(node.name, "")
        if not _NAME.fullmatch(node.name) or len(node.name) > LONGEST_NAME:
            raise OptionError(
                f"{here}: {node.name!r} is no name of a node: use at most {LONGEST_NAME} letters, digits, - and _"
            )
        other = folded.setdefault(node.name.casefold(), node.name)
        if node.name in found:
            raise OptionError(f"{here}: two nodes are called {node.name}; give one another name")
        if other != node.name:
            raise OptionError(
                f"{here}: the names {other} and {node.name} differ only in case, which channels and files "
                "do not tell apart; give one another name"
            )
        found[node.name] = node
    return found


def _sources_first(nodes: Mapping[str, Node], where: Where) -> list[Node]:
    """Return the nodes in an order in which each node follows its sources.

    Raises OptionError for a cycle, and for a node with more than ``MOST_SOURCES`` nodes before it in a chain.
    """
    before: dict[str, int] = {}
    """For each node in the order, the number of nodes before it in the longest chain."""

    def too_long(name: str) -> OptionError:
        return OptionError(
            f"{where(name, 'from')}: more than {MOST_SOURCES} nodes stand before {name} in a chain, and that is the "
            "limit; let nodes read from an earlier one"
        )

    def visit(name: str, readers: tuple[str, ...]) -> int:
        if name in readers:
            path = (name, *reversed(readers[readers.index(name) :]))
            raise OptionError(
                f"{where(name, 'from')}: the nodes read in a circle, {' >> '.join(path)}; leave one arrow out"
            )
        if len(readers) > MOST_SOURCES:
            raise too_long(readers[0])
        if name not in before:
            sources = (visit(reading.source, (*readers, name)) + 1 for reading in nodes[name].reads)
            before[name] = max(sources, default=0)
        if before[name] > MOST_SOURCES:
            raise too_long(name)
        return before[name]

    for name in nodes:
        visit(name, ())
    return [nodes[name] for name in before]


def _with_masters(ordered: list[Node]) -> list[Node]:
    """Return the nodes with their roles, and with a new master where a source and its readers need one between them.

    ``ordered`` has sources before their readers, and so has the result.
    """
    written = Topology(tuple(ordered))
    # The readers of a recording have the roles that they would have without a master in between.
    roles: dict[str, Role | None] = {}
    for node in ordered:
        roles[node.name] = _role(node, roles, bool(written.readers(node.name)))
    taken = {node.name.casefold() for node in ordered}
    files: dict[str, str] = {}
    """The new names of recordings and workloads, by their old names, which their masters took."""
    between: dict[str, str] = {}
    """The name of the master that stands between a source and its readers, by the source's name as written."""
    made: list[Node] = []

    def add_master(name: str, source: str, *, tls: bool) -> None:
        made.append(Node.model_validate({"name": name, "role": "master", "from": source, "tls": tls}))

    for node in ordered:
        name, role = node.name, roles[node.name]
        if node.is_files and {roles[each.name] for each in written.readers(name)} != {"master"}:
            files[name] = _free_name(f"{name}-{node.kind}", taken)
            made.append(node.with_(name=files[name], role=None, tls=False))
            add_master(name, files[name], tls=node.tls)
            continue
        reads = []
        for reading in node.reads:
            source = reading.source
            if role == "master":
                source = files.get(source, source)
            elif role == "slave" and roles[source] is None and source not in files:
                if source not in between:
                    between[source] = _free_name(f"{source}-master", taken)
                    add_master(between[source], source, tls=written[source].tls)
                source = between[source]
            reads.append(reading.model_copy(update={"source": source}))
        made.append(node.with_(role=role, reads=tuple(reads)))
    return made


def _role(node: Node, roles: Mapping[str, Role | None], has_readers: bool) -> Role | None:
    """Return the role (master or slave) of a node, or None for a node that is no process of dumpfilter.

    ``roles`` has the roles of the node's sources by name.
    """
    if node.kinds or node.role:
        return node.role
    has_rules = any(reading.rules for reading in node.reads)
    sources = [roles[reading.source] for reading in node.reads]
    return "master" if sources == [None] and has_readers and not has_rules else "slave"


def _free_name(name: str, taken: set[str]) -> str:
    number, free = 2, name
    while free.casefold() in taken:
        free, number = f"{name}-{number}", number + 1
    if len(free) > LONGEST_NAME:
        raise OptionError(
            f"{free}: the name of a node that stands in between is longer than {LONGEST_NAME} characters; shorten the "
            "name of its source"
        )
    taken.add(free.casefold())
    return free


def _with_styles(topology: Topology) -> Topology:
    """Return the topology with a style for each workload: its own, or that of the first server that it reaches."""
    families: dict[str, Family] = {}
    for node in topology.nodes:
        for reading in node.reads if node.server else ():
            for writer in topology.writers(reading.source):
                families.setdefault(writer.name, node.family)

    def styled(node: Node) -> Node:
        if node.workload is None or node.workload.style:
            return node
        style = families.get(node.name, DEFAULT_STYLE)
        return node.with_(workload=node.workload.model_copy(update={"style": style}))

    return replace(topology, nodes=tuple(map(styled, topology.nodes)))
