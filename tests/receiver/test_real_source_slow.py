"""Receiving from a real MariaDB: files byte for byte the server's, through kills, rotations, purges and resets."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from dumpfilter.analyse.inspection import inspect_set
from dumpfilter.base.errors import SourcePurged, SourceRefused, SourceReplaced
from dumpfilter.index.fileset import BinlogSet
from dumpfilter.receiver.reception import Follower
from dumpfilter.receiver.store import BinlogDirectory
from dumpfilter.receiver.url import parse_source_url
from tests.mariadb import MariaDb
from tests.receiver.killing import different, kill_receivers
from tests.slave.driven import wait_until
from tests.slave.processes import Launcher


@pytest.fixture(scope="module")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[MariaDb]:
    """A server with a binlog, a replication user, and a table."""
    root = tmp_path_factory.mktemp("m")
    made = MariaDb(root, f"--log-bin={root}/d/bin", "--max-allowed-packet=64M", "--binlog-format=ROW")
    made.sql("DROP USER IF EXISTS ''@localhost")
    made.sql("CREATE USER repl@'%' IDENTIFIED BY 'Xq7secret'")
    made.sql(
        "GRANT REPLICATION SLAVE, BINLOG MONITOR ON *.* TO repl@'%'; CREATE USER poor@'%' IDENTIFIED BY 'Xq7secret'"
    )
    made.sql(
        "CREATE DATABASE shop; CREATE TABLE shop.orders (id INT PRIMARY KEY AUTO_INCREMENT, note LONGBLOB)"
    )
    yield made
    made.close()


def url(server: MariaDb, options: str = "", user: str = "repl") -> str:
    """Return the server's address."""
    ((_, port),) = server.sql("SHOW VARIABLES LIKE 'port'")
    password = server.root / "password"
    password.write_text("Xq7secret\n")
    return f"mysql://{user}@127.0.0.1:{port}/?password-file={password}{options}"


def fetch(server: MariaDb, directory: Path, options: str = "", user: str = "repl") -> None:
    """Fetch to the end of the newest file."""
    store = BinlogDirectory(directory)
    try:
        Follower(parse_source_url(url(server, options, user)), store).run()
    finally:
        store.close()


def check_equal(server: MariaDb, directory: Path) -> None:
    """Fetch the rest, and check that the files are equal. MariaDB writes checkpoint events some time after a flush."""

    def is_equal() -> bool:
        fetch(server, directory)
        return different(directory, server.root / "d") == []

    wait_until(is_equal, lambda: str(different(directory, server.root / "d")))


def insert(server: MariaDb, size: int) -> None:
    """Write a row of this size."""
    server.sql(f"INSERT INTO shop.orders (note) VALUES (REPEAT('x', {size}))")


def test_the_files_are_byte_for_byte_the_servers(server: MariaDb, tmp_path: Path) -> None:
    insert(server, 10)
    # With a row of 16777215 - 61 bytes or so, the packet has the greatest length.
    for size in (16_777_100, 16_777_170, 20_000_000):
        insert(server, size)
    server.sql("FLUSH BINARY LOGS; SET GLOBAL binlog_checksum = NONE")
    insert(server, 17_000_000)
    server.sql("SET GLOBAL binlog_checksum = CRC32; SET GLOBAL log_bin_compress = ON")
    insert(server, 5000)
    server.sql("SET GLOBAL log_bin_compress = OFF; FLUSH BINARY LOGS")
    check_equal(server, tmp_path)
    assert len(list(tmp_path.glob("bin.0*"))) == 5
    insert(server, 10)
    check_equal(server, tmp_path)


def test_a_fetch_goes_on_inside_a_file_without_checksums(server: MariaDb, tmp_path: Path) -> None:
    """MariaDB then sends a format description event whose own checksum is wrong."""
    server.sql("SET GLOBAL binlog_checksum = NONE")
    insert(server, 10)
    fetch(server, tmp_path)
    insert(server, 10)
    check_equal(server, tmp_path)
    server.sql("SET GLOBAL binlog_checksum = CRC32")


