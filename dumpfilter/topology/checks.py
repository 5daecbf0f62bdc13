"""The rules that a topology must obey, whether it was written in TOML, as a short string or in Python."""

from __future__ import annotations

from collections.abc import Callable

from dumpfilter.base.errors import OptionError
from dumpfilter.binlog.format import Family, NameRules
from dumpfilter.filter.rules import FilterSemantics
from dumpfilter.topology.links.shape import PLAIN
from dumpfilter.topology.model import KINDS, Node, Reading, Topology, filter_of, semantics_of

Where = Callable[[str, str], str]
"""A function that returns where the key of a node was written, for error texts. It takes the names of the node and the
key.
"""


def of_node(node: str, key: str) -> str:
    """Return the place of a key in a topology that was made in Python, such as ``node web: rules``, for errors."""
    return f"node {node}: {key}".rstrip(": ")


def check_topology(topology: Topology, where: Where = of_node) -> None:
    """Check that each node of a topology can read its sources. Raises OptionError.

    The error's text begins with the result of ``where``, which names the node and the key.
    """
    for node in topology.nodes:
        match node.kind:
            case "master":
                _check_master(topology, node, where)
            case "slave":
                _check_slave(topology, node, where)
            case "server":
                _check_server(topology, node, where)
            case "running":
                _check_url(node.connect or "", where(node.name, "connect"))
        if node.tls and KINDS[node.kind].only_serves:
            raise OptionError(
                f"{where(node.name, 'tls')}: {node.name} is a {node.kind}, to which the topology gives no certificate; "
                "say tls for a master, a slave or a server with server = …"
            )
        for reading in node.reads:
            _check_rules(node, reading, where)


def _check_master(topology: Topology, node: Node, where: Where) -> None:
    if len(node.reads) != 1:
        sources = ", ".join(reading.source for reading in node.reads)
        raise OptionError(
            f"{where(node.name, 'from')}: a master has one source, not {len(node.reads)} ({sources}); make one master "
            "for each source, or a slave"
        )
    if node.reads[0].rules:
        raise OptionError(
            f"{where(node.name, 'rules')}: a master has no rules of its own; give them to its readers"
        )
    source = topology[node.reads[0].source]
    if source.is_own:
        raise OptionError(
            f"{where(node.name, 'role')}: a master reads a server, a recording or a workload, and {source.name} is a "
            f"{source.kind} of dumpfilter; say role = slave"
        )
    if source.is_files and node.reads[0].link != PLAIN:
        raise OptionError(
            f"{where(node.name, 'link')}: {node.name} reads the {source.kind} {source.name} from files, without a "
            f"network; give the link to the readers of {node.name}"
        )


def _check_slave(topology: Topology, node: Node, where: Where) -> None:
    for reading in node.reads:
        if not topology[reading.source].is_own:
            raise OptionError(
                f"{where(node.name, 'from')}: a slave of dumpfilter reads masters and slaves of dumpfilter, and "
                f"{reading.source} is none; put a master between"
            )
    if len({topology[reading.source].tls for reading in node.reads}) > 1:
        raise OptionError(
            f"{where(node.name, 'from')}: a slave of dumpfilter has one setting of TLS for all its sources; say tls "
            "for all of them, or for none"
        )


def _check_server(topology: Topology, node: Node, where: Where) -> None:
    if node.root and node.server != "mysql":
        raise OptionError(f"{where(node.name, 'root')}: goes with server = mysql only; leave it out")
    for reading in node.reads:
        source = topology[reading.source]
        if source.is_files:
            raise OptionError(
                f"{where(node.name, 'from')}: a real server cannot read the files of {source.name}; "
                "put a master between"
            )
        for writer, family in _families(topology, reading.source):
            if family != node.server:
                raise OptionError(
                    f"{where(node.name, 'server')}: a {node.server} server cannot replicate from {writer}, which is "
                    f"{family}; say server = {family}"
                )
        if not node.gtid and node.server == "mysql" and reading.rules and source.is_own:
            raise OptionError(
                f"{where(node.name, 'gtid')}: a MySQL replica by file and position gets wrong positions behind a "
                "filter; leave gtid out, or leave the rules out"
            )


def _families(topology: Topology, name: str) -> list[tuple[str, Family]]:
    """Return the nodes that wrote the events that the node ``name`` gets, each with its server family.

    They are servers and workloads. Nodes of unknown family are left out.
    """
    found: list[tuple[str, Family]] = []
    seen, waiting = {name}, [name]
    while waiting:
        node = topology[waiting.pop()]
        family = node.server or (node.workload and node.workload.style)
        if family:
            found.append((node.name, family))
            continue
        sources = [reading.source for reading in node.reads if reading.source not in seen]
        seen.update(sources)
        waiting += reversed(sources)
    return found


def _check_url(url: str, where: str) -> None:
    scheme, separator, rest = url.partition("://")
    if not separator or scheme not in ("mysql", "mariadb"):
        raise OptionError(
            f"{where}: the address of a server begins with mysql://, as in mysql://repl@db1:3306/"
        )
    user, at, _ = rest.partition("/")[0].rpartition("@")
    if at and ":" in user:
        raise OptionError(
            f"{where}: the address has a password, which others can see; leave it out, and put it into a file, as in "
            "mysql://repl@db1:3306/?password-file=FILE"
        )


def _check_rules(node: Node, reading: Reading, where: Where) -> None:
    if semantics_of(reading.rules) is FilterSemantics.EFFECTIVE and node.server:
        raise OptionError(
            f"{where(node.name, 'rules')}: a real server does not know the rules do, ignore and rewrite; use "
            "replicate-… rules"
        )
    try:
        filter_of(reading.rules, NameRules())
    except OptionError as error:
        raise OptionError(f"{where(node.name, 'rules')}: {error}") from None
