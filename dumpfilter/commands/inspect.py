"""The command ``dumpfilter inspect``, which shows what a binlog set consists of."""

from __future__ import annotations

from typing import Annotated

import typer

from dumpfilter.commands.option_groups.inputs import BinlogArguments, VerifyChecksum
from dumpfilter.report.periods import Division


def inspect_command(
    binlogs: BinlogArguments,
    json: Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")] = False,
    top: Annotated[
        int,
        typer.Option(help="How many tables, transactions and statements to list, the largest first.", min=1),
    ] = 10,
    over_time: Annotated[
        Division | None,
        typer.Option(
            help="Also show the bytes of each schema or table in periods of time.", show_default=False
        ),
    ] = None,
    period: Annotated[
        int | None,
        typer.Option(
            help="Seconds of a period of --over-time. Without it there are at most 32 periods.",
            min=1,
            show_default=False,
        ),
    ] = None,
    verify_checksum: VerifyChecksum = True,
) -> None:
    """Show what is in a binlog set: tables, compression, largest transactions, rates.

    Compressed transactions are opened: each table has the bytes without compression, and its share of the compressed
    bytes. Large transactions and statements have file, position and GTID.

    Examples:

        dumpfilter inspect /var/lib/mysql/binlog.index --top 5

        dumpfilter inspect binlog.index --over-time table --period 3600

        dumpfilter inspect 'mysql://repl@db1:3306/?from=newest'
    """
    from rich.console import Console

    from dumpfilter.errors import OptionError
    from dumpfilter.index.fileset import BinlogSet
    from dumpfilter.inspection.inspection import inspect_set
    from dumpfilter.inspection.over_time import OverTimeOptions
    from dumpfilter.inspection.text import render_inspection
    from dumpfilter.report.terminal import print_json

    if period is not None and over_time is None:
        raise OptionError("--period needs --over-time: write --over-time schema, or --over-time table")
    found = inspect_set(
        BinlogSet.open(binlogs.source()),
        verify=verify_checksum,
        progress=Console(stderr=True),
        top=top,
        over_time=None if over_time is None else OverTimeOptions(over_time, period),
    )
    if json:
        print_json(found.as_dict())
    else:
        render_inspection(found, Console(), top=top)
