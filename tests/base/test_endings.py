"""Signals that end a process: they unwind the stack, or wait for the end of a context."""

from __future__ import annotations

import os
import signal
import sys
import threading
import time
from collections.abc import Callable
from contextlib import AbstractContextManager

import pytest

from dumpfilter.base.endings import ending_at_signals, endings_interrupt, lost_interrupts_again, uninterrupted


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


@pytest.mark.parametrize("ending", [ending_at_signals, endings_interrupt])
def test_nohup_is_heeded(ending: Callable[[], AbstractContextManager[None]]) -> None:
    before = signal.signal(signal.SIGHUP, signal.SIG_IGN)
    try:
        with ending():
            os.kill(os.getpid(), signal.SIGHUP)
            time.sleep(0)
    finally:
        signal.signal(signal.SIGHUP, before)


def test_signals_act_like_ctrl_c() -> None:
    def interrupted() -> None:
        with endings_interrupt():
            os.kill(os.getpid(), signal.SIGTERM)
            time.sleep(60)

    with pytest.raises(KeyboardInterrupt):
        interrupted()


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


def test_a_signal_is_not_lost_when_the_context_ends_with_an_error() -> None:
    def interrupted() -> None:
        with uninterrupted():
            os.kill(os.getpid(), signal.SIGINT)
            raise ValueError("the end")

    with pytest.raises(KeyboardInterrupt) as caught:
        interrupted()
    assert isinstance(caught.value.__context__, ValueError)


def test_another_thread_leaves_the_handlers_alone() -> None:
    before = signal.getsignal(signal.SIGTERM)
    seen = []

    def inside() -> None:
        with ending_at_signals():
            seen.append(signal.getsignal(signal.SIGTERM))

    thread = threading.Thread(target=inside)
    thread.start()
    thread.join()
    assert seen == [before]


@pytest.mark.parametrize(
    ("number", "raised"), [(signal.SIGINT, KeyboardInterrupt), (signal.SIGTERM, SystemExit)]
)
def test_a_signal_that_python_loses_comes_again(number: signal.Signals, raised: type[BaseException]) -> None:
    class Interrupted:
        def __del__(self) -> None:
            signal.raise_signal(number)

    def interrupted() -> None:
        with lost_interrupts_again(), ending_at_signals():
            Interrupted()
            time.sleep(60)

    hook = sys.unraisablehook
    with pytest.raises(raised):
        interrupted()
    assert sys.unraisablehook is hook


def test_other_lost_exceptions_are_reported(monkeypatch: pytest.MonkeyPatch) -> None:
    class Failing:
        def __del__(self) -> None:
            raise ValueError

    told = []
    monkeypatch.setattr(sys, "unraisablehook", lambda lost: told.append(lost.exc_type))
    with lost_interrupts_again():
        Failing()
    assert told == [ValueError]
