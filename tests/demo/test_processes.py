"""The start and end of the demonstration's processes."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from pathlib import Path

import pytest

from dumpfilter.demo.processes import end, ending_at_signals, run, start_master, uninterrupted
from dumpfilter.errors import DumpfilterError

STUBBORN = (
    "import signal, sys, time; signal.signal(15, signal.SIG_IGN); print('ready', flush=True); time.sleep(600)"
)


def child(program: str) -> subprocess.Popen[bytes]:
    process = subprocess.Popen([sys.executable, "-c", program], stdout=subprocess.PIPE)
    assert process.stdout is not None
    assert process.stdout.readline() == b"ready\n"
    process.stdout.close()
    return process


def test_processes_end_and_stubborn_ones_are_killed() -> None:
    polite, stubborn = child("import time; print('ready', flush=True); time.sleep(600)"), child(STUBBORN)
    end(polite, stubborn, timeout=1)
    assert (polite.returncode, stubborn.returncode) == (-signal.SIGTERM, -signal.SIGKILL)
    end(polite)


def test_a_failed_command_is_an_error() -> None:
    with pytest.raises(DumpfilterError, match="dumpfilter inspect nowhere: exit code 1"):
        run("inspect", "nowhere")


def test_a_master_that_does_not_start_tells_why(tmp_path: Path) -> None:
    with pytest.raises(DumpfilterError, match=r"did not start:[^$]*nowhere"):
        start_master(str(tmp_path / "nowhere"), tmp_path / "master.log", ports=("--port",))


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP])
def test_signals_unwind_the_stack(number: signal.Signals) -> None:
    before = signal.getsignal(number)

    def interrupted() -> None:
        with ending_at_signals():
            os.kill(os.getpid(), number)
            time.sleep(60)

    with pytest.raises(SystemExit) as ended:
        interrupted()
    assert ended.value.code == 128 + number
    assert signal.getsignal(number) == before


def test_signals_wait_for_the_end_of_a_context() -> None:
    done = []

    def interrupted() -> None:
        with uninterrupted():
            os.kill(os.getpid(), signal.SIGINT)
            done.append("the end")
        time.sleep(60)

    with pytest.raises(KeyboardInterrupt):
        interrupted()
    assert done == ["the end"]
