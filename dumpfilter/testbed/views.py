"""The tables that show a running topology on a terminal: its status, which may be live, and the report of the whole
run. A topology is a set of sources, masters and slaves for tests. The tables fit into 80 columns.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterable
from typing import Any, NoReturn

from rich.console import Console, Group, RenderableType
from rich.live import Live
from rich.table import Table
from rich.text import Text

from dumpfilter.analyse.report.terminal import Cell, table
from dumpfilter.analyse.report.text import NOTHING, human_bytes, human_rate, human_seconds
from dumpfilter.base.printable import printable
from dumpfilter.testbed.values import TestbedStatus, sum_known
from dumpfilter.topology.links.shape import LinkShape

REFRESH_SECONDS = 0.5
"""The interval at which the status of a topology on the terminal is refreshed, seconds."""

_HINT = "Ctrl-C ends. Other terminals: dumpfilter topology status, link, sql, kill, check …"
_BAD = "bold red"
_LONGEST = 500
"""The most characters of a problem that are shown. A node's error may quote a statement."""


def status_view(status: dict[str, Any]) -> RenderableType:
    """Return the tables that show a topology's status on a terminal: its nodes, its links, and its problems. ``status``
    is the dictionary that :meth:`.values.TestbedStatus.as_dict` returns.
    """
    heads = ("node", "kind", "position", "lag", "behind", "rate", "saved")
    return _with_links(
        table(heads, map(_node_cells, status["nodes"].values()), numbers=heads[3:], framed=False), status
    )


def report_view(report: dict[str, Any]) -> RenderableType:
    """Return the tables that show a topology's report on a terminal: the nodes with their lag over the run, the links,
    and the problems. ``report`` is the dictionary that :meth:`.bed.Testbed.report` returns.
    """
    lags = {"lag p50": "p50", "p95": "p95", "worst": "worst"}
    rows = (
        (
            name,
            bytes_or_nothing(sum_known(one["bytes_received"] for one in node["channels"])),
            bytes_or_nothing(node["saved"]),
            *(human_seconds(node["lag"][key]) for key in lags.values()),
        )
        for name, node in report["nodes"].items()
        if "lag_over_time" in node
    )
    figures = ("received", "saved", *lags)
    nodes = table(("node", *figures), rows, numbers=figures, framed=False)
    head = Text(f"{report['name']}, {human_seconds(report['uptime'])}", style="bold")
    return Group(head, Text(), _with_links(nodes, report))


def links_table(links: Iterable[dict[str, Any]]) -> Table:
    """Return a table with a row for each link (network connection of two nodes): state, rate, delay, jitter, and bytes
    in each direction.
    """
    rows = (
        (
            link["name"],
            Text(link["state"], style="" if link["state"] == "up" else _BAD),
            str(LinkShape(link["rate"], link["delay"], link["jitter"])) or NOTHING,
            human_bytes(link["bytes_to_target"]),
            human_bytes(link["bytes_to_source"]),
            human_rate(link["throughput"]),
        )
        for link in links
    )
    heads = ("link", "state", "shape", "sent", "back", "now")
    return table(heads, rows, numbers=heads[3:], framed=False)


def _with_links(nodes: Table, told: dict[str, Any]) -> Group:
    """Return the tables of a status or report of a topology: the given table ``nodes``, a table of links, and each
    problem as a red line.

    ``told`` is the status or report, whose links and problems are shown.
    """
    links: list[RenderableType] = [Text(), links_table(told["links"].values())] if told["links"] else []
    return Group(nodes, *links, *(Text(printable(each, _LONGEST), style=_BAD) for each in told["problems"]))


def _node_cells(node: dict[str, Any]) -> list[Cell]:
    channels = node["channels"]
    # With several sources, the position is that of the source with the largest lag.
    place = max(channels, key=lambda one: one["lag"]["bytes"])["applied"] if channels else node["place"]
    cells: list[Cell] = [
        node["name"],
        Text(node["kind"]) if node["state"] == "running" else Text(node["state"], style=_BAD),
        f"{place['file']}:{place['position']}" if place["file"] else NOTHING,
    ]
    if not channels:
        done = {None: NOTHING, True: "done", False: "writes"}[node["is_done"]]
        return [*cells, done, NOTHING, NOTHING, NOTHING]
    return [
        *cells,
        human_seconds(node["lag"]["seconds"]),
        human_bytes(node["lag"]["bytes"]),
        human_rate(node["rate"]),
        bytes_or_nothing(node["saved"]),
    ]


def bytes_or_nothing(nbytes: int | None) -> str:
    """Return the text of a number of bytes, or a dash for None (bytes that are not counted)."""
    return NOTHING if nbytes is None else human_bytes(nbytes)


def watch_status(console: Console, status: Callable[[], TestbedStatus]) -> NoReturn:
    """Show the status of a running topology as tables on a terminal, refreshed at intervals, until Ctrl-C. Then the
    display disappears. ``status`` returns the status.
    """

    def view() -> RenderableType:
        told = status().as_dict()
        head = f"{told['name']}, up for {told['uptime']:.0f} s in {told['directory']}"
        return Group(Text(head, "bold"), Text(), status_view(told), Text(), Text(_HINT, "dim"))

    with Live(view(), console=console, auto_refresh=False, transient=True) as live:
        while True:
            time.sleep(REFRESH_SECONDS)
            live.update(view(), refresh=True)
