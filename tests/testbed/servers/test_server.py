"""The end of a server's process."""

from __future__ import annotations

import subprocess
from types import SimpleNamespace
from typing import Any, cast

import pytest

from dumpfilter.testbed.errors import TestbedError
from dumpfilter.testbed.servers.server import Process, end_process


@pytest.mark.parametrize("in_order", [True, False])
def test_a_process_that_survives_a_kill_is_an_error(in_order: bool) -> None:
    """A process that waits for a broken disk or network file system ends only with this wait."""
    signals: list[str] = []

    def wait(timeout: float) -> Any:
        raise subprocess.TimeoutExpired("mariadbd", timeout)

    process = SimpleNamespace(
        pid=4711,
        poll=lambda: None,
        wait=wait,
        terminate=lambda: signals.append("TERM"),
        kill=lambda: signals.append("KILL"),
    )
    with pytest.raises(TestbedError, match=r"process 4711 has not ended 30 s after SIGKILL: .*ps -o"):
        end_process(cast("Process", process), in_order=in_order, timeout=30)
    assert signals == ["TERM", "KILL"][not in_order :]
