"""The command line argument that names the binlog set which a command reads: files, or a running server's address."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer

from dumpfilter.options.group import until_end_of_command
from dumpfilter.options.settings import Settings, setting

Binlogs = Annotated[
    list[str],
    typer.Argument(
        metavar="BINLOGS",
        help="The binlog set: its index file, its directory, or the files one by one.",
        show_default=False,
    ),
]
VerifyChecksum = Annotated[bool, typer.Option(help="Verify the events' checksums.")]


class OptionalBinlogArguments(Settings):
    """The binlog set of a command that can do without one."""

    binlogs: list[str] | None = setting(None, metavar="BINLOGS", is_argument=True)
    """The binlog set: its index file, its directory, or the files one by one, also as s3a:, hdfs: and file:
    addresses; or a running server, mysql://USER@HOST:PORT/ (docs/receiving.md); or --statement."""
    store: Path | None = setting(None, metavar="DIRECTORY")
    """Keep what is fetched from a mysql:// address in this directory, and go on there the next time. Without it the
    files are temporary."""

    def source(self) -> list[str]:
        """Return the set as the argument for ``BinlogSet.open``. A server's set is fetched first."""
        return fetched(self.binlogs or [], self.store)


class BinlogArguments(OptionalBinlogArguments):
    """The binlog set that a command reads, which may be on another file system, or that of a running server."""

    binlogs: list[str] = setting(metavar="BINLOGS", show_default=False, is_argument=True)
    """The binlog set: its index file, its directory, or the files one by one, also as s3a:, hdfs: and file:
    addresses; or a running server, mysql://USER@HOST:PORT/ (docs/receiving.md)."""


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
