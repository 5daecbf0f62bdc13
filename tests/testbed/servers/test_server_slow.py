"""MariaDB servers as processes: start, end, accounts, files."""

from __future__ import annotations

import contextlib
import os
import socket
import stat
from collections.abc import Callable
from pathlib import Path

import pymysql
import pytest

from dumpfilter.base.errors import ConnectionLost
from dumpfilter.binlog.format import Family
from dumpfilter.testbed.errors import NodeIsDown, SqlFailed, StartFailed
from dumpfilter.testbed.servers import server as module
from dumpfilter.testbed.servers.server import Server, find_program
from dumpfilter.testbed.servers.sql import RunningServer
from tests.mariadb import spawn_here
from tests.testbed.servers.conftest import start

Make = Callable[..., Server]


def test_servers_run_beside_one_another(server: Make) -> None:
    source = server(
        "m", init=["CREATE DATABASE a", "USE a", "CREATE TABLE t (i INT)"], options=["--gtid-domain-id=7"]
    )
    replica = server("r", init=["SET SESSION sql_log_bin = 0", "CREATE DATABASE own"])
    start(source, replica)
    assert [one.sql("SELECT @@server_id, @@log_bin") for one in (source, replica)] == [[(1, 1)], [(2, 1)]]
    assert source.sql("INSERT INTO t VALUES (1), (2)", "SELECT * FROM t", database="a") == [(1,), (2,)]
    # The accounts are in no binlog, and nor is what runs without the binlog.
    assert (source.binlog_gtids(), replica.binlog_gtids()) == ("7-1-3", "")
    assert source.binlog_end().file == "bin.000001"
    with pytest.raises(SqlFailed, match=r"^m: error 1064: .*: SELEC$") as refused:
        source.sql("SELEC")
    assert refused.value.number == 1064
    for one in (source, replica):
        one.kill()
    assert not source.is_running
    with pytest.raises(NodeIsDown, match=r"m: no connection to 127.0.0.1:\d+: "):
        source.sql("SELECT 1")


def test_data_survives_a_stop_and_a_kill_at_the_same_port(server: Make) -> None:
    one = server(init=["CREATE DATABASE a"])
    one.start()
    port, account = one.port, one.account
    one.sql("CREATE TABLE a.t (i INT)", "INSERT INTO a.t VALUES (1)")
    one.kill()
    one.start()
    one.sql("INSERT INTO a.t VALUES (2)")
    one.stop()
    one.start()
    assert one.sql("SELECT * FROM a.t") == [(1,), (2,)]
    assert (one.port, one.account) == (port, account)
    # A process that finds the directory of an earlier one has the same data and accounts.
    one.stop()
    again = server("m", port=port)
    again.start()
    assert again.sql("SELECT * FROM a.t") == [(1,), (2,)]


def test_only_passwords_open_the_accounts(server: Make) -> None:
    one = server()
    one.start()
    assert stat.S_IMODE(one.replication_password_file.stat().st_mode) == 0o600
    assert one.replication_password_file.read_text() == one.replication.password
    for user, password in (("root", ""), ("root", "wrong"), ("repl", ""), ("", "")):
        with pytest.raises(pymysql.err.OperationalError):
            pymysql.connect(host=one.host, port=one.port, user=user, password=password)
    running = RunningServer("db", one.host, one.port, one.replication)
    assert running.family == "mariadb"
    assert running.binlog_end() == one.binlog_end()
    with pytest.raises(ConnectionLost, match=r"^db: no connection"):
        RunningServer("db", one.host, one.port, one.account.__class__("repl", "wrong"))


def test_a_port_that_another_process_took_first_is_no_trouble(
    server: Make, monkeypatch: pytest.MonkeyPatch
) -> None:
    with socket.socket() as other:
        other.bind(("127.0.0.1", 0))
        other.listen()
        taken = other.getsockname()[1]
        ports = iter([taken])
        free_port = module.free_port
        monkeypatch.setattr(module, "free_port", lambda: next(ports, None) or free_port())
        one = server()
        one.start()
        assert one.port != taken


def test_a_server_that_does_not_start_tells_why(server: Make) -> None:
    with pytest.raises(StartFailed, match=r"^m: MariaDB .* ended with exit code [^$]*no-such-option"):
        server(options=["no-such-option"]).start()


def test_a_refused_statement_of_init_tells_which(server: Make) -> None:
    one = server(init=["CREATE DATABASE a", "CREATE TABEL a.t (i INT)"])
    with pytest.raises(StartFailed, match=r"^m: error 1064: .*CREATE TABEL a.t"):
        one.start()
    assert not one.is_running


def test_a_long_path_is_no_trouble(server: Make) -> None:
    one = server("n" * 100)
    one.start()
    assert one.socket.is_socket()
    with contextlib.chdir(one.data):
        pymysql.connect(unix_socket="socket", user="root").close()


ROOTS: dict[Family, str] = {"mariadb": "/"} | (
    {"mysql": os.environ["DUMPFILTER_MYSQL_ROOT"]} if "DUMPFILTER_MYSQL_ROOT" in os.environ else {}
)
"""Roots of systems with a server, by family. The root of this system stands for that of another one."""


@pytest.mark.parametrize("family", ROOTS)
def test_a_server_below_a_root_runs_beside_the_installed_one(
    server: Make, tmp_path: Path, family: Family
) -> None:
    program = find_program(family, root=ROOTS[family])
    other = Server(program, tmp_path / family, name=family, server_id=9, spawn=spawn_here)
    try:
        server("m").start()
        other.start()
        assert other.value("@@server_id") == "9"
    finally:
        other.kill()
