"""The binlog set that a command reads."""

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
    """Return the set in the form that :meth:`BinlogSet.open <dumpfilter.index.fileset.BinlogSet.open>` takes.

    One path may be an index file or a directory. Several paths are binlog files.
    """
    return binlogs[0] if len(binlogs) == 1 else list(binlogs)
