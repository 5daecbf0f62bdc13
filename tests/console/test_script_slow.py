"""The ``mariadb`` command-line client runs a script of all commands on real processes' consoles.

``script.sql`` says what each command does; ``data/script-slave.txt`` and ``data/script-master.txt`` are what the client
prints then. To record them anew: ``python -c 'from tests.console.test_script_slow import record; record()'``.
"""

from __future__ import annotations

import re
import shutil
import subprocess
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path

import pytest

from tests.console.programs import Terminal, dumpfilter_sql
from tests.slave.driven import wait_until
from tests.slave.processes import Launcher
from tests.support import DATA as RECORDINGS

DATA = Path(__file__).parent / "data"
SCRIPT = Path(__file__).with_name("script.sql")
PASSWORD = "secret"


@dataclass(frozen=True)
class Process:
    """A master or a slave with a console."""

    launcher: Launcher
    name: str
    port: int
    """The console's port."""
    master_port: int

    def arguments(self, *more: str, password: str = PASSWORD) -> list[str]:
        address = ["--protocol=tcp", "-h127.0.0.1", f"-P{self.port}", "-uroot", f"-p{password}"]
        return ["mariadb", "--no-defaults", *address, *more]

    def run(self, *more: str, script: str = "", password: str = PASSWORD) -> subprocess.CompletedProcess[str]:
        return subprocess.run(
            self.arguments(*more, password=password),
            input=script,
            stdout=subprocess.PIPE,
            stderr=subprocess.STDOUT,
            text=True,
            timeout=240,
        )

    def query(self, sql: str) -> list[list[str]]:
        done = self.run("-N", "-B", "-e", sql)
        assert done.returncode == 0, done.stdout
        return [line.split("\t") for line in done.stdout.splitlines()]

    def play(self, script: str) -> str:
        """Return the client's output without the parts that differ from run to run."""
        script = script.replace("3307", str(self.master_port))
        printed = ""
        for number, part in enumerate(re.split(r"^-- wait$", script, flags=re.MULTILINE)):
            if number and self.name == "slave":
                self.wait()
            printed += self.run("--force", "--unbuffered", "--table", "-vv", script=part).stdout
        for text, name in (
            (str(self.master_port), "3307"),
            (str(self.port), "3308"),
            (str(self.launcher.directory), "DIRECTORY"),
        ):
            printed = printed.replace(text, name)
        return re.sub(r"\b2\d{3}-\d\d-\d\d \d\d:\d\d:\d\d(\.\d+)?\b", "TIME", printed)

    def wait(self) -> None:
        """Wait until every channel with running threads has applied everything."""
        states = (
            "SELECT COUNT(*) FROM performance_schema.replication_connection_status c "
            "JOIN performance_schema.replication_applier_status a ON a.CHANNEL_NAME = c.CHANNEL_NAME "
            "WHERE a.SERVICE_STATE = 'ON' AND c.RECEIVED_TRANSACTION_SET NOT LIKE '%:1-74'"
        )

        def here() -> bool:
            shown = self.run("-e", "SHOW REPLICA STATUS\\G").stdout
            behind = re.findall(r"Replica_SQL_Running: (\w+)(?s:.*?)Seconds_Behind_Source: (\w+)", shown)
            # the newest file has no transaction that would tell
            files = re.findall(
                r"^ *Source_Log_File: (\S*)$(?s:.*?)Replica_IO_Running: (\w+)", shown, re.MULTILINE
            )
            return (
                self.query(states) == [["0"]]
                and all(seconds == "0" for running, seconds in behind if running == "Yes")
                and all(file == "bin.000003" for file, running in files if running == "Yes")
            )

        wait_until(here, lambda: self.launcher.log("slave"))


