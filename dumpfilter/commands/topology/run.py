"""The verb ``run`` of ``dumpfilter topology``, which runs an experiment."""

from __future__ import annotations

from pathlib import Path

from dumpfilter.base.options.settings import Settings, setting
from dumpfilter.commands.topology.options import JsonOption


class RunSettings(Settings):
    """The options of ``dumpfilter topology run``."""

    experiment: Path = setting(metavar="EXPERIMENT.toml", is_argument=True)
    """The experiment, a TOML file (docs/topology.md)."""
    output: Path = Path("experiment")
    """Directory for report.html, results.json and the Parquet tables."""
    report: bool = True
    """Write report.html."""
    overwrite: bool = False
    """Replace the results of other inputs."""


def run_command(given: RunSettings, output: JsonOption) -> None:
    r"""Run an experiment for real, and measure lag and bytes.

    Each variant, such as a filter on the master and a filter on the slave,
    runs with real processes over shaped links. The page shows a simulation
    beside each measurement. Ctrl-C ends everything, and writes nothing.

    Examples:

        dumpfilter topology run tokyo.toml

        dumpfilter topology run tokyo.toml --output tokyo --overwrite
    """
    from rich.console import Console

    from dumpfilter.analyse.report.output import check_output
    from dumpfilter.base.endings import endings_interrupt
    from dumpfilter.commands.results import show_results
    from dumpfilter.testbed.experiment.definition import load_experiment
    from dumpfilter.testbed.experiment.run import run_experiment

    read = load_experiment(given.experiment)
    check_output(given.output, overwrite=given.overwrite)
    progress = Console(stderr=True, highlight=False)
    with endings_interrupt(), progress.status(read.name) as line:
        tell = line.update if progress.is_terminal else progress.print
        results = run_experiment(read, tell)
    show_results(results, given.output, progress, page=given.report, json=output.as_json)
