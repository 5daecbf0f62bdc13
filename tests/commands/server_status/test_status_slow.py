"""``dumpfilter status`` against real masters and slaves: what it tells, its exit codes, and its errors."""

from __future__ import annotations

import importlib.metadata
import json
import signal
import socket
from pathlib import Path
from typing import Any

import pytest

from tests.certificates import Authority
from tests.commands.in_process import Finished, run
from tests.slave.driven import wait_until
from tests.slave.processes import Launcher
from tests.support import DATA

MYSQL = DATA / "oracle" / "mysql-row"
GOOD, ERROR, OPTION, UNREACHABLE, PROBLEM = 0, 1, 2, 3, 4


class Running:
    """A master with users and a console, and a slave with a console, as processes."""

    def __init__(self, launcher: Launcher, tmp_path: Path) -> None:
        self.launcher = launcher
        self.directory = tmp_path
        config = tmp_path / "master.toml"
        config.write_text('[[user]]\nname = "repl"\npassword = "secret"\n')
        config.chmod(0o600)
        self.password = tmp_path / "repl.password"
        self.password.write_text("secret\n")
        console = ("--console-port", "0", "--console-port-file", str(tmp_path / "mc"))
        password = ("--console-password-file", str(tmp_path / "admin.password"))
        state = ("--state-dir", str(tmp_path / "state"))
        self.options = ("--config", str(config), *console, *password, *state)
        self.start_master()
        self.admin = ("-p", str(tmp_path / "admin.password"))
        self.master = f"127.0.0.1:{launcher.port}"
        self.login = ("--source-user", "repl", "--source-password-file", str(self.password))
        self.start_slave()

    def start_master(self) -> None:
        self.launcher.start_master(MYSQL, *self.options)
        self.console = f"127.0.0.1:{(self.directory / 'mc').read_text().strip()}"

    def start_slave(self) -> None:
        note = self.directory / "sc"
        note.unlink(missing_ok=True)
        self.launcher.start_slave(
            "s",
            *("--console-port", "0", "--console-port-file", str(note), "--replicate-do-db=shop"),
            *("--console-password-file", str(self.directory / "admin.password"), *self.login),
        )
        wait_until(note.exists, lambda: self.launcher.log("s"))
        self.slave = f"127.0.0.1:{note.read_text().strip()}"
        wait_until(
            lambda: self.launcher.master_info("s")["source_file"] == "bin.000003",
            lambda: self.launcher.log("s"),
        )

    def sql(self, statement: str) -> None:
        done = run("sql", "--console", self.console, *self.admin, "-e", statement)
        assert done.returncode == 0, done.stderr


@pytest.fixture
def running(launcher: Launcher, tmp_path: Path) -> Running:
    return Running(launcher, tmp_path)


def status(*arguments: str | Path) -> Finished:
    done = run("status", *arguments)
    assert "Traceback" not in done.stderr
    return done


def told(code: int, *arguments: str | Path) -> dict[str, Any]:
    done = status(*arguments, "--json")
    assert done.returncode == code, (done.stdout, done.stderr)
    values: dict[str, Any] = json.loads(done.stdout)
    return values


def test_a_master(running: Running) -> None:
    # A stranger
    known = told(GOOD, "--master", running.master)
    assert (known["role"], known["health"], known["slaves"]) == ("master", "SERVING", None)
    assert "--source-user" in known["hint"]
    # A replication user
    known = told(GOOD, "--master", running.master, *running.login)
    assert (known["file"], known["position"], known["files"], known["bytes"]) == (
        "bin.000003",
        198,
        3,
        180816,
    )
    (slave,) = known["slaves"]
    assert (slave["dumping"], slave["user"], slave["lag_bytes"], slave["lag_seconds"]) == (
        True,
        "repl",
        0,
        0.0,
    )
    assert slave["counts"]["events_dropped"] > 0
    # A user of the console
    by_console = told(GOOD, "--console", running.console, *running.admin, "--max-lag", "0")
    assert by_console["health"] == ""
    assert by_console["drains"] == []
    (by_table,) = by_console["slaves"]
    assert {name: by_table[name] for name in slave} == slave
    # The console's JSON has every column of dumpfilter.slaves.
    assert by_table["rules"] == "--replicate-do-db=shop"
    both = told(GOOD, "--master", running.master, "--console", running.console, *running.admin)
    assert (both["health"], both["slaves"]) == ("SERVING", by_console["slaves"])
    shown = status("--master", running.master, "--console", running.console, *running.admin).stdout
    assert "SERVING" in shown
    assert "bin.000003:198" in shown


