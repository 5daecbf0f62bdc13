"""Slaves against masters over gRPC, in one process, over the recordings."""

from __future__ import annotations

import json
import shutil
import subprocess
import zlib
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pytest

from dumpfilter.errors import PositionError
from dumpfilter.filter import Filter
from dumpfilter.filter.rules import FilterOn
from dumpfilter.slave.channel import Channel, ChannelOptions
from dumpfilter.slave.targets import SummaryTarget
from dumpfilter.slave.threads.master_options import MasterOptions
from tests.binlog_tools import complaints
from tests.slave.driven import Master, serving, wait_until
from tests.slave.growing import EndlessBinlog

FOLDERS = [
    f"{server}-{kind}"
    for server in ("mysql", "mariadb")
    for kind in ("row", "mixed", "statement", "statement-kinds")
]
CASES = json.loads((Path(__file__).parents[1] / "oracle" / "data" / "oracle" / "cases.json").read_text())
AddressOf = Callable[[str], str]


def start_slave(
    address: str, directory: Path, options: list[str], *, filter_on: FilterOn = FilterOn.BOTH, **more: Any
) -> Channel:
    """Start a slave in this process. ``more`` are members of MasterOptions, and ``apply``."""
    apply = more.pop("apply", True)
    server_id = 1 + zlib.crc32(bytes(directory)) % 10**9
    slave = Channel(
        ChannelOptions(
            master=MasterOptions(
                **{"address": address, "server_id": server_id, "uuid": "", "once": True} | more
            ),
            relay_dir=directory,
            rules=Filter.from_options(options).rules,
            filter_on=filter_on,
            apply=apply,
        ),
        SummaryTarget(),
    )
    slave.start()
    return slave


def run_slave(address: str, directory: Path, options: list[str], **more: Any) -> Channel:
    """Run a slave to the end of the newest binlog."""
    slave = start_slave(address, directory, options, **more)
    slave.wait()
    return slave


def read_by_real_servers(directory: Path, folder: str) -> None:
    """Read the relay logs with the client programs of MariaDB and, where installed, of MySQL."""
    names = [p.name for p in sorted(directory.glob("relay-bin.0*"))]
    if folder != "mysql-mixed":  # MariaDB cannot read MySQL's compressed transactions
        tool = ["mariadb-binlog", "--verify-binlog-checksum"]
        run = subprocess.run([*tool, *(directory / name for name in names)], capture_output=True, check=False)
        assert run.returncode == 0, run.stderr[-500:]
        assert b"ERROR" not in run.stderr
    if folder.startswith("mysql"):  # MariaDB's program has just read its own
        assert complaints([directory / name for name in names], "mysql") == ""


@pytest.mark.parametrize("case", CASES)
@pytest.mark.parametrize("folder", FOLDERS)
def test_the_law(address_of: AddressOf, tmp_path: Path, folder: str, case: str) -> None:
    """A slave ends with the same summary, position and GTID set whether the master filters or the slave does."""
    address, options = address_of(folder), CASES[case]
    filtered = start_slave(address, tmp_path / "filtered", options, chunk_size=1000)
    full = start_slave(address, tmp_path / "full", options, filter_on=FilterOn.SLAVE)
    filtered.wait()
    full.wait()
    assert filtered.relay_log_info.target == full.relay_log_info.target
    for field in ("source_file", "source_position", "executed"):
        assert getattr(filtered.relay_log_info, field) == getattr(full.relay_log_info, field)
    assert filtered.master_info.retrieved == full.master_info.retrieved == full.relay_log_info.executed
    assert full.received.counts["events_dropped"] == 0
    assert filtered.received.bytes_received <= full.received.bytes_received
    read_by_real_servers(tmp_path / "filtered", folder)


@pytest.mark.parametrize("folder", ["mysql-row", "mariadb-row", "mysql-mixed"])
@pytest.mark.parametrize("chunk_size", [1, 300, 5000])
def test_chunk_size_leaves_no_trace(
    address_of: AddressOf, tmp_path: Path, folder: str, chunk_size: int
) -> None:
    options = ["--replicate-wild-ignore-table=logs.%"]
    small = start_slave(address_of(folder), tmp_path / "small", options, chunk_size=chunk_size)
    run_slave(address_of(folder), tmp_path / "large", options)
    small.wait()
    for path in (tmp_path / "large").glob("relay-bin.*"):
        assert (tmp_path / "small" / path.name).read_bytes() == path.read_bytes()
    assert small.received.chunks > 3


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
        assert moved.received.counts["transactions_read"] < 700
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
    fetched = run_slave(address_of("mariadb-row"), tmp_path / "s", [], apply=False)
    assert fetched.relay_log_info.relay_file == ""
    assert fetched.master_info.retrieved == "0-11-74"
    later = run_slave(address_of("mariadb-row"), tmp_path / "s", [])
    whole.wait()
    assert later.received.bytes_received == 0
    assert later.relay_log_info == whole.relay_log_info


def test_start_position(address_of: AddressOf, tmp_path: Path) -> None:
    address = address_of("mysql-row")
    whole = run_slave(address, tmp_path / "whole", [])
    part = run_slave(address, tmp_path / "part", [], start_file="bin.000002", start_position=4)
    assert part.relay_log_info.source_position == whole.relay_log_info.source_position
    assert part.relay_log_info.executed != whole.relay_log_info.executed
    relayed = (tmp_path / "part" / "relay-bin.000001").read_bytes()
    assert relayed == (tmp_path / "whole" / "relay-bin.000002").read_bytes()
    with pytest.raises(PositionError, match=r"bin.000002: at 500:"):
        run_slave(address, tmp_path / "bad", [], start_file="bin.000002", start_position=500)


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
            heartbeats = slave.received.heartbeats
            wait_until(lambda before=heartbeats: slave.received.heartbeats >= before + 2)
            assert slave.master_info.source_position == boundary
            file.write(event)
        # The files at this moment are the files that a killed slave would leave.
        wait_until(lambda: recorded_position(tmp_path / "s") == boundary)
        shutil.copytree(tmp_path / "s", tmp_path / "killed")
        slave.stop()
        slave.close()
        again = start_slave(address(master), tmp_path / "killed", options, **live)
        wait_until(lambda: again.received.chunks > 0)
        file.write(rest[-1])
        wait_until(lambda: again.master_info.source_position == len(whole))
        again.stop()
        again.close()
        last = run_slave(address(master), tmp_path / "killed", options)
    assert last.relay_log_info.executed.endswith(":1-11")


def recorded_position(directory: Path) -> int:
    return int(json.loads((directory / "master.info").read_bytes())["source_position"])
