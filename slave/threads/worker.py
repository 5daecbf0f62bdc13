"""A thread that can be started several times and that keeps the error that ended it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Protocol


class Job(Protocol):
    """The work of a thread. ``run`` blocks and is called once. ``stop`` makes ``run`` return soon."""

    def run(self) -> None: ...

    def stop(self) -> None: ...


class Worker:
    """One of a channel's two threads.

    The thread calls ``on_end`` when it ends, with the error that ended it, or with None.
    """

    def __init__(self, name: str, on_end: Callable[[BaseException | None], None]) -> None:
        self._name = name
        self._on_end = on_end
        self._thread: threading.Thread | None = None
        self._job: Job | None = None
        self.error: BaseException | None = None
        """The error that ended the newest run. None when there was none."""
        self.error_at = 0.0
        """The Unix time at which the error ended the run, seconds."""

    @property
    def running(self) -> bool:
        """Whether the thread is running."""
        return self._thread is not None and self._thread.is_alive()

    @property
    def thread_id(self) -> int | None:
        """The operating system's number of the running thread, or None."""
        return self._thread.native_id if self._thread is not None and self.running else None

    def start(self, job: Job) -> None:
        """Run the job in a new thread. The error of the run before is forgotten, as in a server at START
        REPLICA."""
        assert not self.running
        self.error = None
        self._job = job
        self._thread = threading.Thread(target=self._run, args=(job,), name=self._name, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Ask the job to end, and return at once."""
        if self._job is not None:
            self._job.stop()

    def join(self) -> None:
        """Wait until the thread has ended. A signal can interrupt the wait."""
        thread = self._thread
        while thread is not None and thread.is_alive():
            thread.join(0.5)

    def _run(self, job: Job) -> None:
        error: BaseException | None = None
        try:
            job.run()
        except BaseException as caught:
            error = caught
            self.error, self.error_at = caught, time.time()
        self._on_end(error)
