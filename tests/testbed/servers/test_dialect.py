"""The words of the two families."""

from __future__ import annotations

import pytest

from dumpfilter.binlog.format import Family
from dumpfilter.testbed.servers.sql import DIALECTS, SourceAddress, quoted

SOURCE = SourceAddress("127.0.0.1", 3309, "repl", "it's")
RULES = {"": ["replicate-do-db=shop"], "east": ["--replicate-wild-do-table=hr.%"]}


def test_rules_of_channels_are_options() -> None:
    assert DIALECTS["mariadb"].rule_options(RULES) == [
        "--replicate-do-db=shop",
        "--east.replicate-wild-do-table=hr.%",
    ]
    assert DIALECTS["mysql"].rule_options(RULES) == [
        "--replicate-do-db=shop",
        "--replicate-wild-do-table=east:hr.%",
    ]


@pytest.mark.parametrize("family", ["mariadb", "mysql"])
def test_a_channel_follows_by_gtid(family: str) -> None:
    words = DIALECTS[family]  # type: ignore[index]
    by_gtid = words.follow("east", SOURCE)
    assert "'it''s'" in by_gtid
    assert "'east'" in by_gtid
    assert "AUTO_POSITION=1" in by_gtid or "USE_GTID=slave_pos" in by_gtid
    assert "LOG_FILE" not in by_gtid
    assert "'east'" not in words.follow("", SOURCE)
    assert "CHANNEL" not in words.follow("", SOURCE)


def test_literals_are_escaped_for_both_families() -> None:
    assert quoted("a\\'b") == "'a\\\\''b'"


def test_a_wait_for_gtids_always_has_a_limit() -> None:
    assert DIALECTS["mysql"].wait("u:1", 0.0) == "SELECT WAIT_FOR_EXECUTED_GTID_SET('u:1', 0.001000)"
    assert DIALECTS["mysql"].wait("u:1", 0.5) == "SELECT WAIT_FOR_EXECUTED_GTID_SET('u:1', 0.500000)"
    assert DIALECTS["mariadb"].wait("0-1-1", 0.0) == "SELECT MASTER_GTID_WAIT('0-1-1', 0.001)"


@pytest.mark.parametrize(
    ("family", "told"),
    [
        ("mariadb", ("STOP SLAVE", "CHANGE MASTER TO MASTER_DELAY=3", "START SLAVE")),
        (
            "mysql",
            ("STOP REPLICA", "CHANGE REPLICATION SOURCE TO SOURCE_DELAY=3", "START REPLICA"),
        ),
    ],
)
def test_a_new_delay_leaves_a_stopped_sql_thread_alone(family: Family, told: tuple[str, ...]) -> None:
    assert DIALECTS[family].delayed("", 3) == list(told)
    assert DIALECTS[family].delayed("", 3, applies=False) == [*told[:-1], f"{told[-1]} IO_THREAD"]
