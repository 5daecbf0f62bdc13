"""The signal of a channel's applier for statements that wait for a position or for GTIDs.

While a statement waits, the applier saves its position more often, and tells of each save. So a statement never waits
for the periodic save of ``relay-log.info``, and the position that ends its wait is the one that SHOW REPLICA STATUS
shows.
"""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager


class Progress:
    """The means to wait for the applier of one channel. All methods may be called from any thread.

    ``wake`` makes an idle applier save its position at once.
    """

    def __init__(self, wake: Callable[[], None]) -> None:
        self._wake = wake
        self._lock = threading.Lock()
        self._wanted: list[Waiter] = []

    @property
    def is_awaited(self) -> bool:
        """Whether a statement waits, so that the applier saves its position more often."""
        return bool(self._wanted)

    def told(self) -> None:
        """Wake the statements that wait, after the applier has saved its position or has ended."""
        if self._wanted:
            with self._lock:
                waiters = list(self._wanted)
            for waiter in waiters:
                waiter.wake()

    def add(self, waiter: Waiter) -> None:
        """Have a waiter woken from now on."""
        with self._lock:
            self._wanted.append(waiter)
        self._wake()

    def remove(self, waiter: Waiter) -> None:
        """Wake a waiter no more."""
        with self._lock:
            self._wanted.remove(waiter)


class Waiter:
    """The wait of one statement for the appliers of some channels."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._is_woken = False

    def wake(self) -> None:
        """Make :meth:`until` ask its condition again."""
        with self._changed:
            self._is_woken = True
            self._changed.notify_all()

    @contextmanager
    def watching(self, progresses: list[Progress]) -> Iterator[None]:
        """Be woken by these channels as long as the block runs."""
        added: list[Progress] = []
        try:
            for progress in progresses:
                progress.add(self)
                added.append(progress)
            yield
        finally:
            for progress in added:
                progress.remove(self)

    def until(self, ask: Callable[[], bool], seconds: float | None) -> bool:
        """Wait until ``ask`` returns true, ``seconds`` at the longest. Return the last answer of ``ask``."""
        deadline = None if seconds is None else time.monotonic() + seconds
        while True:
            with self._changed:
                self._is_woken = False
            if ask():
                return True
            with self._changed:
                left = None if deadline is None else deadline - time.monotonic()
                if not self._changed.wait_for(lambda: self._is_woken, left):
                    return ask()
