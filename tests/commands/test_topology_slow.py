"""The command ``dumpfilter topology`` with real processes: a master with a workload, slaves, and links."""

from __future__ import annotations

import contextlib
import json
import os
import pty
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.commands.in_process import Finished, run

FAN_OUT = "m[size=256K] >> web[do-db=shop_00]; m >> hr"
SMALL = "m[size=16K] >> web"
LIMIT = "120s"


def ask(directory: Path, verb: str, *arguments: str) -> Finished:
    """Run a verb on the topology of a directory."""
    return run("topology", verb, *arguments, "--directory", directory)


def status_of(directory: Path) -> dict[str, Any]:
    """Return the status of the topology of a directory."""
    status: dict[str, Any] = json.loads(ask(directory, "status", "--json").stdout)
    return status


def processes_of(status: dict[str, Any]) -> list[int]:
    """Return the processes of a status."""
    return [status["pid"], *(node["pid"] for node in status["nodes"].values() if node["pid"])]


def is_running(pid: int) -> bool:
    """Tell whether a process runs. A zombie does not."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except FileNotFoundError:
        return False
    return state not in "ZX"


def wait_for_end(processes: list[int]) -> None:
    """Wait until the keeper of a killed topology has ended the topology's processes."""
    while any(map(is_running, processes)):
        time.sleep(0.01)


@pytest.fixture
def directory(tmp_path: Path) -> Iterator[Path]:
    """A directory for one topology, which ends after the test."""
    made = tmp_path / "t"
    yield made
    ask(made, "down")


def command(directory: Path, topology: str, *options: str) -> list[str]:
    """Return the command that starts a topology in another process."""
    up = [sys.executable, "-m", "dumpfilter", "topology", "up", topology, "--directory", str(directory)]
    return [*up, "--timeout", LIMIT, *options]


def read_to_the_end(terminal: int) -> bytes:
    """Return what a terminal shows until it has no other end, since its process has ended."""
    shown = b""
    with contextlib.suppress(OSError):
        while True:
            shown += os.read(terminal, 1 << 16)
    return shown


def killed(directory: Path) -> list[int]:
    """Kill the process of a topology in the background. Return the processes that the topology had."""
    processes = processes_of(status_of(directory))
    os.kill(processes[0], signal.SIGKILL)
    while is_running(processes[0]):
        pass
    assert ask(directory, "status").returncode == 3
    return processes


def show_live_table(directory: Path) -> None:
    """Start a topology on a terminal, in the directory of a killed one, and end it by another process."""
    ours, theirs = pty.openpty()
    environment = {**os.environ, "COLUMNS": "80", "LINES": "40", "TERM": "xterm"}
    with subprocess.Popen(command(directory, SMALL), stdin=theirs, stdout=theirs, env=environment) as process:
        os.close(theirs)
        shown = b""
        while b"m:web" not in shown:
            shown += os.read(ours, 1 << 16)
        assert b"position" in shown
        processes = processes_of(status_of(directory))
        report: list[bytes] = []
        reader = threading.Thread(target=lambda: report.append(read_to_the_end(ours)))
        reader.start()
        assert ask(directory, "down").returncode == 0
        reader.join()
    os.close(ours)
    assert process.returncode == 0
    assert b"lag p50" in report[0]
    assert [pid for pid in processes if is_running(pid)] == []
    assert not directory.exists()


@pytest.mark.parametrize("options", [[], ["--detach"]], ids=["in the foreground", "in the background"])
def test_a_start_that_sigterm_ends_has_its_exit_code_and_leaves_nothing(
    directory: Path, options: list[str]
) -> None:
    with subprocess.Popen(command(directory, SMALL, *options), stderr=subprocess.PIPE) as process:
        while not (directory / "state.json").exists():
            assert process.poll() is None
        process.terminate()
        process.communicate()
    assert process.returncode == 128 + signal.SIGTERM
    assert not directory.exists()


