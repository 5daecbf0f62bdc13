"""The command ``dumpfilter suggest``, which finds the few filter rules that save most bytes."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dumpfilter.commands.option_groups.group import with_option_groups
from dumpfilter.commands.option_groups.inputs import JobBinlogArguments
from dumpfilter.commands.option_groups.spark import JobReadOptions


@with_option_groups
def suggest_command(
    binlogs: JobBinlogArguments,
    read: JobReadOptions,
    slaves: Annotated[
        Path | None,
        typer.Option(
            help="The slaves and their filters (TOML, see docs/bandwidth.md). Without it, one replica that takes "
            "everything.",
            show_default=False,
        ),
    ] = None,
    keep: Annotated[
        list[str] | None,
        typer.Option(
            help="Never suggest a rule that drops a table matching this LIKE pattern for db.table, such as 'shop.%'. "
            "May be repeated.",
            metavar="PATTERN",
            show_default=False,
        ),
    ] = None,
    rules: Annotated[int, typer.Option(help="The most rules to suggest for a slave.", min=1, max=20)] = 3,
    top: Annotated[int, typer.Option(help="How many tables to list, the largest first.", min=1)] = 10,
    json: Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")] = False,
) -> None:
    """Find the tables that weigh most, and the few rules that save most bytes.

    Prints rules as they stand in my.cnf, with the bytes that each saves. A binlog has no SELECTs: which tables a
    replica needs, only you know. Name them with --keep. Needs neither Spark nor Java.

    Examples:

        dumpfilter suggest /var/lib/mysql/binlog.index
        dumpfilter suggest binlog.index --keep 'shop.%' --rules 2
        dumpfilter suggest binlog.index --slaves slaves.toml --json
    """
    from rich.console import Console

    from dumpfilter.spark_jobs.spark.jobs import ThreadRunner
    from dumpfilter.suggest.job import SuggestOptions, suggest
    from dumpfilter.suggest.terminal import print_suggestions
    from dumpfilter.topology.slaves_file import load_slaves

    options = SuggestOptions(
        on_corrupt=read.on_corrupt,
        verify=read.verify_checksum,
        range_size=read.range_bytes,
        most_rules=rules,
        keep=tuple(keep or ()),
    )
    definitions = [] if slaves is None else load_slaves(slaves)
    found = suggest(binlogs.source(), definitions, ThreadRunner(), options)
    if json:
        typer.echo(found.model_dump_json(indent=1))
    else:
        print_suggestions(found, Console(), top=top)
    progress = Console(stderr=True)
    for warning in found.warnings:
        progress.print(f"[yellow]warning:[/] {warning}", soft_wrap=True)
