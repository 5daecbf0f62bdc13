"""The signals that end a topology: Ctrl-C, SIGTERM and SIGHUP."""

from __future__ import annotations

import signal
from collections.abc import Iterator
from contextlib import contextmanager
from types import FrameType

_ENDINGS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)


@contextmanager
def endings_interrupt() -> Iterator[None]:
    """Make SIGTERM and SIGHUP act like Ctrl-C."""
    before = {number: signal.getsignal(number) for number in _ENDINGS}
    for number in _ENDINGS:
        signal.signal(number, _interrupt)
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _interrupt(number: int, frame: FrameType | None) -> None:
    raise KeyboardInterrupt


def ignore_endings() -> None:
    """Ignore a second Ctrl-C, which would leave processes behind."""
    for number in _ENDINGS:
        signal.signal(number, signal.SIG_IGN)
