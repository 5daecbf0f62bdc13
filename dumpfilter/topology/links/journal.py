"""A link's history in bounded memory."""

from __future__ import annotations

from collections import deque

from dumpfilter.topology.links.records import Happening, History, Span

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
