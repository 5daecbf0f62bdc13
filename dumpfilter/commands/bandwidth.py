"""The command ``dumpfilter bandwidth``, a job that computes how many bytes each slave would receive."""

from __future__ import annotations

from contextlib import AbstractContextManager
from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dumpfilter.commands.option_groups.engine import EngineOptions, JobReadOptions
from dumpfilter.commands.option_groups.inputs import BinlogArguments
from dumpfilter.commands.option_groups.slave_set import SlaveSetOptions
from dumpfilter.report.audience import Audience

if TYPE_CHECKING:
    from dumpfilter.spark_jobs.engines.runner import Runner


def bandwidth_command(
    binlogs: BinlogArguments,
    slaves: SlaveSetOptions,
    read: JobReadOptions,
    engine: EngineOptions,
    output: Annotated[
        Path,
        typer.Option(
            help="Directory for report.html, results.json, the Parquet tables and the measurements."
        ),
    ] = Path("bandwidth"),
    bucket: Annotated[
        int | None,
        typer.Option(
            help="Seconds over which bytes are summed, and the width of a peak. Without it about a minute.",
            min=1,
            show_default=False,
        ),
    ] = None,
    price: Annotated[
        float | None,
        typer.Option(
            help="Price of a GB (10^9 bytes). The results then have the price of a month.",
            min=0,
            metavar="PER_GB",
            show_default=False,
        ),
    ] = None,
    for_: Annotated[
        Audience | None,
        typer.Option(
            "--for",
            help="The readers: real replicas or slaves of dumpfilter. Without it replicas, if the binlogs have GTIDs.",
            show_default=False,
        ),
    ] = None,
    top: Annotated[
        int, typer.Option(help="How many rows of slaves to print, the largest savings first.", min=1)
    ] = 20,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace the whole directory, also results of other binlogs.")
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """Work out the bytes for each slave: without a filter, and with its filter on the master.

    One pass over the binlogs for any number of slaves. The figures are, to the
    byte, what dumpfilter master sends. The output directory keeps the
    measurements. The next run with other slaves reads only what is new in the
    binlogs. With --slave the engine is local, unless --engine says otherwise.

    Examples:

        dumpfilter bandwidth binlog.index --slave 'web:--replicate-do-db=shop'
        dumpfilter bandwidth binlog.index --slaves slaves.toml --price 0.09
        dumpfilter bandwidth s3a://backup/binlog.index --slaves web.cnf
    """
    import math

    from rich.console import Console

    from dumpfilter.commands.interruption import telling_interruption
    from dumpfilter.commands.measuring import measured_results
    from dumpfilter.errors import OptionError
    from dumpfilter.report.output import REPORT
    from dumpfilter.report.terminal import print_json
    from dumpfilter.spark_jobs.bandwidth.measured_set import BandwidthOptions
    from dumpfilter.spark_jobs.bandwidth.output import write_results
    from dumpfilter.spark_jobs.bandwidth.terminal import print_results, print_warnings

    if price is not None and not math.isfinite(price):
        raise OptionError(f"--price {price}: the price of a GB is a number, such as 0.09")
    definitions = slaves.definitions()
    options = BandwidthOptions(
        on_corrupt=read.on_corrupt,
        verify=read.verify_checksum,
        range_size=read.range_bytes,
        bucket_seconds=bucket,
        price_per_gb=price,
        audience=for_,
    )
    progress = Console(stderr=True)

    def runner() -> AbstractContextManager[Runner]:
        return engine.runner(progress, default="local" if slaves.is_what_if else "spark")

    source = binlogs.source()
    with telling_interruption(progress, output):
        results, measured = measured_results(
            source, definitions, options, output, runner, progress, overwrite=overwrite
        )
    write_results(results, output, measured)
    if json:
        print_json(results)
    else:
        console = Console()
        print_results(results, console, top)
        console.print(f"report: {output / REPORT}", soft_wrap=True, highlight=False)
    print_warnings(results, progress)
