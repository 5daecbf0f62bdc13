"""The verb ``run`` of ``dumpfilter topology``, which runs an experiment."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dumpfilter.commands.topology.options import Json


def run_command(
    experiment: Annotated[
        Path,
        typer.Argument(help="The experiment, a TOML file (docs/topology.md).", metavar="EXPERIMENT.toml"),
    ],
    output: Annotated[
        Path, typer.Option(help="Directory for report.html, results.json and the Parquet tables.")
    ] = Path("experiment"),
    report: Annotated[bool, typer.Option(help="Write report.html.")] = True,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace the results of other inputs.")
    ] = False,
    json: Json = False,
) -> None:
    r"""Run an experiment for real, and measure lag and bytes.

    Each variant, such as a filter on the master and a filter on the slave,
    runs with real processes over shaped links. The page shows a simulation
    beside each measurement. Ctrl-C ends everything, and writes nothing.

    Examples:

        dumpfilter topology run tokyo.toml

        dumpfilter topology run tokyo.toml --output tokyo --overwrite
    """
    from rich.console import Console

    from dumpfilter.commands.results import show_results
    from dumpfilter.endings import endings_interrupt
    from dumpfilter.experiment.definition import load_experiment
    from dumpfilter.experiment.run import run_experiment
    from dumpfilter.report.output import check_output

    read = load_experiment(experiment)
    check_output(output, overwrite=overwrite)
    progress = Console(stderr=True, highlight=False)
    with endings_interrupt(), progress.status(read.name) as line:
        tell = line.update if progress.is_terminal else progress.print
        results = run_experiment(read, tell)
    show_results(results, output, progress, page=report, json=json)