@contextmanager
def processes(directory: Path) -> Iterator[tuple[Process, Process]]:
    """Start a master, and a slave without channels."""
    shutil.copytree(RECORDINGS / "oracle" / "mysql-row", directory / "binlogs")
    with pytest.MonkeyPatch.context() as patch:
        patch.setenv("DUMPFILTER_CONSOLE_PASSWORD", PASSWORD)
        launcher = Launcher(directory)
    try:
        made = []
        for name, options in (
            ("master", ["master", str(directory / "binlogs"), "--port", "0", "--console-user", "root"]),
            ("slave", ["slave", "--relay-dir", str(directory / "relay"), "--server-id", "101"]),
        ):
            note, console_note = directory / f"{name}.port", directory / f"{name}.console"
            if name == "master":
                options += ["--port-file", str(note)]
            launcher.start(name, *options, "--console-port", "0", "--console-port-file", str(console_note))
            wait_until(console_note.exists, lambda name=name: launcher.log(name))
            master_note = directory / "master.port"
            wait_until(master_note.exists, lambda: launcher.log("master"))
            made.append(Process(launcher, name, int(console_note.read_text()), int(master_note.read_text())))
        yield made[0], made[1]
    finally:
        launcher.close()


@pytest.fixture(scope="module")
def both(tmp_path_factory: pytest.TempPathFactory) -> Iterator[tuple[Process, Process]]:
    with processes(tmp_path_factory.mktemp("script")) as made:
        yield made


@pytest.fixture(params=["master", "slave"])
def process(both: tuple[Process, Process], request: pytest.FixtureRequest) -> Process:
    return both[request.param == "slave"]


def record() -> None:
    """Write down what the client prints now."""
    with tempfile.TemporaryDirectory() as directory, processes(Path(directory)) as made:
        for process in made:
            (DATA / f"script-{process.name}.txt").write_text(process.play(SCRIPT.read_text("utf-8")), "utf-8")


def test_a_script_of_all_commands(process: Process) -> None:
    printed = process.play(SCRIPT.read_text("utf-8"))
    assert printed.splitlines() == (DATA / f"script-{process.name}.txt").read_text("utf-8").splitlines()


def test_several_statements_vertically(process: Process) -> None:
    done = process.run("-e", "SHOW WARNINGS; SELECT 1 AS one\\G SELECT 'a' AS b, NULL AS c\\G")
    assert done.returncode == 0
    assert done.stdout.splitlines() == [
        "*************************** 1. row ***************************",
        "one: 1",
        "*************************** 1. row ***************************",
        "b: a",
        "c: NULL",
    ]


def test_a_wrong_password(process: Process) -> None:
    done = process.run("-e", "SELECT 1", password="wrong")
    assert done.returncode == 1
    assert done.stdout == (
        "ERROR 1045 (28000): Access denied for user 'root'@'localhost' (using password: YES)\n"
    )
    assert process.query("SELECT 1") == [["1"]]


def test_a_slave_keeps_a_certificate(both: tuple[Process, Process]) -> None:
    slave = both[1]
    certificate = slave.launcher.directory / "relay" / "tls-cert.pem"
    done = slave.run(
        f"--ssl-ca={certificate}", "--ssl-verify-server-cert", "-e", "SHOW STATUS LIKE 'Ssl_version'"
    )
    assert done.stdout.splitlines()[-1] == "Ssl_version\tTLSv1.3"


def test_control_c(process: Process) -> None:
    terminal = Terminal(process.arguments())
    terminal.until("[(none)]>")
    terminal.type("SELECT SLEEP(30);\n")
    wait_until(lambda: "SLEEP(30)" in process.run("-e", "SHOW PROCESSLIST").stdout)
    terminal.type("\x03")
    terminal.until("ERROR 1317 (70100): Query execution was interrupted")
    terminal.type("SELECT 40 + 2 AS answer;\n")
    assert "42" in terminal.until("1 row in set")
    terminal.type("exit\n")
    terminal.until("Bye")
    assert terminal.close() == 0


def test_dumpfilter_sql(process: Process) -> None:
    done = dumpfilter_sql(process.port, "--format=json", "-e", "SELECT 1 AS one; NONSENSE")
    assert done.returncode == 1
    assert done.stdout == '[{"one": 1}]\n'
    assert done.stderr.startswith("ERROR 1064 (42000) at line 1: ")
