"""The progress bar of a command that fetches a server's binlog."""

from __future__ import annotations

from typing import TYPE_CHECKING

from dumpfilter.byte_bar import byte_bar

if TYPE_CHECKING:
    from rich.console import Console

    from dumpfilter.receiver.follow import Follower

_REDRAW_BYTES = 1 << 20
"""The bytes after which the bar moves, since drawing takes time."""


class FetchBar:
    """A progress bar of the bytes that a source's files have, or of the bytes received if the sizes are unknown."""

    def __init__(self, terminal: Console) -> None:
        self._bar = byte_bar(terminal, remaining=False)
        self._task = self._bar.add_task("fetching", total=None)
        self._shown = 0

    def __enter__(self) -> FetchBar:
        self._bar.start()
        return self

    def __exit__(self, *details: object) -> None:
        self._bar.stop()

    def show(self, follower: Follower) -> None:
        """Move the bar to where the store ends."""
        progress = follower.progress
        if self._bar.disable or progress.bytes - self._shown < _REDRAW_BYTES:
            return
        self._shown = progress.bytes
        before, total = 0, 0
        for name, size in progress.files:
            before += size if (len(name), name) < (len(progress.file), progress.file) else 0
            total += size
        self._bar.update(
            self._task,
            description=progress.file,
            completed=before + progress.position if total else progress.bytes,
            total=total or None,
        )
