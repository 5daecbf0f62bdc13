"""The command ``dumpfilter suggest``, which finds the few filter rules that save most bytes."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

from dumpfilter.commands.option_groups.inputs import BinlogArguments, VerifyChecksum
from dumpfilter.commands.option_groups.slave_set import SlaveSetOptions


def suggest_command(
    binlogs: BinlogArguments,
    slaves: SlaveSetOptions,
    keep: Annotated[
        list[str] | None,
        typer.Option(
            help="Suggest no rule that drops a table matching this LIKE pattern for db.table. Repeatable.",
            metavar="PATTERN",
            show_default=False,
        ),
    ] = None,
    rules: Annotated[int, typer.Option(help="The most rules to suggest for a slave.", min=1, max=20)] = 3,
    top: Annotated[int, typer.Option(help="How many tables to list, the largest first.", min=1)] = 10,
    lint: Annotated[
        bool,
        typer.Option(
            "--lint/--no-lint",
            help="Reject rules that would break something. Reads the binlogs once more.",
        ),
    ] = True,
    json: Annotated[bool, typer.Option("--json", help="Print JSON instead of text.")] = False,
    on_corrupt: Annotated[
        Literal["stop", "skip"],
        typer.Option(
            help="A damaged file: stop ends the command, skip reads the file up to the damage and warns of the rest."
        ),
    ] = "stop",
    verify_checksum: VerifyChecksum = True,
) -> None:
    """Find the tables that weigh most, and the few rules that save most bytes.

    Prints rules as they stand in my.cnf, with the bytes that each one saves.
    A binlog has no SELECTs. Only you know which tables a replica needs: name
    them with --keep. Without slaves, the rules are for one replica that takes
    everything. Needs neither Spark nor Java.

    Examples:

        dumpfilter suggest /var/lib/mysql/binlog.index
        dumpfilter suggest binlog.index --keep 'shop.%' --rules 2
        dumpfilter suggest binlog.index --slave 'hr:--replicate-do-db=hr'
        dumpfilter suggest binlog.index --slaves slaves.toml --json
    """
    from rich.console import Console

    from dumpfilter.index.fileset import BinlogSet
    from dumpfilter.lint.progress import gather_with_bar
    from dumpfilter.report.terminal import print_json, warn
    from dumpfilter.spark_jobs.engines.threads import ThreadRunner
    from dumpfilter.suggest.job import SuggestOptions, suggest
    from dumpfilter.suggest.terminal import print_suggestions

    options = SuggestOptions(
        on_corrupt=on_corrupt, verify=verify_checksum, most_rules=rules, keep=tuple(keep or ())
    )
    definitions = slaves.definitions() if slaves.slaves or slaves.slave else []
    progress = Console(stderr=True)
    source = binlogs.source()
    # Lint stops at a damaged file.
    can_lint = lint and on_corrupt == "stop"
    found = suggest(
        source,
        definitions,
        ThreadRunner(console=progress),
        options,
        (lambda: gather_with_bar(BinlogSet.open(source), progress, verify=verify_checksum))
        if can_lint
        else None,
    )
    if json:
        print_json(found)
    else:
        print_suggestions(found, Console(), top=top)
    if lint and not can_lint:
        warn(progress, "the suggested rules were not checked: dumpfilter lint needs undamaged files")
    for warning in found.warnings:
        warn(progress, warning)
