"""The signal that interrupts the running statement, for code that knows nothing of sessions."""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from dumpfilter.console.sql.server_errors import ER_QUERY_INTERRUPTED, ER_QUERY_TIMEOUT

_POLL_SECONDS = 0.05
_TURN_SECONDS = 1e-3
_PAUSE_SECONDS = 5e-4


class Interrupt(threading.Event):
    """The signal that ends one running statement early.

    KILL QUERY from another connection sets the signal, and so does the connection itself when its client leaves.
    """

    def __init__(self) -> None:
        super().__init__()
        self._callbacks: list[Callable[[], None]] = []

    def set(self) -> None:
        """End the statement."""
        super().set()
        for callback in list(self._callbacks):
            callback()

    @contextmanager
    def calling(self, callback: Callable[[], None]) -> Iterator[None]:
        """Call a function, from any thread, when the signal is set while the ``with`` block runs."""
        self._callbacks.append(callback)
        try:
            yield
        finally:
            self._callbacks.remove(callback)


_running: ContextVar[Interrupt | None] = ContextVar("running_statement", default=None)


@contextmanager
def interruptible(interrupt: Interrupt) -> Iterator[None]:
    """Make ``interrupt`` the signal of the statement that the calling thread carries out inside the ``with`` block."""
    token = _running.set(interrupt)
    try:
        yield
    finally:
        _running.reset(token)


def running_interrupt() -> Interrupt:
    """Return the signal of the statement that the calling thread carries out, or a signal that nobody sets."""
    return _running.get() or Interrupt()


class Turns(threading.local):
    """The pauses of each thread that calculates for a statement."""

    _end = 0.0
    """The time at which other threads are to run, seconds of the monotonic clock."""

    def pause(self) -> None:
        """Let other threads run for half a millisecond, after each millisecond of the calling thread.

        A thread that calculates without pauses takes the interpreter's lock again as soon as another thread releases
        the lock, such as for sending. A thread that passes a commit on releases the lock several times, and waits each
        time.
        """
        if time.monotonic() >= self._end:
            time.sleep(_PAUSE_SECONDS)
            self._end = time.monotonic() + _TURN_SECONDS


turns = Turns()


def check_interrupted() -> None:
    """Raise SqlError 1317 if the statement that the calling thread carries out has been interrupted.

    Loops that may run for long call this function, so that KILL and the end of the process end them, and that other
    threads run meanwhile.
    """
    turns.pause()
    interrupt = _running.get()
    if interrupt is not None and interrupt.is_set():
        raise ER_QUERY_INTERRUPTED()


def acquire(semaphore: threading.Semaphore, interrupt: Interrupt, seconds: float = math.inf) -> None:
    """Wait for a semaphore. Raises SqlError if the statement is interrupted or the time is over."""
    deadline = time.monotonic() + seconds
    while not semaphore.acquire(timeout=_POLL_SECONDS):
        if interrupt.is_set():
            raise ER_QUERY_INTERRUPTED()
        if time.monotonic() > deadline:
            raise ER_QUERY_TIMEOUT()
