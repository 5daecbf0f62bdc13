"""A real server writes its binlog while a master follows it and slaves read: rotation, GTIDs, the law."""

from __future__ import annotations

import subprocess
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from dumpfilter.binlog.events import EventType
from dumpfilter.binlog.format import NameRules
from dumpfilter.binlog.reader import iter_events
from dumpfilter.dump.set_pass import filter_set
from dumpfilter.filter.filter import Filter
from dumpfilter.filter.rules import FilterOn
from dumpfilter.index.fileset import BinlogSet
from dumpfilter.master.server import MasterServer
from dumpfilter.master.store import BinlogStore
from dumpfilter.slave.targets import SummaryTarget
from tests.analyse.printing.printed import printed
from tests.applying import apply_files
from tests.mariadb import MariaDb, mariadb_version
from tests.oracle.replaying import Server
from tests.slave.once import Once
from tests.spark_jobs.here import split_here
from tests.support import binlogs_in

SHOP = ["--replicate-do-db=shop"]


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MariaDb]:
    server = MariaDb(
        tmp_path_factory.mktemp("live"), "--log-bin=bin", "--binlog-format=row", "--max-binlog-size=65536"
    )
    yield server
    server.close()


@pytest.fixture(scope="module")
def replica(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MariaDb]:
    server = MariaDb(
        tmp_path_factory.mktemp("replica"), "--skip-log-bin", "--skip-slave-start", "--server-id=98", *SHOP
    )
    yield server
    server.close()


