"""Experiments with real processes over shaped links. The bytes of each link are those of its simulation."""

from __future__ import annotations

import threading
import time

import pytest

from dumpfilter.base.errors import DumpfilterError
from dumpfilter.simulation.results import Method, Results, Variant
from dumpfilter.testbed.experiment import Experiment, Load, Phase, run_experiment
from dumpfilter.topology import master, server, slave, to_toml
from dumpfilter.topology.links.shape import LinkShape
from dumpfilter.topology.model import Node, Topology, Workload

RULES = tuple(f"replicate-do-db=shop_{number:02}" for number in range(0, 20, 2))


def check_agreement(results: Results) -> None:
    """Check that each run has the bytes and transactions of its simulation."""
    real = [run for run in results.runs if run.method is Method.MEASURED]
    simulated = [run for run in results.runs if run.method is Method.SIMULATED]
    for one, other in zip(real, simulated, strict=True):
        assert one.setting == other.setting
        assert {link.name: (link.bytes, link.transactions) for link in one.links} == {
            link.name: (link.bytes, link.transactions) for link in other.links
        }
        assert all(node.missing == 0 for node in one.nodes)
        assert all(
            0 < node.lag.p50 <= node.lag.p99 <= node.lag.worst for node in one.nodes if node.transactions
        )


def test_a_chain_with_an_outage_has_the_bytes_of_its_simulation_in_each_variant() -> None:
    topology = Topology(
        (
            Node(name="w", workload=Workload(size=200_000, rate=1_600_000)),
            master("m", "w"),
            slave("web", "m", link=LinkShape(20_000_000, 0.005), rules=RULES),
            slave("end", "web", link=LinkShape(20_000_000, 0.005), rules=RULES[:3]),
        )
    )
    experiment = Experiment(
        name="chain",
        topology=topology,
        phases=(Phase(seconds=0.2, name="load"), Phase(seconds=0.2, name="outage", cut="m:web")),
        variants=(Variant.MASTER, Variant.SLAVE),
    )
    told: list[str] = []
    threads = set(threading.enumerate())
    results = run_experiment(experiment, told.append)
    check_agreement(results)
    assert len(results.runs) == 4
    assert results.sources[0].clock == "measured"
    assert "filter-on-master, run 1 of 1: outage, 0.2 s" in told
    for run in results.runs:
        (outage,) = next(link.outages for link in run.links if link.name == "m:web")
        assert outage.end is not None
        assert outage.end > outage.start
    filtered, unfiltered = (run.links[0].bytes for run in results.runs if run.method is Method.MEASURED)
    assert filtered < unfiltered
    assert len(set(threading.enumerate()) - threads) < 10
    Results.model_validate_json(results.model_dump_json())


def test_statements_reach_slaves_and_replicas_and_plain_replication_sends_everything() -> None:
    tables = tuple(
        text
        for schema in ("shop", "hr")
        for text in (f"CREATE DATABASE {schema}", f"CREATE TABLE {schema}.t (id INT PRIMARY KEY, x TEXT)")
    )
    topology = Topology(
        (
            server("db", options=["--binlog-format=ROW"], init=tables),
            master("m", "db"),
            slave("web", "m", rules=("replicate-wild-do-table=shop.%",), link=LinkShape(2_000_000, 0.01)),
            slave("end", "web"),
            server("replica", "mariadb", "m"),
        )
    )
    statements = "REPLACE INTO shop.t VALUES ({n}, 'x')", "REPLACE INTO hr.t VALUES ({n}, 'x')"
    load = Load(sql=statements, every=0.01)
    variants = (Variant.PLAIN, Variant.MASTER, Variant.REPLICA)
    phases = (Phase(seconds=0.5, name="load"), Phase(seconds=0.3, name="outage", cut="m:web"))
    experiment = Experiment(
        name="plain", topology=topology, phases=phases, loads={"db": load}, variants=variants
    )
    results = run_experiment(experiment)
    check_agreement(results)
    plain, filtered, replicas = (run for run in results.runs if run.method is Method.MEASURED)
    assert results.topology == to_toml(topology)
    transactions = {node.name: node.transactions for node in filtered.nodes}
    assert 0 < transactions["web"] < transactions["replica"] == transactions["m"]
    assert [link.name for link in plain.links] == ["db:web", "db:replica", "web:end"]
    for run in (filtered, replicas):
        assert [link.name for link in run.links] == ["db:m", "m:web", "m:replica", "web:end"]
    # A real replica writes only what it applied to its own binlog.
    assert plain.links[2].transactions < plain.links[0].transactions
    assert len(plain.links[0].outages) == 1


def test_a_run_with_a_killed_node_is_measured_and_not_simulated() -> None:
    topology = Topology(
        (Node(name="w", workload=Workload(size=100_000)), master("m", "w"), slave("web", "m"))
    )
    phases = (Phase(seconds=0.3, killed="web"),)
    results = run_experiment(Experiment(name="kill", topology=topology, phases=phases))
    (run,) = results.runs
    assert run.method is Method.MEASURED
    (source,) = results.sources
    assert (source.node, source.transactions) == ("w", run.nodes[0].transactions)
    assert "nothing was simulated" in results.warnings[0]


def test_a_load_that_fails_ends_the_experiment_in_its_phase() -> None:
    topology = Topology((server("db"), master("m", "db"), slave("web", "m")))
    told: list[str] = []
    began = time.monotonic()
    phases = (Phase(seconds=250.0, name="load"), Phase(seconds=1.0, name="late"))
    loads = {"db": Load(sql="SELEC {n}", every=0.01)}
    with pytest.raises(DumpfilterError, match=r"load\.db: .*1064"):
        run_experiment(Experiment(name="bad", topology=topology, phases=phases, loads=loads), told.append)
    assert time.monotonic() - began < 200
    assert not any("late" in one for one in told)
