"""``dumpfilter demo``: the main job end to end, as separate processes on a real recording."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def demo_command(
    binlogs: Annotated[
        Path | None,
        typer.Argument(
            help="A binlog set (index file or directory); without it the MySQL recording of this repository."
        ),
    ] = None,
    output: Annotated[Path, typer.Option(help="Where relay logs, summaries and the split go.")] = Path(
        "demo"
    ),
    split: Annotated[
        bool, typer.Option(help="End with the split by schema, and the bandwidth report, on Spark.")
    ] = True,
) -> None:
    """A master and three slaves with different filters, one more that receives everything, then the split
    and the bandwidth report.

    At the end a table: what each slave was spared, where it stands, and whether it ended in the state of a
    slave that received everything and filtered for itself.

    Example:

        dumpfilter demo tests/oracle/data/oracle/mariadb-row --output /tmp/demo
    """
    from dumpfilter.demo.run import run_demo

    run_demo(binlogs, output, split=split)
