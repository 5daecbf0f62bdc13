"""The state of a node, seen by several threads."""

from __future__ import annotations

import threading
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from dumpfilter.testbed.errors import StartFailed
from dumpfilter.testbed.node import TestbedNode


class SmallNode(TestbedNode):
    """A node whose process is given."""

    def __init__(self, directory: Path, process: Any = None) -> None:
        super().__init__(SimpleNamespace(directory=directory), SimpleNamespace(name="n", kind="slave"), ())  # type: ignore[arg-type]
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
