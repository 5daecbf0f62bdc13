"""The command ``dumpfilter bandwidth``, a job that computes how many bytes each slave would receive."""

from __future__ import annotations

from pathlib import Path

from dumpfilter.base.options.settings import setting
from dumpfilter.commands import option_groups as shared
from dumpfilter.spark_jobs.options import BandwidthOptions


class BandwidthSettings(shared.JsonOption):
    """The options that only ``dumpfilter bandwidth`` has, the output directory and the form of the results."""

    output: Path = Path("bandwidth")
    """Directory for report.html, results.json, the Parquet tables and the measurements."""
    top: int = setting(20, min=1)
    """How many rows of slaves to print, the largest savings first."""
    overwrite: bool = False
    """Replace the whole directory, also results of other binlogs."""


def bandwidth_command(
    binlogs: shared.BinlogArguments,
    slaves: shared.SlaveSetOptions,
    given: BandwidthSettings,
    options: BandwidthOptions,
    engine: shared.EngineOptions,
) -> None:
    """Work out the bytes for each slave: without a filter, and with its filter on the master.

    One pass over the binlogs for any number of slaves. The figures are, to the byte, what dumpfilter master sends. The
    output directory keeps the measurements, so that the next run with other slaves over the same binlogs reads none of
    them. With --slave the job runs on threads of this process instead of Spark, unless --engine says otherwise.

    Examples:

        dumpfilter bandwidth binlog.index --slave 'web:--replicate-do-db=shop'
        dumpfilter bandwidth binlog.index --slaves slaves.toml --price 0.09
        dumpfilter bandwidth s3a://backup/binlog.index --slaves web.cnf
    """
    from rich.console import Console

    from dumpfilter.analyse.report.output import REPORT
    from dumpfilter.analyse.report.terminal import output_console
    from dumpfilter.spark_jobs.bandwidth import output

    definitions = slaves.definitions()
    progress = Console(stderr=True)
    source = binlogs.source()
    with engine.runner(progress, default="local" if slaves.slave else "spark") as run:
        results, measured = output.results_for(
            given.output, source, definitions, run, options, progress, overwrite=given.overwrite
        )
    output.write_results(results, given.output, measured)

    def print_results() -> None:
        console = output_console()
        output.print_results(results, console, given.top)
        console.print(f"report: {given.output / REPORT}", soft_wrap=True)

    given.show(results, print_results)
    output.print_warnings(results, progress)
