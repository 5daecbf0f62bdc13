"""The verbs of ``dumpfilter topology`` that start, end, show or measure a topology."""

from __future__ import annotations

from pathlib import Path

import typer

from dumpfilter.base.options.settings import Settings, setting
from dumpfilter.base.options.units import parse_time
from dumpfilter.commands.topology.options import JsonOption, TopologyOptions, verb


class TopologyArgument(Settings):
    """The argument that names a topology (sources, masters, slaves and links), as a TOML file or a short string."""

    topology: str = setting(metavar="TOPOLOGY", is_argument=True)
    """A TOML file, or a short string such as 'm >> web'."""


class UpSettings(Settings):
    """The options that only ``dumpfilter topology up`` has, such as running in the background and keeping the
    directory.
    """

    detach: bool = False
    """Run in the background, and return when everything runs."""
    timeout: str = setting("60s", metavar="TIME")
    """The longest start of one node, such as 2m."""
    keep: bool = False
    """Leave the directory with logs and data after the end."""
    table: bool = True
    """Show a live table on a terminal."""


@verb()
def up_command(named: TopologyArgument, place: TopologyOptions, given: UpSettings) -> None:
    r"""Start a topology: its servers, masters, slaves and links.

    In the foreground a live table shows each node's position, lag and
    savings, until Ctrl-C. Then everything ends, and the report is printed.
    Ctrl-C and kill leave no process and no file. After kill -9 the next up
    or down cleans.

    Examples:

        dumpfilter topology up fan-out.toml

        dumpfilter topology up "m >> web\[do-db=shop_00, rate=2mbit]; m >> hr"

        dumpfilter topology up --detach \
            "m\[server=mariadb] >> f >> r\[server=mariadb]"
    """
    from dumpfilter.commands.topology.running import run_in_foreground, start_detached
    from dumpfilter.topology import topology_from

    read = topology_from(named.topology)
    seconds = parse_time(given.timeout, option="--timeout")
    if given.detach:
        start_detached(named.topology, place.directory, timeout=given.timeout, keep=given.keep)
    else:
        run_in_foreground(read, place.directory, timeout=seconds, keep=given.keep, table=given.table)


@verb()
def down_command(place: TopologyOptions) -> None:
    """End a topology that runs in the background or in another terminal.

    After kill -9 of the topology's process, down removes its files.

    Example:

        dumpfilter topology down
    """
    from dumpfilter.commands.topology.running import end_topology

    end_topology(place.directory)


@verb()
def show_command(named: TopologyArgument) -> None:
    r"""Check a topology and print it in TOML, with the nodes that its notation leaves out.

    Nothing is started. In the short string "m >> web", for example, the generated workload that m reads is left out.

    Examples:

        dumpfilter topology show fan-out.toml

        dumpfilter topology show "m >> web\[do-db=shop]; m >> hr >> hr2" \
            > topology.toml
    """
    from dumpfilter.topology import to_toml, topology_from

    typer.echo(to_toml(topology_from(named.topology)), nl=False)


class RunSettings(Settings):
    """The options of ``dumpfilter topology run``: the experiment's file, the output directory, and the report."""

    experiment: Path = setting(metavar="EXPERIMENT.toml", is_argument=True)
    """The experiment, a TOML file (docs/topology.md)."""
    output: Path = Path("experiment")
    """Directory for report.html, results.json and the Parquet tables."""
    report: bool = True
    """Write report.html."""
    overwrite: bool = False
    """Replace the results of other inputs."""


@verb()
def run_command(given: RunSettings, output: JsonOption) -> None:
    r"""Run an experiment for real, and measure lag and bytes.

    An experiment compares variants, such as a filter on the master and a filter on the slave. Each variant runs with
    real processes over links with limited rate and delay. The page shows a simulation beside each measurement. Ctrl-C
    ends everything, and writes nothing.

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
