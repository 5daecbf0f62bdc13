"""The state of a node, seen by several threads."""

from __future__ import annotations

import subprocess
import threading
from itertools import pairwise
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from dumpfilter.testbed.errors import StartFailed, TestbedError
from dumpfilter.testbed.node import Ground, TestbedLink, TestbedNode
from dumpfilter.topology import parse_string
from dumpfilter.topology.links.shape import Counters, LinkShape
from dumpfilter.topology.model import Link


class SmallNode(TestbedNode):
    """A node whose process is given."""

    def __init__(self, directory: Path, process: Any = None) -> None:
        ground = SimpleNamespace(directory=directory, directory_of=directory.joinpath)
        super().__init__(ground, SimpleNamespace(name="n", kind="slave"), ())  # type: ignore[arg-type]
        self._its_process = process
        self._state = "running"

    @property
    def process(self) -> Any:
        return self._its_process

    def _begin(self) -> None: ...

    def _end(self, *, in_order: bool) -> None: ...


SmallNode.__abstractmethods__ = frozenset()


def test_a_look_during_a_regular_end_finds_no_failure(tmp_path: Path) -> None:
    looking, stopped = threading.Event(), threading.Event()

    class Process:
        def poll(self) -> int | None:
            if threading.current_thread() is threading.main_thread():
                return None
            looking.set()
            stopped.wait()
            return 0

    node = SmallNode(tmp_path, Process())
    watcher = threading.Thread(target=lambda: node.is_running)
    watcher.start()
    looking.wait()
    node.stop()
    stopped.set()
    watcher.join()
    assert node.state == "stopped"


def test_a_full_disk_is_a_start_that_failed(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    node = SmallNode(tmp_path)
    node.stop()
    monkeypatch.setattr(node, "_begin", (tmp_path / "missing" / "file").touch)
    with pytest.raises(StartFailed, match=r"^n: .*No such file or directory: '.*/missing/file'"):
        node.start()
    assert node.state == "failed"


def test_a_process_that_survives_sigkill_keeps_no_other_from_its_end(tmp_path: Path) -> None:
    class Process:
        def __init__(self, pid: int, survives: bool) -> None:
            self.pid = pid
            self.survives = survives
            self.is_killed = False

        def poll(self) -> int | None:
            return None

        def kill(self) -> None:
            self.is_killed = True

        terminate = kill

        def wait(self, timeout: float) -> None:
            if self.survives:
                raise subprocess.TimeoutExpired("n", timeout)

    processes = [Process(1, False), Process(2, True), Process(3, False)]
    keeper: Any = SimpleNamespace(start=lambda process, **_: process, end_if_importing=lambda: None)
    topology = parse_string("m[server=mariadb]")
    ground = Ground(topology, tmp_path, keeper, holds_files=False, start_timeout=1, wait_timeout=1)
    for process in processes:
        ground.start(process, is_executed=True)
    with pytest.raises(TestbedError, match="process 2 has not ended"):
        ground.end_all()
    assert all(process.is_killed for process in processes)


class Reshaped(TestbedLink):
    """A link without a process. The first change of its shape waits."""

    def __init__(self) -> None:
        super().__init__(Any, Link("m", "web", LinkShape()), wait_timeout=1)  # type: ignore[arg-type]
        self.is_waiting, self.may_go_on = threading.Event(), threading.Event()
        self.real = LinkShape()

    def reshape(self, shape: LinkShape) -> None:
        self.real = shape
        if not self.is_waiting.is_set():
            self.is_waiting.set()
            self.may_go_on.wait()


def test_two_changes_of_a_link_at_once_are_both_made() -> None:
    link = Reshaped()
    rate = threading.Thread(target=lambda: link.set(rate="2mbit"))
    rate.start()
    link.is_waiting.wait()
    delay = threading.Thread(target=lambda: link.hold(3))
    delay.start()
    delay.join(0.1)
    link.may_go_on.set()
    rate.join()
    delay.join()
    assert link.real == LinkShape(2_000_000, 3.0)
    assert link.status(Counters()).rate == 2_000_000
    assert link.status(Counters()).delay == 3.0


def test_a_node_that_is_restarted_holds_one_process(tmp_path: Path) -> None:
    processes: Any = [SimpleNamespace(poll=lambda: 0) for _ in range(4)]
    keeper: Any = SimpleNamespace(start=lambda process, **_: process)
    topology = parse_string("m[server=mariadb]")
    ground = Ground(topology, tmp_path, keeper, holds_files=False, start_timeout=1, wait_timeout=1)
    for before, process in pairwise([None, *processes]):
        ground.start(process, is_executed=True, before=before)
    assert ground._children == processes[-1:]
