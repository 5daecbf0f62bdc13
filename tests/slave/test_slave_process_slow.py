"""Slaves as processes: several channels, a console, signals, errors and exit codes."""

from __future__ import annotations

import shutil
import signal
import socket
from collections.abc import Callable
from pathlib import Path
from typing import Any

import pymysql
import pytest

from dumpfilter.filter.rules import RuleKind, make_rule
from tests.commands import in_process
from tests.slave.driven import Since, expected, wait_until
from tests.slave.processes import Launcher

UUID = "5a8b8d0a-e543-11f1-9c8d-02fc00000001"


@pytest.fixture
def masters(address_of: Callable[[str], str]) -> dict[str, int]:
    """Return the ports of two masters."""
    return {folder: int(address_of(folder).rpartition(":")[2]) for folder in ("mysql-row", "mysql-mixed")}


def start(launcher: Launcher, *options: str, name: str = "s") -> None:
    """Start a slave that writes its report to a file."""
    directory = launcher.directory
    launcher.start(
        name,
        *("slave", "--relay-dir", str(directory / "s"), "--server-id", "101", "--connect-retry", "0.1"),
        *("--summary", "json", "--summary-file", str(directory / f"{name}.json"), *options),
    )


class Console:
    """A connection to a slave's console."""

    def __init__(self, launcher: Launcher, name: str = "s") -> None:
        note = launcher.directory / f"{name}.port"
        wait_until(note.exists, lambda: launcher.log(name))
        self._connection = pymysql.connect(
            host="127.0.0.1",
            port=int(note.read_text()),
            user="root",
            password=(launcher.directory / f"{name}.password").read_text().strip(),
            autocommit=None,
            cursorclass=pymysql.cursors.DictCursor,
        )

    def sql(self, text: str) -> list[dict[str, Any]]:
        with self._connection.cursor() as cursor:
            cursor.execute(text)
            return list(cursor.fetchall())

    def status(self, channel: str = "") -> dict[str, Any]:
        (row,) = self.sql(f"SHOW REPLICA STATUS FOR CHANNEL '{channel}'")
        return row

    def close(self) -> None:
        self._connection.close()


def with_console(launcher: Launcher, *options: str, name: str = "s") -> Console:
    note = launcher.directory / f"{name}.port"
    note.unlink(missing_ok=True)
    password = ("--console-password-file", str(launcher.directory / f"{name}.password"))
    start(launcher, "--console-port", "0", "--console-port-file", str(note), *password, *options, name=name)
    return Console(launcher, name)


def rules(*given: str) -> tuple[Any, ...]:
    return tuple(make_rule(RuleKind(kind), value) for kind, _, value in (one.partition("=") for one in given))


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGINT])
def test_two_masters_a_console_and_an_end_in_order(
    launcher: Launcher, masters: dict[str, int], data: Path, number: signal.Signals
) -> None:
    m1, m2 = masters["mysql-row"], masters["mysql-mixed"]
    console = with_console(
        launcher,
        *("--master", f"m1=127.0.0.1:{m1}", "--master", f"M2=127.0.0.1:{m2}"),
        *("--replicate-ignore-db=m1:hr", "--replicate-do-db=M2:shop", "--replicate-do-db=nosuch:x"),
        "--replicate-ignore-table=group_replication_applier:a.b",
    )
    for name in ("m1", "m2"):
        wait_until(
            lambda name=name: (
                console.status(name)["Seconds_Behind_Source"] == 0
                and console.status(name)["Relay_Source_Log_File"] == "bin.000003"
            ),
            lambda: launcher.log("s"),
        )
    assert [
        (row["CHANNEL_NAME"], row["FILTER_NAME"], row["FILTER_RULE"])
        for row in console.sql("SELECT * FROM performance_schema.replication_applier_filters")
    ] == [("m1", "REPLICATE_IGNORE_DB", "hr"), ("m2", "REPLICATE_DO_DB", "shop")]
    console.close()
    launcher.kill("s", number)
    assert launcher.wait("s") == 0
    log = (launcher.directory / "s.log").read_text()
    assert "Traceback" not in log
    flat = " ".join(log.split())
    for where in (
        "channel 'nosuch' which does not exist",
        "group replication channel 'group_replication_applier' which is disallowed",
    ):
        assert (
            f"There are per-channel replication filter(s) configured for {where}. The filter(s) have been discarded."
        ) in flat
    report = launcher.report("s")
    assert list(report) == ["channels"]
    assert list(report["channels"]) == ["m1", "m2"]
    for name, folder, rule in (
        ("m1", "mysql-row", "replicate-ignore-db=hr"),
        ("m2", "mysql-mixed", "replicate-do-db=shop"),
    ):
        wanted = expected(data / folder / "bin.index", [Since(("", 0), rules(rule))])
        assert report["channels"][name]["summary"] == wanted.summary
        assert report["channels"][name]["counts"]["events_dropped"] > 0
    # The slave knows its channels and needs no --master.
    start(launcher, "--once")
    assert launcher.wait("s") == 0
    again = launcher.report("s")["channels"]
    # Without the filters more would pass, but no events are left.
    assert {name: one["summary"] for name, one in again.items()} == {
        name: one["summary"] for name, one in report["channels"].items()
    }


