"""``dumpfilter bandwidth``: runs the job, writes its files and prints a table."""

from __future__ import annotations

from collections.abc import Sequence
from pathlib import Path

from rich.console import Console
from rich.table import Table

from dumpfilter.printable import visible
from dumpfilter.spark_jobs.bandwidth.job import BandwidthOptions, bandwidth
from dumpfilter.spark_jobs.bandwidth.output import REPORT, check_output, write_results
from dumpfilter.spark_jobs.bandwidth.report.text import human_bytes, human_percent
from dumpfilter.spark_jobs.bandwidth.results import Results
from dumpfilter.spark_jobs.bandwidth.slaves import SlaveDefinition
from dumpfilter.spark_jobs.ranges.indexing import passed_over
from dumpfilter.spark_jobs.spark.jobs import SparkSettings, spark_runner


def run_bandwidth(
    sources: list[str],
    slaves: Sequence[SlaveDefinition],
    output: Path,
    options: BandwidthOptions,
    *,
    overwrite: bool,
    spark: SparkSettings,
    as_json: bool,
) -> None:
    """Measure, write and print. Raises what the job and the session do, and OutputError."""
    check_output(output, overwrite=overwrite)
    progress = Console(stderr=True)
    with spark_runner(spark, progress) as runner:
        results = bandwidth(sources[0] if len(sources) == 1 else sources, slaves, runner, options)
    write_results(results, output)
    if as_json:
        print(results.model_dump_json(indent=1))
    else:
        console = Console()
        render_results(results, console)
        console.print(f"report: {output / REPORT}", soft_wrap=True, highlight=False)
    for skipped in results.skipped:
        what = f"{skipped.file}: {passed_over(skipped.position)} passed over: {skipped.reason}"
        progress.print(f"[yellow]warning:[/] {what}", soft_wrap=True)
    for warning in results.warnings:
        progress.print(f"[yellow]warning:[/] {warning}", soft_wrap=True)


def render_results(results: Results, console: Console) -> None:
    """Print the slaves as a table."""
    source = results.source
    table = Table(
        title=f"{len(source.files):,} files, {source.bytes:,} bytes, {source.transactions:,} transactions",
        title_justify="left",
        title_style="bold",
    )
    table.add_column("slave", overflow="fold", min_width=8)
    for name in ("no filter", "on master", "saved", "with zstd", "split"):
        table.add_column(name, justify="right", no_wrap=True)
    for one in results.slaves:
        whole, sent = one.no_filter.bytes, one.master_side.bytes
        table.add_row(
            visible(one.name),
            human_bytes(whole),
            human_bytes(sent),
            human_percent((whole - sent) / whole if whole else None),
            f"~ {human_bytes(one.compressed)}",
            human_bytes(one.split),
        )
    console.print(table)
