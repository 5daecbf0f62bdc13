"""The topologies that the tests of a run share. They stay up between tests."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import TYPE_CHECKING

from dumpfilter.errors import DumpfilterError

if TYPE_CHECKING:
    from dumpfilter.testbed import Testbed
    from dumpfilter.topology.model import Topology

MOST_SHARED = 3
"""The most shared topologies that run at once. Each real server takes about 100 MB."""


class Pool:
    """Running topologies. A full pool ends the topology that no test has used for the longest time."""

    def __init__(self, most: int = MOST_SHARED) -> None:
        self._most = most
        self._running: dict[Topology, Testbed] = {}
        """The running topologies, the most recently used one last."""

    def take(self, topology: Topology, start: Callable[[], Testbed]) -> Testbed:
        """Return a running topology without traces of earlier tests. A topology that cannot be reset is replaced."""
        running = self._running.pop(topology, None)
        if running is not None:
            if _is_reset(running):
                self._running[topology] = running
                return running
            running.down()
        while len(self._running) >= self._most:
            self._running.pop(next(iter(self._running))).down()
        self._running[topology] = start()
        return self._running[topology]

    def discard(self, testbed: Testbed) -> None:
        """End a topology that a failed test may have left in any state. The next test gets a new one."""
        for topology in [one for one, running in self._running.items() if running is testbed]:
            self._running.pop(topology).down()

    def close(self) -> None:
        """End all topologies. An error of one does not keep the others up."""
        with contextlib.ExitStack() as ending:
            for running in self._running.values():
                ending.callback(running.down)
            self._running = {}


def _is_reset(running: Testbed) -> bool:
    try:
        running.reset()
    except DumpfilterError:
        return False
    return True
