"""Slaves against masters over gRPC, in one process, over the recordings."""

from __future__ import annotations

import json
import shutil
from pathlib import Path
from typing import Any

import pytest

from dumpfilter.base.errors import PositionError
from tests.slave.driven import Master, serving, wait_until
from tests.slave.growing import EndlessBinlog
from tests.slave.once import AddressOf, run_slave, start_slave
from tests.slave.relayed import content, contents


@pytest.mark.parametrize(
    ("chunk_size", "folder"),
    [(1, "mysql-row"), (300, "mysql-mixed"), (300, "mariadb-row"), (5000, "mysql-row")],
)
def test_chunk_size_leaves_no_trace(
    address_of: AddressOf, tmp_path: Path, folder: str, chunk_size: int
) -> None:
    options = ["--replicate-wild-ignore-table=logs.%"]
    small = start_slave(address_of(folder), tmp_path / "small", options, chunk_size=chunk_size)
    run_slave(address_of(folder), tmp_path / "large", options)
    small.wait()
    assert contents(tmp_path / "small") == contents(tmp_path / "large")
    assert small.counters.received["chunks"] > 3


@pytest.mark.parametrize("folder", ["mysql-row", "mariadb-row"])
def test_auto_position(address_of: AddressOf, tmp_path: Path, folder: str) -> None:
    other = start_slave(address_of(folder), tmp_path / "t", [])
    first = run_slave(address_of(folder), tmp_path / "s", [], auto_position=True)
    again = run_slave(address_of(folder), tmp_path / "s", [], auto_position=True)
    assert again.relay_log_info == first.relay_log_info
    other.wait()
    assert other.relay_log_info.target == first.relay_log_info.target


def test_another_master_by_gtid_set(masters: Any, tmp_path: Path) -> None:
    """The second master has the same transactions and more, in other files of the same names."""
    old = EndlessBinlog(tmp_path / "old", masters, file_size=30_000, seed=3)
    old.write(300, torn=False)
    old.close()
    new = EndlessBinlog(tmp_path / "new", masters, file_size=70_000, seed=3, server=1)
    new.write(700, torn=False)
    new.close()
    with serving(old.directory) as first:
        run_slave(address(first), tmp_path / "s", [], auto_position=True)
    with serving(new.directory) as second:
        whole = start_slave(address(second), tmp_path / "whole", [])
        moved = run_slave(address(second), tmp_path / "s", [], auto_position=True)
        whole.wait()
        assert moved.counters.received["transactions_read"] < 700
        assert moved.relay_log_info.target == whole.relay_log_info.target
        assert moved.relay_log_info.executed == whole.relay_log_info.executed
        assert moved.relay_log_info.executed.endswith(":1-700")
        assert moved.relay_log_info.source_position == whole.relay_log_info.source_position
        again = run_slave(address(second), tmp_path / "s", [], auto_position=True)
        assert again.relay_log_info == moved.relay_log_info


def address(master: Master) -> str:
    return f"127.0.0.1:{master.port}"


def test_io_thread_only(address_of: AddressOf, tmp_path: Path) -> None:
    whole = start_slave(address_of("mariadb-row"), tmp_path / "whole", [])
    fetched = run_slave(address_of("mariadb-row"), tmp_path / "s", [], io_thread_only=True)
    assert fetched.relay_log_info.relay_file == ""
    assert fetched.master_info.retrieved == "0-11-74"
    later = run_slave(address_of("mariadb-row"), tmp_path / "s", [])
    whole.wait()
    assert later.counters.received["bytes_received"] == 0
    assert later.relay_log_info == whole.relay_log_info


def test_start_position(address_of: AddressOf, tmp_path: Path) -> None:
    address = address_of("mysql-row")
    whole = run_slave(address, tmp_path / "whole", [])
    part = run_slave(address, tmp_path / "part", [], log_file="bin.000002", log_pos=4)
    assert part.relay_log_info.source_position == whole.relay_log_info.source_position
    assert part.relay_log_info.executed != whole.relay_log_info.executed
    relayed = content(tmp_path / "part" / "relay-bin.000001")
    assert relayed == content(tmp_path / "whole" / "relay-bin.000002")
    with pytest.raises(PositionError, match=r"bin.000002: at 500:"):
        run_slave(address, tmp_path / "bad", [], log_file="bin.000002", log_pos=500)


@pytest.mark.parametrize("options", [[], ["--replicate-do-db=nothing"]])
def test_a_transaction_that_takes_its_time(masters: Any, tmp_path: Path, options: list[str]) -> None:
    """The slave receives heartbeats inside a transaction, and records positions between transactions only."""
    binlog = EndlessBinlog(tmp_path / "binlog", masters, file_size=1 << 20, seed=5)
    binlog.write(10, torn=False)
    path = binlog.files[0]
    boundary = path.stat().st_size
    binlog.write(1, torn=False)
    binlog.close()
    whole = path.read_bytes()
    [gtid, begin, table_map, *rest] = masters.events_of(whole[:4] + whole[boundary:])
    path.write_bytes(whole[:boundary] + gtid + begin + table_map)
    live = {"once": False, "heartbeat_period": 0.05}
    with serving(binlog.directory) as master, path.open("ab", buffering=0) as file:
        slave = start_slave(address(master), tmp_path / "s", options, **live)
        wait_until(lambda: slave.master_info.source_position >= boundary)
        for event in rest[:-1]:
            heartbeats = slave.counters.received["heartbeats"]
            wait_until(lambda before=heartbeats: slave.counters.received["heartbeats"] >= before + 2)
            assert slave.master_info.source_position == boundary
            file.write(event)
        # The files at this moment are the files that a killed slave would leave.
        wait_until(lambda: recorded_position(tmp_path / "s") == boundary)
        shutil.copytree(tmp_path / "s", tmp_path / "killed")
        slave.stop()
        slave.close()
        again = start_slave(address(master), tmp_path / "killed", options, **live)
        wait_until(lambda: again.counters.received["chunks"] > 0)
        file.write(rest[-1])
        wait_until(lambda: again.master_info.source_position == len(whole))
        again.stop()
        again.close()
        last = run_slave(address(master), tmp_path / "killed", options)
    assert last.relay_log_info.executed.endswith(":1-11")


def recorded_position(directory: Path) -> int:
    return int(json.loads((directory / "master.info").read_bytes())["source_position"])
