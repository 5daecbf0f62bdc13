"""A progress bar on the terminal, which shows how many bytes a command has read, fetched or written, and how fast."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager

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


@contextmanager
def byte_progress(console: Console | None, what: str, total: int) -> Iterator[Callable[[int], None]]:
    """Show a progress bar for work on ``total`` bytes. Yield a function that takes the number of bytes just done.

    ``what`` is the text before the bar. The bar stays invisible without a console, or if ``console`` is no terminal.
    """
    with byte_bar(console or Console(stderr=True), shown=console is not None) as bar:
        task = bar.add_task(what, total=total)
        yield lambda done: bar.advance(task, done)
