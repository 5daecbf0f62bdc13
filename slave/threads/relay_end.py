"""The position up to which a channel's relay log is complete, as the I/O thread publishes it to the applier."""

from __future__ import annotations

import threading
from collections.abc import Callable

from dumpfilter.slave.state.relay_log import RelayPosition


class RelayEnd:
    """The position up to which the I/O thread has completed the relay log and recorded it in ``master.info``.

    The position is a transaction boundary, and the applier may read up to there. The I/O thread moves it with
    :meth:`publish`, and the applier waits for it with :meth:`wait`. All methods may be called from any thread.

    ``on_publish`` is called with each published position. It returns before the relay log is truncated, so that
    another reader of the relay log can stop reading.
    """

    def __init__(self, on_publish: Callable[[RelayPosition | None], None] = lambda position: None) -> None:
        self._on_publish = on_publish
        self._changed = threading.Condition()
        self.position: RelayPosition | None = None
        """The position up to which the relay log is complete. None before the first relay log file."""
        self._closed = False
        self._woken = False

    def publish(self, position: RelayPosition | None) -> None:
        """Set the position up to which the relay log is complete, and wake the applier. The position may also move
        back. None: there is no relay log.
        """
        with self._changed:
            self.position = position
            self._changed.notify_all()
        self._on_publish(position)

    def close(self) -> None:
        """Record that the I/O thread has ended, so that the applier ends at the end of the relay log."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def open(self) -> None:
        """Record that the I/O thread starts again after :meth:`close`."""
        with self._changed:
            self._closed = False

    def wait(self, applied: RelayPosition | None, timeout: float) -> tuple[RelayPosition | None, bool]:
        """Wait up to ``timeout`` seconds until the published position differs from ``applied``, the applier's own
        position.

        Return the published position, and whether :meth:`close` was called. :meth:`close` and :meth:`wake` end the wait
        early.
        """
        with self._changed:
            self._changed.wait_for(lambda: self._closed or self._woken or self.position != applied, timeout)
            self._woken = False
            return self.position, self._closed

    def wake(self) -> None:
        """End the applier's call of :meth:`wait` early, so that the applier notices STOP REPLICA at once.

        If the applier is not waiting, its next call returns at once.
        """
        with self._changed:
            self._woken = True
            self._changed.notify_all()
