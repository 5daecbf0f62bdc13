"""The recorded end of the relay log: what the I/O thread tells the applier."""

from __future__ import annotations

import threading
from collections import Counter, deque
from collections.abc import Mapping
from typing import NamedTuple

from dumpfilter.filter.rules import BaseRuleKind
from dumpfilter.slave.state.master_info import MasterInfo

Hits = Mapping[BaseRuleKind, int]
"""How often rules of each kind decided something."""

_MOST_STATES = 1000


class Reached(NamedTuple):
    """A recorded state, and what the master's filter hit between the one before and this one."""

    info: MasterInfo
    hits: Hits


class RelayEnd:
    """The recorded states that the applier has not reached yet, oldest first. It waits here for more.

    The applier takes them one by one: at each of them, and only there, it knows the position, the GTIDs and the
    hits of everything that the master dropped before it.
    """

    def __init__(self) -> None:
        self._changed = threading.Condition()
        self._info = MasterInfo()
        self._states: deque[Reached] = deque()
        self._closed = False
        self._passed: MasterInfo | None = None

    def publish(self, info: MasterInfo, hits: Hits | None = None) -> None:
        """What ``master.info`` says now."""
        with self._changed:
            self._info = info
            self._states.append(Reached(info, dict(hits or {})))
            if len(self._states) > _MOST_STATES:
                # the applier is far behind: every other state will do
                self._states = deque(_pairs(self._states))
            self._changed.notify_all()

    def rewind(self, info: MasterInfo) -> None:
        """The relay log has been cut: what was told and not reached is void."""
        with self._changed:
            self._info = self._passed = info
            self._states.clear()
            self._changed.notify_all()

    def begin(self) -> None:
        """An applier begins: the newest state is there for it even when one before it has reached that."""
        with self._changed:
            if not self._states:
                self._states.append(Reached(self._info, {}))

    def close(self) -> None:
        """Nothing more will come."""
        with self._changed:
            self._closed = True
            self._changed.notify_all()

    def open(self) -> None:
        """More may come again."""
        with self._changed:
            self._closed = False

    @property
    def info(self) -> MasterInfo:
        """The newest recorded state."""
        with self._changed:
            return self._info

    def wait(self, timeout: float) -> tuple[Reached | None, bool]:
        """Wait up to ``timeout`` seconds for a state to reach.

        Returns the oldest one, which stays until :meth:`reached` is told of it, and whether nothing will come
        after all of them.
        """
        with self._changed:
            self._changed.wait_for(lambda: self._closed or bool(self._states), timeout)
            return (self._states[0] if self._states else None), self._closed

    def reached(self, state: Reached) -> None:
        """The applier has got there."""
        with self._changed:
            self._passed = state.info
            if self._states and self._states[0].info is state.info:
                self._states.popleft()

    @property
    def passed(self) -> MasterInfo | None:
        """The newest state that the applier has reached."""
        with self._changed:
            return self._passed

    def wake(self) -> None:
        """Let the applier look whether it has to stop."""
        with self._changed:
            self._changed.notify_all()


def _pairs(states: deque[Reached]) -> list[Reached]:
    both = list(states)
    # the oldest may be what the applier is on the way to: it stays as it is
    kept = both[:1]
    rest = both[1:]
    for first, second in zip(rest[::2], rest[1::2], strict=False):
        if first.info.relay_file == second.info.relay_file:
            kept.append(Reached(second.info, Counter(first.hits) + Counter(second.hits)))
        else:
            # Only a file's last state knows what the master dropped after the last transaction of the file.
            kept += [first, second]
    if len(rest) % 2:
        kept.append(rest[-1])
    return kept
