"""``dumpfilter split``: runs the split and prints what it wrote."""

from __future__ import annotations

import contextlib
import json
from pathlib import Path

from rich.console import Console
from rich.table import Table

from spark_jobs.names import decode_name
from spark_jobs.session import check_java, spark_session
from spark_jobs.split import SparkRunner, SplitOptions, SplitResult, split


def run_split(
    source: Path | list[str | Path],
    output: Path,
    options: SplitOptions,
    *,
    master: str,
    driver_memory: str,
    as_json: bool,
) -> None:
    """Split and print. Raises what :func:`spark_jobs.split.split` and the session do."""
    check_java()
    progress = Console(stderr=True)
    with contextlib.ExitStack() as stack:
        result = split(
            source,
            output,
            SparkRunner(
                lambda: stack.enter_context(spark_session(master, driver_memory=driver_memory)), progress
            ),
            options,
        )
    if as_json:
        print(json.dumps(result.as_dict(), indent=1))
    else:
        render_split(result, output, Console())
        for warning in result.warnings:
            progress.print(f"[yellow]warning:[/] {warning}", soft_wrap=True)


def render_split(result: SplitResult, output: Path, console: Console) -> None:
    """Print the sets as a table."""
    table = Table(
        title=f"{result.source_files} files, {result.source_bytes:,} bytes, split into {output}",
        title_justify="left",
        title_style="bold",
    )
    table.add_column("schema", overflow="fold")
    table.add_column("binlog set", overflow="fold")
    for name in ("files", "bytes", "events", "transactions"):
        table.add_column(name, justify="right", no_wrap=True)
    for found in result.sets:
        schema = "(none)" if found.name.startswith("@rest") else decode_name(found.name)
        table.add_row(
            schema.encode("utf-8", "replace").decode("utf-8"),
            found.index.name,
            f"{len(found.files):,}",
            f"{found.bytes:,}",
            f"{found.events:,}",
            f"{found.transactions:,}",
        )
    console.print(table)
