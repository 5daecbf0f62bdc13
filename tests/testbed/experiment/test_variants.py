"""The topologies by which the variants of an experiment are run."""

from __future__ import annotations

import pytest

from dumpfilter.base.errors import OptionError
from dumpfilter.simulation.results import Variant
from dumpfilter.testbed.experiment import (
    KEEP_RELAY_LOGS,
    links_for,
    planned,
    simulated,
    topology_for,
)
from dumpfilter.topology import master, server, slave
from dumpfilter.topology.links.shape import LinkShape, Outage
from dumpfilter.topology.model import Node, Topology, Workload

RULES = ("replicate-do-db=shop",)
LINK = LinkShape(2_000_000, 0.05)

GENERATED = Topology(
    (
        Node(name="w", workload=Workload()),
        master("m", "w"),
        slave("web", "m", link=LINK, rules=RULES),
    )
)
REAL = Topology(
    (
        server("db", "mysql"),
        master("m", "db"),
        slave("web", "m", link=LINK, rules=RULES),
        server("replica", "mysql", "m", link=LINK, rules=RULES),
    )
)


def test_the_master_filters_as_the_topology_says() -> None:
    found = topology_for(GENERATED, Variant.MASTER)
    assert found["web"] == GENERATED["web"]


def test_no_filter_has_no_rules() -> None:
    found = topology_for(REAL, Variant.NONE)
    assert [reading for node in found.nodes for reading in node.reads if reading.rules] == []
    assert found["web"].reads[0].link == LINK


def test_slaves_of_dumpfilter_filter_alone_by_an_option() -> None:
    found = topology_for(GENERATED, Variant.SLAVE)["web"]
    assert found.reads[0].rules == RULES
    assert "--filter-on=slave" in found.options


def test_real_replicas_filter_alone_when_no_master_knows_their_rules() -> None:
    found = topology_for(REAL, Variant.SLAVE)["replica"]
    assert found.reads[0].rules == ()
    assert found.options == ("--replicate-do-db=shop", KEEP_RELAY_LOGS)


def test_real_replicas_take_the_place_of_slaves() -> None:
    found = topology_for(REAL, Variant.REPLICA)["web"]
    assert found == server("web", "mysql", "m", link=LINK, rules=RULES, options=[KEEP_RELAY_LOGS])


def test_a_real_replica_in_place_of_a_slave_runs_where_its_source_has_its_program() -> None:
    nodes = (server("db", "mysql", root="/opt/mysql"), master("m", "db"), slave("web", "m"))
    assert topology_for(Topology(nodes), Variant.REPLICA)["web"].root == "/opt/mysql"


def test_a_real_replica_cannot_apply_a_generated_workload() -> None:
    with pytest.raises(OptionError, match="web would apply the events of w, whose tables it does not have"):
        topology_for(GENERATED, Variant.REPLICA)


def test_a_simulation_has_the_outages_of_the_run() -> None:
    found = simulated(GENERATED, {"m:web": (Outage(1.0, 2.5),)})
    assert found["web"].reads[0].link == LinkShape(2_000_000, 0.05, 0.0, (Outage(1.0, 2.5),))


CHAIN = Topology(
    (
        server("db"),
        master("m", "db"),
        slave("web", "m", link=LINK, rules=RULES),
        slave("end", "web", rules=RULES),
        server("replica", "mariadb", "m", link=LINK, rules=RULES),
    )
)


def test_plain_replication_has_no_dumpfilter() -> None:
    found = topology_for(CHAIN, Variant.PLAIN)
    options = [KEEP_RELAY_LOGS]
    assert found == Topology(
        (
            server("db"),
            server("web", "mariadb", "db", link=LINK, rules=RULES, options=options),
            server("end", "mariadb", "web", rules=RULES, options=options),
            server("replica", "mariadb", "db", link=LINK, rules=RULES, options=options),
        )
    )
    assert planned(CHAIN, Variant.PLAIN) == found


def test_plain_replication_has_the_links_that_do_not_lead_to_masters() -> None:
    assert links_for(CHAIN, Variant.PLAIN) == {
        "m:web": "db:web",
        "web:end": "web:end",
        "m:replica": "db:replica",
    }
    assert links_for(CHAIN, Variant.MASTER) == {
        name: name for name in ("db:m", "m:web", "web:end", "m:replica")
    }


def test_a_variant_has_an_error_for_what_its_servers_cannot_do() -> None:
    effective = Topology((server("db"), master("m", "db"), slave("web", "m", rules=["do=shop.%"])))
    with pytest.raises(
        OptionError, match="variants: plain-replication: web: rules: a real server does not know"
    ):
        topology_for(effective, Variant.PLAIN)
    twice = Topology((server("db"), master("m", "db"), master("n", "db"), slave("web", ["m", "n"])))
    with pytest.raises(OptionError, match="plain-replication: web reads two masters of one source"):
        topology_for(twice, Variant.PLAIN)
