"""The output of a simulation or an experiment: results.json, the Parquet tables and the page in a directory, and the
results as tables on the terminal.
"""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import Any

import pyarrow as pa
from rich.console import Console
from rich.text import Text

from dumpfilter.analyse.report.output import REPORT, RESULTS, written_together
from dumpfilter.analyse.report.parquet import FLOAT, INT, TEXT, Column, ParquetTable, columns_of, write_tables
from dumpfilter.analyse.report.terminal import print_json, table, warn
from dumpfilter.analyse.report.text import human_bytes
from dumpfilter.simulation.results import (
    LagFigures,
    LinkFigures,
    NodeFigures,
    Results,
    Run,
    microseconds,
    title_of,
    value_of,
)

_SETTING = (
    Column("run", INT, "The run's number in `results.json`, from 1."),
    Column("method", TEXT, "`simulated` or `measured`."),
    Column("variant", TEXT, "The way to bring the binlog to the slaves."),
    Column("load", FLOAT, "The factor of `--scale-load`."),
    Column("sweep_rate", INT, "The rate of a sweep; null without one."),
    Column("sweep_delay", INT, "The delay of a sweep; null without one."),
    Column("sweep_link", TEXT, "The link of a sweep; null for all links."),
    Column("repetition", INT, "The repetition's number, from 1."),
)
"""The columns that say which run a row belongs to. Both tables begin with these columns."""

FORMS: Mapping[str, ParquetTable] = {
    "links": ParquetTable(
        "each link of each run",
        (
            *_SETTING,
            Column("link", TEXT, "`SOURCE:TARGET`."),
            *columns_of(LinkFigures, without={"name", "members", "outages"}),
        ),
    ),
    "nodes": ParquetTable(
        "each node of each run, and each channel of a node with several sources",
        (
            *_SETTING,
            Column("basis", TEXT, "When a node has a transaction: `received` or `applied`."),
            Column("node", TEXT, "The node's name."),
            *columns_of(NodeFigures, without={"name", "members", "lag"}),
            *columns_of(LagFigures),
        ),
    ),
}
"""The columns of both tables. The documentation is made from them, too (``python tools/doc_tables.py``)."""


def tables(results: Results) -> dict[str, pa.Table]:
    """Return the results of a simulation or experiment as Arrow tables. A key of the dictionary is the name of the
    Parquet file to which a table is written.
    """
    rows: dict[str, list[dict[str, Any]]] = {name: [] for name in FORMS}
    for number, run in enumerate(results.runs, 1):
        setting = _setting(number, run)
        rows["links"] += ({**setting, "link": link.name, **link.model_dump()} for link in run.links)
        of_run = {**setting, "basis": run.basis.value}
        rows["nodes"] += (
            {**of_run, "node": node.name, **node.model_dump(), **node.lag.model_dump()} for node in run.nodes
        )
    return {name: form.of_rows(rows[name]) for name, form in FORMS.items()}


def _setting(number: int, run: Run) -> dict[str, Any]:
    """Return the values that identify a run in a row of a Parquet table, such as the variant and the load, by the names
    of their columns. ``number`` is the run's index among all runs, from 1.
    """
    setting = run.setting
    sweep = (setting.rate, setting.delay, setting.link)
    values = (number, run.method.value, setting.variant.value, setting.load, *sweep, run.repetition)
    return {column.name: value for column, value in zip(_SETTING, values, strict=True)}


def show_results(results: Results, output: Path, progress: Console, *, page: bool, json: bool) -> None:
    """Write the results of a simulation or an experiment to the directory ``output``, all files or none, and print the
    results as tables or, with ``json``, as JSON.

    With ``page`` the directory also gets report.html. Warnings are printed to the console ``progress``. Raises
    OutputError if the directory cannot be written.
    """
    with written_together(output) as beside:
        (beside / RESULTS).write_text(results.model_dump_json(indent=1) + "\n", "utf-8")
        if page:
            # Jinja takes long to load.
            from dumpfilter.simulation.page import render_page

            (beside / REPORT).write_text(render_page(results), "utf-8")
        write_tables(tables(results), beside)
    if json:
        print_json(results)
    else:
        console = Console()
        print_results(results, console)
        where = f"report: {output / REPORT}" if page else f"results: {output}"
        console.print(where, soft_wrap=True, highlight=False)
    for warning in results.warnings:
        warn(progress, warning)


MOST_ROWS = 40
"""The number of rows that the tables of all runs share. It is also the maximum for the table of searches."""

LEAST_ROWS = 3
"""The minimum number of nodes in the table of each run, even if all tables then exceed their shared number of rows."""


def print_results(results: Results, console: Console) -> None:
    """Print the results of a simulation or an experiment: a table of the nodes with the greatest lag for each run, and
    the rates or delays that searches found.
    """
    most = max(MOST_ROWS // max(len(results.runs), 1), LEAST_ROWS)
    hidden = 0
    for run in results.runs:
        repetition = f", run {run.repetition}" if run.repetition > 1 else ""
        console.print(Text(title_of(run.setting, run.method) + repetition, "bold"))
        figures = ["bytes", "p50", "p95", "p99", "worst", f"> {microseconds(results.limit)}"]
        figures += ["catch-up"] * any(link.outages for link in run.links)
        nodes = sorted(run.whole_nodes, key=lambda node: (-node.lag.p99, -node.lag.worst, node.name))
        rows = [_row(node, run)[: len(figures) + 1] for node in nodes[:most]]
        made = table(("node", *figures), rows, numbers=figures, framed=False)
        for column in made.columns:
            # Lags of hours do not fit side by side in 80 columns, and a figure that is cut would be another figure.
            column.no_wrap = False
        console.print(made)
        console.print()
        hidden += max(len(nodes) - most, 0)
    if hidden:
        console.print(f"{hidden:,} rows with a smaller lag are not shown. results.json has all of them.")
    if results.found:
        heads = (
            f"lag at most {microseconds(results.limit)}",
            "variant",
            "load",
            "link",
            "found",
            "worst lag",
        )
        rows = [
            (
                one.node + _alike(one.count),
                one.variant.value,
                f"× {one.load:g}",
                one.link or "all",
                value_of(one),
                microseconds(one.worst),
            )
            for one in results.found[:MOST_ROWS]
        ]
        console.print(table(heads, rows, framed=False))


def _row(node: NodeFigures, run: Run) -> tuple[str, ...]:
    """Return the cells of one row, about a node, in the table of a run on the terminal. The cells are name, bytes, the
    figures of the lag, and the catch-up time after each outage.
    """
    outages = [outage for link in run.links if link.target == node.name for outage in link.outages]
    return (
        node.name + _alike(node.count) + (f" ({node.missing:,} missing)" if node.missing else ""),
        human_bytes(node.bytes),
        # The figures of the lag are in the order of the columns.
        *(microseconds(value) for _, value in node.lag),
        ", ".join("never" if one.catch_up is None else microseconds(one.catch_up) for one in outages),
    )


def _alike(count: int) -> str:
    return f" and {count - 1:,} alike" if count > 1 else ""
