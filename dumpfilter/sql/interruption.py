"""The question whether the running statement has been interrupted, for code that knows nothing of sessions."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from contextvars import ContextVar

from dumpfilter.sql.server_errors import ER_QUERY_INTERRUPTED

_running: ContextVar[threading.Event | None] = ContextVar("running_statement", default=None)


@contextmanager
def interruptible(interrupt: threading.Event) -> Iterator[None]:
    """Let :func:`check_interrupted` raise inside the ``with`` block as soon as ``interrupt`` is set."""
    token = _running.set(interrupt)
    try:
        yield
    finally:
        _running.reset(token)


def check_interrupted() -> None:
    """Raise SqlError 1317 if the statement that the calling thread carries out has been interrupted.

    Loops that may run for long call this function, so that KILL and the end of the process end them.
    """
    interrupt = _running.get()
    if interrupt is not None and interrupt.is_set():
        raise ER_QUERY_INTERRUPTED()