def test_a_slave_that_is_away_when_the_master_restarts(running: Running) -> None:
    launcher = running.launcher
    launcher.kill("s")
    launcher.kill("master", signal.SIGTERM)
    launcher.wait("master")
    running.start_master()
    by_console = told(PROBLEM, "--console", running.console, *running.admin)
    (gone,) = by_console["slaves"]
    assert (gone["state"], gone["dumping"], gone["file"]) == ("gone", False, "bin.000003")
    (problem,) = by_console["problems"]
    assert f"is gone since {gone['gone_since']}" in problem
    (same,) = told(PROBLEM, "--master", running.master, *running.login)["slaves"]
    assert (same["state"], same["gone_since"]) == ("gone", gone["gone_since"])
    assert "1 gone" in status("--console", running.console, *running.admin).stdout
    running.sql(f"UNREGISTER REPLICA {gone['server_id']}")
    assert told(GOOD, "--console", running.console, *running.admin)["slaves"] == []
    running.start_slave()

    def states() -> list[str]:
        return [one["state"] for one in told(GOOD, "--console", running.console, *running.admin)["slaves"]]

    # The slave's files have its place of before, so that a start of the slave does not wait for its dump.
    wait_until(lambda: states() == ["connected"])


def test_a_drain_shows(running: Running) -> None:
    running.sql("DRAIN ALL REPLICAS REASON 'until noon'")
    known = told(PROBLEM, "--master", running.master, "--console", running.console, *running.admin)
    assert known["health"] == "NOT_SERVING"
    assert [drain["reason"] for drain in known["drains"]] == ["until noon"]
    wait_until(lambda: status("--slave", running.slave, *running.admin).returncode == PROBLEM)
    (problem,) = told(PROBLEM, "--slave", running.slave, *running.admin)["problems"]
    assert "the I/O thread is connecting" in problem
    assert "until noon" in problem
    running.sql("UNDRAIN ALL REPLICAS")
    wait_until(lambda: status("--slave", running.slave, *running.admin).returncode == GOOD)


def test_a_slave(running: Running, tmp_path: Path) -> None:
    known = told(GOOD, "--slave", running.slave, *running.admin, "--max-lag", "0")
    assert known["version"] == importlib.metadata.version("dumpfilter")
    (channel,) = known["channels"]
    assert (channel["io_running"], channel["sql_running"]) == ("Yes", "Yes")
    assert (channel["applied_file"], channel["applied_position"]) == ("bin.000003", 198)
    assert channel["executed_gtids"].endswith(":1-74")
    assert channel["counters"]["connections"] == 1
    assert channel["filter_semantics"] == "CLASSIC"
    assert channel["hits"]["replicate-do-db"] > 0
    # The applier writes its position when it has had nothing to apply for a quarter of a second.
    wait_until(lambda: told(GOOD, "--relay-dir", tmp_path / "s")["channels"][0]["applied_position"] == 198)
    offline = told(GOOD, "--relay-dir", tmp_path / "s")
    assert offline["running"]
    assert offline["process"] > 1
    (same,) = offline["channels"]
    for name in (
        "source",
        "applied_file",
        "applied_position",
        "retrieved_gtids",
        "executed_gtids",
        "lag_bytes",
    ):
        assert same[name] == channel[name]
    assert same["io_running"] is None
    stop = run("sql", "--slave", running.slave, *running.admin, "-e", "STOP REPLICA SQL_THREAD")
    assert stop.returncode == GOOD
    known = told(PROBLEM, "--slave", running.slave, *running.admin)
    assert known["problems"] == ["the default channel: the SQL thread does not run"]
    assert "PROBLEM: the default channel" in status("--slave", running.slave, *running.admin).stdout


