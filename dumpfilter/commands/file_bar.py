"""The progress bars of commands that read a server's binlog files one after another."""

from __future__ import annotations

from collections.abc import Iterable
from typing import TYPE_CHECKING

from rich.progress import TaskID

from dumpfilter.base.byte_bar import byte_bar

if TYPE_CHECKING:
    from rich.console import Console

_REDRAW_BYTES = 1 << 20
"""The number of bytes after which a bar is redrawn, since drawing takes time."""


class FileBar:
    """A progress bar for each replication channel, which shows the bytes read of the server's binlog.

    Nothing is shown when the output is not a terminal, or when ``shown`` is false.
    """

    def __init__(self, console: Console, *, shown: bool = True) -> None:
        self._bar = byte_bar(console, shown=shown, remaining=False)
        self._tasks: dict[str, tuple[TaskID, int]] = {}
        """The bar of each channel, and the number of bytes that it shows."""

    @property
    def is_shown(self) -> bool:
        """Whether the bars are visible."""
        return not self._bar.disable

    def __enter__(self) -> FileBar:
        self._bar.start()
        return self

    def __exit__(self, *details: object) -> None:
        self._bar.stop()

    def show(self, channel: str, file: str, done: int, total: int | None) -> None:
        """Set the progress bar of ``channel`` to ``done`` of ``total`` bytes, with the name of the binlog file that
        is read.

        With ``total`` None the bar has no length.
        """
        task, before = self._tasks.get(channel, (None, -_REDRAW_BYTES))
        if self._bar.disable or done - before < _REDRAW_BYTES:
            return
        if task is None:
            task = self._bar.add_task("", total=None)
        self._tasks[channel] = task, done
        self._bar.update(task, description=f"{channel} {file}".strip(), completed=done, total=total)


def bytes_before(files: Iterable[tuple[str, int]], name: str) -> int:
    """Return the sum of the sizes of the binlog files before the file ``name``.

    ``files`` are the names and sizes of a server's binlog files.

    >>> bytes_before([("bin.999999", 10), ("bin.1000000", 20), ("bin.1000001", 30)], "bin.1000001")
    30
    """
    return sum(size for other, size in files if (len(other), other) < (len(name), name))
