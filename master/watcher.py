"""Watches a binlog set that is being written to, once for all dump threads that wait for it."""

from __future__ import annotations

import threading
from collections.abc import Callable

POLL_INTERVAL = 0.02
"""How often the set is looked at while anyone waits, seconds."""


class Watcher:
    """Polls ``look`` (any comparable value that changes when the set grows) while there are waiters.

    Polling, not inotify: it works on every file system, costs two stat calls in 20 ms, and nothing when
    nobody waits.
    """

    def __init__(self, look: Callable[[], object]) -> None:
        self._look = look
        self._changed = threading.Condition()
        self._seen: object = None
        self._waiters = 0
        self._closed = False
        self._thread: threading.Thread | None = None
        self.generation = 0

    def wait(self, generation: int, timeout: float, stop: Callable[[], bool]) -> None:
        """Wait for ``generation`` to be past, ``stop()`` or ``timeout`` seconds."""
        with self._changed:
            if self._thread is None and not self._closed:
                self._thread = threading.Thread(target=self._run, name="binlog-watcher", daemon=True)
                self._thread.start()
            self._waiters += 1
            self._changed.notify_all()
            try:
                self._changed.wait_for(
                    lambda: self.generation != generation or stop() or self._closed, timeout
                )
            finally:
                self._waiters -= 1

    def wake(self) -> None:
        """Have every waiter look at its ``stop`` again."""
        with self._changed:
            self._changed.notify_all()

    def close(self) -> None:
        """End the thread; nobody waits any more."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def _run(self) -> None:
        while True:
            with self._changed:
                self._changed.wait_for(lambda: self._waiters or self._closed)
                if self._closed:
                    return
            try:
                seen = self._look()
            except OSError as error:
                seen = str(error)  # a purged file: the dump threads find out what is wrong
            with self._changed:
                if seen != self._seen:
                    self._seen = seen
                    self.generation += 1
                    self._changed.notify_all()
                else:
                    self._changed.wait_for(lambda: self._closed, POLL_INTERVAL)
