"""Replicas behind dumpfilter equal replicas at the source under a live load, and one may take the other's place."""

from __future__ import annotations

import pytest

from dumpfilter.testbed.servers.server import free_port
from tests.real.live import Live, Plan
from tests.real.server import Servers
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
