"""Hypothesis strategies for nodes and topologies of all kinds."""

from __future__ import annotations

from collections.abc import Sequence

from hypothesis import assume
from hypothesis import strategies as st

from dumpfilter.base.errors import OptionError
from dumpfilter.base.options.values import MOST_RATE
from dumpfilter.topology import Topology, read, recording, running, server, slave
from dumpfilter.topology.links.shape import LinkShape, Outage
from dumpfilter.topology.model import Node, Reading, Workload, resolve

RULES = (
    "do-db=shop",
    "replicate-do-db=a,b",
    "replicate-ignore-table=shop.log",
    'wild-do-table=shop.%"]',
    "replicate-rewrite-db=shop->store",
)
TEXTS = ("--binlog-format=ROW", "CREATE TABLE t (a INT, b TEXT)", ' "quoted", ] \\ ', "größer\n→ 𝕏")

rates = st.integers(1, MOST_RATE)
times = st.integers(0, 10**11).map(lambda micros: micros / 1_000_000)
outages = st.tuples(times, st.none() | times).map(
    lambda pair: Outage(pair[0], None if pair[1] is None else round(pair[0] + pair[1] + 1, 6))
)


@st.composite
def shapes(draw: st.DrawFn) -> LinkShape:
    """Shapes of links, some of them plain."""
    if draw(st.booleans()):
        return LinkShape()
    return LinkShape(
        draw(st.none() | rates), draw(times), draw(times), tuple(draw(st.lists(outages, max_size=2)))
    )


@st.composite
def _origins(draw: st.DrawFn, name: str) -> Node:
    match draw(st.sampled_from(("workload", "recording", "server", "running"))):
        case "workload":
            size, rate = draw(st.integers(1, 1 << 40)), draw(st.none() | rates)
            load = Workload(size=size, rate=rate, seed=draw(st.integers(0, 10**18 - 1)))
            return Node(name=name, workload=load, role=draw(st.none() | st.just("master")))
        case "recording":
            path = draw(st.sampled_from(("bin.index", "a dir/b,in.index", "/captured/ü.index")))
            return recording(name, path, speed=draw(st.none() | st.floats(0.001, 1e6)))
        case "running":
            return running(
                name, draw(st.sampled_from(("mysql://repl@db1:3306/", "mysql://db/?tls=disabled")))
            )
    return _server(draw, name)


def _server(draw: st.DrawFn, name: str, reads: Sequence[Reading] = ()) -> Node:
    """Return a real server. All are of one family, since a server cannot replicate from another family."""
    return server(
        name,
        "mariadb",
        reads,
        program=draw(st.none() | st.just("/usr/sbin/mariadbd")),
        init=draw(st.lists(st.sampled_from(TEXTS), max_size=2)),
        options=_options(draw),
    )


@st.composite
def nodes(draw: st.DrawFn) -> list[Node]:
    """Up to 8 nodes that make a topology: fan-outs, chains, several sources, and diamonds."""
    made: list[Node] = []
    for number in range(draw(st.integers(1, 8))):
        name = f"n{number}"
        if not made or draw(st.integers(0, 3)) == 0:
            made.append(draw(_origins(name)))
            continue
        names = [each.name for each in made]
        sources = draw(st.lists(st.sampled_from(names), min_size=1, max_size=3, unique=True))
        common = draw(shapes()), _rules(draw)
        reads = []
        for source in sources:
            shape, rules = common if draw(st.booleans()) else (draw(shapes()), _rules(draw))
            reads.append(read(source, link=shape, rules=rules))
        kind = draw(st.sampled_from(("server", "inferred", "slave")))
        if kind == "server":
            made.append(_server(draw, name, reads))
        else:
            node = slave(name, reads, options=_options(draw))
            made.append(node if kind == "slave" else node.with_(role=None))
    return made


@st.composite
def topologies(draw: st.DrawFn) -> Topology:
    """Valid topologies."""
    try:
        return resolve(draw(nodes()))
    except OptionError as error:
        # A drawn node may be taken for a master, which has neither a link to files nor a source of another family.
        assume("from files" not in str(error) and "cannot replicate" not in str(error))
        raise


def _rules(draw: st.DrawFn) -> tuple[str, ...]:
    return tuple(draw(st.lists(st.sampled_from(RULES), max_size=2)))


def _options(draw: st.DrawFn) -> tuple[str, ...]:
    return tuple(draw(st.lists(st.sampled_from(TEXTS), max_size=1)))