@pytest.mark.parametrize("until", [2, 60])
def test_killed_and_started_with_other_options(
    launcher: Launcher, masters: dict[str, int], data: Path, until: int
) -> None:
    """The old filter is in force up to the applier's position, and the new one beyond, whatever had been relayed."""
    master = ("--master", f"127.0.0.1:{masters['mysql-row']}")
    console = with_console(launcher, *master, "--replicate-ignore-db=hr", "--skip-replica-start")
    console.sql("START REPLICA IO_THREAD")
    wait_until(lambda: console.status()["Retrieved_Gtid_Set"].endswith(":1-74"), lambda: launcher.log("s"))
    console.sql(f"START REPLICA SQL_THREAD UNTIL SQL_BEFORE_GTIDS = '{UUID}:{until}'")
    wait_until(lambda: console.status()["Replica_SQL_Running"] == "No", lambda: launcher.log("s"))
    row = console.status()
    place = (row["Relay_Source_Log_File"], row["Exec_Source_Log_Pos"])
    console.close()
    launcher.kill("s")
    start(launcher, *master, "--replicate-do-db=hr", "--replicate-do-db=logs", "--once")
    assert launcher.wait("s") == 0, launcher.log("s")
    history = [
        Since(("", 0), rules("replicate-ignore-db=hr")),
        Since(place, rules("replicate-do-db=hr", "replicate-do-db=logs")),
    ]
    report = launcher.report("s")
    assert report["summary"] == expected(data / "mysql-row" / "bin.index", history).summary
    assert report["gtid_set"] == f"{UUID}:1-74"


def test_once_with_a_console_ends_by_itself(launcher: Launcher, masters: dict[str, int]) -> None:
    start(launcher, "--master", f"127.0.0.1:{masters['mysql-row']}", "--once", "--console-port", "0")
    assert launcher.wait("s") == 0, launcher.log("s")
    assert launcher.report("s")["gtid_set"] == f"{UUID}:1-74"


def test_a_slave_that_only_has_a_console(launcher: Launcher, masters: dict[str, int]) -> None:
    console = with_console(launcher)
    assert console.sql("SHOW REPLICA STATUS") == []
    console.sql(
        f"CHANGE REPLICATION SOURCE TO SOURCE_HOST = '127.0.0.1', SOURCE_PORT = {masters['mysql-row']}"
    )
    assert console.status()["Replica_IO_Running"] == "No"
    console.sql("START REPLICA")
    wait_until(lambda: console.status()["Executed_Gtid_Set"] == f"{UUID}:1-74", lambda: launcher.log("s"))
    console.close()
    launcher.kill("s", signal.SIGTERM)
    assert launcher.wait("s") == 0
    assert launcher.report("s")["gtid_set"] == f"{UUID}:1-74"


def test_without_a_password_root_may_only_read(launcher: Launcher) -> None:
    note = launcher.directory / "s.port"
    start(launcher, "--console-port", "0", "--console-port-file", str(note))
    wait_until(note.exists, lambda: launcher.log("s"))
    connection = pymysql.connect(host="127.0.0.1", port=int(note.read_text()), user="root", autocommit=None)
    with connection, connection.cursor() as cursor:
        cursor.execute("SHOW REPLICA STATUS")
        for statement in ("STOP REPLICA", "CHANGE REPLICATION SOURCE TO SOURCE_HOST = 'hush'"):
            with pytest.raises(pymysql.err.OperationalError, match="1227"):
                cursor.execute(statement)
    launcher.kill("s", signal.SIGHUP)
    launcher.kill("s", signal.SIGTERM)
    assert launcher.wait("s") == 0
    assert "console.read_only" in launcher.log("s")
    assert "ERROR 1227" in launcher.log("s")


def test_an_error_of_a_thread_leaves_the_console(launcher: Launcher) -> None:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        port = probe.getsockname()[1]
        console = with_console(launcher, "--master", f"127.0.0.1:{port}", "--retry-count", "1")
        wait_until(lambda: console.status()["Last_IO_Errno"] == 2003, lambda: launcher.log("s"))
    assert console.status()["Replica_IO_Running"] in ("No", "Connecting")
    # The I/O thread can fail before the applier has started.
    wait_until(lambda: console.status()["Replica_SQL_Running"] == "Yes", lambda: launcher.log("s"))
    console.close()
    launcher.kill("s", signal.SIGTERM)
    assert launcher.wait("s") == 0


