"""The command ``dumpfilter demo``, which runs a master with slaves on recorded binlogs, and real MariaDB servers."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def demo_command(
    binlogs: Annotated[
        Path | None,
        typer.Argument(
            help="A binlog set (index file or directory). Without it the recording of a MySQL server in the package."
        ),
    ] = None,
    output: Annotated[
        Path, typer.Option(help="Directory for the split, the report and the servers' logs.")
    ] = Path("demo"),
    split: Annotated[
        bool, typer.Option(help="End with the split by schema, and the bandwidth report, on Spark.")
    ] = True,
    servers: Annotated[
        bool, typer.Option(help="End with a real MariaDB source and replica, if MariaDB is installed.")
    ] = True,
) -> None:
    """Run a master, three slaves with filters and one without, then the split and the bandwidth report.

    A table shows the bytes saved for each slave and its position. Each slave must end in the state of a slave that
    received everything and filtered for itself.

    At the end a real MariaDB replica reads its filtered binlog from dumpfilter. It must end with the tables of a
    replica that reads from the source and filters for itself.

    Example:

        dumpfilter demo /var/lib/mysql/binlog.index --output /tmp/demo
    """
    from dumpfilter.demo.run import run_demo

    run_demo(binlogs, output, split=split, servers=servers)
