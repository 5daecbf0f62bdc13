"""The live table of a running topology."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.text import Text

from dumpfilter.commands.topology.tables import status_view

REFRESH_SECONDS = 0.5
"""The time between two looks at a topology in the foreground, seconds."""


def watch_status(
    ask: Callable[[], dict[str, Any]],
    seconds: float = REFRESH_SECONDS,
    *,
    pause: Callable[[float], bool] | None = None,
    hint: str = "",
) -> None:
    """Show a topology's status again and again on the terminal.

    ``pause`` waits so many seconds, and returns whether to end. Without it the table ends with Ctrl-C.
    """
    with Live(
        _view(ask(), hint), console=Console(highlight=False), auto_refresh=False, transient=pause is not None
    ) as live:
        while not (pause or _sleep)(seconds):
            live.update(_view(ask(), hint), refresh=True)


def _sleep(seconds: float) -> bool:
    time.sleep(seconds)
    return False


def _view(status: dict[str, Any], hint: str) -> RenderableType:
    head = Text(f"{status['name']}, up for {status['uptime']:.0f} s in {status['directory']}", style="bold")
    return Group(head, Text(), status_view(status), *([Text(), Text(hint, style="dim")] if hint else []))