def test_a_killed_receiver_loses_nothing(server: MariaDb, tmp_path: Path) -> None:
    writing = True

    def write() -> None:
        number = 0
        while writing:
            number += 1
            insert(server, 2_000_000 if number % 5 == 0 else 1000)
            if number % 8 == 0:
                server.sql("FLUSH BINARY LOGS")

    writer = threading.Thread(target=write)
    writer.start()
    try:
        kill_receivers(url(server, "&from=newest"), tmp_path / "s", kills=3, longest=0.3)
    finally:
        writing = False
        writer.join()
    check_equal(server, tmp_path / "s")


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM])
def test_a_signal_is_the_ordinary_end_of_a_fetch_that_never_stops(
    server: MariaDb, tmp_path: Path, launcher: Launcher, number: int
) -> None:
    address = url(server, "&from=newest")
    launcher.start("f", "fetch", address, "--output", str(tmp_path / "s"), "--stop-never")
    wait_until(lambda: list(tmp_path.glob("s/*.index")), lambda: launcher.log("f"))
    launcher.kill("f", number)
    assert launcher.wait("f") == 0, launcher.log("f")
    assert "1 file in" in launcher.log("f")


def test_a_user_without_privileges_is_told_what_to_grant(server: MariaDb, tmp_path: Path) -> None:
    with pytest.raises(SourceRefused, match="GRANT REPLICATION SLAVE, BINLOG MONITOR"):
        fetch(server, tmp_path, user="poor")
    with pytest.raises(SourceRefused, match="check the user"):
        fetch(server, tmp_path / "n", user="nobody")


def test_a_master_follows_the_server_and_outlives_its_errors(
    server: MariaDb, tmp_path: Path, launcher: Launcher
) -> None:
    """The server is purged and begins its binlogs anew at the end of the test, since no store survives this."""
    store = tmp_path / "store"
    launcher.start_master(url(server, "&from=newest&heartbeat=0.5"), "--store", str(store))
    insert(server, 12_345)
    server.sql("FLUSH BINARY LOGS")
    newest = server.sql("SHOW MASTER STATUS")[0][0]
    wait_until((store / newest).exists, lambda: launcher.log("master"))
    assert inspect_set(BinlogSet.open(store)).transactions >= 1

    server.sql("ALTER USER repl@'%' IDENTIFIED BY 'other'")
    server.sql("KILL USER repl")
    wait_until(lambda: "source failed" in launcher.log("master"), lambda: launcher.log("master"))
    assert "Xq7secret" not in launcher.log("master")
    server.sql("ALTER USER repl@'%' IDENTIFIED BY 'Xq7secret'")
    launcher.kill("master", signal.SIGTERM)
    assert launcher.wait("master") == 0

    server.sql("FLUSH BINARY LOGS; FLUSH BINARY LOGS")

    def is_purged() -> bool:
        # The server keeps a file that a lost connection still reads, or that its storage engine needs after a crash.
        server.sql(f"PURGE BINARY LOGS TO '{_later(newest, 2)}'")
        return server.sql("SHOW BINARY LOGS")[0][0] == _later(newest, 2)

    wait_until(is_purged, lambda: str(server.sql("SHOW BINARY LOGS; SHOW PROCESSLIST")))
    with pytest.raises(SourcePurged, match="keep binlogs longer"):
        fetch(server, store)
    wait_until(lambda: not server.sql(_DUMPS), lambda: str(server.sql("SHOW PROCESSLIST")))
    server.sql("RESET MASTER")
    with pytest.raises(SourceReplaced, match="RESET MASTER"):
        fetch(server, store)


_DUMPS = "SELECT id FROM information_schema.processlist WHERE command = 'Binlog Dump'"


def _later(name: str, files: int) -> str:
    base, _, number = name.rpartition(".")
    return f"{base}.{int(number) + files:06}"


def test_binlogs_that_began_anew_and_were_purged_are_noticed(server: MariaDb, tmp_path: Path) -> None:
    for then, noticed in (("DO 0", False), ("RESET MASTER", True)):
        server.sql("RESET MASTER")
        for _ in range(3):
            insert(server, 10)
        server.sql("FLUSH BINARY LOGS")
        insert(server, 10)
        directory = tmp_path / str(noticed)
        fetch(server, directory, "&to=bin.000001")
        server.sql(then)
        insert(server, 10)
        server.sql("FLUSH BINARY LOGS")

        def is_purged() -> bool:
            # The server purges a file some time after a flush, when its transactions are on the disk.
            server.sql("PURGE BINARY LOGS TO 'bin.000002'")
            return server.sql("SHOW BINARY LOGS")[0][0] == "bin.000002"

        wait_until(is_purged)
        if noticed:
            with pytest.raises(SourceReplaced, match="does not follow 0-99-2:3, "):
                fetch(server, directory)
        else:
            fetch(server, directory)
            assert BinlogSet.open(directory).names == ["bin.000001", "bin.000002", "bin.000003"]
