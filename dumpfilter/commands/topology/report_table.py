"""The tables of a topology's report. They fit into 80 columns."""

from __future__ import annotations

from typing import Any

from rich.console import Group, RenderableType
from rich.text import Text

from dumpfilter.commands.topology.tables import bytes_or_nothing, links_table, problem_lines
from dumpfilter.report.terminal import table
from dumpfilter.report.text import human_seconds


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
