"""The command ``dumpfilter simulate``: a topology's traffic and lag, computed from a binlog.

The traffic of each transaction is read in one pass over the binlogs, on threads of this process or on Spark.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path

from dumpfilter.base.options.settings import Settings, setting
from dumpfilter.commands.option_groups.engine import JobReadOptions, LocalEngineOptions
from dumpfilter.commands.option_groups.scenarios import ScenarioOptions
from dumpfilter.commands.simulating import Inputs, read_origins


class SimulationOutput(Settings):
    """The options for the output of ``dumpfilter simulate``."""

    output: Path = Path("simulation")
    """Directory for report.html, results.json and the Parquet tables."""
    report: bool = True
    """Write report.html."""
    overwrite: bool = False
    """Replace the results of other inputs."""
    as_json: bool = setting(False, "--json")
    """Print the results as JSON instead of tables."""


def simulate_command(
    inputs: Inputs,
    scenarios: ScenarioOptions,
    read: JobReadOptions,
    engine: LocalEngineOptions,
    given: SimulationOutput,
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

    from dumpfilter.analyse.report.output import check_output
    from dumpfilter.commands.results import show_results
    from dumpfilter.simulation.simulate import simulate
    from dumpfilter.spark_jobs.engines.threads import ThreadRunner

    planned = inputs.planned()
    options = scenarios.options(planned.plan.links)
    check_output(given.output, overwrite=given.overwrite)
    progress = Console(stderr=True)
    with engine.runner(progress, default="local") as run:
        traffics = read_origins(planned, run, read, {setting.variant for setting in options.settings})
    # The traffic is small. So the nodes are evaluated here, also when Spark has read the binlogs.
    threads = partial(ThreadRunner(console=progress), label="simulating")
    results = simulate(planned.plan, traffics, options, threads, speeds=planned.speeds)
    show_results(results, given.output, progress, page=given.report, json=given.as_json)
