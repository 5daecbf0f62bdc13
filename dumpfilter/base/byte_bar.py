"""The progress bar of commands that read, fetch or write many bytes."""

from __future__ import annotations

from rich.console import Console
from rich.progress import (
    BarColumn,
    DownloadColumn,
    Progress,
    ProgressColumn,
    TextColumn,
    TimeRemainingColumn,
    TransferSpeedColumn,
)


def byte_bar(console: Console, *, shown: bool = True, remaining: bool = True) -> Progress:
    """Return a bar of bytes, which shows nothing where ``console`` is no terminal, or without ``shown``.

    ``remaining`` adds the time that is left. A bar for work without an end does not need it.
    """
    columns: list[ProgressColumn] = [
        TextColumn("{task.description}"),
        BarColumn(),
        DownloadColumn(),
        TransferSpeedColumn(),
    ]
    if remaining:
        columns.append(TimeRemainingColumn())
    return Progress(*columns, console=console, transient=True, disable=not (shown and console.is_terminal))
