"""The queue of recorded states. Through this queue the I/O thread tells the applier how far the relay log is
valid."""

from __future__ import annotations

import threading
from collections import Counter, deque
from collections.abc import Mapping
from typing import NamedTuple

from dumpfilter.filter.rules import BaseRuleKind
from dumpfilter.slave.state.master_info import MasterInfo

Hits = Mapping[BaseRuleKind, int]
"""The number of uses of filter rules, by kind of rule."""

_MOST_STATES = 1000
"""The longest queue. In a longer queue, pairs of recorded states are merged, because an applier that is far
behind does not need all of them."""


class RecordedState(NamedTuple):
    """A recorded state of the I/O thread, and the hits that the master counted since the state before."""

    info: MasterInfo
    """The resume point: positions in the master's file and in the relay log, and the GTID set up to there."""
    hits: Hits
    """The master's hits between the previous recorded state and this one."""


class RelayEnd:
    """The recorded states that the applier has not reached, oldest first.

    The relay log does not contain the transactions that the master dropped. At a recorded state, and nowhere
    else, the applier knows the master's position, the GTIDs of the dropped transactions and the master's
    hits. The applier therefore reads the relay log from one recorded state to the next.

    The I/O thread calls :meth:`publish` and :meth:`rewind`. The applier waits in :meth:`wait`. All methods
    may be called from any thread.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._info = MasterInfo()
        self._states: deque[RecordedState] = deque()
        self._closed = False
        self._woken = False
        self._newest_reached: MasterInfo | None = None

    def publish(self, info: MasterInfo, hits: Hits | None = None) -> None:
        """Add a recorded state: ``info``, and the master's ``hits`` since the previous recorded state."""
        with self._changed:
            self._info = info
            self._states.append(RecordedState(info, dict(hits or {})))
            if len(self._states) > _MOST_STATES:
                self._states = deque(_thinned_out(self._states))
            self._changed.notify_all()

    def rewind(self, info: MasterInfo) -> None:
        """Discard the recorded states that the applier has not reached. The relay log was truncated to
        ``info``."""
        with self._changed:
            self._info = self._newest_reached = info
            self._states.clear()
            self._changed.notify_all()

    def begin(self) -> None:
        """Queue the newest recorded state again if the queue is empty, so that a starting applier has a state
        to reach."""
        with self._changed:
            if not self._states:
                self._states.append(RecordedState(self._info, {}))

    def close(self) -> None:
        """Announce that no recorded state will follow. An applier ends when it has reached the last one."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def open(self) -> None:
        """Take back :meth:`close`, because the I/O thread starts again."""
        with self._changed:
            self._closed = False

    @property
    def info(self) -> MasterInfo:
        """The newest resume point that the I/O thread has published."""
        with self._changed:
            return self._info

    def wait(self, timeout: float) -> tuple[RecordedState | None, bool]:
        """Wait up to ``timeout`` seconds for a recorded state.

        Return the oldest recorded state, or None, and whether :meth:`close` was called. The state stays in
        the queue until the applier calls :meth:`reached`.
        """
        with self._changed:
            self._changed.wait_for(lambda: self._closed or self._woken or bool(self._states), timeout)
            self._woken = False
            return (self._states[0] if self._states else None), self._closed

    def reached(self, state: RecordedState) -> None:
        """Remove a recorded state from the queue, because the applier has reached it."""
        with self._changed:
            self._newest_reached = state.info
            if self._states and self._states[0].info is state.info:
                self._states.popleft()

    @property
    def newest_reached(self) -> MasterInfo | None:
        """The resume point of the newest recorded state that the applier has reached. None before the first."""
        with self._changed:
            return self._newest_reached

    def wake(self) -> None:
        """Make a running or the next :meth:`wait` return, so that the applier checks whether it has to stop."""
        with self._changed:
            self._woken = True
            self._changed.notify_all()


def _thinned_out(states: deque[RecordedState]) -> list[RecordedState]:
    """Merge each pair of recorded states of one relay log into the later state. Hits are added up."""
    # The applier may be reading up to the oldest state, which must not change.
    oldest, *rest = states
    kept = [oldest]
    for first, second in zip(rest[::2], rest[1::2], strict=False):
        if first.info.relay_file == second.info.relay_file:
            kept.append(RecordedState(second.info, Counter(first.hits) + Counter(second.hits)))
        else:
            # Only the last state of a file has the GTIDs that the master dropped at the end of that file.
            kept += [first, second]
    if len(rest) % 2:
        kept.append(rest[-1])
    return kept
