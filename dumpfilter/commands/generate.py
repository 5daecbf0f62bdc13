"""The command ``dumpfilter generate``, which writes a synthetic binlog set to try the other commands on."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

_SECONDS_AN_HOUR = 3600


def generate_command(
    directory: Annotated[
        Path, typer.Argument(help="The new directory for the files and their index.", show_default=False)
    ],
    size: Annotated[
        str, typer.Option(help="The size of all files together, in bytes or with K, M or G.", metavar="SIZE")
    ] = "16M",
    hours: Annotated[
        float,
        typer.Option(
            help="The hours, until now, over which the transactions are spread.", min=0.001, max=87_600
        ),
    ] = 24.0,
    style: Annotated[
        Literal["mysql", "mariadb"], typer.Option(help="The server that would write such files.")
    ] = "mysql",
    schemas: Annotated[
        int, typer.Option(help="The number of schemas, shop_00 and so on.", min=1, max=1000)
    ] = 20,
    tables: Annotated[int, typer.Option(help="The number of tables in each schema.", min=2, max=1000)] = 50,
    file_size: Annotated[
        str, typer.Option(help="The size after which a new file begins (max_binlog_size).", metavar="SIZE")
    ] = "256M",
    seed: Annotated[int, typer.Option(help="The number from which all random choices follow.")] = 1,
) -> None:
    """Write a synthetic binlog set, as of a busy server, to try the other commands on.

    The commit times lie in the hours before now, with less traffic at night.
    The rows can be decoded. A few schemas and tables have most of the bytes.

    Examples:

        dumpfilter generate sample
        dumpfilter generate sample --size 1G --hours 168 --style mariadb
    """
    import time

    from dumpfilter.errors import OptionError, OutputError
    from dumpfilter.options.sizes import parse_size
    from dumpfilter.report.text import human_bytes, utc
    from dumpfilter.workload.generate import Span, generate

    least = 1 << 10
    nbytes = parse_size(size, option="--size", least=least)
    file_bytes = parse_size(file_size, option="--file-size", least=least)
    if file_bytes > 1 << 30:
        raise OptionError(f"--file-size {file_size}: servers write files of at most 1G")
    if directory.exists() and (not directory.is_dir() or any(directory.iterdir())):
        raise OutputError(f"{directory}: exists and is not empty; name a new directory")
    seconds = max(1, round(hours * _SECONDS_AN_HOUR))
    start = int(time.time()) - seconds
    made = generate(
        directory,
        nbytes,
        style=style,
        schemas=schemas,
        tables=tables,
        file_size=file_bytes,
        base="binlog",
        seed=seed,
        span=Span(start, seconds, daily=True),
    )
    typer.echo(
        f"{made.index}: {human_bytes(made.bytes)} in {len(made.files)} file{'s' if len(made.files) > 1 else ''}, "
        f"{made.transactions:,} transactions from {utc(start)} to {utc(start + seconds)} UTC"
    )
