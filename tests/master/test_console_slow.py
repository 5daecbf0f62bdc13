"""The master's console beside a live server, and of a master that is a process."""

from __future__ import annotations

import json
import os
import signal
import stat
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import grpc
import pymysql
import pytest

from dumpfilter.base.security.passwords import Sha2Crypt, native_hash
from dumpfilter.v1 import dumpfilter_pb2 as pb
from dumpfilter.v1 import dumpfilter_pb2_grpc as rpc
from tests.certificates import Authority, client_context
from tests.mariadb import MariaDb
from tests.master.test_console import MYSQL, UUID, serving
from tests.slave.driven import wait_until
from tests.slave.processes import Launcher


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


@contextmanager
def process(launcher: Launcher, *options: object, **environment: str) -> Iterator[int]:
    """Run a master with a console, and yield the console's port."""
    directory = launcher.directory
    note = directory / "console"
    note.unlink(missing_ok=True)
    more = ("--port", 0, "--port-file", directory / "port", "--console-port", 0, "--console-port-file", note)
    launcher.start("master", "master", MYSQL, *more, *options, **environment)
    wait_until(lambda: note.exists() and (directory / "port").exists(), lambda: launcher.log("master"))
    try:
        yield int(note.read_text())
    finally:
        launcher.kill("master", signal.SIGTERM)
        assert launcher.wait("master") == 0
    said = (directory / "master.log").read_text()
    assert "Traceback" not in said
    assert "hush" not in said


