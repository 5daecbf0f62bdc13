"""The signal that interrupts the SQL statement which the calling thread runs, for code without access to the session.

Code that loops or waits for long checks the signal, and lets other threads run.
"""

from __future__ import annotations

import math
import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from dumpfilter.console.sql.server_errors import ER_QUERY_INTERRUPTED, ER_QUERY_TIMEOUT, SqlError

_POLL_SECONDS = 0.05
_TURN_SECONDS = 1e-3
_PAUSE_SECONDS = 5e-4


class Interrupt(threading.Event):
    """The signal that ends one running statement early.

    KILL QUERY from another connection sets the signal, and so does the connection itself when its client leaves.
    """

    def __init__(self) -> None:
        super().__init__()
        self.deadline = math.inf
        """The time at which the statement's time limit ends it (``time.monotonic``), seconds."""
        self.on_set: Callable[[], object] = lambda: None
        """Called by the thread that interrupts the statement. An SQL function that waits sets this attribute, so that
        the call wakes the function.
        """

    def set(self) -> None:
        """Set this signal, which ends the running statement, and call the function :attr:`on_set`, which wakes an SQL
        function that waits.
        """
        super().set()
        self.on_set()

    def ended(self) -> SqlError | None:
        """Return the error that ends the statement: 1317 after an interruption, 3024 after the time limit. None: the
        statement may go on.
        """
        if self.is_set():
            return ER_QUERY_INTERRUPTED()
        return ER_QUERY_TIMEOUT() if time.monotonic() > self.deadline else None


running: ContextVar[Interrupt | None] = ContextVar("running", default=None)
"""The signal that ends the SQL statement which the present thread runs. A thread that begins a statement sets it."""


def running_interrupt() -> Interrupt:
    """Return the signal that ends the SQL statement which the calling thread runs. A thread that has begun no statement
    gets a new signal that nobody sets.
    """
    return running.get() or Interrupt()


class Turns(threading.local):
    """A timer for each thread that runs a client's statement. After a millisecond of computing the thread must pause,
    so that other threads run.
    """

    _end = 0.0
    """The time at which the computing thread must pause next, so that other threads run (``time.monotonic``), seconds.
    """

    def pause(self) -> None:
        """Sleep for half a millisecond if the thread has computed for a millisecond, so that other threads can run.

        A thread that computes without pauses takes the interpreter's lock (GIL) whenever another thread releases it,
        such as for sending. A thread that sends a new transaction to slaves releases the lock several times, and would
        have to wait for the lock each time.
        """
        if time.monotonic() >= self._end:
            time.sleep(_PAUSE_SECONDS)
            self._end = time.monotonic() + _TURN_SECONDS


turns = Turns()


def check_interrupted() -> None:
    """Raise SqlError 1317 if the SQL statement that the calling thread runs has been interrupted.

    Loops that may run for long call this function, so that KILL and the end of the process end them, and so that other
    threads run meanwhile.
    """
    turns.pause()
    if running_interrupt().is_set():
        raise ER_QUERY_INTERRUPTED()


@contextmanager
def held(
    semaphore: threading.Lock | threading.RLock | threading.Semaphore, interrupt: Interrupt
) -> Iterator[None]:
    """Hold a lock or semaphore while the ``with`` block runs. Wait until it is free.

    Raises SqlError if ``interrupt`` ends the statement during the wait.
    """
    while not semaphore.acquire(timeout=_POLL_SECONDS):
        if ended := interrupt.ended():
            raise ended
    try:
        yield
    finally:
        semaphore.release()