@pytest.fixture(scope="module")
def empty(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """Run a server to replay into."""
    server = MariaDb(tmp_path_factory.mktemp("empty"), "--skip-log-bin", "--max-allowed-packet=64M")
    yield Server([*server.client, "--max-allowed-packet=64M"], ["mariadb-binlog", "--no-defaults"])
    server.close()


def slave_of(port: int, directory: Path, number: int, options: list[str], *, on_master: bool) -> Once:
    return Once(
        f"127.0.0.1:{port}",
        directory,
        Filter.from_options(options).rules,
        server_id=number,
        once=False,
        heartbeat_period=0.05,
        filter_on=FilterOn.BOTH if on_master else FilterOn.SLAVE,
    )


def stop_at_the_end(server: MariaDb, slaves: list[Once]) -> str:
    """Let the slaves come to the end of the server's newest binlog, and name it."""
    ((file, size, *_),) = server.sql("SHOW MASTER STATUS")
    deadline = time.monotonic() + 120
    for slave in slaves:
        # The server's background thread may have written a Binlog_checkpoint event since.
        while (slave.master_info.source_file, slave.master_info.source_position) < (file, int(size)):
            assert time.monotonic() < deadline, (slave.master_info, file, size)
            time.sleep(0.02)
        slave.stop()
        slave.wait()
    return file


def started_slaves(master: MasterServer, directory: Path) -> list[Once]:
    """Start a slave whose filter the master runs, and one that is sent everything and filters for itself."""
    slaves = [
        slave_of(master.port, directory / "filtered", 1, SHOP, on_master=True),
        slave_of(master.port, directory / "full", 2, SHOP, on_master=False),
    ]
    for slave in slaves:
        slave.start()
    return slaves


LARGE = 12 << 20
"""Bytes of a transaction that MariaDB 11.7 and later rename into a binlog of its own, if the threshold is the least."""


ROWS = 80


def load(writer: int) -> str:
    """Return the statements of one of several writers."""
    said = [f"SET gtid_domain_id={writer}; SET binlog_alter_two_phase=1; USE shop;"]
    for i in range(ROWS):
        key = 1000 * writer + i
        said.append(
            f"INSERT INTO shop.t VALUES ({key}, REPEAT('s', {i})); INSERT INTO logs.t VALUES ({key}, 'l');"
        )
        if i % 30 == 0:
            said.append(f"ALTER TABLE shop.own{writer} ADD COLUMN c{i} INT DEFAULT {i}, ALGORITHM=COPY;")
            said.append(f"INSERT INTO shop.own{writer} (i) VALUES ({i}); FLUSH BINARY LOGS;")
        if i % 50 == 0:
            said.append(
                f"XA START 'x{key}'; DELETE FROM shop.t WHERE i = {key}; UPDATE logs.t SET v = 'xa' WHERE i = {key};"
            )
            said.append(f"XA END 'x{key}'; XA PREPARE 'x{key}'; XA COMMIT 'x{key}';")
        if i == 70:
            said.append(f"BEGIN; UPDATE shop.t SET v = 'before' WHERE i = {key};")
            where = ("logs", "shop")[writer - 1]
            rows = f"SELECT seq, REPEAT(CHAR(64 + seq), {LARGE // 6}) FROM seq_1_to_6"
            said.append(f"INSERT INTO {where}.large {rows};")
            said.append(f"UPDATE shop.t SET v = 'after' WHERE i = {key}; COMMIT;")
    return "\n".join(said)


def test_a_data_directory_under_load(
    server: MariaDb, replica: MariaDb, empty: Server, tmp_path: Path
) -> None:
    """Streams, sets, text and parts each give a server the tables of a replica that filters for itself."""
    data = server.root / "d"
    server.sql("DROP DATABASE IF EXISTS shop; DROP DATABASE IF EXISTS logs; RESET MASTER")
    large_files = bool(server.sql("SHOW VARIABLES LIKE 'binlog_large_commit_threshold'"))
    if large_files:
        server.sql("SET GLOBAL binlog_large_commit_threshold=10485760")
    server.sql("CREATE USER repl@'%' IDENTIFIED BY 'repl'; GRANT REPLICATION SLAVE ON *.* TO repl@'%'")
    master = MasterServer(BinlogStore(data))
    master.start()
    slaves = started_slaves(master, tmp_path)
    ((port,),) = server.sql("SELECT @@port")
    replica.sql(
        f"CHANGE MASTER TO MASTER_HOST='127.0.0.1', MASTER_PORT={port}, MASTER_USER='repl', MASTER_PASSWORD='repl', "
        "MASTER_SSL=0, MASTER_USE_GTID=slave_pos; START SLAVE"
    )
    for database in ("shop", "logs"):
        server.sql(
            f"CREATE DATABASE {database}; USE {database}; CREATE TABLE t (i INT PRIMARY KEY, v VARCHAR(200))"
        )
        server.sql(f"USE {database}; CREATE TABLE large (i INT PRIMARY KEY, v LONGTEXT)")
    server.sql("USE shop; CREATE TABLE own1 (i INT PRIMARY KEY); CREATE TABLE own2 LIKE own1")
    writers = []
    for number in (1, 2):
        statements = tmp_path / f"load{number}.sql"
        statements.write_text(load(number))
        with statements.open("rb") as text:
            writers.append(subprocess.Popen(server.client, stdin=text))
    assert [writer.wait(300) for writer in writers] == [0, 0]
    stop_at_the_end(server, slaves)
    master.stop(0)
    ((position,),) = server.sql("SELECT @@GLOBAL.gtid_binlog_pos")
    reached = replica.sql(f"SELECT MASTER_GTID_WAIT('{position}', 120)")
    assert reached == [["0"]], replica.sql("SHOW SLAVE STATUS")
    assert any(data.glob("bin.*.idx")) == (mariadb_version() >= (11, 4))
    # before 11.7 they may share a file with others, and be committed together
    large = [path for path in binlogs_in(data, "bin") if path.stat().st_size > LARGE]
    assert len(large) == 2 if large_files else large
    for slave in slaves:
        assert sorted(slave.master_info.retrieved.split(",")) == sorted(position.split(","))
    sent, everything = (slave.counters.received["bytes_received"] for slave in slaves)
    assert sent < everything - LARGE

    wanted = Server(replica.client, []).state()["shop"]
    assert wanted["t"]["rows"] == 2 * ROWS - 4
    assert wanted["large"]["rows"] == 6
    relayed = [binlogs_in(tmp_path / name, "relay-bin") for name in ("filtered", "full")]
    rules = Filter.from_options(SHOP, names=NameRules("mariadb"))
    filter_set(BinlogSet.open(data), rules, tmp_path / "set", "bin")
    made = split_here(data, tmp_path / "parts")
    text, _ = printed(data, tmp_path / "loads", rules)
    for name, files in {
        "filtered relay logs": relayed[0],
        "a filtered set": binlogs_in(tmp_path / "set", "bin"),
        "a split": made.set("shop").files,
    }.items():
        empty.empty([], 8)
        empty.replay(files)
        assert empty.state() == {"shop": wanted}, name
    empty.empty([], 8)
    done = subprocess.run(empty.client, input=text, capture_output=True, check=False)
    assert done.returncode == 0, done.stderr
    assert empty.state() == {"shop": wanted}
    states = []
    for files in relayed:
        target = SummaryTarget()
        apply_files(files, rules, target)
        states.append(target.state())
    assert states[0] == states[1]
    if large_files:
        assert all(first_transaction(path) > 3000 for path in large)


def first_transaction(path: Path) -> int:
    """Return the size of the GTID event that begins a file's first transaction."""
    with path.open("rb") as file:
        events = iter_events(file, file=path.name)
        return next(event.header.size for event in events if event.type == EventType.MARIADB_GTID)
