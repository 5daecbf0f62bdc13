"""Tasks in threads: at the same time, with progress, and an end soon after an error or Ctrl-C."""

from __future__ import annotations

import gc
import os
import signal
import threading
import time
from contextlib import AbstractContextManager
from io import StringIO

import pytest
from rich.console import Console

from dumpfilter.base import logs
from dumpfilter.base.errors import BinlogCorrupt
from dumpfilter.spark_jobs import engines
from dumpfilter.spark_jobs.engines import Amount, MemoryShort, ThreadRunner, step
from tests.log_state import reset_logs

DEADLINE = 240.0
"""Seconds to wait for another thread."""


def test_tasks_run_at_the_same_time() -> None:
    together = threading.Barrier(3)
    ThreadRunner(3)(lambda _: together.wait(DEADLINE), range(6), "meeting")


def test_after_an_error_no_later_task_begins() -> None:
    begun = []

    def task(number: int) -> None:
        begun.append(number)
        if number == 2:
            raise BinlogCorrupt("no")

    with pytest.raises(BinlogCorrupt):
        ThreadRunner(1)(task, range(10), "checking")
    assert begun == [0, 1, 2]


def test_an_earlier_task_ends_before_a_later_error_is_raised() -> None:
    failed = threading.Event()

    def task(number: int) -> None:
        if number:
            failed.set()
            raise BinlogCorrupt("the later one")
        assert failed.wait(DEADLINE)
        raise BinlogCorrupt("the earlier one")

    with pytest.raises(BinlogCorrupt, match="the earlier one"):
        ThreadRunner(2)(task, range(2), "checking")


def test_a_bug_is_not_hidden() -> None:
    with pytest.raises(ZeroDivisionError):
        ThreadRunner(2)(lambda number: 1 // number, [1, 0], "dividing")


def test_short_memory_has_a_cure() -> None:
    def task(number: int) -> None:
        raise MemoryError

    with pytest.raises(MemoryShort, match="--range-size"):
        ThreadRunner(2)(task, [1], "filling")


def test_ctrl_c_ends_running_tasks_at_their_next_step() -> None:
    running = threading.Barrier(2)
    begun = []

    def task(number: int) -> None:
        begun.append(number)
        if running.wait(DEADLINE) == 0:
            os.kill(os.getpid(), signal.SIGINT)
        for _ in range(1 << 40):
            step(1)

    # Python swallows a KeyboardInterrupt in a callback of the garbage collection, such as Hypothesis' clock of it.
    gc.disable()
    try:
        with pytest.raises(KeyboardInterrupt):
            ThreadRunner(2)(task, range(100), "waiting")
    finally:
        gc.enable()
    assert len(begun) == 2
    # The signal can come before the pool knows its second thread, which the pool then does not wait for.
    for one in threading.enumerate():
        if one.name.startswith("task"):
            one.join(DEADLINE)
            assert not one.is_alive()


def test_steps_count_for_nobody_outside_a_job() -> None:
    step(1)


def test_the_bar_shows_tasks_and_bytes() -> None:
    shown = StringIO()

    def task(number: int) -> None:
        step(1 << 20)
        if number == 2:
            # The bar's thread writes as long as the job runs.
            while "2 of 3 files, 3 MiB of 3 MiB" not in shown.getvalue():
                step(0)

    console = Console(file=shown, force_terminal=True, width=80)
    ThreadRunner(1, console)(task, range(3), "indexing", amount=Amount("files", 3 << 20))
    assert "indexing" in shown.getvalue()


def test_no_bar_without_a_terminal() -> None:
    shown = StringIO()
    ThreadRunner(2, Console(file=shown))(step, [1, 2], "reading")
    assert shown.getvalue() == ""


def test_lines_without_a_terminal(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(engines, "LINE_SECONDS", 0.001)
    shown = StringIO()

    def task(number: int) -> None:
        step(1 << 20)
        while number == 2 and "exporting: 2 of 3 files, 3 MiB of 3 MiB\n" not in shown.getvalue():
            step(0)

    ThreadRunner(1, Console(file=shown))(task, range(3), "exporting", amount=Amount("files", 3 << 20))
    assert "\x1b" not in shown.getvalue()


def test_short_jobs_of_a_long_command_have_lines() -> None:
    shown = StringIO()
    now = 0.0
    of_command = engines.Progress(Console(file=shown), lambda: now)

    def job(label: str) -> AbstractContextManager[None]:
        return of_command.of(label, 5, Amount(), lambda: (3, None))

    with job("indexing"):
        now = 9.0
    assert shown.getvalue() == ""
    now = 18.0
    with job("measuring"):
        deadline = time.monotonic() + DEADLINE
        while not shown.getvalue().endswith("\n"):
            assert time.monotonic() < deadline
            time.sleep(0.001)
    assert shown.getvalue() == "measuring: 3 of 5 tasks\n"


def test_a_log_of_errors_only_has_no_lines() -> None:
    shows: list[bool] = []

    def task(number: int) -> None:
        shows.append(any(one.name == "progress" for one in threading.enumerate()))

    logs.configure(level=logs.Level.ERROR)
    try:
        ThreadRunner(1, Console(file=StringIO()))(task, [1], "exporting")
    finally:
        reset_logs()
    ThreadRunner(1, Console(file=StringIO()))(task, [1], "exporting")
    assert shows == [False, True]
