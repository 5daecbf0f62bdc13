"""The tables of a running topology's status and report. They fit into 80 columns."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

from rich.console import Group, RenderableType
from rich.table import Table
from rich.text import Text

from dumpfilter.analyse.report.terminal import Cell, table
from dumpfilter.analyse.report.text import NOTHING, human_bytes, human_rate, human_seconds
from dumpfilter.base.options.units import format_rate, format_time
from dumpfilter.base.printable import printable

_BAD = "bold red"
_LONGEST = 500
"""The most characters of a problem that are shown. A node's error may quote a statement."""

_HEADS = ("node", "kind", "position", "lag", "behind", "rate", "saved")
_NUMBERS = ("lag", "behind", "rate", "saved")


def status_view(status: dict[str, Any]) -> RenderableType:
    """Return the tables of a status: its nodes, its links, and the problems."""
    nodes = table(_HEADS, map(_node_cells, status["nodes"].values()), numbers=_NUMBERS, framed=False)
    parts: list[RenderableType] = [nodes]
    if status["links"]:
        parts += [Text(), links_table(status["links"].values())]
    return Group(*parts, *problem_lines(status))


def links_table(links: Iterable[dict[str, Any]]) -> Table:
    """Return the table of some links: state, shape, and bytes each way."""
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
    """Format a number of bytes, or a dash for bytes that nobody counts."""
    return NOTHING if nbytes is None else human_bytes(nbytes)


def _shape(link: dict[str, Any]) -> str:
    parts = [] if link["rate"] is None else [format_rate(link["rate"])]
    if link["delay"]:
        parts.append(format_time(link["delay"]))
    if link["jitter"]:
        parts.append(f"±{format_time(link['jitter'])}")
    return " ".join(parts) or NOTHING


def _applied(node: dict[str, Any]) -> dict[str, Any]:
    """Return the place in the source's binlog that a node has applied, or the end of its own binlog."""
    if not node["channels"]:
        own: dict[str, Any] = node["place"]
        return own
    slowest: dict[str, Any] = max(node["channels"], key=lambda channel: channel["lag"]["bytes"])
    return dict(slowest["applied"])


def _place(place: dict[str, Any]) -> str:
    return f"{place['file']}:{place['position']}" if place["file"] else NOTHING


def problem_lines(told: dict[str, Any]) -> list[Text]:
    """Return the problems of a status or a report."""
    return [Text(printable(problem, _LONGEST), style=_BAD) for problem in told["problems"]]
