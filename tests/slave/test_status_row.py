"""SHOW REPLICA STATUS: positions and GTIDs of one moment, the condition of UNTIL, and the lag in seconds."""

from __future__ import annotations

import threading
from collections import deque
from pathlib import Path
from typing import Any

import pytest

from dumpfilter.binlog.events import GTIDS
from dumpfilter.binlog.gtid import parse_gtid_set
from dumpfilter.binlog.reader import iter_events
from dumpfilter.slave.targets import SummaryTarget
from tests.slave.driven import driven, serving, wait_until
from tests.slave.growing import GrowingCopy
from tests.support import DATA

FAMILIES = ["mysql", "mariadb"]


def recording(family: str) -> Path:
    return DATA / "oracle" / f"{family}-row"


def counts_of(family: str) -> dict[tuple[str, int], int]:
    """Return the number of GTIDs before each position at which an event of a recording ends."""
    found: dict[tuple[str, int], int] = {}
    count = 0
    for path in sorted(recording(family).glob("bin.0*")):
        with path.open("rb") as file:
            for event in iter_events(file, file=path.name):
                count += event.type in GTIDS
                found[path.name, event.offset + len(event.raw)] = count
    return found


@pytest.mark.parametrize("family", FAMILIES)
def test_every_look_shows_position_and_gtids_of_one_moment(family: str, tmp_path: Path) -> None:
    counts = counts_of(family)
    copy = GrowingCopy(recording(family), tmp_path / "copy", seed=1)
    with serving(copy.index) as master, driven(tmp_path / "slave") as slave:
        slave.follow(master)
        slave.sql("START REPLICA")
        slave.catch_up(master)
        for _ in range(20):
            copy.more(1)
            end = master.end
            row: dict[str, Any] = {}

            def is_there(end: tuple[str, int] = end, row: dict[str, Any] = row) -> bool:
                row |= slave.status()
                return (row["Relay_Source_Log_File"], row["Exec_Source_Log_Pos"]) == end

            wait_until(is_there)
            assert parse_gtid_set(row["Executed_Gtid_Set"], family).count() == counts[end]  # type: ignore[arg-type]
            read = row["Source_Log_File"], row["Read_Source_Log_Pos"]
            assert parse_gtid_set(row["Retrieved_Gtid_Set"], family).count() == counts[read]  # type: ignore[arg-type]
            assert slave.console.variables()["gtid_executed"] == row["Executed_Gtid_Set"]


def test_no_column_announces_what_a_slave_cannot_do(tmp_path: Path) -> None:
    with driven(tmp_path) as slave:
        slave.sql("CHANGE REPLICATION SOURCE TO SOURCE_HOST='127.0.0.1' FOR CHANNEL 'ch1'")
        row = slave.status("ch1")
    assert {name for name, value in row.items() if name.startswith("Get_") and value != 0} == set()


@pytest.mark.parametrize("family", FAMILIES)
def test_looks_at_any_moment_of_a_busy_applier_agree(
    family: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """The applier looks at its own row in each commit, between which nothing saves the position."""
    counts = counts_of(family)
    looks: deque[dict[str, Any]] = deque()
    commit = SummaryTarget.commit

    def look_and_commit(target: SummaryTarget) -> None:
        looks.append(slave.status())
        commit(target)

    with serving(recording(family)) as master, driven(tmp_path / "slave") as slave:
        slave.follow(master)
        slave.sql("START REPLICA IO_THREAD")
        slave.catch_up(master, executed=False)
        monkeypatch.setattr(SummaryTarget, "commit", look_and_commit)
        slave.sql("START REPLICA SQL_THREAD")
        slave.catch_up(master)
    seen = set()
    for row in looks:
        place = row["Relay_Source_Log_File"], row["Exec_Source_Log_Pos"]
        seen.add(place)
        applied = parse_gtid_set(row["Executed_Gtid_Set"], family)  # type: ignore[arg-type]
        assert applied.count() == counts.get(place, 0), place
        assert parse_gtid_set(row["Retrieved_Gtid_Set"], family).issuperset(applied)  # type: ignore[arg-type]
    assert len(seen) > 10


@pytest.mark.parametrize(
    ("clause", "shown"),
    [
        ("SOURCE_LOG_FILE='bin.000009', SOURCE_LOG_POS=1000", ("Source", "bin.000009", 1000)),
        ("RELAY_LOG_FILE='relay-bin.000009', RELAY_LOG_POS=77", ("Relay", "relay-bin.000009", 77)),
        (
            "SQL_BEFORE_GTIDS='aaaaaaaa-bbbb-cccc-dddd-eeeeeeeeeeee:9'",
            ("SQL_BEFORE_GTIDS", "", 0),
        ),
        (
            "SQL_AFTER_GTIDS='aaaaaaaa-bbbb-cccc-dddd-eeeeeeeeeeee:9'",
            ("SQL_AFTER_GTIDS", "", 0),
        ),
    ],
)
def test_until_is_shown_until_the_next_start(
    clause: str, shown: tuple[str, str, int], tmp_path: Path
) -> None:
    """The values are those of MySQL 9.7, which shows them after the end of the applier, too."""

    def until() -> tuple[str, str, int]:
        row = slave.status()
        return row["Until_Condition"], row["Until_Log_File"], row["Until_Log_Pos"]

    with serving(recording("mysql")) as master, driven(tmp_path / "slave") as slave:
        slave.follow(master)
        assert until() == ("None", "", 0)
        slave.sql(f"START REPLICA SQL_THREAD UNTIL {clause}")
        assert until() == shown
        slave.sql("STOP REPLICA")
        slave.sql("START REPLICA IO_THREAD")
        assert until() == shown
        slave.sql("START REPLICA SQL_THREAD")
        assert until() == ("None", "", 0)


def test_seconds_behind_is_the_age_of_what_waits(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    goes_on, waits = threading.Event(), threading.Event()
    commit = SummaryTarget.commit

    def slow_commit(target: SummaryTarget) -> None:
        waits.set()
        goes_on.wait(240)
        commit(target)

    with serving(recording("mysql")) as master, driven(tmp_path / "slave") as slave:
        slave.follow(master)
        slave.sql("START REPLICA IO_THREAD")
        slave.catch_up(master, executed=False)
        assert slave.status()["Seconds_Behind_Source"] is None
        monkeypatch.setattr(SummaryTarget, "commit", slow_commit)
        try:
            slave.sql("START REPLICA SQL_THREAD")
            wait_until(waits.is_set)
            behind = slave.status()["Seconds_Behind_Source"]
            (lag,) = (row["LAG_SECONDS"] for row in slave.table("dumpfilter", "channels"))
            # The recording is older than any run of this test.
            assert 3600 < behind <= lag < behind + 240
            slave.sql("STOP REPLICA IO_THREAD")
            # As in a server, the applier's lag does not depend on the connection.
            assert slave.status()["Seconds_Behind_Source"] >= behind
        finally:
            goes_on.set()
        slave.catch_up(master)
        assert slave.status()["Seconds_Behind_Source"] is None
        slave.sql("START REPLICA IO_THREAD")
        wait_until(lambda: slave.status()["Seconds_Behind_Source"] == 0)
