"""A master as a process: what a drain, SIGTERM, kill -9 and its state directory do to slaves and counts."""

from __future__ import annotations

import json
import re
import signal
import uuid
from pathlib import Path
from typing import Any

import grpc
import pytest

from dumpfilter.binlog.workload import generate
from dumpfilter.v1 import dumpfilter_pb2 as pb
from dumpfilter.v1 import dumpfilter_pb2_grpc as pb_grpc
from tests.slave.driven import wait_until
from tests.slave.processes import Launcher
from tests.support import DATA

MYSQL = DATA / "oracle" / "mysql-row"


def counters(directory: Path) -> dict[str, Any]:
    """Return the saved counts of the only slave. Every saved file is whole."""
    try:
        document = json.loads((directory / "slave-counters.json").read_bytes())
    except FileNotFoundError:
        return {"dumps": 0, "counts": {"events_read": 0}}
    (slave,) = document["entries"]
    assert isinstance(slave, dict)
    return slave


def test_counts_outlive_the_master(launcher: Launcher, tmp_path: Path) -> None:
    state = tmp_path / "state"
    launcher.start_master(MYSQL, "--state-dir", str(state))
    launcher.start_slave("s", "--once")
    assert launcher.wait("s") == 0
    # The counts of the last seconds may be lost at kill -9, and these are saved.
    wait_until(lambda: counters(state)["counts"]["events_read"] == 299, lambda: launcher.log("master"))
    before = counters(state)
    launcher.kill("master")
    launcher.start_master(MYSQL, "--state-dir", str(state))
    # The slave forgets everything but who it is, and dumps again.
    for path in (tmp_path / "s").iterdir():
        if path.name not in ("auto.cnf", "source.info"):
            path.unlink()
    launcher.start_slave("s", "--once")
    assert launcher.wait("s") == 0
    launcher.kill("master", signal.SIGTERM)
    assert launcher.wait("master") == 0
    after = counters(state)
    assert after["dumps"] == before["dumps"] + 1
    assert after["first_seen_at"] == before["first_seen_at"]
    assert after["counts"] == {name: 2 * count for name, count in before["counts"].items()}


def test_a_damaged_state_is_no_reason_not_to_serve(launcher: Launcher, tmp_path: Path) -> None:
    state = tmp_path / "state"
    state.mkdir()
    (state / "slave-counters.json").write_text("{}")
    launcher.start_master(MYSQL, "--state-dir", str(state), "--log-format", "json")
    launcher.start_slave("s", "--once")
    assert launcher.wait("s") == 0
    launcher.kill("master", signal.SIGTERM)
    assert launcher.wait("master") == 0
    lines = [json.loads(line) for line in (tmp_path / "master.log").read_text().splitlines()]
    (line,) = [line for line in lines if line["event"] == "state file cannot be used"]
    assert line["file"] == str(state / "slave-counters.json")
    assert counters(state)["dumps"] == 1


def test_a_state_directory_among_binlogs_is_refused(launcher: Launcher, tmp_path: Path) -> None:
    binlogs = tmp_path / "binlogs"
    binlogs.mkdir()
    for file in MYSQL.glob("bin.*"):
        (binlogs / file.name).write_bytes(file.read_bytes())
    launcher.start("master", "master", str(binlogs), "--port", "0", "--state-dir", str(binlogs))
    assert launcher.wait("master") == 2
    assert "the directory holds the binlogs" in launcher.log("master")
    assert not (binlogs / "master.lock").exists()


def test_sigterm_drains_and_the_slave_goes_on_with_the_next_master(
    launcher: Launcher, tmp_path: Path
) -> None:
    launcher.start_master(MYSQL, "--log-format", "json")
    launcher.start_slave("s", "--log-format", "json")
    wait_until(lambda: launcher.master_info("s")["source_file"] == "bin.000003", lambda: launcher.log("s"))
    launcher.kill("master", signal.SIGTERM)
    assert launcher.wait("master") == 0
    wait_until(lambda: "drained: the master is shutting down" in launcher.log("s"), lambda: launcher.log("s"))
    launcher.start_master(MYSQL)
    wait_until(
        lambda: (
            launcher.log("master").count('"registered"') + launcher.log("master").count("registered  ") > 1
        ),
        lambda: launcher.log("master"),
    )
    launcher.kill("s", signal.SIGTERM)
    assert launcher.wait("s") == 0
    assert launcher.report("s")["position"]["file"] == "bin.000003"
    for line in (tmp_path / "s.log").read_text().splitlines():
        assert json.loads(line)["logger"] == "dumpfilter.slave"


