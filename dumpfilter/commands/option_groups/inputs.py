"""The command line argument that names the binlog set which a command reads: files, or a running server's address."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path
from typing import Annotated

import typer

from dumpfilter.commands.option_groups.group import OptionGroup, until_end_of_command

_HELP = "The binlog set: its index file, its directory, or the files one by one"
_SERVER = "a running server, mysql://USER@HOST:PORT/ (docs/receiving.md)"
_READ = f"{_HELP}, also as s3a:, hdfs: and file: addresses"
BINLOGS_HELP = f"{_READ}; or {_SERVER}."
"""The help of the argument that names a binlog set to read."""
SERVED_HELP = f"{_HELP}; or {_SERVER}."
"""The help of the argument that names a binlog set to serve."""

Binlogs = Annotated[list[str], typer.Argument(metavar="BINLOGS", help=f"{_HELP}.", show_default=False)]
VerifyChecksum = Annotated[bool, typer.Option(help="Verify the events' checksums.")]
StoreOption = Annotated[
    Path | None,
    typer.Option(
        "--store",
        help="Keep what is fetched from a mysql:// address in this directory, and go on there the next time. Without "
        "it the files are temporary.",
        metavar="DIRECTORY",
    ),
]


@dataclass(frozen=True)
class BinlogArguments(OptionGroup):
    """The binlog set that a command reads, which may be on another file system, or that of a running server."""

    binlogs: Annotated[list[str], typer.Argument(metavar="BINLOGS", help=BINLOGS_HELP, show_default=False)]
    store: StoreOption = None

    def source(self) -> list[str]:
        """Return the set as the argument for ``BinlogSet.open``. A server's set is fetched first."""
        return fetched(self.binlogs, self.store)


@dataclass(frozen=True)
class OptionalBinlogArguments(OptionGroup):
    """The binlog set of a command that can do without one."""

    binlogs: Annotated[
        list[str] | None,
        typer.Argument(metavar="BINLOGS", help=f"{_READ}; or {_SERVER}; or --statement."),
    ] = None
    store: StoreOption = None

    def source(self) -> list[str]:
        """Return the set as the argument for ``BinlogSet.open``. A server's set is fetched first."""
        return fetched(self.binlogs or [], self.store)


def fetched(binlogs: list[str], store: Path | None) -> list[str]:
    """Return the paths of a binlog set. A running server's set is fetched first.

    Temporary files are removed at the end of the command. Raises OptionError.
    """
    from dumpfilter.receiver.url import is_source_url

    if store is None and not any(map(is_source_url, binlogs)):
        return binlogs
    from rich.console import Console

    from dumpfilter.commands.fetching import local_binlogs

    files = local_binlogs(binlogs, store, Console(stderr=True, highlight=False))
    return until_end_of_command(files)
