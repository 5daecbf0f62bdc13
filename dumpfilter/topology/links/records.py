"""The state, the counters and the history of a link, as values."""

from __future__ import annotations

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
