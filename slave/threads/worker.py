"""A thread that can be started again, and what ended it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Protocol


class Runs(Protocol):
    """What a worker runs once: ``run`` blocks, ``stop`` makes it return soon."""

    def run(self) -> None: ...

    def stop(self) -> None: ...


class Worker:
    """One of a channel's two threads. ``on_end`` is told what it ended with: None when it ended in order."""

    def __init__(self, name: str, on_end: Callable[[BaseException | None], None]) -> None:
        self._name = name
        self._on_end = on_end
        self._thread: threading.Thread | None = None
        self._runs: Runs | None = None
        self.error: BaseException | None = None
        """What the newest run ended with."""
        self.error_at = 0.0
        """When that was, Unix time, seconds."""

    @property
    def running(self) -> bool:
        """Whether the thread is there."""
        return self._thread is not None and self._thread.is_alive()

    @property
    def thread_id(self) -> int | None:
        """The running thread's number in the operating system."""
        return self._thread.native_id if self._thread is not None and self.running else None

    def start(self, runs: Runs) -> None:
        """Run it in a thread of its own. The newest error is forgotten, as servers do at START REPLICA."""
        assert not self.running
        self.error = None
        self._runs = runs
        self._thread = threading.Thread(target=self._run, args=(runs,), name=self._name, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Ask it to end; returns at once."""
        if self._runs is not None:
            self._runs.stop()

    def join(self) -> None:
        """Wait until it has ended. Can be interrupted by signals."""
        thread = self._thread
        while thread is not None and thread.is_alive():
            thread.join(0.5)

    def _run(self, runs: Runs) -> None:
        error: BaseException | None = None
        try:
            runs.run()
        except BaseException as caught:
            error = caught
            self.error, self.error_at = caught, time.time()
        self._on_end(error)
