"""The command ``dumpfilter package-environment``, which packs the archive that the workers of a Spark cluster run."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def package_environment_command(
    output: Annotated[Path, typer.Argument(help="The archive to write, NAME.tar.gz.")],
    python: Annotated[
        str | None,
        typer.Option(
            help="The path of Python on the workers, of the same minor version. Without it the path of this Python."
        ),
    ] = None,
) -> None:
    r"""Pack what the workers of a Spark cluster need to run split and bandwidth.

    Besides the archive the workers need Spark, and Python of the same minor version. The archive holds this
    environment's packages (without PySpark), dumpfilter itself and its compiled kernels. Spark unpacks the archive on
    each worker.

    Example:

        dumpfilter package-environment environment.tar.gz
        dumpfilter split binlog.index --output /shared/parts \
            --spark-master spark://host:7077 --environment environment.tar.gz
    """
    from rich.console import Console

    from dumpfilter.byte_bar import byte_bar
    from dumpfilter.spark_jobs.spark.environment import package_environment

    console = Console(stderr=True)
    with byte_bar(console, remaining=False) as bar:
        task = bar.add_task("packing", total=None)
        packed = package_environment(
            output, python=python, progress=lambda done, total: bar.update(task, completed=done, total=total)
        )
    typer.echo(
        f"{packed.path}: {packed.packages} packages, {packed.files:,} files, {packed.bytes:,} bytes in "
        f"{packed.size:,}; workers need {packed.python}"
    )
