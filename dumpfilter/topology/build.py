"""Topologies in Python: a function for each kind of node, and :func:`make_topology`.

>>> m = workload("m")
>>> web = slave("web", m, rules=["do-db=shop"], link=link("2mbit", delay="50ms"))
>>> [each.name for each in make_topology(m, web).links]
['m:web']
"""

from __future__ import annotations

from collections.abc import Sequence
from os import PathLike
from pathlib import Path
from typing import Any

from pydantic import ValidationError

from dumpfilter.base.errors import OptionError
from dumpfilter.base.options.config_files import reason_of
from dumpfilter.binlog.format import Family
from dumpfilter.topology.links.shape import PLAIN, LinkShape
from dumpfilter.topology.model import LinkTable, Node, Reading, Topology
from dumpfilter.topology.resolve import node_of, of_node, resolve

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

    A rate that is a number is in bits per second; None: no limit. A delay or jitter that is a number is in seconds.
    ``down`` has the outages, such as ``"60s-120s"`` since the start. Raises OptionError for a wrong value.

    >>> link("2mbit", delay="50ms", down="60s-120s")
    LinkShape(rate=2000000, delay=0.05, jitter=0.0, outages=(Outage(start=60.0, end=120.0),))
    """
    try:
        table = LinkTable.model_validate({"rate": rate, "delay": delay, "jitter": jitter, "down": down})
    except ValidationError as error:
        key, reason = reason_of(error, LinkTable)
        raise OptionError(f"{key}: {reason}") from None
    return table.shape()


def read(source: str | Node, *, rules: Sequence[str] = (), link: LinkShape = PLAIN) -> Reading:
    """Return one source of a node with its own filter rules and link, for the argument ``reads`` of :func:`slave` or
    :func:`server`.

    ``source`` is the node to replicate from, or its name. ``rules`` are filter rules such as ``"do-db=shop"``, and
    ``link`` is the rate and delay of the connection.
    """
    name = source if isinstance(source, str) else source.name
    return _node(name, {}, name, rules, link).reads[0]


def server(
    name: str,
    family: Family = "mariadb",
    reads: Source | Sequence[Source] = (),
    *,
    rules: Sequence[str] = (),
    link: LinkShape = PLAIN,
    program: str | None = None,
    root: str | None = None,
    options: Sequence[str] = (),
    init: Sequence[str] = (),
    gtid: bool = True,
    tls: bool = False,
) -> Node:
    """Return the node of a database server (``family``: MariaDB or MySQL) that is started for the topology.

    A server with ``reads`` (the nodes to replicate from) is a replica. ``rules`` are its filter rules, such as
    ``"do-db=shop"``, and ``link`` is the connection to each source. ``options`` are for the server's command line.
    ``program`` is the server's executable (None: the one on the PATH), and ``root`` a root directory that contains it.
    ``init`` are SQL statements that run once, when the server is new. With ``gtid`` False a replica continues by file
    and position. With ``tls`` the server's readers connect by TLS.
    """
    own = {"server": family, "program": program, "root": root, "init": tuple(init), "gtid": gtid, "tls": tls}
    return _node(name, own, reads, rules, link, options)


def running(name: str, url: str) -> Node:
    """Return the node of a server that runs already, at an address such as ``mysql://repl@db1:3306/``.

    The topology reads its binlog, and neither stops nor changes the server.
    """
    return _node(name, {"connect": url})


def recording(name: str, binlogs: str | PathLike[str], *, speed: float | None = 1.0) -> Node:
    """Return the node of a recorded binlog set, whose files ``binlogs`` names. Its transactions are written again,
    ``speed`` times as fast as at the recording.

    With ``speed`` None the whole set exists from the beginning.
    """
    return _node(name, {"binlogs": Path(binlogs), "speed": speed})


def workload(
    name: str,
    size: str | int = "1M",
    *,
    rate: str | int | None = None,
    seed: int = 1,
    style: Family | None = None,
) -> Node:
    """Return the node of a master that serves a generated binlog set of ``size`` bytes (a workload).

    The set grows by ``rate`` bits per second; with None it is complete at once. ``seed`` starts the random generator.
    ``style`` is the server family whose events the set has; None: the family of the first server that reads the set.
    The node of the files themselves is called ``NAME-workload``.
    """
    return _node(
        name, {"workload": {"size": size, "rate": rate, "seed": seed, "style": style}, "role": "master"}
    )


def master(
    name: str, reads: Source, *, link: LinkShape = PLAIN, options: Sequence[str] = (), tls: bool = False
) -> Node:
    """Return the node of a master of dumpfilter, which reads one node and serves the binlog to slaves and replicas.

    ``reads`` is a server, a recording or a workload, ``link`` the connection to a server. ``options`` are for the
    command line of ``dumpfilter master``. With ``tls`` the readers connect by TLS.
    """
    return _node(name, {"role": "master", "tls": tls}, reads, (), link, options)


def slave(
    name: str,
    reads: Source | Sequence[Source],
    *,
    rules: Sequence[str] = (),
    link: LinkShape = PLAIN,
    options: Sequence[str] = (),
    tls: bool = False,
) -> Node:
    """Return the node of a slave of dumpfilter, which reads masters and other slaves.

    ``rules`` (filter rules such as ``"do-db=shop"``) and ``link`` (the connection's rate and delay) apply to each
    source. A source that :func:`read` made has its own instead. ``options`` are for ``dumpfilter slave``. With ``tls``
    the readers of the slave connect by TLS.
    """
    return _node(name, {"role": "slave", "tls": tls}, reads, rules, link, options)


def make_topology(*nodes: Node, name: str = "topology") -> Topology:
    """Return the checked topology that the nodes form. Masters that a slave needs, and that are missing, are added.

    ``name`` is the topology's name in reports. Raises OptionError, whose text names the node and the remedy.
    """
    return resolve(nodes, name)


def _node(
    name: str,
    table: dict[str, Any],
    reads: Source | Sequence[Source] = (),
    rules: Sequence[str] = (),
    link: LinkShape = PLAIN,
    options: Sequence[str] = (),
) -> Node:
    sources = [reads] if isinstance(reads, str | Node | Reading) else reads
    table["options"] = tuple(options)
    if sources:
        table["from"] = tuple(each.name if isinstance(each, Node) else each for each in sources)
    node = node_of(name, table | {"rules": tuple(rules), "link": link}, of_node, written=False)
    # Each source has its own rules and link from here on, so that the node can stand in a topology as it is.
    return node.with_own_sources()
