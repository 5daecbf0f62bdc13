"""The options that all jobs on Spark have."""

from __future__ import annotations

from typing import Annotated, Literal

import typer

Binlogs = Annotated[
    list[str],
    typer.Argument(
        help="The binlog set: its index file, its directory, or the files one by one; also as file:, hdfs: and s3a: "
        "addresses.",
        show_default=False,
    ),
]
OnCorrupt = Annotated[
    Literal["stop", "skip"],
    typer.Option(help="A damaged file: fail, or take it as far as it is whole and tell of the rest."),
]
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