def test_a_slave_at_rest(running: Running, tmp_path: Path) -> None:
    running.launcher.kill("s", signal.SIGTERM)
    assert running.launcher.wait("s") == 0
    directory = tmp_path / "s"
    before = {path.name: path.stat().st_mtime_ns for path in directory.iterdir()}
    known = told(PROBLEM, "--relay-dir", directory)
    assert not known["running"]
    assert known["channels"][0]["counters"]["connections"] == 1
    assert "no slave runs" in known["problems"][0]
    # Reading changes nothing, and needs no right to write.
    assert {path.name: path.stat().st_mtime_ns for path in directory.iterdir()} == before
    (directory / "master.info").write_bytes(b"{")
    known = told(PROBLEM, "--relay-dir", directory)
    assert any(
        "master.info: is not a master.info file or is damaged" in problem for problem in known["problems"]
    )
    # The password of source.info never shows.
    assert "secret" not in status("--relay-dir", directory, "--json").stdout
    assert "secret" not in status("--relay-dir", directory).stdout


def test_wrong_addresses_and_passwords(running: Running, tmp_path: Path) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        nobody = f"127.0.0.1:{taken.getsockname()[1]}"
        wrong = tmp_path / "wrong"
        wrong.write_text("wrong\n")
        cases: list[tuple[int, str, tuple[str, ...]]] = [
            (
                UNREACHABLE,
                "is it running, and is this the port that `dumpfilter master --port`",
                ("--master", nobody),
            ),
            (UNREACHABLE, "running with --console-port", ("--slave", nobody)),
            (UNREACHABLE, "this is a M", ("--master", running.console)),
            (
                UNREACHABLE,
                "the console of a master; ask it with --console",
                ("--slave", running.console, *running.admin),
            ),
            (
                UNREACHABLE,
                "the console of a slave; ask it with --slave",
                ("--console", running.slave, *running.admin),
            ),
            (ERROR, "--password-file", ("--console", running.console, "-p", str(wrong))),
            (
                ERROR,
                "--source-password-file",
                ("--master", running.master, "--source-user", "repl", "--source-password-file", str(wrong)),
            ),
            (OPTION, "give one of", ()),
            (OPTION, "give one of", ("--slave", nobody, "--master", nobody)),
            (OPTION, "HOST:PORT", ("--master", "nowhere")),
            (OPTION, "--source-user needs --master", ("--slave", nobody, "--source-user", "u")),
            (OPTION, "is no relay directory of a slave", ("--relay-dir", str(tmp_path / "wrong-dir"))),
            (OPTION, "--max-lag", ("--slave", nobody, "--max-lag", "x")),
        ]
        (tmp_path / "wrong-dir").mkdir()
        for code, text, arguments in cases:
            done = status(*arguments)
            assert (done.returncode, done.stdout) == (code, ""), (arguments, done)
            assert text in done.stderr, (arguments, done.stderr)
            assert done.stderr.count("\n") == 1


def test_a_master_with_tls(launcher: Launcher, tmp_path: Path) -> None:
    authority = Authority(tmp_path / "ca")
    issued = authority.issue("master")
    launcher.start_master(MYSQL, "--tls-cert", str(issued.certificate), "--tls-key", str(issued.key))
    master = f"127.0.0.1:{launcher.port}"
    done = status("--master", master)
    assert done.returncode == UNREACHABLE
    assert "--source-ssl-ca" in done.stderr
    assert told(GOOD, "--master", master, f"--source-ssl-ca={authority.certificate}")["health"] == "SERVING"
