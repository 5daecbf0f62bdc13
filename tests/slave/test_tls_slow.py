"""TLS between real processes: masters, slaves, their options and statements, and certificates that are renewed."""

from __future__ import annotations

from pathlib import Path

import pymysql
import pytest

from tests.certificates import Authority, Issued, client_context
from tests.slave.driven import wait_until
from tests.slave.growing import GrowingCopy
from tests.slave.processes import Launcher
from tests.support import DATA

BINLOGS = DATA / "oracle" / "mysql-row"
GTIDS = "5a8b8d0a-e543-11f1-9c8d-02fc00000001:1-74"


@pytest.fixture
def authority(tmp_path: Path) -> Authority:
    return Authority(tmp_path / "ca")


@pytest.fixture
def issued(authority: Authority) -> Issued:
    return authority.issue("master")


def with_certificate(issued: Issued) -> tuple[str, ...]:
    return ("--tls-cert", str(issued.certificate), "--tls-key", str(issued.key))


def last_line(launcher: Launcher, name: str = "s") -> str:
    log = launcher.log(name)
    assert "Traceback" not in log
    return log.splitlines()[-1]


def received(launcher: Launcher, name: str) -> int:
    """Return the number of the last GTID that a slave has received."""
    gtids = str(launcher.master_info(name).get("retrieved", ""))
    return int(gtids.rpartition("-")[2]) if "-" in gtids else 0


def test_mutual_tls(launcher: Launcher, issued: Issued, authority: Authority) -> None:
    """tests/slave/test_tls_trial_slow.py has the errors. Servers' spellings are options, too."""
    mutual = ("--tls-ca", str(authority.certificate), "--tls-require-slave-cert")
    launcher.start_master(BINLOGS, *with_certificate(issued), *mutual)
    own = authority.issue("slave")
    files = (f"--source-ssl-cert={own.certificate}", f"--source-ssl-key={own.key}")
    launcher.start_slave("s", f"--master_ssl_ca={authority.certificate}", *files, "--once")
    assert launcher.wait("s") == 0, launcher.log("s")
    assert launcher.report("s")["gtid_set"] == GTIDS
    launcher.start_slave("plain", "--once")
    assert launcher.wait("plain") == 3
    line = last_line(launcher, "plain")
    assert line.startswith(f"dumpfilter: master 127.0.0.1:{launcher.port}: ")
    assert "the master speaks TLS alone: set SOURCE_SSL=1 and SOURCE_SSL_CA (--source-ssl-ca)" in line


def test_a_renewed_certificate_needs_no_restart(
    launcher: Launcher, issued: Issued, authority: Authority, tmp_path: Path
) -> None:
    """The running dump goes on. New connections meet the new certificate. A broken file changes nothing."""
    other = Authority(tmp_path / "other")
    binlogs = GrowingCopy(BINLOGS, tmp_path / "binlogs", seed=1)
    launcher.start_master(binlogs.index, *with_certificate(issued))
    launcher.start_slave("old", f"--source-ssl-ca={authority.certificate}")
    binlogs.more(20)
    wait_until(lambda: received(launcher, "old") >= 10, lambda: launcher.log("old"))
    issued.replace(other.issue("renewed"))
    wait_until(lambda: "tls.reloaded" in launcher.log("master"), lambda: launcher.log("master"))
    launcher.start_slave("new", f"--source-ssl-ca={other.certificate}")
    launcher.start_slave("stale", f"--source-ssl-ca={authority.certificate}", "--once")
    assert launcher.wait("stale") == 3
    wait_until(lambda: received(launcher, "new") >= 10, lambda: launcher.log("new"))
    issued.key.write_text("broken")
    wait_until(lambda: "tls.not_reloaded" in launcher.log("master"), lambda: launcher.log("master"))
    launcher.start_slave("late", f"--source-ssl-ca={other.certificate}")
    binlogs.more(binlogs.transactions)
    for name in ("old", "new", "late"):
        wait_until(lambda name=name: received(launcher, name) == 74, lambda name=name: launcher.log(name))
        launcher.kill(name, 15)
        assert launcher.wait(name) == 0
        assert launcher.report(name)["connections"] == 1
        assert "connection lost" not in launcher.log(name)


def test_a_slave_waits_for_a_certificate_that_is_being_renewed(
    launcher: Launcher, issued: Issued, authority: Authority, tmp_path: Path
) -> None:
    """A slave that was connected tries again, as after a lost connection."""
    binlogs = GrowingCopy(BINLOGS, tmp_path / "binlogs", seed=1)
    launcher.start_master(binlogs.index, *with_certificate(issued))
    launcher.start_slave("s", f"--source-ssl-ca={authority.certificate}")
    binlogs.more(20)
    wait_until(lambda: received(launcher, "s") >= 10, lambda: launcher.log("s"))
    issued.replace(Authority(tmp_path / "other").issue("wrong"))
    launcher.kill("master")
    launcher.start_master(binlogs.index, *with_certificate(issued))
    wait_until(lambda: "the CA that signed" in launcher.log("s"), lambda: launcher.log("s"))
    issued.replace(authority.issue("right"))
    binlogs.more(binlogs.transactions)
    wait_until(lambda: received(launcher, "s") == 74, lambda: launcher.log("s"))
    launcher.kill("s", 15)
    assert launcher.wait("s") == 0
    assert launcher.report("s")["connections"] == 2


