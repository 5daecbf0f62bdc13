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
    """Return a progress bar that counts bytes. The bar stays invisible if ``console`` is no terminal, or if ``shown``
    is False.

    With ``remaining`` the bar also shows the estimated time left. Work without a known end has no such estimate.
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
