"""A master process that reads its configuration again at SIGHUP and at FLUSH PRIVILEGES."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path

import pymysql
import pytest

from dumpfilter.security.passwords import ScryptHash, native_hash
from tests.support import DATA

DEADLINE = 240.0


def until(condition: Callable[[], object]) -> None:
    deadline = time.monotonic() + DEADLINE
    while not condition():
        assert time.monotonic() < deadline, "it never happened"
        time.sleep(0.02)


@contextmanager
def process(tmp_path: Path, *command: object) -> Iterator[subprocess.Popen[bytes]]:
    log = tmp_path / f"{command[0]}.log"
    with log.open("ab") as output:
        started = subprocess.Popen(
            [sys.executable, "-m", "dumpfilter", *map(str, command)],
            stdout=output,
            stderr=output,
            env={**os.environ, "DUMPFILTER_SOURCE_PASSWORD": "pa"},
        )
    try:
        yield started
    finally:
        started.send_signal(signal.SIGTERM)
        started.wait(timeout=240)
        assert "Traceback" not in log.read_text()


def configuration(replication: str, console: str, imposed: str = "") -> str:
    return (
        f'[[user]]\nname = "repl"\npassword_hash = "{replication}"\n'
        f'[[console_user]]\nname = "admin"\npassword_hash = "{console}"\nrole = "all"\n' + imposed
    )


def test_sighup_and_flush_privileges(tmp_path: Path) -> None:
    config = tmp_path / "master.toml"
    right, other = str(ScryptHash.of("pa")), str(ScryptHash.of("pb"))
    config.write_text(configuration(right, native_hash("one")))
    ports = [tmp_path / "port", tmp_path / "console-port"]
    with process(
        tmp_path,
        *("master", DATA / "oracle" / "mysql-row" / "bin.index", "--port", 0, "--port-file", ports[0]),
        *("--console-port", 0, "--console-port-file", ports[1], "--config", config),
    ) as master:
        until(lambda: all(port.exists() for port in ports))
        port, console_port = (int(file.read_text()) for file in ports)
        log = tmp_path / "master.log"

        def connect(password: str) -> pymysql.Connection:
            return pymysql.connect(host="127.0.0.1", port=console_port, user="admin", password=password)

        def reloads() -> int:
            return log.read_text().count("the configuration was read again")

        with process(
            tmp_path,
            *("slave", "--master", f"127.0.0.1:{port}", "--source-user", "repl", "--server-id", 7),
            *("--relay-dir", tmp_path / "relay", "--connect-retry", 1),
        ) as slave:
            until(lambda: "registered" in log.read_text())
            old = connect("one")
            config.write_text(
                configuration(
                    right, native_hash("two"), '[[imposed]]\nname = "x"\nrules = ["replicate-ignore-db=hr"]\n'
                )
            )
            master.send_signal(signal.SIGHUP)
            until(lambda: reloads() == 1)
            until(lambda: "imposed=['x']" in log.read_text())
            until(lambda: not old.open or not _answers(old))
            with connect("two") as console, console.cursor() as cursor:
                cursor.execute("SELECT name FROM dumpfilter.imposed_filters")
                assert cursor.fetchall() == (("x",),)
                config.write_text("[[user")
                with pytest.raises(pymysql.err.MySQLError, match="the old configuration stays"):
                    cursor.execute("FLUSH PRIVILEGES")
                master.send_signal(signal.SIGHUP)
                until(lambda: log.read_text().count("the old one stays") == 2)
                config.write_text(configuration(other, native_hash("two")))
                cursor.execute("FLUSH PRIVILEGES")
                assert reloads() == 2
            assert slave.wait(timeout=DEADLINE) == 2
        assert "Access denied for user" in (tmp_path / "slave.log").read_text()
        assert (tmp_path / "relay" / "registration.key").stat().st_mode & 0o777 == 0o600


def _answers(connection: pymysql.Connection) -> bool:
    try:
        connection.ping(reconnect=False)
    except pymysql.err.MySQLError:
        return False
    return True
