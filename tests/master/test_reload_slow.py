"""A master process that reads its configuration again at SIGHUP and at FLUSH PRIVILEGES."""

from __future__ import annotations

import signal
from pathlib import Path

import pymysql
import pytest

from dumpfilter.base.security.passwords import Sha2Crypt, native_hash
from tests.slave.driven import wait_until
from tests.slave.processes import Launcher
from tests.support import DATA


def configuration(replication: str, console: str, imposed: str = "") -> str:
    return (
        f'[[user]]\nname = "repl"\npassword_hash = "{replication}"\n'
        f'[[console_user]]\nname = "admin"\npassword_hash = "{console}"\nrole = "all"\n' + imposed
    )


def test_sighup_and_flush_privileges(launcher: Launcher, tmp_path: Path) -> None:
    config = tmp_path / "master.toml"
    right, other = str(Sha2Crypt.of("pa")), str(Sha2Crypt.of("pb"))
    config.write_text(configuration(right, native_hash("one")))
    note = tmp_path / "console-port"
    launcher.start_master(
        DATA / "oracle" / "mysql-row" / "bin.index",
        *("--console-port", "0", "--console-port-file", str(note), "--config", str(config)),
    )
    log = tmp_path / "master.log"

    def connect(password: str) -> pymysql.Connection:
        port = int(note.read_text())
        return pymysql.connect(host="127.0.0.1", port=port, user="admin", password=password)

    def reloads() -> int:
        return log.read_text().count("the configuration was read again")

    launcher.start(
        *("slave", "slave", "--master", f"127.0.0.1:{launcher.port}", "--source-user", "repl"),
        *("--server-id", 7, "--relay-dir", tmp_path / "relay", "--connect-retry", 0.1),
        DUMPFILTER_SOURCE_PASSWORD="pa",
    )
    wait_until(lambda: "registered" in log.read_text())
    old = connect("one")
    imposed = '[[imposed]]\nname = "x"\nrules = ["replicate-ignore-db=hr"]\n'
    config.write_text(configuration(right, native_hash("two"), imposed))
    launcher.kill("master", signal.SIGHUP)
    wait_until(lambda: reloads() == 1)
    wait_until(lambda: "imposed=['x']" in log.read_text())
    wait_until(lambda: not old.open or not _answers(old))
    with connect("two") as console, console.cursor() as cursor:
        cursor.execute("SELECT name FROM dumpfilter.imposed_filters")
        assert cursor.fetchall() == (("x",),)
        config.write_text("[[user")
        with pytest.raises(pymysql.err.MySQLError, match="the old configuration stays"):
            cursor.execute("FLUSH PRIVILEGES")
        launcher.kill("master", signal.SIGHUP)
        wait_until(lambda: log.read_text().count("the old one stays") == 2)
        config.write_text(configuration(other, native_hash("two")))
        cursor.execute("FLUSH PRIVILEGES")
        assert reloads() == 2
    assert launcher.wait("slave") == 2
    assert "Access denied for user" in (tmp_path / "slave.log").read_text()
    assert (tmp_path / "relay" / "source.info").stat().st_mode & 0o777 == 0o600
    launcher.kill("master", signal.SIGTERM)
    assert launcher.wait("master") == 0
    assert "Traceback" not in log.read_text() + (tmp_path / "slave.log").read_text()


def _answers(connection: pymysql.Connection) -> bool:
    try:
        connection.ping(reconnect=False)
    except pymysql.err.MySQLError:
        return False
    return True
