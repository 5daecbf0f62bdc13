"""The keeper: processes that end with their caller, and errors of those that cannot start."""

from __future__ import annotations

import errno
import os
import signal
import subprocess
import sys
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from multiprocessing.connection import Connection
from pathlib import Path
from typing import cast

import pytest

from dumpfilter.testbed.directory import start_time
from dumpfilter.testbed.errors import TestbedError
from dumpfilter.testbed.keeper import Child, Keeper, _KeeperProcess
from dumpfilter.testbed.node import Ground
from dumpfilter.topology import parse_string

WAIT = 120.0
SLEEP = (sys.executable, "-c", "import time; time.sleep(1000)")


@pytest.fixture(scope="module")
def keeper() -> Iterator[Keeper]:
    found = Keeper()
    yield found
    found.close()


def wait_for_end(pid: int, started: int) -> None:
    deadline = time.monotonic() + WAIT
    while start_time(pid) == started:
        assert time.monotonic() < deadline, f"process {pid} runs"
        time.sleep(0.01)


def test_a_keeper_that_imports_can_be_ended(tmp_path: Path) -> None:
    importing = Keeper()
    try:
        with ThreadPoolExecutor() as pool:
            late = pool.submit(importing.start, "late", SLEEP, tmp_path / "log", is_executed=True)
            importing.end_if_importing()
            with pytest.raises(TestbedError, match="has ended"):
                late.result(WAIT)
    finally:
        importing.close()


def test_a_keeper_that_has_not_answered_is_not_waited_for() -> None:
    """A keeper may compile for a minute before it reads the request to end."""
    keeper = Keeper()
    keeper.close()
    assert keeper.process.returncode == -signal.SIGKILL


def test_a_fork_that_fails_leaves_the_other_processes(monkeypatch: pytest.MonkeyPatch) -> None:
    """The keeper would end at an exception, and all processes of the topology with it."""

    def fork() -> int:
        raise BlockingIOError(errno.EAGAIN, "Resource temporarily unavailable")

    monkeypatch.setattr(os, "fork", fork)
    answer = _KeeperProcess.start(cast("_KeeperProcess", None), "web", ["slave"], Path("log"), False)
    assert isinstance(answer, TestbedError)
    assert str(answer).startswith("web: no process can be made: [Errno 11] ")


def test_a_fork_runs_dumpfilter(keeper: Keeper, tmp_path: Path) -> None:
    log = tmp_path / "log"
    child = keeper.start("version", ["--version"], log)
    assert child.wait(WAIT) == 0
    assert log.read_text().startswith("dumpfilter ")


def test_a_fork_ends_with_the_exit_code_of_the_command(keeper: Keeper, tmp_path: Path) -> None:
    child = keeper.start("bad", ["master", str(tmp_path / "none.index")], tmp_path / "log")
    assert child.wait(WAIT) == 1
    assert "none.index" in (tmp_path / "log").read_text()


def test_a_program_that_does_not_exist_is_told_in_its_log(keeper: Keeper, tmp_path: Path) -> None:
    log, program = tmp_path / "log", str(tmp_path / "no-such-program")
    assert keeper.start("x", [program], log, is_executed=True).wait(WAIT) == 127
    assert log.read_text().startswith(f"x: {program} cannot be started: [Errno 2] No such file")


def test_signals_reach_children_and_grandchildren(keeper: Keeper, tmp_path: Path) -> None:
    note = tmp_path / "pid"
    parent = (
        f"import subprocess, time; p = subprocess.Popen({list(SLEEP)!r}); "
        f"print(p.pid, file=open({str(note)!r}, 'w'), flush=True); time.sleep(1000)"
    )
    child = keeper.start("parent", [sys.executable, "-c", parent], tmp_path / "log", is_executed=True)
    while not note.exists() or not note.read_text().strip():
        assert child.poll() is None
        time.sleep(0.01)
    grandchild = int(note.read_text())
    started = start_time(grandchild)
    assert started is not None
    child.kill()
    assert child.wait(WAIT) == -signal.SIGKILL
    wait_for_end(grandchild, started)


def test_children_end_with_the_keeper(tmp_path: Path) -> None:
    keeper = Keeper()
    log = tmp_path / "log"
    children = [keeper.start(f"sleep {number}", SLEEP, log, is_executed=True) for number in range(2)]
    running = [(child.pid, start_time(child.pid)) for child in children]
    os.kill(keeper.process.pid, signal.SIGKILL)
    for child, (pid, started) in zip(children, running, strict=True):
        assert started is not None
        wait_for_end(pid, started)
        assert child.wait(WAIT) == -signal.SIGKILL
    with pytest.raises(TestbedError, match="start it again"):
        keeper.start("late", SLEEP, log, is_executed=True)
    keeper.close()


def test_children_end_with_a_killed_caller(tmp_path: Path) -> None:
    script = (
        "import sys, time; from pathlib import Path; from dumpfilter.testbed.keeper import Keeper\n"
        "keeper = Keeper(); log = Path(sys.argv[1])\n"
        "sleep = [sys.executable, '-c', 'import time; time.sleep(1000)']\n"
        "children = [keeper.start('sleep', sleep, log, is_executed=True) for _ in 'ab']\n"
        "print(keeper.process.pid, *(one.pid for one in children), flush=True); time.sleep(1000)\n"
    )
    caller = subprocess.Popen(
        [sys.executable, "-c", script, str(tmp_path / "log")], stdout=subprocess.PIPE, text=True
    )
    assert caller.stdout is not None
    pids = [int(word) for word in caller.stdout.readline().split()]
    running = [(pid, start_time(pid)) for pid in pids]
    caller.kill()
    caller.communicate()
    for pid, started in running:
        assert started is not None
        wait_for_end(pid, started)


def test_an_exit_that_comes_before_the_answer_is_not_lost(keeper: Keeper, tmp_path: Path) -> None:
    log = tmp_path / "log"
    children: list[Child] = [keeper.start("true", ["/bin/true"], log, is_executed=True) for _ in range(8)]
    assert [child.wait(WAIT) for child in children] == [0] * 8


def test_a_process_whose_start_is_interrupted_belongs_to_the_topology(
    keeper: Keeper, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupted(connection: Connection) -> object:
        signal.raise_signal(signal.SIGINT)
        return receive(connection)

    receive = Connection.recv
    topology = parse_string("m[server=mariadb]")
    ground = Ground(topology, tmp_path, keeper, holds_files=False, start_timeout=WAIT, wait_timeout=WAIT)
    with monkeypatch.context() as patched:
        patched.setattr(Connection, "recv", interrupted)
        with pytest.raises(KeyboardInterrupt):
            ground.start("late", SLEEP, tmp_path / "log", is_executed=True)
    (child,) = ground._children
    assert child.poll() is None
    ground.end_all()
    assert child.wait(WAIT) == -signal.SIGKILL
