"""The pool of running topologies that the tests of one pytest run share. A topology stays up between tests."""

from __future__ import annotations

import contextlib
import warnings
from collections.abc import Callable
from typing import TYPE_CHECKING

from dumpfilter.base.errors import DumpfilterError

if TYPE_CHECKING:
    from dumpfilter.testbed import Testbed
    from dumpfilter.topology.model import Topology

MOST_SHARED = 3
"""The limit of shared topologies that run at once. Each real server takes about 100 MB."""


class Pool:
    """Running topologies. A full pool stops the topology that has been unused for the longest time."""

    def __init__(self, most: int = MOST_SHARED) -> None:
        self._most = most
        self._running: dict[Topology, tuple[Testbed, str]] = {}
        """The running topologies, each with the id of its last test. The most recently used one is the last."""

    def take(self, topology: Topology, start: Callable[[], Testbed], test: str) -> Testbed:
        """Return a running instance of ``topology`` for the test with the id ``test``.

        An instance in the pool is reset before it is returned. Otherwise ``start`` starts a new one. An instance that
        cannot be reset is replaced, with a warning that names the last test that used it.
        """
        running, before = self._running.pop(topology, (None, ""))
        if running is not None:
            try:
                running.reset()
            except DumpfilterError as failure:
                running.down()
                warnings.warn(
                    f"{test} gets a new topology, since the one that {before} had used cannot be reset: {failure}",
                    stacklevel=2,
                )
                running = None
        if running is None:
            while len(self._running) >= self._most:
                self._end(next(iter(self._running)))
            running = start()
        self._running[topology] = running, test
        return running

    def discard(self, testbed: Testbed) -> None:
        """Stop the topology ``testbed``, and remove it from the pool. A failed test may have left it in any state."""
        for topology in [one for one, (running, _) in self._running.items() if running is testbed]:
            self._end(topology)

    def _end(self, topology: Topology) -> None:
        running, _ = self._running.pop(topology)
        running.down()

    def close(self) -> None:
        """Stop all topologies, even if stopping one of them fails."""
        with contextlib.ExitStack() as ending:
            for topology in self._running:
                ending.callback(self._end, topology)
