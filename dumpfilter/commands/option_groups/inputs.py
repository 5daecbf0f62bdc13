"""The command line argument that names the binlog set which a command reads."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

_HELP = "The binlog set: its index file, its directory, or the files one by one."

Binlogs = Annotated[list[Path], typer.Argument(metavar="BINLOGS...", help=_HELP)]
OptionalBinlogs = Annotated[
    list[Path] | None, typer.Argument(metavar="[BINLOGS...]", help=f"{_HELP} Or --statement.")
]
VerifyChecksum = Annotated[bool, typer.Option(help="Verify the events' checksums.")]


def source_of(binlogs: list[Path]) -> Path | list[Path]:
    """Return the paths of the command line as the argument for ``BinlogSet.open``.

    A single path may be an index file, a directory or a binlog file. Several paths are binlog files.
    """
    return binlogs[0] if len(binlogs) == 1 else list(binlogs)
