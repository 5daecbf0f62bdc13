"""The options that all jobs on Spark have."""

from __future__ import annotations

from typing import Annotated

import typer

SparkMaster = Annotated[
    str,
    typer.Option(
        "--master",
        help="Spark master: local[N] (N cores of this machine) or spark://host:port.",
        metavar="URL",
    ),
]
DriverMemory = Annotated[str, typer.Option(help="Memory of Spark's Java process here.", metavar="SIZE")]
ExecutorMemory = Annotated[
    str, typer.Option(help="Memory of each worker's Java process, on a cluster.", metavar="SIZE")
]
Environment = Annotated[
    str | None,
    typer.Option(
        help="What the workers of a cluster run: the archive that dumpfilter package-environment made.",
        metavar="FILE",
    ),
]
RangeSize = Annotated[int, typer.Option(help="How much of a file one task takes, MiB.", min=1)]
VerifyChecksum = Annotated[bool, typer.Option(help="Verify the events' checksums.")]
