"""The state, the counters and the history of a link, as values, and the journal that remembers the history."""

from __future__ import annotations

from collections import deque
from dataclasses import dataclass
from typing import Literal

State = Literal["up", "cut", "silent"]
"""``up``: bytes pass. ``cut``: connections are refused. ``silent``: connections stay open, and no byte passes."""


@dataclass(frozen=True)
class Counters:
    """The bytes and connections of a link since it was opened."""

    state: State = "up"
    down: int = 0
    """The bytes that reached the target: the binlog, and the rest of the protocol."""
    up: int = 0
    """The bytes that reached the source: requests and acknowledgements."""
    lost: int = 0
    """The bytes of both directions that were under way when their connection ended."""
    waiting: int = 0
    """The bytes of both directions that are under way now."""
    connections: int = 0
    """The connections that the link has accepted."""
    open: int = 0
    """The connections that are open now."""


@dataclass(frozen=True)
class Happening:
    """One entry of a link's history."""

    time: float
    """Seconds since 1970. The times of one process of links follow a clock that never jumps."""
    kind: str
    """``opened``, ``shape``, ``cut``, ``healed``, ``silenced``, ``reset``, ``connected``, ``ended`` or ``failed``."""
    detail: str = ""
    """The reason or the new values, for people."""


@dataclass(frozen=True)
class Span:
    """The bytes that a link passed in a span of time."""

    start: float
    """The begin of the span, seconds since 1970."""
    seconds: float
    """The length of the span."""
    down: int
    """The bytes that reached the target."""
    up: int
    """The bytes that reached the source."""


@dataclass(frozen=True)
class History:
    """The latest changes and faults of a link, and its bytes over time. Spans without bytes are left out."""

    happenings: tuple[Happening, ...] = ()
    spans: tuple[Span, ...] = ()


MOST_HAPPENINGS = 10_000
"""The most entries of a history. The oldest ones give way."""

MOST_SPANS = 20_000
"""The most spans of a history. When there are more, neighbours are joined, and spans become twice as long."""

FIRST_SPAN = 0.1
"""The length of a new link's spans, seconds."""


class Journal:
    """The latest happenings of a link, and all its bytes over time."""

    def __init__(self) -> None:
        self._happenings: deque[Happening] = deque(maxlen=MOST_HAPPENINGS)
        self._seconds = FIRST_SPAN
        self._spans: dict[int, list[int]] = {}
        """Bytes down and up, by the number of the span since 1970."""

    def note(self, time: float, kind: str, detail: str = "") -> None:
        """Add a happening."""
        self._happenings.append(Happening(time, kind, detail))

    def count(self, time: float, down: int, up: int) -> None:
        """Add passed bytes."""
        span = self._spans.setdefault(int(time / self._seconds), [0, 0])
        span[0] += down
        span[1] += up
        while len(self._spans) > MOST_SPANS:
            self._join()

    def _join(self) -> None:
        joined: dict[int, list[int]] = {}
        for number, (down, up) in self._spans.items():
            span = joined.setdefault(number // 2, [0, 0])
            span[0] += down
            span[1] += up
        self._spans = joined
        self._seconds *= 2

    def history(self) -> History:
        """Return everything that the journal remembers."""
        spans = (
            Span(round(number * self._seconds, 3), self._seconds, down, up)
            for number, (down, up) in sorted(self._spans.items())
        )
        return History(tuple(self._happenings), tuple(spans))
