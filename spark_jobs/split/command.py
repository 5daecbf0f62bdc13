"""``dumpfilter split``: runs the split and prints what it wrote."""

from __future__ import annotations

from pathlib import Path

from rich.console import Console
from rich.table import Table

from dumpfilter.spark_jobs.spark.jobs import SparkSettings, spark_runner
from dumpfilter.spark_jobs.split.job import SplitOptions, SplitResult, split


def run_split(
    sources: list[str],
    output: Path,
    options: SplitOptions,
    *,
    spark: SparkSettings,
    as_json: bool,
) -> None:
    """Split and print. Raises what :func:`dumpfilter.spark_jobs.split.job.split` and the session do."""
    progress = Console(stderr=True)
    with spark_runner(spark, progress) as runner:
        result = split(sources[0] if len(sources) == 1 else sources, output, runner, options)
    if as_json:
        print(result.manifest.model_dump_json(indent=1))
        return
    render_split(result, output, Console())
    for warning in result.manifest.warnings:
        progress.print(f"[yellow]warning:[/] {warning}", soft_wrap=True)


def render_split(result: SplitResult, output: Path, console: Console) -> None:
    """Print the sets as a table."""
    manifest = result.manifest
    nbytes = sum(one.size for one in manifest.source)
    done = "had been split" if result.already else "split"
    table = Table(
        title=f"{len(manifest.source):,} files, {nbytes:,} bytes, {done} into {output}",
        title_justify="left",
        title_style="bold",
    )
    by_schema = not any(one.rules for one in manifest.binlogs)
    if by_schema:
        table.add_column("schema", overflow="fold")
    table.add_column("binlog set", overflow="fold")
    for name in ("files", "bytes", "events", "transactions"):
        table.add_column(name, justify="right", no_wrap=True)
    for one in manifest.binlogs:
        table.add_row(
            *([one.schema_name or "(none)"] if by_schema else []),
            one.index,
            f"{len(one.parts):,}",
            f"{sum(part.size for part in one.parts):,}",
            f"{sum(part.events for part in one.parts):,}",
            f"{sum(part.transactions for part in one.parts):,}",
        )
    console.print(table)
