"""The command ``dumpfilter split``, a job on threads of this process or on Spark.

It divides a binlog set into one set for each schema, or for each filter of a specification file.
"""

from __future__ import annotations

from pathlib import Path

from dumpfilter.base.options.settings import setting
from dumpfilter.commands import option_groups as shared
from dumpfilter.spark_jobs.options import SplitSettings


class SplitOutput(shared.JsonOption):
    """The options that only ``dumpfilter split`` has, such as the output directory, and the file that names the
    new binlogs and their filters.
    """

    output: Path = setting(show_default=False)
    """Directory for the sets. It appears when all sets are complete."""
    specification: Path | None = None
    """The named binlogs and the filter of each (TOML, see docs/split.md). Without it: one binlog for each schema."""


def split_command(
    binlogs: shared.BinlogArguments,
    given: SplitOutput,
    settings: SplitSettings,
    engine: shared.EngineOptions,
) -> None:
    r"""Split a binlog set into one set for each schema, or for each binlog that --specification names.

    Each set is NAME-bin.000001 … with NAME-bin.index, for dumpfilter master or mysqlbinlog. A transaction that changes
    several schemas is in several sets, each with the changes that belong to it. Events of no schema (accounts, FLUSH)
    are in @rest-bin. The same command continues a split that was killed.

    Examples:

        dumpfilter split binlog.index --output by-schema --engine local
        dumpfilter split binlog.index --output parts \
            --specification parts.toml --max-binlog-size 100M
    """
    from rich.console import Console

    from dumpfilter.analyse.report.terminal import output_console, warn
    from dumpfilter.analyse.split_set import render_split
    from dumpfilter.spark_jobs.split.job import SplitOptions, split
    from dumpfilter.spark_jobs.split.ownership import BY_SCHEMA, load_specification

    specification = BY_SCHEMA if given.specification is None else load_specification(given.specification)
    options = SplitOptions(**dict(settings), specification=specification)
    progress = Console(stderr=True)
    with engine.runner(progress, default="spark") as runner:
        manifest, already = split(binlogs.source(), given.output, runner, options)

    def print_split() -> None:
        render_split(manifest, given.output, output_console(), already=already)
        for warning in manifest.warnings:
            warn(progress, warning)

    given.show(manifest, print_split)
