"""The base of a channel's two threads, and the conditions on which threads wait for one another."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable

from dumpfilter.slave.state.relay_log import RelayPosition


class Progress:
    """A condition variable on which threads wait until something has happened. A waiting thread tests its condition
    without holding a lock.

    All channels of a slave share one such object. SQL statements that wait for an applier wake when an applier has
    completed a transaction or has ended.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._version = 0
        self.waiting = 0
        """The number of threads that wait."""

    def told(self) -> None:
        """Notify all threads that wait in :meth:`until`, so that they test their conditions again. Any thread may call
        this method.
        """
        if self.waiting:
            with self._changed:
                self._version += 1
                self._changed.notify_all()

    def until(self, ask: Callable[[], bool], seconds: float | None) -> bool:
        """Wait until the function ``ask`` returns True, for at most ``seconds`` (None: no limit). Return the last
        result of ``ask``.

        ``ask`` is called at once, and again after each call of :meth:`told`.
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


class RelayEnd(Progress):
    """The position up to which the I/O thread has completed the relay log and recorded it in ``master.info``.

    The position is a transaction boundary, and the applier may read up to there. The I/O thread moves it with
    :meth:`publish`, and the applier waits for it with :meth:`until`. All methods may be called from any thread.

    ``on_publish`` is called with each published position. Before the relay log is truncated, this call has returned for
    the position to which it is truncated. So another reader of the relay log can stop reading in time.
    """

    def __init__(self, on_publish: Callable[[RelayPosition | None], None] = lambda position: None) -> None:
        super().__init__()
        self._on_publish = on_publish
        self.position: RelayPosition | None = None
        """The position up to which the relay log is complete. None before the first relay log file."""
        self.is_last = False
        """Whether the I/O thread has ended, so that the applier ends at :attr:`position`. A reader reads this attribute
        before the position.
        """

    def publish(self, position: RelayPosition | None) -> None:
        """Set the position up to which the relay log is complete, and wake the applier, which may read up to there. The
        position may also move back. None: there is no relay log.
        """
        self.position = position
        self.told()
        self._on_publish(position)

    def close(self) -> None:
        """Record that the I/O thread has ended, and wake the applier, which ends at the end of the relay log."""
        self.is_last = True
        self.told()


class ChannelThread:
    """One run of one of a channel's two threads (I/O or SQL), from START REPLICA to STOP REPLICA.

    ``name`` is the name of the thread. When the run ends, the thread calls ``on_end`` with the error that ended the
    run, or with None.
    """

    def __init__(
        self, name: str, on_end: Callable[[BaseException | None], None] = lambda error: None
    ) -> None:
        self._on_end = on_end
        self._thread = threading.Thread(target=self._main, name=name, daemon=True)
        self._stop = threading.Event()
        self.works = False
        """Whether the thread was started and :meth:`run` has not ended yet."""
        self.error: BaseException | None = None
        """The error that ended the run. None while the thread runs, or if it ended without an error."""
        self.error_at = 0.0
        """The Unix time of the error, seconds."""

    @property
    def running(self) -> bool:
        """Whether the thread has started and has not ended."""
        return self._thread.is_alive()

    @property
    def thread_id(self) -> int | None:
        """The operating system's number of the running thread. None while the thread does not run."""
        return self._thread.native_id if self.running else None

    @property
    def stopping(self) -> bool:
        """Whether :meth:`stop` was called, so that the thread ends soon or has ended."""
        return self._stop.is_set()

    def run(self) -> None:
        """Do the thread's work, and return at its end. A subclass implements this method, and it is called once."""
        raise NotImplementedError

    def start(self) -> None:
        """Call :meth:`run` in a new thread."""
        self.works = True
        self._thread.start()

    def stop(self) -> None:
        """Ask the thread to end, without waiting for its end. Any thread may call this method."""
        self._stop.set()

    def join(self) -> None:
        """Wait until the thread has ended. A signal can interrupt the wait."""
        while self.running:
            self._thread.join(0.5)

    def _main(self) -> None:
        try:
            self.run()
        except BaseException as caught:
            self.error, self.error_at = caught, time.time()
        self.works = False
        self._on_end(self.error)
