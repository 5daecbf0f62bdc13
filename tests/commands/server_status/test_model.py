"""The facts of a status that are problems."""

from __future__ import annotations

import json
import math

import pytest

from dumpfilter.base.errors import OptionError
from dumpfilter.commands.server_status import model
from dumpfilter.commands.server_status.model import (
    CHANNEL,
    MASTER,
    SLAVE,
    MaxLag,
    Record,
    judge,
)
from dumpfilter.commands.sql import terminal_width
from dumpfilter.commands.status import status_lines


def master_record(**known: object) -> Record:
    return MASTER | known


def slave_record(**known: object) -> Record:
    return SLAVE | known


def channel_record(**known: object) -> Record:
    return CHANNEL | known


def slave_of_master(**more: object) -> Record:
    values: dict[str, object] = {
        "server_id": 101,
        "uuid": "u",
        "host": "",
        "port": 0,
        "user": "",
        "channel": "c",
        "dumping": True,
        "file": "b.1",
        "position": 4,
        "lag_bytes": 2000,
        "lag_seconds": 5.0,
        **dict.fromkeys(("state", "gone_since", "entry", "refusal"), ""),
        **dict.fromkeys(("drained", "bytes_sent", "bytes_dropped", "bytes_gtid", "events_undecided"), 0),
    }
    return model.slave_of_master(values | more)


@pytest.mark.parametrize(
    ("lag", "is_problem"),
    [("", False), ("2000", False), ("1999", True), ("1K", True), ("5s", False), ("4.9s", True), ("0s", True)],
)
def test_lag_of_a_masters_slave(lag: str, is_problem: bool) -> None:
    status = master_record(health="SERVING", slaves=[slave_of_master(), slave_of_master(dumping=False)])
    told = "slave 101 on channel c lags behind by 2,000 bytes, 5.0 s"
    assert judge(status, MaxLag.parse(lag) if lag else MaxLag()) == (
        [told, f"{told}, and has no dump"] if is_problem else []
    )


@pytest.mark.parametrize(
    ("slave", "problem"),
    [
        ({"state": "connected"}, ""),
        ({"state": "finished"}, ""),
        ({"state": "registered"}, ""),
        (
            {"state": "gone", "gone_since": "2026-11-23T08:00:00+00:00", "channel": "", "user": "r"},
            "slave 101 of user 'r' is gone since 2026-11-23T08:00:00+00:00 and lags behind by 2,000 bytes, 5.0 s; "
            "start it again, or say UNREGISTER REPLICA 101 on the master's console",
        ),
        ({"state": "gone", "gone_since": "2026-11-23T08:00:00+00:00", "drained": True}, ""),
        (
            {"state": "never seen", "server_id": 0, "user": "r", "entry": "replica[2]"},
            "replica[2] (user r): no such replica has ever connected; let one connect, or remove the table from the "
            "master's configuration",
        ),
        ({"state": "drained", "gone_since": "2026-11-23T08:00:00+00:00", "drained": True}, ""),
        (
            {"state": "refused", "user": "r", "channel": "", "refusal": "the position is wrong"},
            "slave 101 of user 'r' was refused: the position is wrong; cure this, and start the replica again",
        ),
    ],
)
def test_a_missing_slave_is_a_problem(slave: dict[str, object], problem: str) -> None:
    status = master_record(slaves=[slave_of_master(**slave)])
    assert judge(status, MaxLag()) == ([problem] if problem else [])


def test_bytes_for_gtids_have_a_column_when_there_are_any() -> None:
    def shown(**counts: int) -> str:
        return "\n".join(status_lines(master_record(slaves=[slave_of_master(**counts)])))

    assert "for GTIDs" not in shown(bytes_sent=7)
    assert "for GTIDs" not in shown(bytes_sent=7, bytes_gtid=0)
    assert all(text in shown(bytes_sent=7, bytes_gtid=10_900) for text in ("for GTIDs", "10,900"))


@pytest.mark.parametrize(
    ("counts", "share", "text"),
    [
        ({}, None, None),
        ({"bytes_sent": 12, "bytes_dropped": 88}, 0.88, "88.0 %"),
        ({"bytes_sent": 12, "bytes_dropped": 88, "bytes_gtid": 13}, 0.75, "75.0 %"),
        ({"bytes_sent": 90, "bytes_dropped": 10, "bytes_gtid": 20}, -0.1, "-10.0 %"),
    ],
)
def test_the_saved_share_is_net_of_stand_ins(
    counts: dict[str, int], share: float | None, text: str | None
) -> None:
    status = master_record(slaves=[slave_of_master(**counts)])
    assert status["slaves"][0]["saved"] == pytest.approx(share)
    shown = "\n".join(status_lines(status))
    assert text is None or text in shown
    assert text is not None or "saved" not in shown


def test_a_channel_shows_facts_that_no_list_names() -> None:
    channel = channel_record(
        io_running="Yes", counters={"sunny_days": 1234}, new_fact="told", new_seconds=0.25
    )
    lines = [line.strip() for line in status_lines(slave_record(channels=[channel]))]
    assert {"sunny days: 1,234", "new fact: told", "new seconds: 0.2"} <= set(lines)


