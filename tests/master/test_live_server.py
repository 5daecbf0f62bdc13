"""A real server writes its binlog while a master follows it and slaves read: rotation, GTIDs, the law."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from dumpfilter.filter import Filter
from master.server import MasterServer
from master.store import BinlogStore
from slave.applier import apply_files
from slave.channel import Channel, ChannelOptions, FilterOn
from slave.io_thread import SourceOptions
from slave.targets import SummaryTarget
from tests.mariadb import MariaDb

SHOP = ["--replicate-do-db=shop"]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MariaDb]:
    server = MariaDb(
        tmp_path_factory.mktemp("live"), "--log-bin=bin", "--binlog-format=row", "--max-binlog-size=65536"
    )
    yield server
    server.close()


def slave_of(port: int, directory: Path, number: int, options: list[str], *, on_master: bool) -> Channel:
    return Channel(
        ChannelOptions(
            source=SourceOptions(
                address=f"127.0.0.1:{port}", server_id=number, uuid="", heartbeat_period=0.05
            ),
            relay_dir=directory,
            rules=Filter.from_options(options).rules,
            filter_on=FilterOn.BOTH if on_master else FilterOn.SLAVE,
        ),
        SummaryTarget(),
    )


def test_a_live_binlog_is_followed(server: MariaDb, tmp_path: Path) -> None:
    server.sql("CREATE DATABASE shop; CREATE DATABASE logs;")
    server.sql("CREATE TABLE shop.t (i INT PRIMARY KEY, v VARCHAR(200)); CREATE TABLE logs.t LIKE shop.t;")
    master = MasterServer(BinlogStore(server.root / "d" / "bin.index"))
    master.start()
    slaves = [
        slave_of(master.port, tmp_path / "filtered", 1, SHOP, on_master=True),
        slave_of(master.port, tmp_path / "full", 2, SHOP, on_master=False),
    ]
    for slave in slaves:
        slave.start()
    # the writer is a process of its own; each statement is a transaction, and the binlog rotates on the way
    writer = subprocess.Popen([*server.client], stdin=subprocess.PIPE, text=True)
    statements = []
    for i in range(600):
        statements.append(f"INSERT INTO shop.t VALUES ({i}, REPEAT('s', {i % 200}));")
        statements.append(f"INSERT INTO logs.t VALUES ({i}, REPEAT('l', 200));")
        if i % 50 == 0:
            statements.append(
                f"BEGIN; UPDATE shop.t SET v='u' WHERE i={i}; DELETE FROM logs.t WHERE i={i}; COMMIT;"
            )
        if i == 300:
            statements.append("FLUSH BINARY LOGS;")
    writer.communicate("\n".join(statements), timeout=120)
    assert writer.returncode == 0
    ((position,),) = server.sql("SELECT @@GLOBAL.gtid_binlog_pos")
    ((file, size, *_),) = server.sql("SHOW MASTER STATUS")
    deadline = time.monotonic() + 60
    for slave in slaves:
        while (slave.master_info.source_file, slave.master_info.source_position) != (file, int(size)):
            assert time.monotonic() < deadline, (slave.master_info, file, size)
            time.sleep(0.02)
        slave.stop()
        slave.wait()
    master.stop(0)
    filtered, full = slaves
    assert int(file.rpartition(".")[2]) >= 4
    assert filtered.master_info.retrieved == full.master_info.retrieved == position
    assert filtered.received.bytes_received < full.received.bytes_received / 2
    states = []
    for directory in ("filtered", "full"):
        relay_logs = sorted((tmp_path / directory).glob("relay-bin.0*"))
        target = SummaryTarget()
        apply_files(relay_logs, Filter.from_options(SHOP, family="mariadb"), target)
        states.append(target.state())
    assert states[0] == states[1]
    assert states[0]["tables"]["shop.t"]["inserted"] == 600
    assert states[0]["tables"]["shop.t"]["updated"] == 12
    assert "logs.t" not in states[0]["tables"]
