"""Tests of the notations together: each says every topology, and all make the same one."""

from __future__ import annotations

from pathlib import Path

import pytest
from hypothesis import given

from dumpfilter.base.errors import OptionError
from dumpfilter.topology import (
    link,
    make_topology,
    master,
    parse_string,
    parse_toml_topology,
    read,
    recording,
    server,
    slave,
    to_toml,
    topology_from,
    workload,
)
from dumpfilter.topology.model import Topology
from tests.topology.strategies import topologies


@given(topologies())
def test_all_notations_make_the_same_topology(topology: Topology) -> None:
    assert parse_toml_topology(to_toml(topology)) == topology
    assert make_topology(*topology.nodes) == topology


TOML = """
[node.m]
server = "mariadb"
options = ["--binlog-format=ROW"]

[node.f]
from = "m"

[node.web]
from = "f"
server = "mariadb"
rules = ["replicate-do-db=shop"]
link = { rate = "2mbit", delay = "50ms", jitter = "5ms", down = "60s-120s" }

[node.other]
binlogs = "captured/bin.index"
speed = 10

[node.archive]
from = ["f", { node = "other", link = { rate = "512kbit" }, rules = ["ignore-db=tmp"] }]
"""

STRING = """
m[server=mariadb, option=--binlog-format=ROW] >> f >> web[server=mariadb, do-db=shop,
    rate=2mbit, delay=50ms, jitter=5ms, down=60s-120s]
other[binlogs=captured/bin.index, speed=10]
f >> archive; other >> archive[rate=512kbit, ignore-db=tmp]
"""


def test_a_topology_with_every_kind_of_key_is_the_same_in_the_three_notations() -> None:
    m = server("m", options=["--binlog-format=ROW"])
    f = master("f", m)
    shaped = link("2mbit", delay="50ms", jitter="5ms", down="60s-120s")
    web = server("web", "mariadb", f, rules=["do-db=shop"], link=shaped)
    other = recording("other", "captured/bin.index", speed=10)
    slow = read(other, link=link("512kbit"), rules=["replicate-ignore-db=tmp"])
    in_python = make_topology(m, f, web, other, slave("archive", [f, slow]))
    assert parse_toml_topology(TOML) == parse_string(STRING) == in_python
    assert [each.name for each in in_python.links] == ["m:f", "f:web", "f:archive", "other:archive"]


def test_a_workload_is_the_same_in_the_three_notations() -> None:
    toml = '[node.m]\nworkload = { size = "4M", rate = "1mbit", seed = 7 }\n[node.web]\nfrom = "m"\n'
    m = workload("m", "4M", rate="1mbit", seed=7)
    in_python = make_topology(m, slave("web", m))
    assert parse_toml_topology(toml) == parse_string("m[size=4M, rate=1mbit, seed=7] >> web") == in_python


def test_a_file_is_named_by_its_path(tmp_path: Path) -> None:
    file = tmp_path / "fan.toml"
    file.write_text('[node.r]\nbinlogs = "bin.index"\n[node.web]\nfrom = "r"\n')
    topology = topology_from(str(file))
    assert topology == topology_from(file) == topology_from(topology)
    assert topology.name == "fan"
    assert topology["r-recording"].binlogs == tmp_path / "bin.index"


def test_a_short_string_is_told_from_a_file() -> None:
    assert topology_from("m >> web") == parse_string("m >> web")
    assert topology_from("m") == parse_string("m")


def test_a_missing_file_is_an_error_with_the_nearest_name(tmp_path: Path) -> None:
    (tmp_path / "fan-out.toml").touch()
    with pytest.raises(OptionError, match=r"there is no such file; did you mean fan-out\.toml"):
        topology_from(str(tmp_path / "fanout.toml"))


def test_a_text_that_is_too_long_for_a_file_is_a_short_string() -> None:
    with pytest.raises(OptionError, match="is no name of a node"):
        topology_from("m" * 5000)
