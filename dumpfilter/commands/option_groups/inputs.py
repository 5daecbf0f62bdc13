"""The inputs of commands: the binlog set (files or a running server's address), and the slaves with their filters."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from dumpfilter.base.options.settings import Settings, setting, until_end_of_command

if TYPE_CHECKING:
    from dumpfilter.topology.slaves_file import SlaveDefinition


class OptionalBinlogArguments(Settings):
    """The binlog set of a command that does not always need one."""

    binlogs: list[str] | None = setting(None, metavar="BINLOGS", is_argument=True)
    """The binlog set: its index file, its directory, or the files one by one, also as s3a:, hdfs: and file:
    addresses; or a running server, mysql://USER@HOST:PORT/ (docs/receiving.md); or --statement."""
    store: Path | None = setting(None, metavar="DIRECTORY")
    """Keep what is fetched from a mysql:// address in this directory, and go on there the next time. Without it the
    files are temporary."""

    def source(self) -> list[str]:
        """Return the paths of the set, as an argument for ``BinlogSet.open``. A running server's binlog is fetched
        first.
        """
        return fetched(self.binlogs or [], self.store)


class BinlogArguments(OptionalBinlogArguments):
    """The binlog set that a command reads. It may be on a remote file system, or be fetched from a running server."""

    binlogs: list[str] = setting(metavar="BINLOGS", show_default=False, is_argument=True)
    """The binlog set: its index file, its directory, or the files one by one, also as s3a:, hdfs: and file:
    addresses; or a running server, mysql://USER@HOST:PORT/ (docs/receiving.md)."""


class VerifyOptions(Settings):
    """The option whether event checksums are verified while a command reads a binlog set."""

    verify_checksum: bool = True
    """Verify the events' checksums."""


class SlaveSetOptions(Settings):
    """The options that describe slaves with their filters, in files (``--slaves``) or on the command line
    (``--slave``).
    """

    slaves: list[Path] | None = setting(None, metavar="FILE", show_default=False)
    """Slaves and their filters: a TOML file, or a replica's own my.cnf. Repeatable."""
    slave: list[str] | None = setting(None, metavar="NAME:OPTIONS", show_default=False)
    """A slave and its filter, to ask what if. Beside --slaves, or instead of it. Repeatable."""

    @property
    def is_what_if(self) -> bool:
        """Whether the command line itself describes a slave (``--slave``), to try out a filter. Such a run should be
        quick, so that by default it uses threads of this process instead of Spark.
        """
        return bool(self.slave)

    def definitions(self) -> list[SlaveDefinition]:
        """Return the names and filters of the slaves that ``--slaves`` and ``--slave`` describe. Raises OptionError."""
        from dumpfilter.topology.slaves_file import slaves_of

        return slaves_of(self.slaves or [], self.slave or [])


def fetched(binlogs: list[str], store: Path | None) -> list[str]:
    """Return the paths of a binlog set. If ``binlogs`` is a running server's address, its binlog is fetched first.

    The files are kept in ``store``. With None they are temporary, until the end of the command. Raises OptionError.
    """
    from dumpfilter.receiver.url import is_source_url

    if store is None and not any(map(is_source_url, binlogs)):
        return binlogs
    from rich.console import Console

    from dumpfilter.commands.fetching import local_binlogs

    files = local_binlogs(binlogs, store, Console(stderr=True, highlight=False))
    return until_end_of_command(files)
