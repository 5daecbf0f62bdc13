"""The watch for growth of a binlog set, shared by all dump threads that wait for events."""

from __future__ import annotations

import threading
from collections.abc import Callable

POLL_INTERVAL = 0.02
"""The time between two looks at the set while any dump thread waits, seconds."""


class Watcher:
    """Polls ``look`` while there are waiters. ``look`` returns a value that changes when the set grows.

    Polling works on every file system, unlike inotify. Polling costs two stat calls in 20 ms, and nothing while nobody
    waits.
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
        """Wait until the generation is another one, ``stop()`` is true, or ``timeout`` seconds are over."""
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
        """Make every waiter call its ``stop`` again."""
        with self._changed:
            self._changed.notify_all()

    def close(self) -> None:
        """End the thread and all waits."""
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
                seen = str(error)  # for example a purged file; the dump threads find the error themselves
            with self._changed:
                if seen != self._seen:
                    self._seen = seen
                    self.generation += 1
                    self._changed.notify_all()
                else:
                    self._changed.wait_for(lambda: self._closed, POLL_INTERVAL)
