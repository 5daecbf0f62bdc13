"""The master's console beside a live server, and of a master that is a process."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pymysql
import pytest

from dumpfilter.security.passwords import Sha2Crypt, native_hash
from dumpfilter.security.tls import client_context
from tests.certificates import Authority
from tests.mariadb import MariaDb
from tests.master.test_console import MYSQL, UUID, serving


def test_beside_a_live_server(tmp_path: Path) -> None:
    """The console answers as the server does at the same moment. PURGE is refused until the server is gone."""
    server = MariaDb(tmp_path, "--log-bin=bin", "--binlog-format=ROW")
    closed = False
    try:
        server.sql("CREATE DATABASE shop; CREATE TABLE shop.t (i INT); FLUSH LOGS")
        with serving(tmp_path / "d" / "bin.index") as master:
            server.sql("INSERT INTO shop.t VALUES (1); FLUSH LOGS; DELETE FROM shop.t")
            newest = server.sql("SHOW MASTER STATUS")[0][0]
            for statement in (
                "SHOW BINARY LOGS",
                "SHOW MASTER STATUS",
                "SHOW BINLOG EVENTS",
                f"SHOW BINLOG EVENTS IN '{newest}'",
            ):
                theirs, after = [], server.sql(statement)
                while theirs != after:  # the server may write a checkpoint between the two
                    theirs = after
                    ours = [[str(value) for value in row] for row in master.rows(statement)]
                    after = server.sql(statement)
                assert ours == [(row + [""] * 6)[: len(ours[0])] for row in theirs]
            purge = f"PURGE BINARY LOGS TO '{newest}'"
            assert "ERROR 1375" in master.error(purge)
            server.close()
            closed = True
            assert master.ask(purge).notes == ()
            assert [row[0] for row in master.rows("SHOW BINARY LOGS")] == [newest]
    finally:
        if not closed:
            server.close()


# as a process


def start(tmp_path: Path, *options: object, **environment: str) -> subprocess.Popen[str]:
    return subprocess.Popen(
        [
            *(sys.executable, "-m", "dumpfilter", "master", MYSQL, "--port", "0"),
            *("--port-file", tmp_path / "port", *options),
        ],
        stderr=subprocess.PIPE,
        text=True,
        env=os.environ | {"COLUMNS": "200"} | environment,
    )


@contextmanager
def process(tmp_path: Path, *options: object, **environment: str) -> Iterator[int]:
    """Run a master with a console, and yield the console's port."""
    more = ("--console-port", "0", "--console-port-file", tmp_path / "console", *options)
    master = start(tmp_path, *more, **environment)
    try:
        while not (tmp_path / "port").exists():
            assert master.poll() is None, master.communicate()[1]
            time.sleep(0.02)
        yield int((tmp_path / "console").read_text())
    finally:
        master.send_signal(signal.SIGTERM)
        _, said = master.communicate(timeout=30)
    assert "Traceback" not in said
    assert "hush" not in said


def test_a_real_client(tmp_path: Path) -> None:
    hashes = [native_hash("hush"), str(Sha2Crypt.of("hush"))]
    (tmp_path / "master.toml").write_text(
        f'[[console_user]]\nname = "admin"\npassword_hash = {hashes}\n\n'
        '[[imposed]]\nname = "[no] logs"\nrules = ["replicate-ignore-db=logs"]\n'
    )
    with process(
        tmp_path,
        *("--config", tmp_path / "master.toml", "--console-user", "second", "--binlog-ignore-db", "x"),
        DUMPFILTER_CONSOLE_PASSWORD="hush, hush",
    ) as port:
        with pytest.raises(pymysql.err.OperationalError, match="1045"):
            pymysql.connect(host="127.0.0.1", port=port, user="admin", password="wrong")
        with pytest.raises(pymysql.err.OperationalError, match="1045"):
            pymysql.connect(host="127.0.0.1", port=port, user="nobody", password="")
        pymysql.connect(host="127.0.0.1", port=port, user="second", password="hush, hush").close()
        connection = pymysql.connect(host="127.0.0.1", port=port, user="admin", password="hush")
        with connection, connection.cursor() as cursor:
            cursor.execute("SHOW BINARY LOG STATUS")
            assert cursor.fetchall() == (("bin.000003", 198, "", "x", f"{UUID}:1-74"),)
            cursor.execute("SHOW BINLOG EVENTS IN 'bin.000002' FROM 198 LIMIT 2")
            assert [row[2] for row in cursor.fetchall()] == ["Gtid", "Query"]
            cursor.execute("SELECT name, rules FROM dumpfilter.imposed_filters")
            assert cursor.fetchall() == (("[no] logs", "--replicate-ignore-db=logs"),)
            cursor.execute("SELECT COUNT(*) FROM performance_schema.replication_applier_filters")
            assert cursor.fetchall() == ((0,),)
            cursor.execute("SELECT @@server_id, @@version")
            assert cursor.fetchall() == ((11, "9.7.4-2"),)
            with pytest.raises(pymysql.err.OperationalError) as caught:
                cursor.execute("PURGE BINARY LOGS TO 'bin.000009'")
            assert caught.value.args[0] == 1373
            cursor.execute("CHANGE BINLOG 'bin' TO IGNORE='logs.%'")
            cursor.execute("SHOW WARNINGS")
            assert "--binlog-ignore-db=x" in cursor.fetchall()[0][2]
            cursor.execute("SELECT rule FROM dumpfilter.write_rules")
            assert cursor.fetchall() == (("--ignore=logs.%",),)


def test_a_given_certificate(tmp_path: Path) -> None:
    """The options stand in an option file in the servers' spelling. The server's section is not the master's."""
    authority = Authority(tmp_path / "ca")
    issued = authority.issue("master")
    (tmp_path / "my.cnf").write_text(
        f"[dumpfilter-master]\nssl_cert={issued.certificate}\nssl-key={issued.key}\n"
        "[mysqld]\nssl-cert=/nowhere\nssl-ca=/nowhere\n"
    )
    with process(
        tmp_path, "--defaults-file", tmp_path / "my.cnf", DUMPFILTER_CONSOLE_PASSWORD="hush"
    ) as port:
        connection = pymysql.connect(
            host="127.0.0.1",
            port=port,
            user="root",
            password="hush",
            ssl=client_context(authority.certificate),
        )
        with connection, connection.cursor() as cursor:
            cursor.execute("SHOW STATUS LIKE 'Ssl_version'")
            assert cursor.fetchall() == (("Ssl_version", "TLSv1.3"),)
