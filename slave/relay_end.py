"""The recorded end of the relay log: what the I/O thread tells the applier."""

from __future__ import annotations

import threading

from slave.master_info import MasterInfo


class RelayEnd:
    """Holds the newest recorded :class:`MasterInfo`; the applier waits here for a newer one."""

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._info = MasterInfo()
        self._closed = False

    def publish(self, info: MasterInfo) -> None:
        """What ``master.info`` says now."""
        with self._changed:
            self._info = info
            self._changed.notify_all()

    def close(self) -> None:
        """Nothing more will come."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    @property
    def info(self) -> MasterInfo:
        """The newest recorded state."""
        with self._changed:
            return self._info

    def wait_beyond(self, seen: MasterInfo | None, timeout: float) -> tuple[MasterInfo, bool]:
        """Wait up to ``timeout`` seconds for another state than ``seen``.

        Returns the newest state and whether it is the last one.
        """
        with self._changed:
            self._changed.wait_for(lambda: self._closed or self._info is not seen, timeout)
            return self._info, self._closed
