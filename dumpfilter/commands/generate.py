"""The command ``dumpfilter generate``, which writes a synthetic binlog set to try the other commands on."""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import Literal

import typer

from dumpfilter.base.options.settings import Settings, setting
from dumpfilter.base.options.values import format_size, parse_size

_SECONDS_AN_HOUR = 3600
_SIZE = partial(parse_size, least=1 << 10)


class GenerateSettings(Settings):
    """The options of ``dumpfilter generate``: the new directory, and the size, time span, schemas and tables of the
    synthetic binlog.
    """

    directory: Path = setting(show_default=False, is_argument=True)
    """The new directory for the files and their index."""
    size: int = setting("16M", parse=_SIZE, metavar="SIZE")
    """The size of all files together, in bytes or with K, M or G."""
    hours: float = setting(24.0, min=0.001, max=87_600)
    """The hours, until now, over which the transactions are spread."""
    style: Literal["mysql", "mariadb"] = "mysql"
    """The server that would write such files."""
    schemas: int = setting(20, min=1, max=1000)
    """The number of schemas, shop_00 and so on."""
    tables: int = setting(50, min=2, max=1000)
    """The number of tables in each schema."""
    file_size: int = setting("256M", parse=_SIZE, metavar="SIZE")
    """The size after which a new file begins (max_binlog_size)."""
    seed: int = setting(1, min=0)
    """The number from which all random choices follow."""


def generate_command(given: GenerateSettings) -> None:
    """Write a synthetic binlog set, as of a busy server, to try the other commands on.

    The commit times lie in the hours before now.
    The rows can be decoded. A few schemas and tables have most of the bytes.

    Examples:

        dumpfilter generate sample
        dumpfilter generate sample --size 1G --hours 168 --style mariadb
    """
    import time

    from dumpfilter.analyse.report.output import written_together
    from dumpfilter.analyse.report.text import human_bytes, human_files, utc
    from dumpfilter.base.errors import OptionError, OutputError
    from dumpfilter.binlog.workload import Span, generate

    if given.file_size > 1 << 30:
        raise OptionError(f"--file-size {format_size(given.file_size)}: servers write files of at most 1G")
    directory = given.directory
    if directory.exists() and (not directory.is_dir() or any(directory.iterdir())):
        raise OutputError(f"{directory}: exists and is not empty; name a new directory")
    seconds = max(1, round(given.hours * _SECONDS_AN_HOUR))
    start = int(time.time()) - seconds
    with written_together(directory) as beside:
        made = generate(
            beside,
            given.size,
            style=given.style,
            schemas=given.schemas,
            tables=given.tables,
            file_size=given.file_size,
            base="binlog",
            seed=given.seed,
            span=Span(start, seconds),
        )
    typer.echo(
        f"{directory / made.index.name}: {human_bytes(made.bytes)} in {human_files(len(made.files))}, "
        f"{made.transactions:,} transactions from {utc(start)} to {utc(start + seconds)} UTC"
    )
