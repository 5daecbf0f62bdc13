"""The command ``dumpfilter inspect``, which shows what a binlog set consists of."""

from __future__ import annotations

from typing import Annotated

import typer

from dumpfilter.commands.option_groups.group import with_option_groups
from dumpfilter.commands.option_groups.inputs import BinlogArguments, VerifyChecksum


@with_option_groups
def inspect_command(
    binlogs: BinlogArguments,
    json: Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")] = False,
    top: Annotated[
        int,
        typer.Option(help="How many tables, transactions and statements to list, the largest first.", min=1),
    ] = 10,
    verify_checksum: VerifyChecksum = True,
) -> None:
    """Show what is in a binlog set: tables, compression, largest transactions, rates.

    Compressed transactions are opened: each table has the bytes without compression, and its share of the compressed
    bytes. Large transactions and statements have file, position and GTID.

    Examples:

        dumpfilter inspect /var/lib/mysql/binlog.index --top 5

        dumpfilter inspect 'mysql://repl@db1:3306/?from=newest'
    """
    import json as json_module

    from rich.console import Console

    from dumpfilter.index.fileset import BinlogSet
    from dumpfilter.index.inspection import inspect_set
    from dumpfilter.index.inspection_text import render_inspection

    found = inspect_set(
        BinlogSet.open(binlogs.source()), verify=verify_checksum, progress=Console(stderr=True), top=top
    )
    if json:
        typer.echo(json_module.dumps(found.as_dict(), indent=1))
    else:
        render_inspection(found, Console(), top=top)
