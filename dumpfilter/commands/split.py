"""``dumpfilter split``: one binlog set for each schema, on Spark."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def split_command(
    binlogs: Annotated[
        list[Path],
        typer.Argument(help="The binlog set: its index file, its directory, or the files one by one."),
    ],
    output: Annotated[Path, typer.Option(help="Directory for the sets; made when it does not exist.")],
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace sets of the same name that are there already.")
    ] = False,
    master: Annotated[
        str, typer.Option(help="Spark master: local[N] (N cores of this machine) or spark://host:port.")
    ] = "local[*]",
    range_size: Annotated[int, typer.Option(help="How much of a file one task takes, MiB.", min=1)] = 32,
    driver_memory: Annotated[str, typer.Option(help="Memory of Spark's Java process.")] = "1g",
    verify_checksum: Annotated[bool, typer.Option(help="Verify the events' checksums.")] = True,
    json: Annotated[bool, typer.Option("--json", help="Print JSON instead of a table.")] = False,
) -> None:
    """Split a binlog set by schema: NAME-bin.000001 … and NAME-bin.index for each.

    A transaction over several schemas is in the set of each, with what belongs there. What belongs to no
    schema (accounts, FLUSH) is in the set @rest. Needs Java 17 or newer.

    Example:

        dumpfilter split /var/lib/mysql/binlog.index --output /backup/by-schema
    """
    from spark_jobs.command import run_split
    from spark_jobs.split import SplitOptions

    run_split(
        binlogs[0] if len(binlogs) == 1 else list(binlogs),
        output,
        SplitOptions(overwrite=overwrite, verify=verify_checksum, range_size=range_size << 20),
        master=master,
        driver_memory=driver_memory,
        as_json=json,
    )
