"""One thread that watches whether a binlog set grows, for all dumps that wait for new events."""

from __future__ import annotations

import threading
from collections.abc import Callable

POLL_INTERVAL = 0.02
"""The interval at which the watcher looks at the binlog files while a dump waits for new events, seconds."""


class Watcher:
    """A thread that wakes waiting dumps when the binlog set has grown.

    The thread calls ``look`` every 20 ms and compares the results. ``look`` returns a value that changes when the set
    grows, such as file sizes. Polling works on every file system, unlike inotify. It costs two stat calls in 20 ms, and
    nothing while no dump waits.
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
        """Wait until the binlog set has grown, ``stop()`` is true, or ``timeout`` seconds are over.

        ``generation`` is the value of :attr:`generation` before the caller last looked for events. The number changes
        when the set grows.
        """
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
        """Make every waiting dump check at once, by the ``stop`` function of :meth:`wait`, whether it must end."""
        with self._changed:
            self._changed.notify_all()

    def close(self) -> None:
        """End the watching thread, and make all waiting dumps return."""
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
                # Looking at the files may fail because a file was purged. The waiting dumps are woken and report the
                # error themselves.
                seen = str(error)
            with self._changed:
                if seen != self._seen:
                    self._seen = seen
                    self.generation += 1
                    self._changed.notify_all()
                else:
                    self._changed.wait_for(lambda: self._closed, POLL_INTERVAL)
