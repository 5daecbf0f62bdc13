"""The end of a job that writes files by Ctrl-C or another signal."""

from __future__ import annotations

import signal
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from types import FrameType
from typing import TYPE_CHECKING

if TYPE_CHECKING:
    from rich.console import Console

_ENDINGS = (signal.SIGTERM, signal.SIGHUP)


@contextmanager
def telling_interruption(progress: Console, output: Path) -> Iterator[None]:
    """Say at Ctrl-C that ``output`` is as before. The body of the ``with`` statement must leave it so."""
    try:
        yield
    except KeyboardInterrupt:
        progress.print(
            f"dumpfilter: interrupted; {output} is as before", markup=False, highlight=False, soft_wrap=True
        )
        raise


@contextmanager
def ending_at_signals() -> Iterator[None]:
    """Turn SIGTERM and SIGHUP into SystemExit, so that the body of the ``with`` statement removes its files."""
    if threading.current_thread() is not threading.main_thread():
        yield
        return
    before = {number: signal.signal(number, _end) for number in _ENDINGS}
    try:
        yield
    finally:
        for number, handler in before.items():
            signal.signal(number, handler)


def _end(number: int, frame: FrameType | None) -> None:
    raise SystemExit(128 + number)
