"""The command ``dumpfilter split``, a job on threads of this process or on Spark.

It divides a binlog set into one set for each schema, or for each filter of a specification file.
"""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from dumpfilter.commands.option_groups.engine import EngineOptions, JobReadOptions
from dumpfilter.commands.option_groups.inputs import BinlogArguments


def split_command(
    binlogs: BinlogArguments,
    output: Annotated[
        Path,
        typer.Option(
            help="Directory for the sets. It appears when all sets are complete.", show_default=False
        ),
    ],
    read: JobReadOptions,
    engine: EngineOptions,
    specification: Annotated[
        Path | None,
        typer.Option(
            help="The named binlogs and the filter of each (TOML, see docs/split.md). Without it: one binlog for each "
            "schema."
        ),
    ] = None,
    max_binlog_size: Annotated[
        str, typer.Option(help="Size at which a file ends after its transaction.", metavar="SIZE")
    ] = "1G",
    spanning: Annotated[
        Literal["part", "refuse"],
        typer.Option(
            help="A transaction over several binlogs: each gets the part that belongs to it, or the split fails."
        ),
    ] = "part",
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace another split in the directory.")
    ] = False,
    json: Annotated[bool, typer.Option("--json", help="Print the manifest instead of a table.")] = False,
) -> None:
    r"""Split a binlog set: NAME-bin.000001 … and NAME-bin.index for each schema or named binlog.

    Each is a valid binlog set for dumpfilter master or mysqlbinlog. A transaction over several is in each, with what
    belongs there. Events of no schema (accounts, FLUSH) are in @rest-bin. A split that was killed goes on when the
    same command runs again.

    Examples:

        dumpfilter split binlog.index --output by-schema --engine local
        dumpfilter split binlog.index --output parts \
            --specification parts.toml --max-binlog-size 100M
    """
    from rich.console import Console

    from dumpfilter.commands.interruption import telling_interruption
    from dumpfilter.options.sizes import parse_size
    from dumpfilter.report.terminal import print_json, warn
    from dumpfilter.spark_jobs.split.job import SplitOptions, split
    from dumpfilter.spark_jobs.split.specification import BY_SCHEMA, load_specification
    from dumpfilter.split_set.manifest_tables import render_split

    options = SplitOptions(
        specification=BY_SCHEMA if specification is None else load_specification(specification),
        max_binlog_size=parse_size(max_binlog_size, option="--max-binlog-size", least=4096),
        spanning=spanning,
        on_corrupt=read.on_corrupt,
        overwrite=overwrite,
        verify=read.verify_checksum,
        range_size=read.range_bytes,
    )
    progress = Console(stderr=True)
    with telling_interruption(progress, output), engine.runner(progress, default="spark") as runner:
        result = split(binlogs.source(), output, runner, options)
    if json:
        print_json(result.manifest)
        return
    render_split(result.manifest, output, Console(), already=result.already)
    for warning in result.manifest.warnings:
        warn(progress, warning)
