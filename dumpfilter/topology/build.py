"""Topologies in Python: a function for each kind of node, and :func:`make_topology`.

>>> m = workload("m")
>>> web = slave("web", m, rules=["do-db=shop"], link=link("2mbit", delay="50ms"))
>>> [each.name for each in make_topology(m, web).links]
['m:web']
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import replace
from os import PathLike
from pathlib import Path

from dumpfilter.binlog.format import Family
from dumpfilter.links.shape import PLAIN, LinkShape
from dumpfilter.options.sizes import parse_size
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
from dumpfilter.topology.inference import role_of
from dumpfilter.topology.model import (
    Node,
    Reading,
    RecordingNode,
    RunningNode,
    ServerNode,
    Topology,
    WorkloadNode,
)
from dumpfilter.topology.resolve import resolve
from dumpfilter.topology.units import parse_outage, parse_rate, parse_time

Source = str | Draft | Reading
"""A source of a node: its name, the node itself, or :func:`read` with a link and rules of the channel."""


def link(
    rate: str | int | None = None,
    *,
    delay: str | float = 0.0,
    jitter: str | float = 0.0,
    down: str | Sequence[str] = (),
) -> LinkShape:
    """Return the shape of a link. Numbers are bits per second, and seconds. Raises OptionError.

    >>> link("2mbit", delay="50ms", down="60s-120s")
    LinkShape(rate=2000000, delay=0.05, jitter=0.0, outages=(Outage(start=60.0, end=120.0),))
    """
    return LinkShape(
        parse_rate(rate) if isinstance(rate, str) else rate,
        parse_time(delay) if isinstance(delay, str) else delay,
        parse_time(jitter) if isinstance(jitter, str) else jitter,
        tuple(map(parse_outage, [down] if isinstance(down, str) else down)),
    )


def read(source: str | Draft, *, rules: Sequence[str] = (), link: LinkShape = PLAIN) -> Reading:
    """Return one source of a node with several sources, with the rules and the link of its channel."""
    return Reading(source if isinstance(source, str) else source.name, link, tuple(rules))


def server(
    name: str,
    family: Family = "mariadb",
    reads: Source | Sequence[Source] = (),
    *,
    rules: Sequence[str] = (),
    link: LinkShape = PLAIN,
    program: str | None = None,
    options: Sequence[str] = (),
    init: Sequence[str] = (),
    gtid: bool = True,
) -> Draft:
    """Return a real server that is started for the topology. With ``reads`` the server is a replica."""
    kind = Server(family, program, tuple(init), gtid)
    return _draft(name, kind, None, reads, rules, link, options)


def running(name: str, url: str) -> Draft:
    """Return a server that runs already, at an address such as ``mysql://repl@db1:3306/``."""
    return _draft(name, Running(url))


def recording(name: str, binlogs: str | PathLike[str], *, speed: float | None = 1.0) -> Draft:
    """Return a recorded binlog set. ``speed`` None means that the whole set is there from the beginning."""
    return _draft(name, Recording(Path(binlogs), speed))


def workload(
    name: str,
    size: str | int = "1M",
    *,
    rate: str | int | None = None,
    seed: int = 1,
    style: Family | None = None,
) -> Draft:
    """Return a generated workload with its master. The master has the name; the files are called ``NAME-workload``."""
    kind = Workload(
        parse_size(size) if isinstance(size, str) else size,
        parse_rate(rate) if isinstance(rate, str) else rate,
        seed,
        style,
    )
    return replace(_draft(name, kind), own_master=True)


def master(name: str, reads: Source, *, link: LinkShape = PLAIN, options: Sequence[str] = ()) -> Draft:
    """Return a master of dumpfilter that reads a server, a recording or a workload."""
    return _draft(name, None, "master", reads, (), link, options)


def slave(
    name: str,
    reads: Source | Sequence[Source],
    *,
    rules: Sequence[str] = (),
    link: LinkShape = PLAIN,
    options: Sequence[str] = (),
) -> Draft:
    """Return a slave of dumpfilter. ``rules`` and ``link`` count for each source that is not a :func:`read`."""
    return _draft(name, None, "slave", reads, rules, link, options)


def make_topology(*nodes: Draft | Node, name: str = "topology") -> Topology:
    """Return the checked topology of some nodes. Raises OptionError that names the node, and says the cure.

    Nodes of the model, such as SlaveNode, stay as they are.
    """
    return resolve([node if isinstance(node, Draft) else _draft_of(node) for node in nodes], name)


def _where(name: str) -> Where:
    return lambda key: f"node {name}: {key}" if key else f"node {name}"


def _draft(
    name: str,
    kind: Kind | None,
    role: Role | None = None,
    reads: Source | Sequence[Source] = (),
    rules: Sequence[str] = (),
    link: LinkShape = PLAIN,
    options: Sequence[str] = (),
) -> Draft:
    where = _where(name)
    sources = [reads] if isinstance(reads, str | Draft | Reading) else reads
    return Draft(
        name,
        where,
        kind,
        role,
        tuple(_reading(source, where, tuple(rules), link) for source in sources),
        tuple(options),
    )


def _reading(
    source: Source, where: Callable[[str], str], rules: tuple[str, ...], link: LinkShape
) -> DraftReading:
    if isinstance(source, Reading):
        return DraftReading(source.source, where, source.link, source.rules)
    return DraftReading(source if isinstance(source, str) else source.name, where, link, rules)


def _draft_of(node: Node) -> Draft:
    where = _where(node.name)
    return Draft(
        node.name,
        where,
        _kind_of(node),
        role_of(node),
        tuple(_reading(reading, where, (), PLAIN) for reading in node.reads),
        node.options,
    )


def _kind_of(node: Node) -> Kind | None:
    match node:
        case ServerNode():
            return Server(node.family, node.program, node.init, node.gtid)
        case RunningNode():
            return Running(node.url)
        case RecordingNode():
            return Recording(node.binlogs, node.speed)
        case WorkloadNode():
            return Workload(node.size, node.rate, node.seed, node.style)
    return None
