"""The state, the counters and the history of a link, as plain values, and the journal that collects the history."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Literal

State = Literal["up", "cut", "silent"]
"""``up``: bytes pass. ``cut``: connections are refused. ``silent``: connections stay open, and no byte passes."""


@dataclass(frozen=True)
class Counters:
    """The state of a link (a proxy between two nodes), and how many bytes in each direction and connections it has
    passed since it was opened.
    """

    state: State = "up"
    down: int = 0
    """The bytes that reached the target: the binlog, and the rest of the protocol."""
    up: int = 0
    """The bytes that reached the source: requests and acknowledgements."""
    lost: int = 0
    """The bytes of both directions that were in the link when their connection ended."""
    waiting: int = 0
    """The bytes of both directions that are in the link now."""
    connections: int = 0
    """The connections that the link has accepted."""
    open: int = 0
    """The connections that are open now."""


@dataclass(frozen=True)
class Happening:
    """One entry of a link's history: a change of its shape, a fault such as a cut, or a connection."""

    time: float
    """The time, seconds since 1970, by a clock that never jumps within one process of links."""
    kind: str
    """``opened``, ``shape``, ``cut``, ``healed``, ``silenced``, ``reset``, ``connected``, ``ended`` or ``failed``."""
    detail: str = ""
    """The reason, or the new values, as text for people."""


@dataclass(frozen=True)
class Span:
    """The number of bytes that a link (a proxy between two nodes) passed in one interval of time, in each direction."""

    start: float
    """The begin of the interval, seconds since 1970."""
    seconds: float
    """The length of the interval, seconds."""
    down: int
    """The bytes that reached the target (from the source)."""
    up: int
    """The bytes that reached the source (from the target)."""


@dataclass(frozen=True)
class History:
    """The latest changes and faults of a link (a proxy between two nodes), and the bytes that it passed in each
    interval of time. Intervals without bytes are left out.
    """

    happenings: tuple[Happening, ...] = ()
    spans: tuple[Span, ...] = ()


MOST_HAPPENINGS = 10_000
"""The limit of a history's entries. Beyond it the oldest ones are removed."""

MOST_SPANS = 20_000
"""The limit of a history's intervals. Beyond it neighbours are joined, so that the intervals become twice as long."""

FIRST_SPAN = 0.1
"""The length of the intervals of a new link, seconds."""


class Journal:
    """A recorder of what happens on a link (a proxy between two nodes): the latest changes and faults, and the bytes in
    each interval.

    The memory is limited. Old entries are removed, and intervals are joined when there are too many.
    """

    def __init__(self) -> None:
        self._happenings: deque[Happening] = deque(maxlen=MOST_HAPPENINGS)
        self._seconds = FIRST_SPAN
        self._spans: dict[int, list[int]] = {}
        """The bytes down and up of each interval, by the interval's number since 1970."""

    def note(self, time: float, kind: str, detail: str = "") -> None:
        """Add an entry about a change, fault or connection of the link. ``kind`` is a word such as ``cut`` (see
        :class:`Happening`). ``time`` is seconds since 1970, and ``detail`` a text for people.
        """
        self._happenings.append(Happening(time, kind, detail))

    def count(self, time: float, down: int, up: int) -> None:
        """Add bytes that the link passed at ``time``, seconds since 1970.

        ``down`` is the number of bytes to the target (the reading node), ``up`` the number of bytes to the source.
        """
        self._add(int(time / self._seconds), down, up)
        while len(self._spans) > MOST_SPANS:
            spans, self._spans = self._spans, {}
            self._seconds *= 2
            for number, counts in spans.items():
                self._add(number // 2, *counts)

    def _add(self, number: int, down: int, up: int) -> None:
        span = self._spans.setdefault(number, [0, 0])
        span[0] += down
        span[1] += up

    def history(self) -> History:
        """Return what has been recorded so far about the link, as a value that does not change."""
        spans = (
            Span(round(number * self._seconds, 3), self._seconds, down, up)
            for number, (down, up) in sorted(self._spans.items())
        )
        return History(tuple(self._happenings), tuple(spans))
