"""The command ``dumpfilter export``, which writes the events of a binlog set as Parquet files."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dumpfilter.commands.option_groups.group import with_option_groups
from dumpfilter.commands.option_groups.inputs import JobBinlogArguments, VerifyChecksum


@with_option_groups
def export_command(
    binlogs: JobBinlogArguments,
    output: Annotated[
        Path, typer.Option(help="Directory for the Parquet files, one for each binlog.", show_default=False)
    ],
    columns: Annotated[
        str | None,
        typer.Option(help="Columns, separated by commas (docs/spark-source.md).", metavar="NAMES"),
    ] = None,
    exploded: Annotated[
        bool, typer.Option("--exploded", help="A row for each changed row, with its values before and after.")
    ] = False,
    table: Annotated[
        str | None,
        typer.Option(
            help="Only changed rows of this table, with typed columns.",
            metavar="DB.TABLE",
            show_default=False,
        ),
    ] = None,
    column_names: Annotated[
        str | None,
        typer.Option(
            help="Names of the table's columns, in order, where the binlog has none: 'id unsigned,total'.",
            metavar="NAMES",
        ),
    ] = None,
    filter: Annotated[
        str | None,
        typer.Option(
            "--filter",
            help="Only events that a slave with these options is sent: '--replicate-do-db=shop'.",
            metavar="OPTIONS",
        ),
    ] = None,
    slave: Annotated[
        list[str] | None,
        typer.Option(
            help="A column sent_NAME: whether the slave is sent the event. Repeatable.",
            metavar="NAME:OPTIONS",
            show_default=False,
        ),
    ] = None,
    slaves: Annotated[
        Path | None, typer.Option(help="The same for the slaves of a file (TOML or my.cnf).", metavar="FILE")
    ] = None,
    verify_checksum: VerifyChecksum = True,
) -> None:
    """Write the events of a binlog set as Parquet, for DuckDB, pandas and others.

    Each binlog file becomes a Parquet file with a row for each event. Needs neither Spark nor Java.

    Examples:

        dumpfilter export /var/lib/mysql/binlog.index --output events

        dumpfilter export binlog.index --output rows --exploded

        dumpfilter export binlog.index --output orders --table shop.orders
    """
    from rich.console import Console

    from dumpfilter.errors import OptionError
    from dumpfilter.spark_jobs.engines.threads import ThreadRunner
    from dumpfilter.spark_jobs.source.export import export_events

    source = binlogs.source()
    options = {"files": "\n".join(map(str, source if isinstance(source, list) else [source]))}
    options |= {"verify": str(verify_checksum).lower(), "rows": "exploded" if exploded or table else "events"}
    given = {
        "columns": columns,
        "table": table,
        "columnNames": column_names,
        "filter": filter,
        "slaves": None if slaves is None else str(slaves),
    }
    options |= {name: value for name, value in given.items() if value is not None}
    for one in slave or []:
        name, colon, text = one.partition(":")
        if not colon:
            raise OptionError(f"--slave {one}: write NAME:OPTIONS, such as 'web:--replicate-do-db=shop'")
        # The data source ignores the case of its options, as Spark does.
        option = f"slave.{name.strip()}".lower()
        if option in options:
            raise OptionError(f"--slave {one}: two slaves have this name; rename one")
        options[option] = text
    found = export_events(options, output, ThreadRunner(console=Console(stderr=True)))
    rows, size = sum(each.rows for each in found), sum(each.size for each in found)
    files = "1 file" if len(found) == 1 else f"{len(found):,} files"
    typer.echo(f"{rows:,} rows in {files} of {size:,} bytes in {output}")
