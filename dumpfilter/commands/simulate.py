"""The command ``dumpfilter simulate``: a topology's traffic and lag, computed from a binlog.

The traffic of each transaction is read in one pass over the binlogs, on threads of this process or on Spark.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Annotated

import typer

from dumpfilter.commands.option_groups.engine import JobReadOptions, LocalEngineOptions
from dumpfilter.commands.option_groups.scenarios import ScenarioOptions
from dumpfilter.commands.simulating import planned, read_origins


def simulate_command(
    topology: Annotated[
        str | None,
        typer.Argument(
            help="The topology: a TOML file or a short string (docs/topology.md).", show_default=False
        ),
    ] = None,
    *,
    binlog: Annotated[
        list[str] | None,
        typer.Option(
            help="The binlog set of the topology's origin: its index file or directory, also as an s3a:, hdfs: or "
            "file: address, or a running server, mysql://USER@HOST:PORT/. NODE=SET for several origins.",
            metavar="SET",
            show_default=False,
        ),
    ] = None,
    slaves: Annotated[
        Path | None,
        typer.Option(
            help="Slaves of one master, in place of a topology (TOML, see docs/simulation.md).",
            show_default=False,
        ),
    ] = None,
    scenarios: ScenarioOptions,
    read: JobReadOptions,
    engine: LocalEngineOptions,
    output: Annotated[
        Path, typer.Option(help="Directory for report.html, results.json and the Parquet tables.")
    ] = Path("simulation"),
    report: Annotated[bool, typer.Option(help="Write report.html.")] = True,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace the results of other inputs.")
    ] = False,
    json: Annotated[
        bool, typer.Option("--json", help="Print the results as JSON instead of tables.")
    ] = False,
) -> None:
    r"""Work out the lag of each slave and the bytes on each link of a topology, from a binlog alone.

    One pass over the binlogs. The bytes are exactly those that the master sends, and the times are those of the
    transactions' commits. docs/simulation.md describes the model of a link.

    Examples:

        dumpfilter simulate "m >> web\[rate=2mbit]" --binlog binlog.index
        dumpfilter simulate t.toml --binlog binlog.index --sweep rate=1mbit,2mbit
        dumpfilter simulate t.toml --binlog binlog.index --find rate --lag 5s
    """
    from rich.console import Console

    from dumpfilter.commands.results import show_results
    from dumpfilter.report.output import check_output
    from dumpfilter.simulation.simulate import simulate
    from dumpfilter.spark_jobs.engines.threads import ThreadRunner

    given = planned(topology, slaves, binlog or [])
    options = scenarios.options(given.plan.links)
    check_output(output, overwrite=overwrite)
    progress = Console(stderr=True)
    with engine.runner(progress, default="local") as run:
        traffics = read_origins(given, run, read, {setting.variant for setting in options.settings})
    # The traffic is small. So the nodes are evaluated here, also when Spark has read the binlogs.
    threads = partial(ThreadRunner(console=progress), label="simulating")
    results = simulate(given.plan, traffics, options, threads, speeds=given.speeds)
    show_results(results, output, progress, page=report, json=json)
