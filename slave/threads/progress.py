"""The condition variable with which SQL statements wait for the appliers of a slave."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable


class Progress:
    """A condition variable for SQL statements that wait for an applier. All channels of a slave share it.

    The statements wake when an applier has completed a transaction or has ended.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._version = 0
        self.waiting = 0
        """The number of statements that wait."""

    def told(self) -> None:
        """Wake all statements that wait in :meth:`until`, so that they test their conditions again. Any thread may call
        this method.
        """
        if self.waiting:
            with self._changed:
                self._version += 1
                self._changed.notify_all()

    def until(self, ask: Callable[[], bool], seconds: float | None) -> bool:
        """Wait until the condition ``ask`` returns true, for at most ``seconds`` (None: no limit). Return the last
        result of ``ask``.

        ``ask`` is called at once, and again after each call of :meth:`told` by an applier.
        """
        deadline = None if seconds is None else time.monotonic() + seconds
        with self._changed:
            self.waiting += 1
        try:
            while True:
                seen = self._version
                if ask():
                    return True
                left = None if deadline is None else deadline - time.monotonic()
                with self._changed:
                    if not self._changed.wait_for(lambda seen=seen: self._version != seen, left):  # type: ignore[misc]
                        return ask()
        finally:
            with self._changed:
                self.waiting -= 1
