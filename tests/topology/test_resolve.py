"""Tests of the step from what is written to a topology: the kinds of nodes, and the masters in between."""

from __future__ import annotations

import sys
from types import FrameType

import pytest

from dumpfilter.base.errors import OptionError
from dumpfilter.topology import parse_string, parse_toml_topology, to_toml
from dumpfilter.topology.model import MOST_NODES, MOST_SOURCES, Topology
from dumpfilter.topology.notations import topology_of_tables

KINDS = {"server": "S", "running": "U", "recording": "R", "workload": "W", "master": "M", "slave": "s"}


def shape(topology: Topology) -> str:
    """Return the nodes with their kinds and sources, such as ``m:S f:M(m)``."""
    nodes = []
    for node in topology.nodes:
        sources = ",".join(reading.source for reading in node.reads)
        kind = KINDS[node.kind]
        nodes.append(f"{node.name}:{kind}{f'({sources})' if sources else ''}")
    return " ".join(nodes)


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("m", "m-workload:W m:M(m-workload)"),
        ("m >> web", "m-workload:W m:M(m-workload) web:s(m)"),
        ("m[size=4M] >> hr >> hr2", "m-workload:W m:M(m-workload) hr:s(m) hr2:s(hr)"),
        ("w >> m[role=master] >> web", "w:W m:M(w) web:s(m)"),
        ("r[binlogs=x]", "r-recording:R r:M(r-recording)"),
        ("r[binlogs=x] >> web", "r-recording:R r:M(r-recording) web:s(r)"),
        ("r[binlogs=x] >> web[server=mariadb]", "r-recording:R r:M(r-recording) web:S(r)"),
        ("r[binlogs=x] >> f >> web", "r:R f:M(r) web:s(f)"),
        ("r[binlogs=x] >> f >> web; r >> hr", "r-recording:R r:M(r-recording) f:M(r-recording) web:s(f) hr:s(r)"),
        ("d[server=mariadb] >> f >> web", "d:S f:M(d) web:s(f)"),
        ("d[server=mariadb] >> web", "d:S d-master:M(d) web:s(d-master)"),
        ("d[server=mariadb] >> f[role=master]", "d:S f:M(d)"),
        ("d[server=mariadb] >> hr[do-db=hr] >> hr2", "d:S d-master:M(d) hr:s(d-master) hr2:s(hr)"),
        ("d[server=mariadb] >> e[server=mariadb] >> f >> w", "d:S e:S(d) f:M(e) w:s(f)"),
        ("d[connect=mysql://a@b/] >> a; d >> b", "d:U d-master:M(d) a:s(d-master) b:s(d-master)"),
        ("m, n >> all", "m-workload:W m:M(m-workload) n-workload:W n:M(n-workload) all:s(m,n)"),
        ("m >> a, b >> end", "m-workload:W m:M(m-workload) a:s(m) b:s(m) end:s(a,b)"),
        ("m-workload[server=mariadb] >> f >> w; m >> v",
         "m-workload:S f:M(m-workload) w:s(f) m-workload-2:W m:M(m-workload-2) v:s(m)"),
    ],
)  # fmt: skip
def test_the_kind_of_a_node_follows_from_its_sources_rules_and_readers(text: str, expected: str) -> None:
    topology = parse_string(text)
    assert shape(topology) == expected
    assert parse_toml_topology(to_toml(topology)) == topology


def test_sources_come_before_their_readers() -> None:
    assert shape(parse_string("a >> c; b >> c; b >> a")).split() == [
        "b-workload:W", "b:M(b-workload)", "a:s(b)", "c:s(a,b)",
    ]  # fmt: skip


def test_each_reader_has_the_link_that_was_written_for_it() -> None:
    topology = parse_string("d[server=mariadb] >> a[rate=1mbit]; d >> b[delay=50ms, do-db=x]")
    assert [(each.name, each.shape.rate, each.shape.delay) for each in topology.links] == [
        ("d:d-master", None, 0.0), ("d-master:a", 1_000_000, 0.0), ("d-master:b", None, 0.05),
    ]  # fmt: skip


@pytest.mark.parametrize(
    ("text", "style"),
    [("m >> a", "mysql"), ("m >> a >> b[server=mariadb]", "mariadb"), ("m[style=mariadb] >> a", "mariadb")],
)
def test_a_workload_has_the_style_of_the_servers_that_read_it(text: str, style: str) -> None:
    workload = parse_string(text)["m-workload"].workload
    assert workload is not None
    assert workload.style == style


@pytest.mark.parametrize("nodes", [MOST_SOURCES + 1, 900])
def test_a_chain_has_a_limit(nodes: int) -> None:
    """The search for the servers that wrote the events called itself for each node, up to a RecursionError."""
    names = [f"n{number}" for number in range(nodes - 1)]
    with pytest.raises(OptionError, match=f"more than {MOST_SOURCES} nodes stand before .* in a chain"):
        parse_string(" >> ".join(["db[server=mysql]", *names, "last[server=mysql]"]))


def test_a_long_chain_knows_the_family_of_its_events() -> None:
    names = [f"n{number}" for number in range(MOST_SOURCES - 1)]
    text = " >> ".join(["db[server=mysql]", *names, "last[server=mysql]"])
    assert len(parse_string(text).nodes) == MOST_SOURCES + 1
    with pytest.raises(OptionError, match="cannot replicate from db, which is mysql"):
        parse_string(text.replace("last[server=mysql]", "last[server=mariadb]"))


def test_a_chain_that_is_written_backwards_has_a_limit() -> None:
    nodes = [f'[node.n{number}]\nfrom = "n{number + 1}"\n' for number in range(900)]
    with pytest.raises(OptionError, match=f"more than {MOST_SOURCES} nodes stand before n0 in a chain"):
        parse_toml_topology("".join(nodes) + '[node.n900]\nserver = "mysql"\n')


def test_many_nodes_take_time_with_their_number() -> None:
    assert _calls(MOST_NODES // 2) <= 2.2 * _calls(MOST_NODES // 4)


def _calls(nodes: int) -> int:
    """Return the number of function calls that a topology of so many workloads takes."""
    tables = {"node": {f"n{number}": {"workload": "1M"} for number in range(nodes)}}
    calls = 0

    def count(frame: FrameType, event: str, argument: object) -> None:
        del frame, argument
        nonlocal calls
        calls += event == "call"

    sys.setprofile(count)
    try:
        topology_of_tables(tables)
    finally:
        sys.setprofile(None)
    return calls


def test_the_number_of_nodes_has_a_limit() -> None:
    text = "m >> " + ", ".join(f"n{number}" for number in range(MOST_NODES))
    with pytest.raises(OptionError, match=f"1001 nodes, and the limit is {MOST_NODES}"):
        parse_string(text)
