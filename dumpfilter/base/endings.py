"""Handling of the signals that end a process (SIGINT from Ctrl-C, SIGTERM, SIGHUP) during a part of the program. The
signals can be turned into an exception, be deferred or be ignored, so that the part can remove its files.
"""

from __future__ import annotations

import contextlib
import os
import signal
import sys
import threading
from collections.abc import Callable, Iterator
from types import FrameType

INTERRUPT, TERMINATE, HANG_UP = signal.SIGINT, signal.SIGTERM, signal.SIGHUP
ENDINGS = (INTERRUPT, TERMINATE, HANG_UP)

_AGAIN_SECONDS = 0.05
"""The wait before the process sends itself a signal again, seconds, because Python has lost the exception that the
signal raised.
"""

_BY_SIGNAL = 128
"""The number that is added to a signal's number for the exit status of a process that the signal ended, as in shells.
"""

Handler = Callable[[int, FrameType | None], object]


@contextlib.contextmanager
def handling(handler: Handler, *numbers: signal.Signals) -> Iterator[None]:
    """Call the function ``handler`` when the process gets one of the signals ``numbers`` inside the ``with`` block.

    In a thread other than the main one nothing changes, since only the main thread gets signals.
    """
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, handler) for number in numbers}
    try:
        yield
    finally:
        for number, old in before.items():
            signal.signal(number, old)


@contextlib.contextmanager
def ending_at_signals() -> Iterator[None]:
    """Turn SIGTERM and SIGHUP into SystemExit inside the ``with`` block, so that the block can remove its temporary
    files. The exit status is 128 plus the signal's number. After nohup SIGHUP stays ignored.
    """

    def end(number: int, _: FrameType | None) -> None:
        raise SystemExit(_BY_SIGNAL + number)

    with handling(end, *_heeded(TERMINATE, HANG_UP)):
        yield


@contextlib.contextmanager
def endings_interrupt() -> Iterator[None]:
    """Turn SIGINT, SIGTERM and SIGHUP into KeyboardInterrupt inside the ``with`` block. After nohup SIGHUP stays
    ignored.
    """

    def interrupt(number: int, _: FrameType | None) -> None:
        raise KeyboardInterrupt

    with handling(interrupt, *_heeded(*ENDINGS)):
        yield


def _heeded(*numbers: signal.Signals) -> list[signal.Signals]:
    """Return the signals ``numbers`` for which a handler may be installed: all but SIGHUP if the process ignores
    SIGHUP, as under nohup.
    """
    return [number for number in numbers if number != HANG_UP or signal.getsignal(number) != signal.SIG_IGN]


@contextlib.contextmanager
def uninterrupted() -> Iterator[None]:
    """Defer SIGINT, SIGTERM and SIGHUP until the end of the ``with`` block, also if an error ends the block. At the end
    raise the first deferred signal, if there is one, and drop the others.

    Blocking the signals would not suffice. Another thread would get them, and Python would still interrupt the main
    thread.
    """
    held: list[int] = []
    try:
        with handling(lambda number, _: held.append(number), *ENDINGS):
            yield
    finally:
        for number in held[:1]:
            signal.raise_signal(number)


def ignore_endings() -> None:
    """Ignore SIGINT, SIGTERM and SIGHUP for the rest of the process. A program calls this before its cleanup, since a
    second Ctrl-C would leave child processes behind.
    """
    for number in ENDINGS:
        signal.signal(number, signal.SIG_IGN)


@contextlib.contextmanager
def lost_interrupts_again() -> Iterator[None]:
    """Make sure that the signals of Ctrl-C and of :func:`ending_at_signals` end the ``with`` block, even if Python
    loses the exception that a signal raises.

    Python loses an exception that is raised inside one of the interpreter's callbacks: it prints the exception and
    continues. Imports have such callbacks, for example. If the exception of a signal is lost in this way, the process
    sends the signal to itself again after 0.05 s.
    """
    report = sys.unraisablehook

    def repeat(lost: sys.UnraisableHookArgs) -> None:
        if issubclass(lost.exc_type, KeyboardInterrupt):
            number: int = INTERRUPT
        elif isinstance(lost.exc_value, SystemExit) and isinstance(lost.exc_value.code, int):
            number = lost.exc_value.code - _BY_SIGNAL
        else:
            number = 0
        if number not in ENDINGS:
            report(lost)
            return
        again = threading.Timer(_AGAIN_SECONDS, os.kill, (os.getpid(), number))
        again.daemon = True
        again.start()

    sys.unraisablehook = repeat
    try:
        yield
    finally:
        sys.unraisablehook = report
