"""Replicas behind dumpfilter equal replicas at the source under a live load, and one may take the other's place."""

from __future__ import annotations

import pytest

from dumpfilter.testbed.servers.server import free_port
from tests.real.behind import PASSWORD, Dumpfilter, ReplicaUser
from tests.real.live import Live, Plan
from tests.real.server import REPLICATION_PASSWORD, REPLICATION_USER, Servers, wait_for
from tests.slave.processes import Launcher

BREAKS = (
    *("stop", "flush", "purge", "kill dumpfilter", "kill replica", "cut", "cut in the middle", "slow"),
    "kill source",
)


@pytest.mark.parametrize(
    "plan",
    [
        pytest.param(
            # A killed MariaDB server may run the end of an XA transaction again. The other plan has XA.
            Plan(
                "mariadb",
                12,
                7,
                filters=2,
                writers=2,
                round=6,
                pause=0.5,
                parts=BREAKS,
                large=False,
                left_out=("xa",),
            ),
            id="breaks",
        ),
        pytest.param(
            Plan(
                "mariadb", 4, 3, filters=2, writers=2, round=4, pause=0.5, parts=("fail over",), large=False
            ),
            id="failover",
        ),
    ],
)
def test_twins_stay_equal(plan: Plan, launcher: Launcher, tmp_path_factory: pytest.TempPathFactory) -> None:
    # The path of a socket has at most 107 characters.
    directory = tmp_path_factory.mktemp("live")
    with Servers("mariadb", directory) as servers:
        live = Live(plan, servers, launcher, directory / "own", free_port)
        try:
            live.run()
        finally:
            live.close()
    assert plan.happened.total() >= 3


def test_a_replica_skips_the_events_that_its_source_marks(
    launcher: Launcher, tmp_path_factory: pytest.TempPathFactory
) -> None:
    directory = tmp_path_factory.mktemp("marked")
    with Servers("mariadb", directory) as servers:
        source = servers.new("source", 1)
        replica = servers.new("replica", 2, "--replicate-events-marked-for-skip=FILTER_ON_MASTER")
        source.start()
        replica.start()
        source.sql("CREATE DATABASE shop", "CREATE TABLE shop.t (i INT)", "SET skip_replication = 1")
        source.sql(
            "INSERT INTO shop.t VALUES (1)", "SET skip_replication = 0", "INSERT INTO shop.t VALUES (2)"
        )
        behind = Dumpfilter(launcher, directory / "own")
        behind.configure([ReplicaUser("replica", [])])
        behind.start(source.data / "bin.index")
        logins = (source.port, REPLICATION_USER, REPLICATION_PASSWORD), (behind.port, "replica", PASSWORD)
        for login in logins:
            replica.empty()
            replica.follow(*login)
            replica.control("START")
            wait_for(lambda: replica.applied_gtids() == source.binlog_gtids(), replica.status)
            assert replica.sql("SELECT i FROM shop.t") == [(2,)]