@pytest.mark.parametrize("width", [64, 80, 100, math.inf])
def test_numbers_and_positions_are_whole_at_every_width(width: float) -> None:
    counts = {"bytes_sent": 4_636_105, "bytes_dropped": 987_654_321, "bytes_gtid": 1_234_567}
    slave = slave_of_master(
        server_id=34812,
        user="replication",
        host="replica-1.example.org",
        port=3306,
        file="binlog.000001",
        position=11_327_432,
        lag_bytes=55_443_322,
        **counts,
        events_undecided=76_543,
    )
    drain = {
        "drained_by": "user",
        "value": "replication",
        "since": "2026-11-22 20:01:02",
        "still_dumping": 12,
    }
    status = master_record(slaves=[slave, slave_of_master(server_id=34813)], drains=[drain])
    lines = [line for text in status_lines(status, width) for line in text.splitlines()]
    for whole in (
        *("34812", "34813", "binlog.000001:11327432", "replica-1.example.org:3306", "55,443,322", "5.0"),
        *("4,636,105", "987,654,321", "1,234,567", "76,543", "2026-11-22 20:01:02"),
    ):
        assert any(whole in line for line in lines), (whole, lines)
    assert max(map(len, lines)) <= width


def test_a_pipe_is_as_wide_as_columns_says(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("COLUMNS", "60")
    assert terminal_width() == 60
    monkeypatch.delenv("COLUMNS")
    assert terminal_width() == math.inf


@pytest.mark.parametrize("health", ["", "SERVING"])
def test_a_health_that_nobody_asked_for_has_no_line(health: str) -> None:
    shown = "\n".join(status_lines(master_record(console="127.0.0.1:3308", health=health)))
    assert ("health" in shown) is bool(health)


def test_a_master_that_tells_its_health_only_shows_no_position() -> None:
    lines = list(status_lines(master_record(address="127.0.0.1:3307", health="SERVING")))
    assert not {"file", "files", "bytes"} & {line.partition(":")[0].strip() for line in lines}


@pytest.mark.parametrize("lag", ["x", "5x", "-1", "-1s", "s", "nans", "infs", "1e400s"])
def test_bad_lags(lag: str) -> None:
    with pytest.raises(OptionError, match="--max-lag"):
        MaxLag.parse(lag)


@pytest.mark.parametrize(
    ("text", "told"),
    [
        ("5m", "'5m' could be minutes or bytes: write 5min or 300s, or 5M"),
        ("1.5m", "write a time"),
        ("m", "write a time"),
    ],
)
def test_a_lower_case_m_is_ambiguous(text: str, told: str) -> None:
    with pytest.raises(OptionError, match=told):
        MaxLag.parse(text)


@pytest.mark.parametrize(
    ("text", "seconds"), [("30S", 30), ("5min", 300), ("1h", 3600), ("1.5H", 5400), ("0.5s", 0.5)]
)
def test_times(text: str, seconds: float) -> None:
    assert MaxLag.parse(text) == MaxLag(seconds=seconds)


@pytest.mark.parametrize("text", ["30", "30B", "30b"])
def test_a_number_alone_is_bytes(text: str) -> None:
    assert MaxLag.parse(text) == MaxLag(nbytes=30)


def test_an_unknown_lag_is_no_problem() -> None:
    status = master_record(slaves=[slave_of_master(lag_bytes=None, lag_seconds=None)])
    assert not judge(status, MaxLag(nbytes=0, seconds=0))


def test_health() -> None:
    status = master_record(health="NOT_SERVING")
    assert "NOT_SERVING" in judge(status, MaxLag())[0]


def test_threads_of_a_slave() -> None:
    good = channel_record(channel="a", io_running="Yes", sql_running="Yes", lag_bytes=10)
    offline = channel_record(channel="b")
    bad = channel_record(
        io_running="Connecting", sql_running="No", io_error="drained", sql_error="", unusable="x: damaged"
    )
    status = slave_record(channels=[good, offline, bad])
    assert judge(status, MaxLag(nbytes=9)) == [
        "channel a: the SQL thread lags behind by 10 bytes",
        "the default channel: x: damaged",
        "the default channel: the I/O thread is connecting: drained",
        "the default channel: the SQL thread does not run",
    ]


def test_a_slave_that_does_not_run() -> None:
    status = slave_record(relay_dir="s1", running=False)
    assert [problem.partition(":")[0] for problem in judge(status, MaxLag())] == [
        "no slave runs in s1",
        "the slave has no channel",
    ]


def test_json() -> None:
    for status in (
        master_record(slaves=[slave_of_master()]),
        slave_record(channels=[channel_record(channel="a")]),
    ):
        assert json.loads(json.dumps(status))["role"] in ("master", "slave")


def test_a_source_that_is_not_received_is_a_problem() -> None:
    status = master_record(
        source={"address": "mysql://db1/", "state": "connecting", "last_error": "no route"}
    )
    assert judge(status, MaxLag()) == ["the source mysql://db1/ is not received (connecting): no route"]
    status = master_record(source={"address": "mysql://db1/", "state": "receiving", "last_error": "no route"})
    assert judge(status, MaxLag()) == []
