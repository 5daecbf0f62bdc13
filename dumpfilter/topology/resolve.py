"""The completion of the nodes that a person wrote to a topology: names, roles, and the masters that were left out.

A node whose table has only sources is a master or a slave of dumpfilter. Such a node is a master if it has readers, no
rules, and one source, which is a server, a recording or a workload. Otherwise the node is a slave.

A slave cannot read a server, a recording or a workload directly, and a real replica cannot read binlog files. A master
is then inserted. Links and SQL belong to the master of a recording or workload ``m``. Therefore this master takes the
name ``m``, and the files are called ``m-recording`` or ``m-workload``. The master of a real server ``m`` is
``m-master``.
"""

from __future__ import annotations

import heapq
import re
from collections.abc import Iterable, Mapping
from graphlib import CycleError, TopologicalSorter
from typing import Any

from pydantic import ValidationError

from dumpfilter.base.errors import OptionError
from dumpfilter.base.options.near import did_you_mean
from dumpfilter.base.options.toml_file import WRITTEN, reason_of
from dumpfilter.binlog.format import Family
from dumpfilter.topology.checks import Where, check_topology, of_node
from dumpfilter.topology.model import DEFAULT_STYLE, KINDS, Node, Role, Topology

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
    """Return the node ``name`` that a table of a TOML file, a short string or a Python call describes.

    ``written`` means that a person wrote the table, so that sizes and times need units. Raises OptionError, whose text
    names the node and the key by ``where``.
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


def resolve(
    nodes: Iterable[Node],
    name: str = "topology",
    where: Where = of_node,
) -> Topology:
    """Return the topology of the given nodes, with their roles, the inserted masters, and sources before their readers.

    Raises OptionError, whose text names the node, the key (by ``where``) and the remedy.
    """
    written = _by_name([node.with_own_sources() for node in nodes], where)
    for node in written.values():
        _check_keys(node, written, where)
    ordered = _with_masters(_sources_first(written, where))
    _check_depth(ordered, where)
    families = _families_reached(ordered)
    topology = Topology(
        tuple(
            node.with_(
                workload=node.workload.model_copy(
                    update={"style": node.workload.style or families.get(node.name, DEFAULT_STYLE)}
                )
            )
            if node.workload
            else node
            for node in ordered
        ),
        name,
    )
    check_topology(topology, where)
    return topology


def check_name(name: str, where: str) -> None:
    """Check the name of a node. Raises OptionError, whose text begins with ``where``, for an invalid name."""
    if not _NAME.fullmatch(name) or len(name) > LONGEST_NAME:
        raise OptionError(
            f"{where}: {name!r} is no name of a node: use at most {LONGEST_NAME} letters, digits, - and _"
        )


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
        check_name(node.name, here)
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


def _check_keys(node: Node, nodes: Mapping[str, Node], where: Where) -> None:
    """Check that the keys of a node may stand together, and that all its sources exist in ``nodes``. Raises
    OptionError.
    """
    kinds, given = node.kinds, node.model_fields_set
    if len(kinds) > 1:
        raise OptionError(
            f"{where(node.name, KINDS[kinds[1]].key)}: stands beside {KINDS[kinds[0]].key}; a node is one of them"
        )
    for kind, facts in KINDS.items():
        for key in facts.keys:
            if key in given and kind != node.kind:
                raise OptionError(
                    f"{where(node.name, key)}: goes with {facts.key} only; leave it out, or say {facts.key}"
                )
    if not node.reads:
        for key in ("link", "rules"):
            if key in given and getattr(node, key) != Node.model_fields[key].default:
                raise OptionError(
                    f"{where(node.name, key)}: the node reads nothing; say from, or leave {key} out"
                )
        if not kinds:
            raise OptionError(
                f"{where(node.name, '')}: says neither what the node is nor what it reads; give server, connect, "
                "binlogs, workload or from"
            )
    what = KINDS[node.kind].only_serves
    if node.reads and what:
        raise OptionError(
            f"{where(node.name, 'from')}: {node.name} is {what}, which reads nothing; leave from out"
        )
    if node.options and what:
        raise OptionError(
            f"{where(node.name, 'options')}: {node.name} is {what}, which has no command line; leave options out"
        )
    if kinds and node.role and (node.kind, node.role) != ("workload", "master"):
        raise OptionError(
            f"{where(node.name, 'role')}: {node.role} is a role of dumpfilter's own nodes; leave role out, or leave "
            "out what says that the node is a server or files"
        )
    seen: set[str] = set()
    for reading in node.reads:
        if reading.source not in nodes:
            near = did_you_mean(reading.source, [each for each in nodes if each != node.name])
            raise OptionError(f"{where(node.name, 'from')}: there is no node {reading.source!r}{near}")
        if reading.source in seen:
            raise OptionError(
                f"{where(node.name, 'from')}: {reading.source} stands there twice; a node reads a source once"
            )
        seen.add(reading.source)


def _sources_first(nodes: Mapping[str, Node], where: Where) -> list[Node]:
    """Return the nodes in an order in which each node follows its sources. Raises OptionError for a cycle."""
    position = {name: at for at, name in enumerate(nodes)}
    sorter = TopologicalSorter(
        {name: [reading.source for reading in node.reads] for name, node in nodes.items()}
    )
    try:
        sorter.prepare()
    except CycleError as error:
        circle: list[str] = error.args[1][1:]
        first = circle.index(min(circle, key=position.__getitem__))
        path = [*circle[first:], *circle[: first + 1]]
        raise OptionError(
            f"{where(path[0], 'from')}: the nodes read in a circle, {' >> '.join(path)}; leave one arrow out"
        ) from None
    ready: list[tuple[int, str]] = []
    ordered = []
    while sorter.is_active():
        for name in sorter.get_ready():
            heapq.heappush(ready, (position[name], name))
        name = heapq.heappop(ready)[1]
        ordered.append(nodes[name])
        sorter.done(name)
    return ordered


def _check_depth(ordered: list[Node], where: Where) -> None:
    """Check that no node has more than ``MOST_SOURCES`` nodes before it in a chain. Raises OptionError.

    ``ordered`` has sources before their readers.
    """
    sources: dict[str, int] = {}
    for node in ordered:
        sources[node.name] = max((sources[reading.source] + 1 for reading in node.reads), default=0)
        if sources[node.name] > MOST_SOURCES:
            raise OptionError(
                f"{where(node.name, 'from')}: {sources[node.name]} nodes stand before {node.name} in a chain, and the "
                f"limit is {MOST_SOURCES}; let nodes read from an earlier one"
            )


def _with_masters(ordered: list[Node]) -> list[Node]:
    """Return the nodes with their roles, and with a new master where a source and its readers need one between them.

    ``ordered`` has sources before their readers, and so has the result.
    """
    taken = {node.name.casefold() for node in ordered}
    roles: dict[str, Role | None] = {}
    files: dict[str, str] = {}
    """The new names of recordings and workloads, by their old names, which their masters took."""
    between: dict[str, str] = {}
    """The name of the master that stands between a source and its readers, by the source's name as written."""
    made: list[Node] = []
    readers: dict[str, list[Node]] = {}
    tls = {node.name: node.tls for node in ordered}
    for node in ordered:
        for reading in node.reads:
            readers.setdefault(reading.source, []).append(node)
    for node in ordered:
        if node.is_files and _gets_own_master(node, readers):
            files[node.name] = _free_name(f"{node.name}-{node.kind}", taken)
            made += [
                node.with_(name=files[node.name], role=None, tls=False),
                _master(node.name, files[node.name], tls=node.tls),
            ]
            # The readers of a recording have the roles that they would have without the master in between.
            roles[node.name] = node.role
            continue
        roles[node.name] = role = _role(node, roles, node.name in readers)
        reads = []
        for reading in node.reads:
            source = reading.source
            if role == "master":
                source = files.get(source, source)
            elif role == "slave" and roles[source] is None and source not in files:
                if source not in between:
                    between[source] = _free_name(f"{source}-master", taken)
                    made.append(_master(between[source], source, tls=tls[source]))
                source = between[source]
            reads.append(reading.model_copy(update={"source": source}))
        made.append(node.with_(role=role, reads=tuple(reads)))
    return made


