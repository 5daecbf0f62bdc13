"""``dumpfilter split``: one binlog set for each schema, or for each filter of a specification, on Spark."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

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
from dumpfilter.options.sizes import parse_size


def split_command(
    binlogs: Binlogs,
    output: Annotated[
        Path, typer.Option(help="Directory for the sets; it appears when all is done.", show_default=False)
    ],
    specification: Annotated[
        Path | None,
        typer.Option(
            help="Which filter's events go to which named binlog (TOML, see docs/split.md). Without it: one binlog "
            "for each schema."
        ),
    ] = None,
    max_binlog_size: Annotated[
        str, typer.Option(help="Size after which a file is ended, with its transaction.", metavar="SIZE")
    ] = "1G",
    spanning: Annotated[
        Literal["part", "refuse"],
        typer.Option(
            help="A transaction over several binlogs: each gets the part that belongs to it, or the split fails."
        ),
    ] = "part",
    on_corrupt: OnCorrupt = "stop",
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace another split that is there already.")
    ] = False,
    master: SparkMaster = "local[*]",
    range_size: RangeSize = 32,
    driver_memory: DriverMemory = "1g",
    executor_memory: ExecutorMemory = "1g",
    environment: Environment = None,
    verify_checksum: VerifyChecksum = True,
    json: Annotated[bool, typer.Option("--json", help="Print the manifest instead of a table.")] = False,
) -> None:
    """Split a binlog set: NAME-bin.000001 … and NAME-bin.index for each schema or named binlog.

    Each is a valid binlog set for dumpfilter master or mysqlbinlog. A transaction over several is in each, with what
    belongs there. What belongs to no schema (accounts, FLUSH) is in @rest-bin. The same command again, after it was
    killed, goes on where it was. Needs Java 17 or newer.

    Examples:

        dumpfilter split /var/lib/mysql/binlog.index --output /backup/by-schema
        dumpfilter split binlog.index --output parts --specification parts.toml --max-binlog-size 100M
    """
    from dumpfilter.spark_jobs.spark.jobs import SparkSettings
    from dumpfilter.spark_jobs.split.command import run_split
    from dumpfilter.spark_jobs.split.job import SplitOptions
    from dumpfilter.spark_jobs.split.specification import BY_SCHEMA, load_specification

    options = SplitOptions(
        specification=BY_SCHEMA if specification is None else load_specification(specification),
        max_binlog_size=parse_size(max_binlog_size, option="--max-binlog-size", least=4096),
        spanning=spanning,
        on_corrupt=on_corrupt,
        overwrite=overwrite,
        verify=verify_checksum,
        range_size=range_size << 20,
    )
    run_split(
        binlogs,
        output,
        options,
        spark=SparkSettings(master, driver_memory, executor_memory, environment),
        as_json=json,
    )