def test_a_binlog_that_ends_inside_a_transaction_does_not_hold_up_the_drain(
    launcher: Launcher, tmp_path: Path
) -> None:
    binlogs = tmp_path / "binlogs"
    binlogs.mkdir()
    (binlogs / "bin.000001").write_bytes((MYSQL / "bin.000001").read_bytes()[:100_000])
    (binlogs / "bin.index").write_text("bin.000001\n")
    launcher.start_master(binlogs / "bin.index", "--drain-seconds", "50")
    launcher.start_slave("s")
    wait_until(lambda: launcher.master_info("s")["source_position"] > 1000, lambda: launcher.log("s"))
    launcher.kill("master", signal.SIGTERM)
    assert launcher.wait("master") == 0
    assert "the drain is over" not in launcher.log("master")
    assert "drained" in launcher.log("master")


@pytest.mark.parametrize("way", ["time limit", "second signal", "interrupt"])
def test_a_slave_that_does_not_read_cannot_hold_up_the_end(
    launcher: Launcher, tmp_path: Path, way: str
) -> None:
    made = generate(tmp_path / "binlogs", 20_000_000)
    seconds = "0.2" if way == "time limit" else "3600"
    launcher.start_master(made.index, "--drain-seconds", seconds)
    window = [("grpc.http2.lookahead_bytes", 1 << 16), ("grpc.http2.bdp_probe", 0)]
    with grpc.insecure_channel(f"127.0.0.1:{launcher.port}", options=window) as channel:
        stub = pb_grpc.DumpFilterStub(channel)
        answer = stub.Register(pb.RegisterRequest(protocol=2, server_id=7, uuid=str(uuid.uuid4())))
        stream = stub.Dump(pb.DumpRequest(slave_id=answer.slave_id))
        first = next(stream)

        def is_sending() -> bool:
            (slave,) = stub.Status(pb.StatusRequest(slave_id=answer.slave_id)).slaves
            return bool(slave.position.position > first.end_position)

        # The next message is larger than the window, and nobody reads it.
        wait_until(is_sending)
        launcher.kill("master", signal.SIGINT if way == "interrupt" else signal.SIGTERM)
        if way == "second signal":
            wait_until(lambda: "stopping" in launcher.log("master"))
            launcher.kill("master", signal.SIGTERM)
        assert launcher.wait("master") == 0
    assert ("the drain is over before its end" in launcher.log("master")) is (way != "interrupt")


def test_two_masters_want_one_state_directory(launcher: Launcher, tmp_path: Path) -> None:
    launcher.start_master(MYSQL, "--state-dir", str(tmp_path / "state"))
    launcher.start(
        "other",
        "master",
        str(MYSQL),
        "--port",
        "0",
        "--state-dir",
        str(tmp_path / "state"),
        "--log-format",
        "json",
    )
    assert launcher.wait("other") == 1
    (line,) = [json.loads(each) for each in (tmp_path / "other.log").read_text().splitlines()]
    assert line["event"] == "ended by an error"
    assert "another master keeps its state here" in line["error"]
    assert re.search(r"--state-dir=", line["error"])


def test_counts_outlive_a_slave_that_is_killed(launcher: Launcher, tmp_path: Path) -> None:
    file = tmp_path / "s" / "counters.info"

    def saved() -> dict[str, Any]:
        try:
            document = json.loads(file.read_bytes())
        except FileNotFoundError:
            return {"counts": {}}
        assert isinstance(document, dict)
        return document

    launcher.start_master(MYSQL)
    launcher.start_slave("s", "--replicate-do-db=shop")
    wait_until(lambda: saved()["counts"].get("connections") == 1, lambda: launcher.log("s"))
    before = saved()
    launcher.kill("s")
    launcher.start_slave("s", "--replicate-do-db=shop", "--once")
    assert launcher.wait("s") == 0
    after = saved()
    assert after["counts"]["connections"] == 2
    assert after["since"] == before["since"]
    assert after["counts"]["events_read"] >= before["counts"]["events_read"]
