"""The command ``dumpfilter export``, which writes the events of a binlog set as Parquet files."""

from __future__ import annotations

from pathlib import Path

import typer

from dumpfilter.base.options.settings import Settings, setting
from dumpfilter.commands import option_groups as shared
from dumpfilter.spark_jobs.options import ReadOptions


class ExportSettings(Settings):
    """The options that only ``dumpfilter export`` has, such as the output directory, the columns, and one table whose
    rows are exported.
    """

    output: Path = setting(show_default=False)
    """Directory for the Parquet files, one for each binlog."""
    columns: str | None = setting(None, metavar="NAMES")
    """Columns, separated by commas (docs/spark-source.md)."""
    exploded: bool = False
    """A row for each changed row, with its values before and after."""
    table: str | None = setting(None, metavar="DB.TABLE", show_default=False)
    """Only changed rows of this table, with typed columns."""
    column_names: str | None = setting(None, metavar="NAMES")
    """Names of the table's columns, in order, where the binlog has none: 'id unsigned,total'."""
    filter: str | None = setting(None, metavar="OPTIONS")
    """Only events that a slave with these options is sent: '--replicate-do-db=shop'."""


def export_command(
    binlogs: shared.BinlogArguments,
    read: ReadOptions,
    given: ExportSettings,
    slaves: shared.SlaveSetOptions,
) -> None:
    """Write the events of a binlog set as Parquet, for DuckDB, pandas and others.

    Each binlog file becomes a Parquet file with a row for each event. Needs neither Spark nor Java. A slave of --slave
    or --slaves adds a column sent_NAME, which tells whether the slave is sent the event.

    Examples:

        dumpfilter export /var/lib/mysql/binlog.index --output events
        dumpfilter export binlog.index --output rows --exploded
        dumpfilter export binlog.index --output orders --table shop.orders
    """
    from rich.console import Console

    from dumpfilter.analyse.report.terminal import warn
    from dumpfilter.analyse.report.text import human_files
    from dumpfilter.spark_jobs.engines import ThreadRunner
    from dumpfilter.spark_jobs.source.export import export_events

    wanted = {
        "files": "\n".join(binlogs.source()),
        "verify": str(read.verify).lower(),
        "onCorrupt": read.on_corrupt,
        "rangeSize": str(read.range_size),
        "rows": "exploded" if given.exploded or given.table else "events",
        "columns": given.columns,
        "table": given.table,
        "columnNames": given.column_names,
        "filter": given.filter,
    }
    options = {name: value for name, value in wanted.items() if value is not None}
    progress = Console(stderr=True)
    damages: list[object] = []
    warnings: list[str] = []
    found = export_events(
        options,
        given.output,
        ThreadRunner(console=progress),
        damages.append,
        warnings.append,
        slaves.definitions(),
    )
    rows, size = sum(each.rows for each in found), sum(each.size for each in found)
    typer.echo(f"{rows:,} rows in {human_files(len(found))} of {size:,} bytes in {given.output}")
    for text in (*map(str, damages), *warnings):
        warn(progress, text)
