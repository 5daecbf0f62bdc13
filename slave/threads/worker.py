"""A thread that can be started again after its end, and that keeps the error that ended it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable
from typing import Protocol


class Job(Protocol):
    """The work of one run of a thread, from START REPLICA to STOP REPLICA. ``run`` does the work and returns at its
    end. ``stop``, called by another thread, makes ``run`` return soon.
    """

    def run(self) -> None: ...

    def stop(self) -> None: ...


class Worker:
    """One of a channel's two threads (I/O or SQL), which can be started and stopped any number of times.

    ``name`` is the name of the thread. When a run ends, the thread calls ``on_end`` with the error that ended the
    run, or with None.
    """

    def __init__(self, name: str, on_end: Callable[[BaseException | None], None]) -> None:
        self._name = name
        self._on_end = on_end
        self._thread: threading.Thread | None = None
        self._job: Job | None = None
        self.error: BaseException | None = None
        """The error that ended the newest run of the thread. None while the thread runs, or if it ended without an
        error.
        """
        self.error_at = 0.0
        """The Unix time at which an error last ended a run of the thread, seconds. 0 if no error ever did."""

    @property
    def running(self) -> bool:
        """Whether the thread is running now."""
        return self._thread is not None and self._thread.is_alive()

    @property
    def thread_id(self) -> int | None:
        """The operating system's number of the running thread. None while the thread does not run."""
        return self._thread.native_id if self._thread is not None and self.running else None

    def start(self, job: Job) -> None:
        """Run ``job`` in a new thread. The error of the previous run is cleared, as a server does at START REPLICA."""
        assert not self.running
        self.error = None
        self._job = job
        self._thread = threading.Thread(target=self._run, args=(job,), name=self._name, daemon=True)
        self._thread.start()

    def stop(self) -> None:
        """Ask the running job to end, without waiting for its end."""
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