def _master(name: str, source: str, *, tls: bool) -> Node:
    return Node.model_validate({"name": name, "role": "master", "from": source, "tls": tls})


def _gets_own_master(node: Node, readers: Mapping[str, list[Node]]) -> bool:
    """Tell whether a recording or workload gets a new master, which takes the name of the recording or workload.

    ``readers`` has the readers of each node by name.
    """
    mine = readers.get(node.name, [])
    if node.role:
        return not mine or any(each.role != "master" for each in mine)
    return not mine or any(each.kinds or _role(each, {}, each.name in readers) == "slave" for each in mine)


def _role(node: Node, roles: Mapping[str, Role | None], has_readers: bool) -> Role | None:
    """Return the role (master or slave) of a node, or None for a node that is no process of dumpfilter.

    ``roles`` has the roles of the node's sources by name.
    """
    if node.kinds or node.role:
        return node.role
    has_rules = any(reading.rules for reading in node.reads)
    sources = [roles.get(reading.source) for reading in node.reads]
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


def _families_reached(ordered: list[Node]) -> dict[str, Family]:
    """Return the family of the first real server that a node's events reach, by the node's name.

    ``ordered`` has sources before their readers. Nodes whose events reach no real server are left out.
    """
    nodes = {node.name: node for node in ordered}
    found: dict[str, Family] = {}
    for server in ordered:
        waiting = [server] if server.server else []
        while waiting:
            node = waiting.pop()
            # The sources of a node with a family have a family, too.
            if node.name not in found:
                found[node.name] = server.family
                waiting += [nodes[reading.source] for reading in node.reads]
    return found
