"""The command as a process: how it ends when a signal comes, or when the reader of its output goes away."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from pathlib import Path

import pytest

from dumpfilter.binlog.workload import generate
from tests.commands.forked import forked_commands
from tests.commands.in_process import run

ORACLE = Path(__file__).parents[1] / "oracle" / "data" / "oracle"


@pytest.fixture(scope="module", autouse=True)
def forked() -> Iterator[None]:
    """Make ``dumpfilter`` on the PATH a fork of one process, since each start of Python takes a second."""
    path = os.environ["PATH"]
    with forked_commands({**os.environ, "COLUMNS": "120"}) as environment:
        os.environ["PATH"] = environment["PATH"]
        yield
    os.environ["PATH"] = path


def test_the_exit_code_is_the_errors() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "dumpfilter", "inspect", "nowhere.index"], capture_output=True, text=True
    )
    assert done.returncode == 1
    assert done.stderr.startswith("dumpfilter: nowhere.index")
    assert done.stderr.count("\n") == 1


@pytest.mark.parametrize(
    ("command", "redirected", "exit_code"), [("binlog mysql-row", ">&-", 0), ("password-hash", "<&-", 2)]
)
def test_a_closed_standard_stream_reads_and_writes_nothing(
    command: str, redirected: str, exit_code: int
) -> None:
    line = f"exec {sys.executable} -m dumpfilter {command} {redirected}"
    done = subprocess.run(["sh", "-c", line], cwd=ORACLE, capture_output=True, text=True)
    assert "Traceback" not in done.stderr
    assert done.returncode == exit_code


def test_a_width_of_zero_is_an_unknown_width() -> None:
    done = subprocess.run(
        [sys.executable, "-m", "dumpfilter", "inspect", ORACLE / "mysql-row"],
        env={**os.environ, "COLUMNS": "0"},
        capture_output=True,
        text=True,
    )
    assert done.stdout.startswith("3 files, bin.000001")


_WITH_TEMPORARY_FILES = """
import tempfile, time
from dumpfilter import cli

def run():
    with tempfile.TemporaryDirectory() as name:
        print(name, flush=True)
        while True:
            time.sleep(0.1)  # Python handles a signal that comes just before a sleep after the sleep.

cli._run = run
cli.main()
"""


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_every_command_removes_its_temporary_files(signum: signal.Signals) -> None:
    command = [sys.executable, "-c", _WITH_TEMPORARY_FILES]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as process:
        assert process.stdout is not None
        directory = Path(process.stdout.readline().strip())
        process.send_signal(signum)
        assert process.wait(240) == 128 + signum
    assert not directory.exists()


@pytest.mark.parametrize(
    "command",
    [
        ("master", ORACLE / "mysql-row" / "bin.index"),
        ("slave", "--master=127.0.0.1:1", "--relay-dir=none", "--server-id=7", "--summary=none"),
    ],
)
def test_sighup_does_not_end_the_start(
    command: tuple[str | Path, ...], monkeypatch: pytest.MonkeyPatch
) -> None:
    """An operator or a program that rotates logs may send the signal before the master or slave is ready."""
    name = command[0]

    def start(*_: object, **options: object) -> list[object]:
        signal.raise_signal(signal.SIGHUP)
        return []

    monkeypatch.setattr(f"dumpfilter.{name}.process.run_{name}", start)
    assert run(*command).returncode == 0


_INTERRUPTED_IMPORT = """
import os, signal, sys

class Interrupting:
    def find_spec(self, name, path, target=None):
        if name == "dumpfilter.cli":
            os.kill(os.getpid(), signal.SIGINT)

sys.meta_path.insert(0, Interrupting())
import runpy
runpy.run_module("dumpfilter", run_name="__main__")
"""


def test_ctrl_c_during_the_first_imports_is_no_traceback() -> None:
    ended = subprocess.run(
        [sys.executable, "-c", _INTERRUPTED_IMPORT, "--version"], capture_output=True, text=True
    )
    assert ended.stderr == ""
    # A shell's status for this is 130.
    assert ended.returncode == -signal.SIGINT


@pytest.mark.parametrize("signum", [signal.SIGINT, signal.SIGTERM])
def test_a_master_ends_cleanly(signum: signal.Signals, tmp_path: Path) -> None:
    port_file = tmp_path / "port"
    master = subprocess.Popen(
        ["dumpfilter", "master", ORACLE / "mysql-row", "--port", "0", "--port-file", port_file],
        stderr=subprocess.PIPE,
        text=True,
    )
    deadline = time.monotonic() + 240
    while not port_file.exists():
        assert time.monotonic() < deadline
        time.sleep(0.02)
    master.send_signal(signum)
    _, errors = master.communicate(timeout=240)
    assert master.returncode == 0
    assert "Traceback" not in errors
    assert "stopping" in errors


@pytest.fixture(scope="module")
def long_text(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """Return a binlog set whose text is longer than a pipe holds."""
    return generate(tmp_path_factory.mktemp("long") / "in", 500_000).index


def test_binlogs_reader_that_goes_away_is_no_error(long_text: Path) -> None:
    process = subprocess.Popen(
        ["dumpfilter", "binlog", str(long_text)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout is not None
    assert process.stdout.readline()
    process.stdout.close()
    assert process.stderr is not None
    assert process.stderr.read() == b""
    assert process.wait(timeout=240) == 141


@pytest.mark.parametrize("arguments", [["--help"], ["inspect", str(ORACLE / "mysql-row"), "--json"]], ids=str)
def test_a_reader_that_goes_away_has_one_exit_code(arguments: list[str]) -> None:
    unread, output = os.pipe()
    os.close(unread)
    done = subprocess.run(["dumpfilter", *arguments], stdout=output, stderr=subprocess.PIPE, text=True)
    os.close(output)
    assert done.returncode == 141, done.stderr
    assert "Traceback" not in done.stderr
    assert "rror" not in done.stderr


def test_an_interrupt_ends_binlog_quietly(long_text: Path) -> None:
    process = subprocess.Popen(
        ["dumpfilter", "binlog", str(long_text)],
        stdout=subprocess.PIPE,
        stderr=subprocess.PIPE,
    )
    assert process.stdout is not None
    # the process prints, and then waits for a reader
    assert process.stdout.readline()
    process.send_signal(signal.SIGINT)
    _, said = process.communicate(timeout=240)
    assert said == b""
    assert process.returncode == 130
