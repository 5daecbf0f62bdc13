"""The rules that a topology must obey, whether it was written in TOML, as a short string or in Python."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping

from dumpfilter.base.errors import OptionError
from dumpfilter.base.options.near import did_you_mean
from dumpfilter.binlog.format import NameRules
from dumpfilter.filter.rules import FilterSemantics
from dumpfilter.topology.links.shape import PLAIN
from dumpfilter.topology.model import KINDS, Node, Topology, filter_of, semantics_of

Where = Callable[[str, str], str]
"""A function that returns where the key of a node was written, for error texts. It takes the names of the node and the
key.
"""

Problems = Iterator[tuple[str, str]]
"""The broken rules of a node: the key that breaks each, and what is wrong with the remedy. The check ends at the first
one, so a later rule may rely on an earlier one.
"""


def of_node(node: str, key: str) -> str:
    """Return the beginning of an error about the key ``key`` of a node that Python code made: ``node web: rules``."""
    return f"node {node}: {key}".rstrip(": ")


def refuse(node: Node, problems: Problems, where: Where) -> None:
    """Raise OptionError for the first of a node's ``problems`` (pairs of a key and what is wrong), if there is one.

    The text begins with the result of ``where`` for the node's name and the key.
    """
    for key, text in problems:
        raise OptionError(f"{where(node.name, key)}: {text}")


def check_topology(topology: Topology, where: Where = of_node) -> None:
    """Check that each node of a topology can replicate from its sources, and that its filter rules are valid.

    Raises OptionError. The text begins with ``where(NODE, KEY)``, which says where the wrong key was written.
    """
    for node in topology.nodes:
        refuse(node, _problems(topology, node), where)


def problems_of_keys(node: Node, nodes: Mapping[str, Node]) -> Problems:
    """Yield pairs of a wrong key of a node and what is wrong: keys that exclude each other, and unknown sources.

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
