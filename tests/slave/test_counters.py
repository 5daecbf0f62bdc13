"""The counts of a channel: they outlive its connections and its slave, and a damaged file costs the counts only."""

from __future__ import annotations

import json
import os
from collections import Counter
from pathlib import Path
from typing import Any

import pytest
from structlog.testing import capture_logs

from dumpfilter.base.errors import OutputError
from dumpfilter.base.state_file import StateFile
from dumpfilter.filter.rules import RuleKind
from dumpfilter.slave.state import CountersInfo
from dumpfilter.slave.threads import ChannelCounters
from dumpfilter.v1 import dumpfilter_pb2 as pb
from tests.slave.driven import driven, serving, wait_until
from tests.support import DATA

CHUNK = pb.Chunk(events=b"x" * 100, counts=pb.Counts(events_read=5, events_dropped=2, bytes_read=300))
NAME = CountersInfo.NAME
MYSQL = DATA / "oracle" / "mysql-row"


def counted(directory: Path) -> ChannelCounters:
    counters = ChannelCounters(directory)
    counters.count_connection()
    counters.count_chunk(CHUNK, len(CHUNK.events))
    counters.count_chunk(pb.Chunk(heartbeat=True), 0)
    counters.count_hits(Counter({RuleKind.DO_DB: 3}))
    counters.count_error("io", "lost \udce9")
    counters.count_error("sql", "x" * 100_000)
    return counters


def test_what_is_saved_goes_on(tmp_path: Path) -> None:
    first = counted(tmp_path)
    first.save()
    again = counted(tmp_path)
    info = again.info
    assert info.counts == {
        "connections": 2,
        "chunks": 4,
        "heartbeats": 2,
        "bytes_received": 200,
        "events_read": 10,
        "events_dropped": 4,
        "bytes_read": 600,
        "io_errors": 2,
        "sql_errors": 2,
    }
    assert info.hits == {"replicate-do-db": 6}
    assert info.last_io_error == "lost \\udce9"
    assert len(info.last_sql_error) == 2000
    assert info.since == first.info.since > 0


def test_nothing_is_written_without_a_change(tmp_path: Path) -> None:
    counters = ChannelCounters(tmp_path)
    counters.save()
    assert not os.listdir(tmp_path)
    counters.count_connection()
    counters.save()
    before = (tmp_path / NAME).stat().st_mtime_ns
    counters.save()
    ChannelCounters(tmp_path).save()
    assert (tmp_path / NAME).stat().st_mtime_ns == before


@pytest.mark.parametrize(
    ("data", "reason"),
    [
        (b"", "is not a counters.info file or is damaged (no JSON)"),
        (b"{}", "is not a counters.info file of dumpfilter"),
        (b'{"kind": "counters.info", "format": 99}', "has format 99"),
        (b'{"kind": "counters.info", "format": 2, "chunks": 1, "crc32": 0}', "was damaged or edited"),
    ],
    ids=["empty", "object", "newer", "edited"],
)
def test_a_damaged_file_costs_the_counts_only(tmp_path: Path, data: bytes, reason: str) -> None:
    (tmp_path / NAME).write_bytes(data)
    with capture_logs() as logs:
        counters = ChannelCounters(tmp_path)
    (line,) = logs
    assert (line["event"], line["file"]) == ("state file cannot be used", str(tmp_path / NAME))
    assert reason in line["reason"]
    assert not counters.info.counts
    assert (tmp_path / f"{NAME}.unusable").read_bytes() == data
    counters.count_chunk(CHUNK, len(CHUNK.events))
    counters.save()
    assert ChannelCounters(tmp_path).info.counts["chunks"] == 1


def test_a_full_disk_is_told_once(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    counters = counted(tmp_path)

    def full(*arguments: Any, **more: Any) -> None:
        raise OutputError(f"{tmp_path / NAME}: cannot be written: No space left on device")

    with capture_logs() as logs:
        with monkeypatch.context() as patch:
            patch.setattr(StateFile, "save", full)
            counters.save()
            counters.save()
        counters.save()
    assert [line["event"] for line in logs] == ["state not saved", "state saved again"]
    assert ChannelCounters(tmp_path).info == counters.info


def test_a_removed_channel_leaves_no_file(tmp_path: Path) -> None:
    counters = counted(tmp_path)
    counters.save()
    counters.remove()
    counters.save()
    assert not os.listdir(tmp_path)


def test_counts_outlive_the_slave(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    with serving(MYSQL) as master, driven(tmp_path / "s", "--replicate-do-db=shop") as slave:
        slave.follow(master)
        slave.sql("START REPLICA")
        slave.catch_up(master)
        master.stop()
        wait_until(lambda: slave.table("dumpfilter", "channels")[0]["IO_ERRORS"])
        master.start()
        wait_until(lambda: slave.table("dumpfilter", "channels")[0]["CONNECTIONS"] == 2)
        slave.sql("STOP REPLICA")
        (before,) = slave.table("dumpfilter", "channels")
        hits = slave.table("dumpfilter", "filter_hits")
        assert before["EVENTS_DROPPED"] > 0
        assert hits == [
            {"CHANNEL_NAME": "", "RULE_KIND": "replicate-do-db", "HITS": slave.counters()["REPLICATE_DO_DB"]}
        ]
        # A server forgets COUNTER at a restart, and so does the slave; the channel's counts stay.
        slave.restart("--replicate-do-db=hr")
        assert slave.counters()["REPLICATE_DO_DB"] == 0
        assert slave.table("dumpfilter", "filter_hits") == hits
        (after,) = slave.table("dumpfilter", "channels")
        same = {"CONNECTIONS", "CHUNKS", "BYTES_RECEIVED", "EVENTS_DROPPED", "IO_ERRORS", "COUNTING_SINCE"}
        assert {name: after[name] for name in same} == {name: before[name] for name in same}
        slave.sql("START REPLICA")
        wait_until(lambda: slave.table("dumpfilter", "channels")[0]["CONNECTIONS"] == 3)
        slave.sql("STOP REPLICA")
        slave.sql("RESET REPLICA ALL")
        assert not (tmp_path / "s" / NAME).exists()


def test_a_running_slave_saves(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("dumpfilter.slave.channels.SAVE_COUNTERS", 0.01)

    def saved() -> dict[str, Any]:
        try:
            return dict(json.loads((tmp_path / "s" / NAME).read_bytes()))
        except FileNotFoundError:
            return {"counts": {}}

    with serving(MYSQL) as master, driven(tmp_path / "s") as slave:
        slave.follow(master)
        slave.sql("START REPLICA")
        wait_until(lambda: saved()["counts"].get("connections") == 1)
        assert CountersInfo.file(tmp_path / "s").load() is not None
