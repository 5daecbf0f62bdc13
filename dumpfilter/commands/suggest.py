"""The command ``dumpfilter suggest``, which finds the few filter rules that save most bytes."""

from __future__ import annotations

from dumpfilter.base.options.settings import setting
from dumpfilter.commands import option_groups as shared
from dumpfilter.spark_jobs.options import SuggestOptions


class SuggestSettings(shared.JsonOption):
    """The options that only ``dumpfilter suggest`` has: how many tables it lists, whether lint checks its rules, and
    whether it prints JSON.
    """

    top: int = setting(10, min=1)
    """How many tables to list, the largest first."""
    lint: bool = True
    """Reject rules that would break replication. Reads the binlogs once more."""


def suggest_command(
    binlogs: shared.BinlogArguments,
    slaves: shared.SlaveSetOptions,
    given: SuggestSettings,
    options: SuggestOptions,
) -> None:
    """Find the tables with the most bytes, and the few filter rules that save most bytes.

    Prints rules as they stand in my.cnf, with the bytes that each one saves. A binlog has no SELECTs. Only you know
    which tables a replica needs: name them with --keep. Without slaves, the rules are for one replica that takes
    everything. Needs neither Spark nor Java.

    Examples:

        dumpfilter suggest /var/lib/mysql/binlog.index
        dumpfilter suggest binlog.index --keep 'shop.%' --rules 2
        dumpfilter suggest binlog.index --slave 'hr:--replicate-do-db=hr'
        dumpfilter suggest binlog.index --slaves slaves.toml --json
    """
    from rich.console import Console

    from dumpfilter.analyse.lint.knowledge import SetKnowledge, gather
    from dumpfilter.analyse.report.terminal import output_console, warn
    from dumpfilter.index.fileset import BinlogSet
    from dumpfilter.spark_jobs.engines import ThreadRunner
    from dumpfilter.spark_jobs.suggest.job import suggest
    from dumpfilter.spark_jobs.suggest.results import print_suggestions

    definitions = slaves.definitions()
    progress = Console(stderr=True)
    source = binlogs.source()
    # Lint stops at a damaged file.
    can_lint = given.lint and options.on_corrupt == "stop"

    def knowledge() -> SetKnowledge:
        return gather(BinlogSet.open(source), verify=options.verify, console=progress)

    runner = ThreadRunner(console=progress)
    found = suggest(source, definitions, runner, options, knowledge if can_lint else None)
    given.show(found, lambda: print_suggestions(found, output_console(), top=given.top))
    if given.lint and not can_lint:
        warn(progress, "the suggested rules were not checked: dumpfilter lint needs undamaged files")
    for warning in found.warnings:
        warn(progress, warning)
