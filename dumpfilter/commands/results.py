"""Writing the results of a simulation or an experiment to the output directory, and printing them."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console

from dumpfilter.analyse.report.output import REPORT
from dumpfilter.analyse.report.terminal import print_json, warn
from dumpfilter.simulation.output import write_results
from dumpfilter.simulation.results import Results
from dumpfilter.simulation.terminal import print_results


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
