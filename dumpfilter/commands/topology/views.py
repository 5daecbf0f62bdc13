"""The tables of a running topology: its status, which may be live, and its report. They fit into 80 columns."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Any

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from dumpfilter.analyse.report.terminal import Cell, table
from dumpfilter.analyse.report.text import NOTHING, human_bytes, human_rate, human_seconds
from dumpfilter.base.options.units import format_rate, format_time
from dumpfilter.base.printable import printable

REFRESH_SECONDS = 0.5
"""The time between two looks at a topology in the foreground, seconds."""

_BAD = "bold red"
_LONGEST = 500
"""The most characters of a problem that are shown. A node's error may quote a statement."""

_HEADS = ("node", "kind", "position", "lag", "behind", "rate", "saved")
_NUMBERS = ("lag", "behind", "rate", "saved")


def status_view(status: dict[str, Any]) -> RenderableType:
    """Return the tables that show a topology's status on a terminal: its nodes, its links, and its problems."""
    nodes = table(_HEADS, map(_node_cells, status["nodes"].values()), numbers=_NUMBERS, framed=False)
    parts: list[RenderableType] = [nodes]
    if status["links"]:
        parts += [Text(), links_table(status["links"].values())]
    return Group(*parts, *problem_lines(status))


def links_table(links: Iterable[dict[str, Any]]) -> Table:
    """Return a table with a row for each link (network connection of two nodes): state, rate, delay, jitter, and bytes
    in each direction.
    """
    rows = [
        (
            link["name"],
            Text(link["state"], style="" if link["state"] == "up" else _BAD),
            _shape(link),
            human_bytes(link["bytes_to_target"]),
            human_bytes(link["bytes_to_source"]),
            human_rate(link["throughput"]),
        )
        for link in links
    ]
    return table(
        ("link", "state", "shape", "sent", "back", "now"),
        rows,
        numbers=("sent", "back", "now"),
        framed=False,
    )


def _node_cells(node: dict[str, Any]) -> list[Cell]:
    runs = node["state"] == "running"
    cells: list[Cell] = [
        node["name"],
        Text(node["kind"]) if runs else Text(node["state"], style=_BAD),
        _place(_applied(node)),
    ]
    if not node["channels"]:
        done = {None: NOTHING, True: "done", False: "writes"}[node["is_done"]]
        return [*cells, done, NOTHING, NOTHING, NOTHING]
    seconds = node["lag"]["seconds"]
    lag = NOTHING if seconds is None else human_seconds(seconds)
    return [
        *cells,
        lag,
        human_bytes(node["lag"]["bytes"]),
        human_rate(node["rate"]),
        bytes_or_nothing(node["saved"]),
    ]


def bytes_or_nothing(nbytes: int | None) -> str:
    """Return the text of a number of bytes, or a dash for None (bytes that are not counted)."""
    return NOTHING if nbytes is None else human_bytes(nbytes)


def _shape(link: dict[str, Any]) -> str:
    parts = [] if link["rate"] is None else [format_rate(link["rate"])]
    if link["delay"]:
        parts.append(format_time(link["delay"]))
    if link["jitter"]:
        parts.append(f"±{format_time(link['jitter'])}")
    return " ".join(parts) or NOTHING


def _applied(node: dict[str, Any]) -> dict[str, Any]:
    """Return the position in the source's binlog up to which a node has applied, or the end of the node's own binlog.

    ``node`` is a node's part of the status. The result has the members ``file`` and ``position``. For a node with
    several sources, the source is the one with the largest lag in bytes.
    """
    if not node["channels"]:
        own: dict[str, Any] = node["place"]
        return own
    slowest: dict[str, Any] = max(node["channels"], key=lambda channel: channel["lag"]["bytes"])
    return dict(slowest["applied"])


def _place(place: dict[str, Any]) -> str:
    return f"{place['file']}:{place['position']}" if place["file"] else NOTHING


def problem_lines(told: dict[str, Any]) -> list[Text]:
    """Return the problems in a topology's status or report ``told``, each as one red line."""
    return [Text(printable(problem, _LONGEST), style=_BAD) for problem in told["problems"]]


def watch_status(
    ask: Callable[[], dict[str, Any]],
    seconds: float = REFRESH_SECONDS,
    *,
    is_transient: bool = False,
    hint: str = "",
) -> None:
    """Show a topology's status on the terminal, refreshed every ``seconds``, until Ctrl-C.

    ``ask`` returns the status. With ``is_transient`` the display disappears at its end. ``hint`` is a line below the
    tables.
    """
    with Live(
        _view(ask(), hint), console=Console(highlight=False), auto_refresh=False, transient=is_transient
    ) as live:
        while True:
            time.sleep(seconds)
            live.update(_view(ask(), hint), refresh=True)


def _view(status: dict[str, Any], hint: str) -> RenderableType:
    head = Text(f"{status['name']}, up for {status['uptime']:.0f} s in {status['directory']}", style="bold")
    return Group(head, Text(), status_view(status), *([Text(), Text(hint, style="dim")] if hint else []))


def report_view(report: dict[str, Any]) -> RenderableType:
    """Return the tables that show a topology's report on a terminal: the nodes with their lag over the run, the links,
    and the problems.
    """
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
