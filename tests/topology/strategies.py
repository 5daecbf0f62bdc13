"""Hypothesis strategies for drafts and topologies of all kinds."""

from __future__ import annotations

from pathlib import Path

from hypothesis import assume
from hypothesis import strategies as st

from dumpfilter.errors import OptionError
from dumpfilter.links.shape import LinkShape, Outage
from dumpfilter.topology.drafts import Draft, DraftReading, Kind, Recording, Role, Running, Server, Workload
from dumpfilter.topology.model import Topology
from dumpfilter.topology.resolve import resolve
from dumpfilter.topology.units import MOST_RATE

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
def _kinds(draw: st.DrawFn) -> Kind:
    match draw(st.sampled_from(("workload", "recording", "server", "running"))):
        case "workload":
            return Workload(
                draw(st.integers(1, 1 << 40)), draw(st.none() | rates), draw(st.integers(0, 10**18 - 1))
            )
        case "recording":
            path = draw(st.sampled_from(("bin.index", "a dir/b,in.index", "/captured/ü.index")))
            return Recording(Path(path), draw(st.none() | st.floats(0.001, 1e6)))
        case "running":
            return Running(draw(st.sampled_from(("mysql://repl@db1:3306/", "mysql://db/?tls=disabled"))))
    return draw(servers())


@st.composite
def servers(draw: st.DrawFn) -> Server:
    """Real servers of one family, since a server of another family could not replicate from them."""
    return Server(
        "mariadb",
        draw(st.none() | st.just("/usr/sbin/mariadbd")),
        tuple(draw(st.lists(st.sampled_from(TEXTS), max_size=2))),
        draw(st.booleans()),
    )


@st.composite
def drafts(draw: st.DrawFn) -> list[Draft]:
    """Drafts of up to 8 nodes that make a topology: fan-outs, chains, several sources, and diamonds."""
    made: list[Draft] = []
    for number in range(draw(st.integers(1, 8))):
        name = f"n{number}"
        if not made or draw(st.integers(0, 3)) == 0:
            kind = draw(_kinds())
            made.append(Draft(name, str, kind, options=_options(draw) if isinstance(kind, Server) else ()))
            continue
        names = [each.name for each in made]
        sources = draw(st.lists(st.sampled_from(names), min_size=1, max_size=3, unique=True))
        common = draw(shapes()), _rules(draw)
        reads = tuple(
            DraftReading(source, str, *(common if draw(st.booleans()) else (draw(shapes()), _rules(draw))))
            for source in sources
        )
        kind = draw(st.sampled_from(("server", "inferred", "slave")))
        role: Role | None = "slave" if kind == "slave" else None
        made.append(
            Draft(name, str, draw(servers()) if kind == "server" else None, role, reads, _options(draw))
        )
    return made


@st.composite
def topologies(draw: st.DrawFn) -> Topology:
    """Valid topologies."""
    try:
        return resolve(draw(drafts()))
    except OptionError as error:
        # A drawn node may be taken for a master, which has neither a link to files nor a source of another family.
        assume("from files" not in str(error) and "cannot replicate" not in str(error))
        raise


def _rules(draw: st.DrawFn) -> tuple[str, ...]:
    return tuple(draw(st.lists(st.sampled_from(RULES), max_size=2)))


def _options(draw: st.DrawFn) -> tuple[str, ...]:
    return tuple(draw(st.lists(st.sampled_from(TEXTS), max_size=1)))
