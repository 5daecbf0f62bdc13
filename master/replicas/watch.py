"""The watch over the own filters of real replicas, which can change while the replicas receive events.

CHANGE REPLICATION FILTER on a MySQL replica needs a stop of the applier only. The connection to the source stays, so
that the master does not hear of the change unless it asks.
"""

from __future__ import annotations

import threading
import time

import structlog

from dumpfilter.errors import DumpfilterError
from dumpfilter.master.register import RegisteredSlave
from dumpfilter.master.replicas.control import ReplicaControl

log = structlog.get_logger("dumpfilter.master")

_PAUSE_SECONDS = 1.0
"""The time between two looks for a replica whose filter is to be read."""


class FilterWatch:
    """The thread that reads the own filters of replicas again while they receive events."""

    def __init__(self, control: ReplicaControl) -> None:
        self._control = control
        self._stop = threading.Event()
        self._looked: dict[str, float] = {}
        """The time of the last look at each registered replica, by its id."""
        self._thread = threading.Thread(target=self._run, name="replica-filters", daemon=True)

    def start(self) -> None:
        """Begin to watch."""
        self._thread.start()

    def close(self) -> None:
        """End the thread. A read that is under way may go on in the background."""
        self._stop.set()

    def look(self, now: float) -> None:
        """Read the filters of the replicas whose time has come, and act on what they show."""
        due = {slave.slave_id: slave for slave in self._control.watched()}
        self._looked = {key: self._looked.get(key, now) for key in due}
        for key, slave in due.items():
            if now - self._looked[key] < self._control.seconds_between_looks(slave):
                continue
            self._look_at(slave)
            self._looked[key] = now

    def _look_at(self, slave: RegisteredSlave) -> None:
        try:
            self._control.look_again(slave)
        except DumpfilterError as error:
            log.warning("the filter of a replica could not be checked", reason=str(error))

    def _run(self) -> None:
        while not self._stop.wait(_PAUSE_SECONDS):
            self.look(time.monotonic())
