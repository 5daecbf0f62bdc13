"""The steps of ``docs/real-servers.md`` with a real MariaDB source and replica: to dumpfilter, and back."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from tests.commands.in_process import run
from tests.docs.tutorial import ROOT
from tests.mariadb import MariaDb

PAGE = (ROOT / "docs" / "real-servers.md").read_text()
_BLOCK = re.compile(r"^```(\w*)\n(.*?)^```$", re.MULTILINE | re.DOTALL)
_LONGEST_WAIT = 120.0


def blocks(language: str) -> list[str]:
    """Return the page's blocks of a language."""
    return [body for kind, body in _BLOCK.findall(PAGE) if kind == language]


def of_mariadb(statements: str) -> str:
    """Return the part of a block after the comment that names MariaDB."""
    return re.split(r"^-- MariaDB.*$", statements, flags=re.MULTILINE)[1]


def wait_until(is_so: Callable[[], bool], what: str) -> None:
    deadline = time.monotonic() + _LONGEST_WAIT
    while not is_so():
        assert time.monotonic() < deadline, what
        time.sleep(0.1)


@pytest.fixture(scope="module")
def servers(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[MariaDb, MariaDb]]:
    """A source, and a replica with the filter of the page that is attached to the source."""
    source = MariaDb(tmp_path_factory.mktemp("s"), "--log-bin=binlog", "--server-id=1", "--binlog-format=ROW")
    replica = MariaDb(tmp_path_factory.mktemp("r"), "--server-id=2", "--replicate-do-db=shop")
    source.sql(
        "CREATE USER repl@'%' IDENTIFIED BY 'its password'; GRANT REPLICATION SLAVE ON *.* TO repl@'%'"
    )
    source.sql("CREATE DATABASE shop; USE shop; CREATE TABLE t (a INT PRIMARY KEY)")
    source.sql("CREATE DATABASE hr; USE hr; CREATE TABLE t (a INT PRIMARY KEY)")
    replica.sql(
        f"CHANGE MASTER TO MASTER_HOST='127.0.0.1', MASTER_PORT={port_of(source)}, MASTER_USER='repl', "
        "MASTER_PASSWORD='its password', MASTER_USE_GTID=slave_pos; START SLAVE"
    )
    yield source, replica
    replica.close()
    source.close()


def port_of(server: MariaDb) -> str:
    return server.sql("SELECT @@port")[0][0]


def check_that_rows_arrive(source: MariaDb, replica: MariaDb, number: int) -> None:
    """Write to both databases, and wait for the replica to have the rows of one and the GTIDs of both."""
    source.sql(f"INSERT INTO shop.t VALUES ({number}); INSERT INTO hr.t VALUES ({number})")
    position = source.sql("SELECT @@gtid_binlog_pos")
    wait_until(
        lambda: replica.sql("SELECT @@gtid_slave_pos") == position, replica.sql("SHOW SLAVE STATUS")[0][-1]
    )
    assert replica.sql("SELECT a FROM shop.t ORDER BY a") == source.sql("SELECT a FROM shop.t ORDER BY a")
    assert replica.sql("SHOW DATABASES LIKE 'hr'") == []


def test_a_replica_goes_behind_dumpfilter_and_back(servers: tuple[MariaDb, MariaDb], tmp_path: Path) -> None:
    source, replica = servers
    check_that_rows_arrive(source, replica, 1)
    account, _, attach, back = blocks("sql")
    # The server has no TLS. The page says what then to leave out.
    account = account.replace(" REQUIRE SSL", "").replace("REPLICATION CLIENT", "BINLOG MONITOR")
    source.sql(account)
    (setup,) = (block for block in blocks("") if "--config" in block)
    # The replica connects over loopback, and the system chooses the ports.
    setup = setup.replace("db1:3306", f"127.0.0.1:{port_of(source)}").replace("0.0.0.0", "127.0.0.1")
    setup = setup.replace("--replica-port 3309", "--port 0 --replica-port 0 --replica-port-file port")
    setup = setup.replace("--console-port 3308", "--console-port 0 --console-port-file console")
    setup = setup.replace("dumpfilter master", f"exec {sys.executable} -m dumpfilter master")
    with subprocess.Popen(
        ["bash", "-ec", setup],
        cwd=tmp_path,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
        stdout=subprocess.DEVNULL,
        stderr=subprocess.DEVNULL,
    ) as master:
        try:
            file = tmp_path / "port"
            wait_until(lambda: file.exists() or master.poll() is not None, "no port")
            port = file.read_text().strip()
            there = of_mariadb(attach).replace("'df1'", "'127.0.0.1'").replace("3309", port)
            replica.sql(there)
            check_that_rows_arrive(source, replica, 2)
            assert replica.sql("SHOW SLAVE STATUS")[0][3] == port
            console = f"127.0.0.1:{(tmp_path / 'console').read_text().strip()}"
            shown = run("status", "--console", console).stdout
            assert all(text in shown for text in ("repl", "dropped")), shown
            assert run("sql", "--console", console, "-e", "SHOW REPLICAS").stdout.count("\n") > 1
            here = of_mariadb(back).replace("'db1'", "'127.0.0.1'").replace("3306", port_of(source))
            replica.sql(here)
            check_that_rows_arrive(source, replica, 3)
        finally:
            master.send_signal(signal.SIGTERM)
    assert replica.sql("SELECT a FROM shop.t ORDER BY a") == [["1"], ["2"], ["3"]]
