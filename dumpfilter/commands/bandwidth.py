"""The command ``dumpfilter bandwidth``, a job that computes how many bytes each slave would receive."""

from __future__ import annotations

from pathlib import Path

from dumpfilter.analyse.report.measures import Audience
from dumpfilter.base.options.settings import Settings, setting
from dumpfilter.commands import option_groups as shared


class BandwidthSettings(Settings):
    """The options that only ``dumpfilter bandwidth`` has, such as the output directory, the price of a GB, and JSON
    output.
    """

    output: Path = Path("bandwidth")
    """Directory for report.html, results.json, the Parquet tables and the measurements."""
    bucket: int | None = setting(None, min=1, show_default=False)
    """Length of a time bucket, seconds. Bytes are summed for each bucket, and a peak is the busiest one. Default: about
    a minute.
    """
    price: float | None = setting(None, min=0, metavar="PER_GB", show_default=False)
    """Price of a GB (10^9 bytes). The results then show the price of a month's traffic."""
    audience: Audience | None = setting(None, "--for", show_default=False)
    """The readers whose bytes are counted: real replicas, or slaves of dumpfilter. Default: replicas if the binlogs
    have GTIDs.
    """
    top: int = setting(20, min=1)
    """How many rows of slaves to print, the largest savings first."""
    overwrite: bool = False
    """Replace the whole directory, also results of other binlogs."""
    as_json: bool = setting(False, "--json")
    """Print JSON instead of a table."""


def bandwidth_command(
    binlogs: shared.BinlogArguments,
    slaves: shared.SlaveSetOptions,
    read: shared.JobReadOptions,
    engine: shared.EngineOptions,
    given: BandwidthSettings,
) -> None:
    """Work out the bytes for each slave: without a filter, and with its filter on the master.

    One pass over the binlogs for any number of slaves. The figures are, to the byte, what dumpfilter master sends. The
    output directory keeps the measurements, so that the next run with other slaves reads only what is new in the
    binlogs. With --slave the job runs on threads of this process instead of Spark, unless --engine says otherwise.

    Examples:

        dumpfilter bandwidth binlog.index --slave 'web:--replicate-do-db=shop'
        dumpfilter bandwidth binlog.index --slaves slaves.toml --price 0.09
        dumpfilter bandwidth s3a://backup/binlog.index --slaves web.cnf
    """
    import math

    from rich.console import Console

    from dumpfilter.analyse.report.output import REPORT
    from dumpfilter.analyse.report.terminal import show
    from dumpfilter.base.errors import OptionError
    from dumpfilter.spark_jobs.bandwidth import output
    from dumpfilter.spark_jobs.bandwidth.measured_set import BandwidthOptions

    if given.price is not None and not math.isfinite(given.price):
        raise OptionError(f"--price {given.price}: the price of a GB is a number, such as 0.09")
    definitions = slaves.definitions()
    options = BandwidthOptions(
        **read.read_options, bucket_seconds=given.bucket, price_per_gb=given.price, audience=given.audience
    )
    progress = Console(stderr=True)
    source = binlogs.source()
    with (
        shared.telling_interruption(progress, given.output),
        engine.runner(progress, default="local" if slaves.slave else "spark") as run,
    ):
        results, measured = output.results_for(
            given.output, source, definitions, run, options, progress, overwrite=given.overwrite
        )
    output.write_results(results, given.output, measured)

    def print_results() -> None:
        console = Console()
        output.print_results(results, console, given.top)
        console.print(f"report: {given.output / REPORT}", soft_wrap=True, highlight=False)

    show(results, given.as_json, print_results)
    output.print_warnings(results, progress)
