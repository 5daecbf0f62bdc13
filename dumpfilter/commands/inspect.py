"""The command ``dumpfilter inspect``, which counts the events of a binlog set by type, schema and table."""

from __future__ import annotations

from typing import Annotated

import typer

from dumpfilter.commands.option_groups.group import with_option_groups
from dumpfilter.commands.option_groups.inputs import BinlogArguments, VerifyChecksum


@with_option_groups
def inspect_command(
    binlogs: BinlogArguments,
    json: Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")] = False,
    top: Annotated[int, typer.Option(help="How many tables to list, the largest first.", min=1)] = 20,
    verify_checksum: VerifyChecksum = True,
) -> None:
    """Show what is in a binlog set: events by type, bytes by schema and table, transactions, GTIDs, time span.

    Examples:

        dumpfilter inspect /var/lib/mysql/binlog.index --top 10

        dumpfilter inspect 'mysql://repl@db1:3306/?from=newest'
    """
    import json as json_module

    from rich.console import Console

    from dumpfilter.index.fileset import BinlogSet
    from dumpfilter.index.inspection import inspect_set, render_inspection

    found = inspect_set(
        BinlogSet.open(binlogs.source()), verify=verify_checksum, progress=Console(stderr=True)
    )
    if json:
        typer.echo(json_module.dumps(found.as_dict(), indent=1))
    else:
        render_inspection(found, Console(), top=top)
