"""The completion of the nodes that a person wrote to a topology: names, roles, and the masters that were left out.

A node whose table has only sources is a master or a slave of dumpfilter. Such a node is a master if it has readers, no
rules, and one source, which is a server, a recording or a workload. Otherwise the node is a slave.

A slave cannot read a server, a recording or a workload directly, and a real replica cannot read binlog files. A master
is then inserted. Links and SQL belong to the master of a recording or workload ``m``. Therefore this master takes the
name ``m``, and the files are called ``m-recording`` or ``m-workload``. The master of a real server ``m`` is
``m-master``.

The rules that a topology must obey are the same for all notations, and stand here, too.
"""

from __future__ import annotations

import re
from collections.abc import Callable, Iterable, Iterator, Mapping
from dataclasses import replace
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from dumpfilter.base.errors import OptionError
from dumpfilter.base.options.config_files import WRITTEN, reason_of
from dumpfilter.base.options.values import did_you_mean
from dumpfilter.binlog.format import Family, NameRules
from dumpfilter.filter.rules import FilterSemantics
from dumpfilter.topology.links.shape import PLAIN
from dumpfilter.topology.model import DEFAULT_STYLE, KINDS, Node, Role, Topology, filter_of, semantics_of

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


Where = Callable[[str, str], str]
"""A function that returns where the key of a node was written, for error texts. It takes the names of the node and the
key.
"""

Problems = Iterator[tuple[str, str]]
"""The broken rules of a node: the key that breaks each, and what is wrong with the remedy. The check ends at the first
one, so a later rule may rely on an earlier one.
"""


def of_node(node: str, key: str) -> str:
    """Return the beginning of an error text about a field of a node that Python code made. ``key`` is the field, as in
    ``node web: rules``.
    """
    return f"node {node}: {key}".rstrip(": ")


def refuse(node: Node, problems: Problems, where: Where) -> None:
    """Raise OptionError for the first of ``problems``, the broken rules of ``node``, if there is one.

    A problem is a pair of a wrong key and a text that says what is wrong. ``where`` is called with the node's name and
    the key, and returns the beginning of the error's text.
    """
    for key, text in problems:
        raise OptionError(f"{where(node.name, key)}: {text}")


def node_of(name: str, table: Mapping[str, Any], where: Where, *, written: bool = True) -> Node:
    """Check the TOML table ``[node.NAME]`` of the node ``name``, and return the node.

    ``written`` means that a person wrote the table, so that sizes and times need units. Raises OptionError. ``where``
    is called with the node's name and the wrong key, and returns the beginning of the error's text.
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
    """Check the nodes that a person has written as tables, and return their topology. ``tables`` maps a node's name to
    its table.

    ``name`` is the topology's name. Relative paths of binlogs begin at ``directory``. Raises OptionError. ``where`` is
    called with a node's name and the wrong key, and returns the beginning of the error's text.
    """
    nodes = [node_of(key, table, where) for key, table in tables.items()]
    return resolve(
        [node.with_(binlogs=directory / node.binlogs) if node.binlogs else node for node in nodes],
        name,
        where,
    )


def resolve(nodes: Iterable[Node], name: str = "topology", where: Where = of_node) -> Topology:
    """Complete and check the given nodes, and return their topology, in which each source stands before its readers.

    A node whose role (master or slave of dumpfilter) is not given gets one. A master is inserted where a slave reads a
    server or files. Raises OptionError, whose text says the remedy. ``where`` is called with a node's name and the
    wrong key, and returns the beginning of the text.
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


# -- the rules that a topology must obey


def check_topology(topology: Topology, where: Where = of_node) -> None:
    """Check that each node of a topology can replicate from its sources, and that its filter rules are valid.

    Raises OptionError. ``where`` is called with a node's name and the wrong key, and returns the beginning of the
    error's text.
    """
    for node in topology.nodes:
        refuse(node, _problems(topology, node), where)


def problems_of_keys(node: Node, nodes: Mapping[str, Node]) -> Problems:
    """Yield the problems of a node's keys: keys that exclude each other, and sources that do not exist. A problem is a
    pair of the wrong key and a text about it.

    ``nodes`` are all nodes of the topology by name.
    """
    kinds, given = node.kinds, node.model_fields_set
    if len(kinds) > 1:
        yield KINDS[kinds[1]].key, f"stands beside {KINDS[kinds[0]].key}; a node is one of them"
    for kind, facts in KINDS.items():
        for key in facts.keys:
            if key in given and kind != node.kind:
                yield key, f"goes with {facts.key} only; leave it out, or say {facts.key}"
    if not node.reads:
        for key in ("link", "rules"):
            if key in given and getattr(node, key) != Node.model_fields[key].default:
                yield key, f"the node reads nothing; say from, or leave {key} out"
        if not kinds:
            what = "give server, connect, binlogs, workload or from"
            yield "", f"says neither what the node is nor what it reads; {what}"
    what = KINDS[node.kind].only_serves
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
    if node.tls and KINDS[node.kind].only_serves:
        what = f"{node.name} is a {node.kind}, to which the topology gives no certificate"
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
    for reading, source in zip(node.reads, sources, strict=True):
        if source.is_files:
            yield "from", f"a real server cannot read the files of {source.name}; put a master between"
        for writer in topology.writers(source.name):
            family = writer.server or (writer.workload and writer.workload.style)
            if family not in (None, node.server):
                what = f"a {node.server} server cannot replicate from {writer.name}, which is {family}"
                yield "server", f"{what}; say server = {family}"
        if not node.gtid and node.server == "mysql" and reading.rules and source.is_own:
            what = "a MySQL replica by file and position gets wrong positions behind a filter"
            yield "gtid", f"{what}; leave gtid out, or leave the rules out"


def _problems_of_address(url: str) -> Problems:
    scheme, separator, rest = url.partition("://")
    if not separator or scheme not in ("mysql", "mariadb"):
        yield "connect", "the address of a server begins with mysql://, as in mysql://repl@db1:3306/"
    user, at, _ = rest.partition("/")[0].rpartition("@")
    if at and ":" in user:
        what = "the address has a password, which others can see; leave it out, and put it into a file"
        yield "connect", f"{what}, as in mysql://repl@db1:3306/?password-file=FILE"