def test_a_real_client(launcher: Launcher, tmp_path: Path) -> None:
    hashes = [native_hash("hush"), str(Sha2Crypt.of("hush"))]
    (tmp_path / "master.toml").write_text(
        f'[[console_user]]\nname = "admin"\npassword_hash = {hashes}\nrole = "all"\n\n'
        '[[imposed]]\nname = "[no] logs"\nrules = ["replicate-ignore-db=logs"]\n'
    )
    with process(
        launcher,
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


def test_a_given_certificate(launcher: Launcher, tmp_path: Path) -> None:
    """The options stand in an option file in the servers' spelling. The server's section is not the master's."""
    authority = Authority(tmp_path / "ca")
    issued = authority.issue("master")
    (tmp_path / "my.cnf").write_text(
        f"[dumpfilter-master]\nssl_cert={issued.certificate}\nssl-key={issued.key}\n"
        "[mysqld]\nssl-cert=/nowhere\nssl-ca=/nowhere\n"
    )
    with process(
        launcher, "--defaults-file", tmp_path / "my.cnf", DUMPFILTER_CONSOLE_PASSWORD="hush"
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


# Users, roles and the audit log


def connect(port: int, user: str = "root", password: str = "") -> pymysql.Connection:
    return pymysql.connect(host="127.0.0.1", port=port, user=user, password=password, autocommit=None)


def number_of_error(connection: pymysql.Connection, statement: str) -> int:
    """Return the number of the error that answers a statement, or 0."""
    try:
        with connection.cursor() as cursor:
            cursor.execute(statement)
    except pymysql.err.Error as error:
        return int(error.args[0])
    return 0


def test_without_a_password_root_may_only_read(launcher: Launcher) -> None:
    with process(launcher) as port, connect(port) as root:
        assert number_of_error(root, "SHOW BINARY LOGS") == 0
        assert number_of_error(root, "SELECT * FROM dumpfilter.slaves") == 0
        for statement in (
            "PURGE BINARY LOGS TO 'bin.000003'",
            "CHANGE BINLOG 'bin' TO IGNORE = 'logs.%'",
            "SHOW BINLOG EVENTS",
        ):
            assert number_of_error(root, statement) == 1227


def test_a_random_password_and_the_audit_log(launcher: Launcher, tmp_path: Path) -> None:
    file, audit = tmp_path / "root.password", tmp_path / "audit.log"
    with process(launcher, "--console-password-file", file, "--audit-log", audit) as port:
        assert stat.S_IMODE(file.stat().st_mode) == stat.S_IMODE(audit.stat().st_mode) == 0o600
        password = file.read_text().strip()
        assert len(password) >= 20
        with pytest.raises(pymysql.err.OperationalError, match="1045"):
            connect(port)
        with connect(port, password=password) as root:
            assert number_of_error(root, "PURGE BINARY LOGS TO 'bin.000009'") == 1373
            assert number_of_error(root, "CHANGE MASTER TO MASTER_PASSWORD = 'hush'") == 1794
            assert number_of_error(root, "CHANGE BINLOG 'bin' TO IGNORE = 'logs.%'") == 0
            assert number_of_error(root, "FLUSH PRIVILEGES") == 1105
            assert number_of_error(root, "SHOW BINARY LOGS") == 0
            audit.rename(tmp_path / "audit.log.1")
            assert number_of_error(root, "KILL 999") == 1094
    lines = [json.loads(line) for line in (tmp_path / "audit.log.1").read_text().splitlines()]
    assert [(line["account"], line["peer"], line["what"], line["result"][:10]) for line in lines] == [
        ("root", "localhost", "login", "ERROR 1045"),
        ("root", "localhost", "PURGE BINARY LOGS TO 'bin.000009'", "ERROR 1373"),
        ("root", "localhost", "CHANGE MASTER TO MASTER_PASSWORD <secret>", "ERROR 1794"),
        ("root", "localhost", "CHANGE BINLOG 'bin' TO IGNORE = 'logs.%'", "ok"),
        ("root", "localhost", "FLUSH PRIVILEGES", "ERROR 1105"),
    ]
    assert [json.loads(line)["what"] for line in audit.read_text().splitlines()] == ["KILL 999"]
    told = launcher.log("master").count("console.password_made")
    assert told == 1
    # A second start keeps the password.
    (tmp_path / "port").unlink()
    with (
        process(launcher, "--console-password-file", file) as port,
        connect(port, password=password) as root,
    ):
        assert number_of_error(root, "SELECT 1") == 0


# SQLite counts without an end.
ENDLESS = "WITH RECURSIVE x(n) AS (SELECT 1 UNION ALL SELECT n + 1 FROM x) SELECT COUNT(*) FROM x"


def test_kill_and_sigterm_end_any_statement(launcher: Launcher) -> None:
    """Neither ended a statement that computes."""
    with process(launcher) as port:
        victim, admin = connect(port), connect(port)
        numbers: list[int] = []
        thread = threading.Thread(target=lambda: numbers.append(number_of_error(victim, ENDLESS)))
        thread.start()
        wait_until_busy(launcher)
        assert number_of_error(admin, f"KILL QUERY {victim.thread_id()}") == 0
        thread.join()
        assert numbers == [1317]
        thread = threading.Thread(target=lambda: numbers.append(number_of_error(victim, ENDLESS)))
        thread.start()
        wait_until_busy(launcher)
    # The end of the block has sent SIGTERM, and waited for the process.
    thread.join()
    assert numbers[1] in (1317, 2013)


def wait_until_busy(launcher: Launcher) -> None:
    """Wait until the newest process has used a quarter of a second of processor time from now on."""
    process = launcher.newest

    def ticks() -> int:
        fields = Path(f"/proc/{process}/stat").read_text().rpartition(")")[2].split()
        return int(fields[11]) + int(fields[12])

    begun = ticks()
    wait_until(lambda: ticks() - begun >= os.sysconf("SC_CLK_TCK") / 4)


def test_the_audit_log_has_what_slaves_ask_for(launcher: Launcher, tmp_path: Path) -> None:
    audit = tmp_path / "audit.log"
    with process(launcher, "--audit-log", audit) as port:
        del port
        address = f"127.0.0.1:{int((tmp_path / 'port').read_text())}"
        with grpc.insecure_channel(address) as channel:
            stub = rpc.DumpFilterStub(channel)
            slave = stub.Register(
                pb.RegisterRequest(protocol=2, server_id=7, uuid=UUID, secret=b"s" * 32, user="u")
            )
            stub.Unregister(pb.UnregisterRequest(slave_id=slave.slave_id))
            with pytest.raises(grpc.RpcError):
                stub.Unregister(pb.UnregisterRequest(slave_id=slave.slave_id))
            with pytest.raises(grpc.RpcError):
                stub.Register(pb.RegisterRequest(protocol=2, server_id=0))
    lines = [json.loads(line) for line in audit.read_text().splitlines()]
    assert [(line["what"], line["account"], line.get("server_id")) for line in lines] == [
        ("Register", "u", 7),
        ("Unregister", "u", 7),
        ("Unregister", "", None),
        ("Register", "", 0),
    ]
    assert [line["result"] == "ok" for line in lines] == [True, True, False, False]
    assert {line["peer"].partition(":")[0] for line in lines} == {"ipv4"}
