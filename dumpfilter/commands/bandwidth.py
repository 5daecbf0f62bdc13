"""The command ``dumpfilter bandwidth``, a job that computes how many bytes each slave would receive."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Annotated

import typer

from dumpfilter.commands.option_groups.engine import EngineOptions, JobReadOptions
from dumpfilter.commands.option_groups.group import with_option_groups
from dumpfilter.commands.option_groups.inputs import JobBinlogArguments

if TYPE_CHECKING:
    from rich.console import Console

    from dumpfilter.spark_jobs.bandwidth.results import Results


@with_option_groups
def bandwidth_command(
    binlogs: JobBinlogArguments,
    slaves: Annotated[
        Path,
        typer.Option(help="The slaves and their filters (TOML, see docs/bandwidth.md).", show_default=False),
    ],
    read: JobReadOptions,
    engine: EngineOptions,
    output: Annotated[
        Path, typer.Option(help="Directory for report.html, results.json and the Parquet tables.")
    ] = Path("bandwidth"),
    bucket: Annotated[
        int | None,
        typer.Option(
            help="Seconds over which bytes are summed, and the width of a peak. Without it a minute, or more where "
            "the binlogs are long.",
            min=1,
            show_default=False,
        ),
    ] = None,
    overwrite: Annotated[
        bool, typer.Option("--overwrite", help="Replace the results of other inputs.")
    ] = False,
    json: Annotated[
        bool, typer.Option("--json", help="Print the results as JSON instead of a table.")
    ] = False,
) -> None:
    """Work out the bytes for each slave: without a filter, with its filter on the slave, and on the master.

    One pass over the binlogs for any number of slaves. The figures of the filter on the master are, to the byte, what
    dumpfilter master sends. The column replica is for a real replica.

    Examples:

        dumpfilter bandwidth /var/lib/mysql/binlog.index --slaves slaves.toml --engine local
        dumpfilter bandwidth s3a://backup/binlogs/binlog.index --slaves slaves.toml --output monday --bucket 1
    """
    from rich.console import Console

    from dumpfilter.report.extra import check_report_extra
    from dumpfilter.report.output import REPORT, check_output
    from dumpfilter.spark_jobs.bandwidth.job import BandwidthOptions, bandwidth
    from dumpfilter.spark_jobs.bandwidth.output import write_results
    from dumpfilter.spark_jobs.ranges.indexing import skipped_part
    from dumpfilter.topology.slaves_file import load_slaves

    definitions = load_slaves(slaves)
    options = BandwidthOptions(
        on_corrupt=read.on_corrupt,
        verify=read.verify_checksum,
        range_size=read.range_bytes,
        bucket_seconds=bucket,
    )
    check_report_extra()
    check_output(output, overwrite=overwrite)
    progress = Console(stderr=True)
    with engine.runner(progress, default="spark") as runner:
        results = bandwidth(binlogs.source(), definitions, runner, options)
    write_results(results, output)
    if json:
        typer.echo(results.model_dump_json(indent=1))
    else:
        console = Console()
        _print_table(results, console)
        console.print(f"report: {output / REPORT}", soft_wrap=True, highlight=False)
    skipped = (
        f"{each.file}: skipped {skipped_part(each.position)}: {each.reason}" for each in results.skipped
    )
    for warning in (*skipped, *results.warnings):
        progress.print(f"[yellow]warning:[/] {warning}", soft_wrap=True)


def _print_table(results: Results, console: Console) -> None:
    from rich.table import Table

    from dumpfilter.printable import visible
    from dumpfilter.report.text import human_bytes, human_percent

    source = results.source
    table = Table(
        title=f"{len(source.files):,} files, {source.bytes:,} bytes, {source.transactions:,} transactions",
        title_justify="left",
        title_style="bold",
    )
    table.add_column("slave", overflow="fold", min_width=8)
    for name in ("no filter", "on master", "saved", "with zstd", "split", "replica"):
        table.add_column(name, justify="right", no_wrap=True)
    for slave in results.slaves:
        whole, sent = slave.no_filter.bytes, slave.master_side.bytes
        table.add_row(
            visible(slave.name),
            human_bytes(whole),
            human_bytes(sent),
            human_percent((whole - sent) / whole if whole else None),
            f"~ {human_bytes(slave.compressed)}",
            human_bytes(slave.split),
            "no GTIDs" if slave.real_replica is None else human_bytes(slave.real_replica.bytes),
        )
    console.print(table)
