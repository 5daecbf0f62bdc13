"""The binlog set that a master serves: files, or a running server that the master follows."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING, Literal

from dumpfilter.errors import OptionError
from dumpfilter.options.settings import Settings, setting

if TYPE_CHECKING:
    from dumpfilter.master.source import FollowedSource

_PANEL = "Following a running server"


class FollowedBinlogs(Settings):
    """The binlog set of a master. For a running server, a directory to receive its files into."""

    binlogs: list[str] | None = setting(None, metavar="BINLOGS", show_default=False, is_argument=True)
    """The binlog set: its index file, its directory, or the files one by one; or a running server,
    mysql://USER@HOST:PORT/ (docs/receiving.md)."""
    source_address: str | None = setting(None, "--source", metavar="BINLOGS", rich_help_panel=_PANEL)
    """The binlog set as an option, for a my.cnf: an index file, a directory, or the address of a server. BINLOGS on
    the command line take its place."""
    store: Path | None = setting(None, metavar="DIRECTORY", rich_help_panel=_PANEL)
    """The directory for the files of a mysql:// address. The master serves them and follows the server, also when
    the server is away for a while."""
    store_sync: Literal["transaction", "interval", "none"] = setting("interval", rich_help_panel=_PANEL)
    """When received events are waited for on the disk: before more are read, once a second, or never."""
    on_source_replaced: Literal["stop", "wait"] = setting("stop", rich_help_panel=_PANEL)
    """The server may begin its binlogs anew (RESET, a restored backup), or purge files that the store lacks. stop ends
    slaves and replicas with error 1236 at the end of the store, wait keeps them waiting."""

    @property
    def source(self) -> Path | list[str]:
        """The files to serve, as the argument for ``BinlogSet.open``."""
        return self._named if self.store is None else self.store

    @property
    def _named(self) -> list[str]:
        """The files or the address that the command line names, or else the option. Raises OptionError for neither."""
        named = self.binlogs or ([] if self.source_address is None else [self.source_address])
        if not named:
            raise OptionError(
                "the binlog set is missing: name it as BINLOGS on the command line, or as source = … in the section "
                "[dumpfilter-master] of the file of --defaults-file"
            )
        return named

    def follow(self) -> FollowedSource | None:
        """Return the server to follow, or None for a set of files. Raises OptionError."""
        from dumpfilter.receiver.url import is_source_url, parse_source_url

        addresses = [each for each in self._named if is_source_url(each)]
        if not addresses:
            if self.store is not None:
                raise OptionError("--store goes with the address of a server, mysql://USER@HOST:PORT/")
            return None
        url = parse_source_url(addresses[0])
        if len(self._named) > 1:
            raise OptionError(f"{url}: name one server, and no files beside it")
        if self.store is None:
            raise OptionError(f"{url}: --store=DIRECTORY is missing, the directory for the server's binlogs")
        if url.last:
            raise OptionError(f"{url}: a master follows its server for ever: leave out to={url.last}")
        from dumpfilter.master.source import FollowedSource
        from dumpfilter.receiver.store import Sync

        return FollowedSource(
            url, self.store, Sync(self.store_sync), keeps_waiting=self.on_source_replaced == "wait"
        )
