"""A slave ends with the right data and GTIDs after any schedule of statements, restarts and changes of filter."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

import pytest

from tests.slave.driven import driven, serving
from tests.slave.schedules import ARGUMENTS, FACTOR, OLD_OPTION, RECORDED, UUID, Step, drawn, printed, replay

DATA = Path(__file__).parents[1] / "oracle" / "data" / "oracle"
DRAWN = 12 * FACTOR
"""The number of drawn schedules, of 10 steps each."""


def expect_law_after(schedule: Sequence[Step], directory: Path) -> None:
    with (
        printed(schedule),
        serving(DATA / "mysql-row") as master,
        driven(directory, OLD_OPTION) as slave,
    ):
        slave.follow(master)
        replay(schedule, slave, master)
        slave.sql("STOP REPLICA SQL_THREAD")
        slave.sql("START REPLICA")
        slave.expect_law(master)
        assert slave.executed() == f"{UUID}:1-74"


@pytest.mark.parametrize("seed", range(DRAWN))
def test_drawn_schedule(tmp_path: Path, seed: int) -> None:
    expect_law_after(drawn(seed), tmp_path)


@pytest.mark.parametrize("name", RECORDED)
def test_recorded_schedule(tmp_path: Path, name: str) -> None:
    expect_law_after(RECORDED[name], tmp_path)


def test_a_seed_always_draws_the_same_schedule() -> None:
    assert drawn(0)[:2] == [("RESTART", ""), ("RESTART", "--replicate-do-db=shop")]
    assert {kind for seed in range(DRAWN) for kind, _ in drawn(seed)} == ARGUMENTS.keys()
