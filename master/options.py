"""The options of a master besides its ports: the binlog set, the configuration, the limits, and the time for its
shutdown.
"""

from __future__ import annotations

from functools import partial
from pathlib import Path
from typing import TYPE_CHECKING, Literal

from dumpfilter.base.errors import OptionError
from dumpfilter.base.options.settings import Settings, setting
from dumpfilter.base.options.values import parse_mebibytes, parse_size, parse_time
from dumpfilter.master.limits import MAX_DUMPS

if TYPE_CHECKING:
    from dumpfilter.master.source import FollowedSource

_FOLLOWING = "Following a running server"
_LIMITS = "Limits"
_OPERATION = "Operation"


class MasterOptions(Settings):
    """The options of a master besides its ports and its rules: the binlog set, the configuration file, the state
    directory, and limits on memory, time and files.
    """

    binlogs: list[str] | None = setting(None, metavar="BINLOGS", show_default=False, is_argument=True)
    """The binlog set: its index file, its directory, or the files one by one; or a running server,
    mysql://USER@HOST:PORT/ (docs/receiving.md)."""
    source_address: str | None = setting(None, "--source", metavar="BINLOGS", rich_help_panel=_FOLLOWING)
    """The binlog set as an option, for a my.cnf: an index file, a directory, or the address of a server. BINLOGS on
    the command line take its place."""
    store: Path | None = setting(None, metavar="DIRECTORY", rich_help_panel=_FOLLOWING)
    """The directory for the files of a mysql:// address. The master serves them and follows the server, also when
    the server is away for a while."""
    store_sync: Literal["transaction", "interval", "none"] = setting("interval", rich_help_panel=_FOLLOWING)
    """When to wait until received events are on the disk: before more are read, once a second, or never."""
    on_source_replaced: Literal["stop", "wait"] = setting("stop", rich_help_panel=_FOLLOWING)
    """The server may begin its binlogs anew (RESET, a restored backup), or purge files that the store lacks. stop ends
    slaves and replicas with error 1236 at the end of the store, wait keeps them waiting."""

    config: Path | None = None
    """A TOML file with the users, of replication and of the console, the filters imposed on slaves, and those of real
    replicas (docs/master.md)."""

    state_dir: Path | None = setting(None, metavar="DIRECTORY", rich_help_panel=_OPERATION)
    """A directory of this master. For its next start it keeps there the slaves' counts, the drains (orders to send
    slaves away), and the filters that operators changed on the console. Without it a restart loses them. It may not
    be the directory of the binlogs."""
    keep_slaves: float = setting("7d", parse=parse_time, metavar="TIME", rich_help_panel=_OPERATION)
    """Time for which a slave that is gone counts as missing in the status, the metrics and the alerts, such as 12h
    or 7d."""
    store_expire: float | None = setting(None, parse=parse_time, metavar="TIME", rich_help_panel=_OPERATION)
    """Remove files of the --store whose last write is so long ago, such as 14d. Files that a slave needs stay
    (--keep-slaves). Without a bound all files stay."""
    store_max_size: int | None = setting(
        None, parse=partial(parse_size, least=1), metavar="SIZE", rich_help_panel=_OPERATION
    )
    """Remove the oldest files of the --store while all files together are larger, such as 200G. Files that a slave
    needs stay."""
    drain_seconds: float = setting(10.0, min=0, rich_help_panel=_OPERATION)
    """At SIGTERM, wait so long for running dumps to end between two transactions; 0 ends them at once."""

    cache_size: int = setting(32, parse=parse_mebibytes, min=1, rich_help_panel=_LIMITS)
    """Memory for the index of scanned binlogs, MiB."""
    max_transaction: int = setting(512, parse=parse_mebibytes, min=1, rich_help_panel=_LIMITS)
    """Filter compressed transactions of up to this size, MiB before compression. Larger ones are sent whole, and
    counted as undecided (left to the slave's filter)."""
    max_dumps: int = setting(MAX_DUMPS, min=1, max=1_000_000, rich_help_panel=_LIMITS)
    """The limit of slaves that receive events at the same time. Each needs a connection."""

    verify_checksum: bool = True
    """Verify the events' checksums on reading (source_verify_checksum)."""

    @property
    def source(self) -> Path | list[str]:
        """The binlog set to serve, as the argument for ``BinlogSet.open``: the directory of ``--store``, or else the
        named files. Raises OptionError when no set is named.
        """
        return self._named if self.store is None else self.store

    @property
    def _named(self) -> list[str]:
        """The names of the binlog files to serve, or the address of the running server to follow. They come from the
        command line or, if the command line names none, from the option ``--source``. Raises OptionError when neither
        is given.
        """
        named = self.binlogs or ([] if self.source_address is None else [self.source_address])
        if not named:
            raise OptionError(
                "the binlog set is missing: name it as BINLOGS on the command line, or as source = … in the section "
                "[dumpfilter-master] of the file of --defaults-file"
            )
        return named

    def follow(self) -> FollowedSource | None:
        """Return the running server that the master follows, or None for a set of files. Raises OptionError for options
        that are missing or contradict each other.
        """
        from dumpfilter.receiver.url import source_url_in

        url = source_url_in(self._named)
        if url is None:
            if self.store is not None:
                raise OptionError("--store goes with the address of a server, mysql://USER@HOST:PORT/")
            return None
        if self.store is None:
            raise OptionError(f"{url}: --store=DIRECTORY is missing, the directory for the server's binlogs")
        if url.last:
            raise OptionError(f"{url}: a master follows its server for ever: leave out to={url.last}")
        from dumpfilter.master.source import FollowedSource
        from dumpfilter.receiver.store import Sync

        return FollowedSource(
            url, self.store, Sync(self.store_sync), keeps_waiting=self.on_source_replaced == "wait"
        )

    def expiry(self) -> dict[str, float]:
        """Return the limits on age (``seconds``) and size (``nbytes``) above which the master removes old files of its
        store (the directory with the binlog files of a running server). A limit that was not given is left out.

        Raises OptionError for a limit without ``--store``.
        """
        given = {"seconds": self.store_expire, "nbytes": self.store_max_size}
        found = {name: value for name, value in given.items() if value is not None}
        if self.store is None:
            why = "goes with --store; the program that writes the binlog set removes its old files"
            self.refuse(["store_expire", "store_max_size"], why)
        return found
