"""The live table of a running topology, and its report."""

from __future__ import annotations

import time
from collections.abc import Callable
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.text import Text

from dumpfilter.analyse.report.terminal import table
from dumpfilter.analyse.report.text import human_seconds
from dumpfilter.commands.topology.tables import (
    bytes_or_nothing,
    links_table,
    problem_lines,
    status_view,
)

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


def report_view(report: dict[str, Any]) -> RenderableType:
    """Return the tables of a report: the nodes with their lag over the run, the links, and the problems."""
    lags = {"lag p50": "p50", "p95": "p95", "worst": "worst"}
    rows = [
        (
            name,
            bytes_or_nothing(node["bytes_received"]),
            bytes_or_nothing(node["bytes_saved"]),
            *(human_seconds(node["lag"][key]) for key in lags.values()),
        )
        for name, node in report["nodes"].items()
    ]
    figures = ("received", "saved", *lags)
    nodes = table(("node", *figures), rows, numbers=figures, framed=False)
    head = Text(f"{report['name']}, {human_seconds(report['seconds'])}", style="bold")
    parts: list[RenderableType] = [head, Text(), nodes]
    if report["links"]:
        parts += [Text(), links_table(report["links"].values())]
    return Group(*parts, *problem_lines(report))
