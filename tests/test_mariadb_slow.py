"""The servers of tests end with the process that started them."""

from __future__ import annotations

import subprocess
import sys
import time
from pathlib import Path

import psutil

from dumpfilter.base.waiting import until

_PROGRAM = """
import sys
from tests.mariadb import spawn_bound
print(spawn_bound(["sleep", "600"]).pid, flush=True)
sys.stdin.read()
"""


def test_a_server_ends_when_its_process_is_killed() -> None:
    with subprocess.Popen(
        [sys.executable, "-c", _PROGRAM],
        cwd=Path(__file__).parent.parent,
        stdin=subprocess.PIPE,
        stdout=subprocess.PIPE,
        text=True,
    ) as caller:
        assert caller.stdout is not None
        server = psutil.Process(int(caller.stdout.readline()))
        # Before the program runs, the kernel does not yet know that it ends with its caller.
        until(
            lambda: server.name() == "sleep",
            time.monotonic() + 30,
            lambda: AssertionError("the program does not start"),
        )
        caller.kill()

    def has_ended() -> bool:
        try:
            return server.status() == psutil.STATUS_ZOMBIE
        except psutil.NoSuchProcess:
            return True

    until(
        has_ended,
        time.monotonic() + 30,
        lambda: AssertionError("the server was left behind"),
    )
