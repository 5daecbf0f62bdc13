"""The queue through which a channel's I/O thread tells the applier how far the relay log may be applied.

Each entry of the queue is a recorded state. It holds a position between two transactions, and the GTIDs and counts
that the master sent up to this position.
"""

from __future__ import annotations

import threading
from collections import Counter, deque
from collections.abc import Mapping
from typing import NamedTuple

from dumpfilter.filter.rules import BaseRuleKind
from dumpfilter.slave.state.master_info import MasterInfo

Hits = Mapping[BaseRuleKind, int]
"""The number of times that filter rules decided about an event, by kind of rule, such as ``--replicate-do-db``."""

_MOST_STATES = 1000
"""The largest number of recorded states in the queue, which bounds the memory when the applier is far behind.

When the queue becomes longer, pairs of neighbouring states are merged.
"""


class RecordedState(NamedTuple):
    """A position between two transactions that the I/O thread has reached, with all that is known there.

    Only at such positions does the slave know the GTIDs and the rule hits of transactions that the master dropped.
    """

    info: MasterInfo
    """The position in the master's binlog and in the relay log, and the set of GTIDs received or dropped before it."""
    hits: Hits
    """The uses of the slave's filter rules that the master counted between the previous recorded state and this one."""


class RelayEnd:
    """The queue of recorded states between the I/O thread and the applier of one channel.

    A recorded state is a position between two transactions, together with the GTIDs and the counts of filter hits up
    to there. The relay log does not contain the transactions that the master dropped. Only a recorded state says which
    GTIDs those were. The applier therefore reads the relay log from one recorded state to the next.

    The I/O thread adds states by :meth:`publish`, and the applier takes the oldest by :meth:`wait` and
    :meth:`reached`. All methods may be called from any thread.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._info = MasterInfo()
        self._states: deque[RecordedState] = deque()
        self._closed = False
        self._woken = False
        self._newest_reached: MasterInfo | None = None

    def publish(self, info: MasterInfo, hits: Hits | None = None) -> None:
        """Tell the applier that it may apply the relay log up to the position in ``info``.

        ``hits`` are the uses of filter rules that the master counted since the previous call.
        """
        with self._changed:
            self._info = info
            self._states.append(RecordedState(info, dict(hits or {})))
            if len(self._states) > _MOST_STATES:
                self._states = deque(_thinned_out(self._states))
            self._changed.notify_all()

    def rewind(self, info: MasterInfo) -> None:
        """Empty the queue, because the I/O thread has truncated the relay log to the position in ``info``."""
        with self._changed:
            self._info = self._newest_reached = info
            self._states.clear()
            self._changed.notify_all()

    def begin(self) -> None:
        """Put the newest recorded state into the queue again if the queue is empty.

        A starting applier calls this method to get a position up to which the relay log may be applied.
        """
        with self._changed:
            if not self._states:
                self._states.append(RecordedState(self._info, {}))

    def close(self) -> None:
        """Tell the applier that the I/O thread has ended. The applier ends when it has reached the last recorded
        state."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def open(self) -> None:
        """Tell the applier that the I/O thread starts again after :meth:`close`, so that more states will follow."""
        with self._changed:
            self._closed = False

    @property
    def info(self) -> MasterInfo:
        """The newest position that the I/O thread gave to :meth:`publish`, with its GTID set."""
        with self._changed:
            return self._info

    def wait(self, timeout: float) -> tuple[RecordedState | None, bool]:
        """Wait up to ``timeout`` seconds until the queue holds a recorded state.

        Return a pair: the oldest recorded state or None, and whether :meth:`close` was called. The state stays in
        the queue until the applier calls :meth:`reached`. :meth:`close` and :meth:`wake` end the wait early.
        """
        with self._changed:
            self._changed.wait_for(lambda: self._closed or self._woken or bool(self._states), timeout)
            self._woken = False
            return (self._states[0] if self._states else None), self._closed

    def reached(self, state: RecordedState) -> None:
        """Remove ``state`` from the queue, because the applier has applied the relay log up to its position."""
        with self._changed:
            self._newest_reached = state.info
            if self._states and self._states[0].info is state.info:
                self._states.popleft()

    @property
    def newest_reached(self) -> MasterInfo | None:
        """The newest recorded position that the applier has reached, with its GTID set.

        None before the applier has reached a recorded position.
        """
        with self._changed:
            return self._newest_reached

    def wake(self) -> None:
        """End the applier's call of :meth:`wait` early, so that the applier notices STOP REPLICA at once.

        If the applier is not waiting, its next call returns at once.
        """
        with self._changed:
            self._woken = True
            self._changed.notify_all()


def _thinned_out(states: deque[RecordedState]) -> list[RecordedState]:
    """Merge pairs of neighbouring recorded states of the same relay log file, so that the queue gets shorter.

    The later position of a pair stays, and the counts of filter hits of both are added.
    """
    # The oldest recorded state must not change, because the applier may be reading up to its position now.
    oldest, *rest = states
    kept = [oldest]
    for first, second in zip(rest[::2], rest[1::2], strict=False):
        if first.info.relay_file == second.info.relay_file:
            kept.append(RecordedState(second.info, Counter(first.hits) + Counter(second.hits)))
        else:
            # The two recorded states are of different relay log files. The last state of a file must stay, because
            # only that state has the GTIDs that the master dropped at the end of the file.
            kept += [first, second]
    if len(rest) % 2:
        kept.append(rest[-1])
    return kept