def connect(launcher: Launcher) -> pymysql.Connection:
    note = launcher.directory / "console"
    wait_until(note.exists, lambda: launcher.log("s"))
    return pymysql.connect(
        host="127.0.0.1",
        port=int(note.read_text()),
        user="root",
        password="hush",
        autocommit=None,
        cursorclass=pymysql.cursors.DictCursor,
    )


def test_statements(launcher: Launcher, issued: Issued, authority: Authority) -> None:
    launcher.start_master(BINLOGS, *with_certificate(issued))
    password = launcher.directory / "console-password"
    password.write_text("hush\n")
    console = ("--console-port", "0", "--console-port-file", str(launcher.directory / "console"))
    launcher.start_slave("s", *console, "--console-password-file", str(password))
    with connect(launcher) as connection, connection.cursor() as cursor:

        def status() -> dict[str, object]:
            cursor.execute("SHOW REPLICA STATUS")
            (row,) = cursor.fetchall()
            return row

        wait_until(lambda: status()["Last_IO_Errno"] == 2026, status)
        assert "the master speaks TLS alone: set SOURCE_SSL=1" in str(status()["Last_IO_Error"])
        cursor.execute("STOP REPLICA")
        cursor.execute(f"CHANGE MASTER TO MASTER_SSL=1, MASTER_SSL_CA='{authority.certificate}'")
        cursor.execute("START REPLICA")
        wait_until(lambda: status()["Retrieved_Gtid_Set"] == GTIDS, status)
        shown = {name: value for name, value in status().items() if name.startswith("Source_SSL")}
        assert {name: value for name, value in shown.items() if value} == {
            "Source_SSL_Allowed": "Yes",
            "Source_SSL_CA_File": str(authority.certificate),
            "Source_SSL_Verify_Server_Cert": "Yes",
        }
        issued.replace(Authority(launcher.directory / "other").issue("wrong"))
        launcher.kill("master")
        launcher.start_master(BINLOGS, *with_certificate(issued))
        wait_until(lambda: "the CA that signed" in str(status()["Last_IO_Error"]), status)
        assert status()["Last_IO_Errno"] == 2026
        issued.replace(authority.issue("right"))
        wait_until(lambda: status()["Last_IO_Errno"] == 0, status)
        cursor.execute("STOP REPLICA")
    launcher.kill("s", 15)
    assert launcher.wait("s") == 0
    # The channel's options are in its state. The slave needs no options of the command line.
    (launcher.directory / "s.json").unlink()
    relay = ("--relay-dir", str(launcher.directory / "s"), "--server-id", "101")
    report = ("--summary", "json", "--summary-file", str(launcher.directory / "s.json"))
    launcher.start("s", "slave", *relay, *report, "--once")
    assert launcher.wait("s") == 0, launcher.log("s")
    assert launcher.report("s")["gtid_set"] == GTIDS


def test_the_master_s_console_has_the_same_certificate(
    launcher: Launcher, issued: Issued, authority: Authority, tmp_path: Path
) -> None:
    note = launcher.directory / "console"
    launcher.start_master(
        BINLOGS, *with_certificate(issued), "--console-port", "0", "--console-port-file", str(note)
    )
    other = Authority(tmp_path / "other")
    for trusted in (authority, other):
        with pymysql.connect(
            host="127.0.0.1", port=int(note.read_text()), user="root", ssl=client_context(trusted.certificate)
        ) as connection:
            assert connection.get_server_info()
        issued.replace(other.issue("renewed"))


def test_a_master_for_other_machines(launcher: Launcher, issued: Issued, authority: Authority) -> None:
    everywhere = ("--host", "0.0.0.0")
    config = launcher.directory / "master.toml"
    config.touch(mode=0o600)
    config.write_text('[[user]]\nname = "repl"\npassword = "secret"\n')
    for options, said in (
        ((), "without TLS and without a login"),
        (("--config", str(config)), "without TLS: give --tls-cert and --tls-key"),
        (with_certificate(issued), "without a login: name users"),
        ((*with_certificate(issued), "--console-port", "0"), "without a password of user 'root'"),
    ):
        launcher.start("m", "master", str(BINLOGS), "--port", "0", *everywhere, *options)
        assert launcher.wait("m") == 2
        assert said in last_line(launcher, "m")
    launcher.start_master(BINLOGS, *everywhere, *with_certificate(issued), "--config", str(config))
    assert "INSECURE" not in launcher.log("master")
    password = launcher.directory / "password"
    password.write_text("secret\n")
    login = ("--source-user", "repl", "--source-password-file", str(password))
    launcher.start_slave("s", f"--source-ssl-ca={authority.certificate}", *login, "--once")
    assert launcher.wait("s") == 0, launcher.log("s")


def test_insecure_is_loud(launcher: Launcher) -> None:
    launcher.start_master(BINLOGS, "--host", "0.0.0.0", "--insecure")
    assert "INSECURE: the master listens on 0.0.0.0 without TLS and without a login" in launcher.log("master")