def test_a_console_whose_port_is_taken(launcher: Launcher) -> None:
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))
        taken.listen()
        port = taken.getsockname()[1]
        start(launcher, "--master", "127.0.0.1:1", "--console-port", str(port))
        assert launcher.wait("s") == 1, launcher.log("s")
    assert last_line(launcher).startswith("dumpfilter: ")
    assert f":{port}" in last_line(launcher)


def last_line(launcher: Launcher) -> str:
    log = launcher.log("s")
    assert "Traceback" not in log
    return log.splitlines()[-1]


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (["--skip-replica-start", "--master", "127.0.0.1:1"], "--skip-replica-start: "),
        ([], "there is no channel"),
        (["--master", "nowhere"], "--master=nowhere: write [CHANNEL=]HOST:PORT"),
        (["--master", "a=127.0.0.1:1", "--master", "A=127.0.0.1:2"], "there is another one for channel 'a'"),
        (["--master", "127.0.0.1:1", "--replicate-do-table=m1:x"], "--replicate-do-table=x"),
        (["--master", "127.0.0.1:1", "--server-id", "0"], "--server-id=0"),
        (["--master", "127.0.0.1:1", "--start-position", "100"], "--start-position needs --start-file"),
        (["--master", "127.0.0.1:1", "--replicate-rewrite-db=m1:x"], "--replicate-rewrite-db=x"),
        (
            ["--master", "127.0.0.1:1", "--console-port", "0", "--console-host", "0.0.0.0"],
            "without a password",
        ),
        (
            ["--master", "127.0.0.1:1", "--console-port", "0", "--tls-cert", "/nowhere/c", "--tls-key", "/k"],
            "--tls-cert=/nowhere/c: cannot be read: No such file or directory",
        ),
        (["--master", "127.0.0.1:1", "--do-domain-ids=1", "--ignore-domain-ids=2"], "DO_DOMAIN_IDS"),
        (["--master", "127.0.0.1:1", "--auto-position", "--start-file", "bin.000001"], "--auto-position"),
        (["--master", "group_replication_applier=127.0.0.1:1"], "group_replication_applier"),
        (["--master", "x" * 65 + "=127.0.0.1:1"], "--master"),
    ],
)
def test_wrong_options_are_one_line(tmp_path: Path, options: list[str], text: str) -> None:
    run = in_process.run("slave", "--relay-dir", tmp_path / "s", "--server-id", "101", *options)
    assert run.returncode == 2
    assert run.stderr.startswith("dumpfilter: ")
    assert text in run.stderr
    assert run.stderr.count("\n") == 1


def test_an_error_is_the_last_line_and_an_exit_code(launcher: Launcher) -> None:
    start(launcher, "--master", "127.0.0.1:1", "--retry-count", "2")
    assert launcher.wait("s") == 3
    assert "127.0.0.1:1 cannot be reached after 2 attempts" in last_line(launcher)


def test_ctrl_c_ends_slave_and_master_in_order(launcher: Launcher, data: Path) -> None:
    launcher.start_master(data / "mysql-row")
    launcher.start_slave("s")
    wait_until(lambda: launcher.master_info("s")["source_file"] == "bin.000003", lambda: launcher.log("s"))
    launcher.kill("s", signal.SIGINT)
    assert launcher.wait("s") == 0
    # The applier stops after its current transaction, and the next run continues there.
    assert launcher.report("s")["retrieved_gtid_set"].endswith(":1-74")
    launcher.start_slave("s", "--once")
    assert launcher.wait("s") == 0
    assert launcher.report("s")["gtid_set"].endswith(":1-74")
    launcher.kill("master", signal.SIGTERM)
    assert launcher.wait("master") == 0
    assert "Traceback" not in launcher.log("s") + launcher.log("master")


def test_two_slaves_in_one_directory(launcher: Launcher, masters: dict[str, int]) -> None:
    first = launcher.start(
        "first",
        *("slave", "--relay-dir", str(launcher.directory / "s"), "--server-id", "101"),
        *("--master", f"127.0.0.1:{masters['mysql-row']}"),
    )
    wait_until(
        lambda: launcher.master_info("s")["source_file"] == "bin.000003", lambda: launcher.log("first")
    )
    start(launcher, "--master", "127.0.0.1:1")
    assert launcher.wait("s") == 1
    assert launcher.log("s").count("\n") == 1
    assert f"another slave works here (process {first})" in launcher.log("s")


def test_a_damaged_binlog_stops_the_slave_with_file_and_position(
    launcher: Launcher, data: Path, tmp_path: Path
) -> None:
    binlogs = Path(shutil.copytree(data / "mysql-row", tmp_path / "binlogs"))
    damaged = bytearray((binlogs / "bin.000002").read_bytes())
    damaged[5000] ^= 4
    (binlogs / "bin.000002").write_bytes(damaged)
    launcher.start_master(binlogs)
    launcher.start_slave("s", "--once")
    assert launcher.wait("s") == 1
    assert "bin.000002: at " in last_line(launcher)
    assert launcher.master_info("s")["source_file"] in ("bin.000001", "bin.000002")
