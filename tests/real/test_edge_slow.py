"""A real MariaDB replica beside a slave ends as the recorded replica did, though the slave is killed meanwhile."""

from __future__ import annotations

import random
from collections.abc import Iterator
from pathlib import Path

import pytest

from dumpfilter.testbed.values import Place
from tests.real.behind import PASSWORD
from tests.real.edge import USER, Edge
from tests.real.judging import Case, Ended, cases, differences, recorded_end, set_end
from tests.real.server import RealServer, Servers, wait_for
from tests.slave.growing import GrowingCopy
from tests.slave.processes import Launcher

CASE = "mariadb-row/ignore-db"


@pytest.fixture(scope="module")
def replica(tmp_path_factory: pytest.TempPathFactory) -> Iterator[RealServer]:
    with Servers("mariadb", tmp_path_factory.mktemp("servers")) as servers:
        server = servers.new("replica", 22, "--slave-skip-errors=all")
        server.start()
        yield server


def the_case() -> Case:
    (found,) = (case for case in cases("mariadb") if str(case) == CASE)
    return found


@pytest.mark.parametrize("by_file", [False, True])
def test_the_slave_dies_while_a_replica_follows(
    launcher: Launcher, tmp_path: Path, replica: RealServer, by_file: bool
) -> None:
    case = the_case()
    copy = GrowingCopy(case.recording.path, tmp_path / "binlog", seed=11)
    launcher.start_master(tmp_path / "binlog")
    edge = Edge(launcher, tmp_path / "edge", *case.rules, "--auto-position")
    edge.start(launcher.port)
    replica.empty(case.databases, case.recording.collation)
    replica.follow(
        edge.port, USER, PASSWORD, start=Place(case.recording.files[0].name, 4) if by_file else None
    )
    replica.control("START")
    chance = random.Random(by_file)
    for number in range(copy.transactions):
        copy.more(1)
        if number % 25 == 20:
            edge.kill()
            copy.more(chance.randrange(3))
            edge.start(launcher.port)
        if number % 25 == 10:
            replica.control("STOP")
            copy.more(chance.randrange(3))
            replica.control("START")
    end = set_end(case.recording)
    status = replica.status

    def at_the_end() -> bool:
        now = status()
        assert now is not None
        assert not now.sql_error[0], now.sql_error
        return now.read == now.executed == end

    wait_for(at_the_end, lambda: (status(), edge.log()))
    ended = Ended(replica.state(), replica.applied_gtids(), end, end, (0, ""), (0, ""))
    assert differences(case, recorded_end(case), ended) == []
    replica.control("STOP")