def test_a_topology_in_the_background_and_after_its_death_one_on_a_terminal(directory: Path) -> None:
    started = ask(directory, "up", FAN_OUT, "--detach", "--timeout", LIMIT)
    assert started.returncode == 0, started.stderr
    assert started.stdout == f"up in {directory}; dumpfilter topology down -d {directory} ends it\n"
    assert ask(directory, "wait", "--done", "--timeout", LIMIT).stderr == ""
    assert ask(directory, "check", "--timeout", LIMIT).stderr == ""
    status = status_of(directory)
    assert set(status["nodes"]) == {"m-workload", "m", "web", "hr"}
    assert set(status["links"]) == {"m:web", "m:hr"}
    assert status["links"]["m:web"]["bytes_to_target"] < status["links"]["m:hr"]["bytes_to_target"]

    assert "cut" in ask(directory, "link", "m:web", "--cut").stdout
    assert status_of(directory)["links"]["m:web"]["state"] == "cut"
    assert "cut" not in ask(directory, "link", "m:web", "--heal", "--rate", "1gbit").stdout

    assert "Replica_IO_State" in ask(directory, "sql", "web", "-e", "SHOW REPLICA STATUS").stdout
    assert ask(directory, "sql", "web", "-e", "NONSENSE").returncode == 1
    ask(directory, "kill", "web")
    assert status_of(directory)["nodes"]["web"]["state"] != "running"
    assert ask(directory, "start", "web").stdout == "web: running\n"
    assert ask(directory, "wait", "web", "--timeout", LIMIT).returncode == 0
    assert ask(directory, "logs", "web").stdout
    assert set(json.loads(ask(directory, "report", "--json").stdout)["links"]) == {"m:web", "m:hr"}

    second = ask(directory, "up", "m >> web", "--detach")
    assert second.returncode == 1
    assert "a topology is up in this directory" in second.stderr

    left = killed(directory)
    show_live_table(directory)
    wait_for_end(left)


def test_a_topology_that_cannot_run_says_why(directory: Path) -> None:
    failed = ask(directory, "up", "m >> r[server=mariadb]")
    assert failed.returncode == 2
    assert "r: a real replica cannot apply the generated workload of m" in failed.stderr
    assert not directory.exists()


def test_an_experiment(tmp_path: Path) -> None:
    file = tmp_path / "small.toml"
    file.write_text('topology = "m[size=64K] >> web[rate=10mbit]"\n[[phase]]\nfor = "100ms"\n')
    done = run("topology", "run", file, "--output", tmp_path / "out", "--no-report")
    assert done.returncode == 0, done.stderr
    results = json.loads((tmp_path / "out" / "results.json").read_text())
    assert [one["method"] for one in results["runs"]] == ["measured", "simulated"]
    assert "measured" in done.stdout


def test_a_start_that_fails_says_why_and_leaves_nothing(directory: Path) -> None:
    text = "m[server=mariadb, program=/nowhere/mariadbd] >> f >> web"
    late = ask(directory, "up", SMALL, "--timeout", "0s")
    assert "m: the master did not get ready after 0 s, its time limit; allow more time" in late.stderr
    assert not directory.exists()
    for options in ([], ["--detach"]):
        failed = ask(directory, "up", text, *options)
        assert failed.returncode != 0
        assert "/nowhere/mariadbd" in failed.stderr
        assert "Traceback" not in failed.stderr
        assert not directory.exists()


def test_down_leaves_what_keep_keeps(directory: Path) -> None:
    started = ask(directory, "up", SMALL, "--detach", "--keep", "--timeout", LIMIT)
    assert started.returncode == 0, started.stderr
    assert ask(directory, "down").returncode == 0
    assert (directory / "web" / "relay").is_dir()
    # A second down cleans, as after a kill.
    assert ask(directory, "down").returncode == 0
    assert not directory.exists()
