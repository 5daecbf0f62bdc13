"""``dumpfilter bandwidth``: what slaves would be sent, with filters on the master and without, on Spark."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dumpfilter.commands.spark_options import (
    Binlogs,
    DriverMemory,
    Environment,
    ExecutorMemory,
    OnCorrupt,
    RangeSize,
    SparkMaster,
    VerifyChecksum,
)


def bandwidth_command(
    binlogs: Binlogs,
    slaves: Annotated[
        Path,
        typer.Option(help="The slaves and their filters (TOML, see docs/bandwidth.md).", show_default=False),
    ],
    output: Annotated[
        Path, typer.Option(help="Directory for report.html, results.json and the Parquet tables.")
    ] = Path("bandwidth"),
    bucket: Annotated[
        int | None,
        typer.Option(
            help="Seconds over which traffic is summed and peaks are told. Without it: a minute, or more where the "
            "binlogs are long.",
            min=1,
            show_default=False,
        ),
    ] = None,
    on_corrupt: OnCorrupt = "stop",
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace other results that are there already.")
    ] = False,
    master: SparkMaster = "local[*]",
    range_size: RangeSize = 32,
    driver_memory: DriverMemory = "1g",
    executor_memory: ExecutorMemory = "1g",
    environment: Environment = None,
    verify_checksum: VerifyChecksum = True,
    json: Annotated[
        bool, typer.Option("--json", help="Print the results as JSON instead of a table.")
    ] = False,
) -> None:
    """Work out what each slave would be sent: without a filter, with its filter on the slave, and on the master.

    One pass over the binlogs for any number of slaves. The figures of the filter on the master are, to the byte, what
    dumpfilter master sends. Needs Java 17 or newer.

    Examples:

        dumpfilter bandwidth /var/lib/mysql/binlog.index --slaves slaves.toml
        dumpfilter bandwidth s3a://backup/binlogs/binlog.index --slaves slaves.toml --output monday --bucket 1
    """
    from dumpfilter.spark_jobs.bandwidth.command import run_bandwidth
    from dumpfilter.spark_jobs.bandwidth.job import BandwidthOptions
    from dumpfilter.spark_jobs.bandwidth.slaves import load_slaves
    from dumpfilter.spark_jobs.spark.jobs import SparkSettings

    run_bandwidth(
        binlogs,
        load_slaves(slaves),
        output,
        BandwidthOptions(
            on_corrupt=on_corrupt,
            verify=verify_checksum,
            range_size=range_size << 20,
            bucket_seconds=bucket,
        ),
        overwrite=overwrite,
        spark=SparkSettings(master, driver_memory, executor_memory, environment),
        as_json=json,
    )
