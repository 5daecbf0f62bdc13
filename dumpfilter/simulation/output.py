"""The output of a simulation or an experiment: results.json, the Parquet tables and the page in a directory, and the
results on the terminal.
"""

from __future__ import annotations

from pathlib import Path

from rich.console import Console

from dumpfilter.analyse.report.output import REPORT, RESULTS, written_together
from dumpfilter.analyse.report.parquet import write_tables
from dumpfilter.analyse.report.terminal import print_json, warn
from dumpfilter.simulation.results import Results
from dumpfilter.simulation.tables import FORMS, tables
from dumpfilter.simulation.terminal import print_results


def write_results(results: Results, directory: Path, *, page: bool = True) -> None:
    """Write the results of a simulation as results.json, Parquet tables and report.html into ``directory``: all files
    or none.

    With ``page`` False, report.html is left out.
    """
    with written_together(directory) as beside:
        (beside / RESULTS).write_text(results.model_dump_json(indent=1) + "\n", "utf-8")
        if page:
            # Jinja takes long to load.
            from dumpfilter.simulation.page import render_page

            (beside / REPORT).write_text(render_page(results), "utf-8")
        write_tables(FORMS, tables(results), beside)


def show_results(results: Results, output: Path, progress: Console, *, page: bool, json: bool) -> None:
    """Write the results of a simulation or an experiment to the directory ``output``, and print them as tables or, with
    ``json``, as JSON.

    With ``page`` the directory also gets report.html. Warnings are printed to the console ``progress``.
    """
    write_results(results, output, page=page)
    if json:
        print_json(results)
    else:
        console = Console()
        print_results(results, console)
        where = f"report: {output / REPORT}" if page else f"results: {output}"
        console.print(where, soft_wrap=True, highlight=False)
    for warning in results.warnings:
        warn(progress, warning)
