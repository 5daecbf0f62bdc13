"""The steps of a running task: between two steps the task tells how far it has come, and learns that it must stop.

A task calls :func:`step` after each piece of work. On Spark the call has no effect, since Spark itself counts and ends
its tasks.
"""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager


class Stopped(BaseException):
    """An exception that ends a task whose result is no longer wanted. No code but the engine may catch it."""


class Work:
    """The work of several tasks in threads of this process: the bytes done so far, and whether to stop."""

    def __init__(self) -> None:
        self._lock = threading.Lock()
        self._done = 0
        self._stop = threading.Event()

    @property
    def done(self) -> int:
        """The bytes that all tasks have read so far."""
        return self._done

    def add(self, nbytes: int) -> None:
        """Count bytes that a task has read."""
        with self._lock:
            self._done += nbytes

    def stop(self) -> None:
        """Make each running task end with Stopped at its next step."""
        self._stop.set()

    @property
    def is_stopped(self) -> bool:
        """Whether the running tasks must end."""
        return self._stop.is_set()


class _Thread(threading.local):
    work: Work | None = None


_thread = _Thread()


@contextmanager
def steps_of(work: Work) -> Iterator[None]:
    """Let the steps of this thread count for ``work``, during the body of a ``with`` statement."""
    _thread.work = work
    try:
        yield
    finally:
        _thread.work = None


def step(nbytes: int) -> None:
    """Tell the engine that this thread's task has read ``nbytes`` more bytes. Raises Stopped if the task must end."""
    work = _thread.work
    if work is not None:
        work.add(nbytes)
        if work.is_stopped:
            raise Stopped
