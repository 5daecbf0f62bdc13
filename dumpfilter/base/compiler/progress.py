"""Lines about the progress of compilations, for commands that compile all kernels."""

from __future__ import annotations

import contextlib
import time
from collections.abc import Callable, Iterator

from numba.core import event

from dumpfilter.base.compiler.kernels import COMPILATION

_SECONDS = 2.0
"""The shortest time between two lines, seconds."""


@contextlib.contextmanager
def compilations_told(tell: Callable[[str], object]) -> Iterator[None]:
    """Call ``tell`` with a line about the progress each two seconds of compiling, and with a line at the end."""
    progress = _Progress(tell)
    with event.install_listener(COMPILATION, progress):
        yield
    tell(f"{progress.count} functions compiled" if progress.count else "all functions were compiled before")


class _Progress(event.Listener):
    def __init__(self, tell: Callable[[str], object]) -> None:
        self.count = 0
        self._tell = tell
        self._told = time.monotonic()

    def on_start(self, event: object) -> None:
        self.count += 1
        now = time.monotonic()
        if now >= self._told + _SECONDS:
            self._told = now
            self._tell(f"compiling function {self.count}")

    def on_end(self, event: object) -> None:
        pass
