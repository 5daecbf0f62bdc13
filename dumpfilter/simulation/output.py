"""The output of a simulation of replication or of an experiment (a run of real processes). The output consists of
results.json, an HTML page, and tables on the terminal.
"""

from __future__ import annotations

from pathlib import Path

from rich.console import Console
from rich.text import Text

from dumpfilter.analyse.report.output import REPORT, RESULTS, written_together
from dumpfilter.analyse.report.terminal import output_console, print_json, table, warn
from dumpfilter.analyse.report.text import human_bytes
from dumpfilter.simulation.results import NodeFigures, Results, Run, microseconds, title_of, value_of


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
    if json:
        print_json(results)
    else:
        console = output_console()
        print_results(results, console)
        where = f"report: {output / REPORT}" if page else f"results: {output}"
        console.print(where, soft_wrap=True)
    for warning in results.warnings:
        warn(progress, warning)


MOST_ROWS = 40
"""The maximum number of rows that the printed tables of all runs have together. It is also the maximum for the table of
the searches' results.
"""

LEAST_ROWS = 3
"""The minimum number of nodes in the printed table of each run, even if all tables together then exceed
:data:`MOST_ROWS`.
"""


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
        first = f"lag at most {microseconds(results.limit)}"
        heads = (first, "variant", "load", "link", "found", "worst lag")
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
