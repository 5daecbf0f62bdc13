"""A slave ends with the right data and GTIDs after any schedule of threads, statements, kills and lost connections."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.slave.driven import OLD_OPTION, UUID, apply_before, driven, serving
from tests.slave.schedules import DATA, FACTOR, KINDS, RECORDED, drawn, expect_law, replay

BATCH = 8
"""The schedules of one test."""

DRAWN = 5 * FACTOR
"""The number of batches of drawn schedules."""


@pytest.mark.parametrize("batch", range(DRAWN))
def test_drawn_schedules(batch: int) -> None:
    for seed in range(batch * BATCH, (batch + 1) * BATCH):
        expect_law(drawn(seed))


@pytest.mark.parametrize("name", RECORDED)
def test_recorded_schedule(name: str) -> None:
    replay(RECORDED[name])


def test_a_seed_always_draws_the_same_schedule_with_the_same_end() -> None:
    assert drawn(7) == drawn(7)
    assert replay(drawn(7)) == replay(drawn(7)) > (0, 0)
    assert {kind for seed in range(100) for kind, _ in drawn(seed).steps} == KINDS.keys()


def test_the_file_before_ends_with_dropped_transactions(tmp_path: Path) -> None:
    """These statements once left a hole in the GTID set of a slave with real threads and a real connection."""
    with serving(DATA / "mysql-row") as master, driven(tmp_path, OLD_OPTION) as slave:
        slave.follow(master)
        slave.restart("--replicate-do-db=shop")
        for statement in ("STOP REPLICA SQL_THREAD", "START REPLICA", "STOP REPLICA SQL_THREAD"):
            slave.sql(statement)
        slave.sql("START REPLICA IO_THREAD")
        apply_before(slave, 5)
        slave.sql("CHANGE REPLICATION FILTER REPLICATE_WILD_DO_TABLE = ('s%.%', 'a_b.%')")
        apply_before(slave, 53)
        slave.sql("START REPLICA IO_THREAD")
        master.stop()
        master.start()
        slave.sql("STOP REPLICA")
        slave.sql("CHANGE REPLICATION SOURCE TO FILTER_ON = 'SLAVE'")
        slave.sql("START REPLICA")
        slave.expect_law(master)
        assert slave.executed() == f"{UUID}:1-74"
