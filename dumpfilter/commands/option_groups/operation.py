"""The options for those who operate a master: its configuration, its limits and its end."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from dumpfilter.errors import OptionError
from dumpfilter.master.limits import MAX_DUMPS
from dumpfilter.options.settings import Settings, setting
from dumpfilter.options.units import parse_size, parse_time

if TYPE_CHECKING:
    from dumpfilter.master.expiry import Expiry

PANEL = "Operation"


class OperationOptions(Settings):
    """The options of a master's configuration file, and of its end."""

    config: Path | None = None
    """A TOML file with the users, of replication and of the console, and the filters imposed on slaves
    (docs/master.md)."""

    state_dir: Path | None = setting(None, metavar="DIRECTORY", rich_help_panel=PANEL)
    """A directory of this master, in which it keeps the slaves' counts and the drains for its next start. Without it
    a restart begins with zeros. It may not be the directory of the binlogs."""
    keep_slaves: str = setting("7d", metavar="TIME", rich_help_panel=PANEL)
    """Time for which a slave that is gone counts as missing in the status, the metrics and the alerts, such as 12h
    or 7d."""
    store_expire: str | None = setting(None, metavar="TIME", rich_help_panel=PANEL)
    """Remove files of the --store whose last write is so long ago, such as 14d. Files that a slave needs stay
    (--keep-slaves). Without a bound all files stay."""
    store_max_size: str | None = setting(None, metavar="SIZE", rich_help_panel=PANEL)
    """Remove the oldest files of the --store while all files together are larger, such as 200G. Files that a slave
    needs stay."""
    drain_seconds: float = setting(10.0, min=0, rich_help_panel=PANEL)
    """At SIGTERM, wait so long for running dumps to end between two transactions; 0 ends them at once."""

    @property
    def keep_seconds(self) -> float:
        """The time of ``--keep-slaves``, seconds. Raises OptionError."""
        return parse_time(self.keep_slaves, option="--keep-slaves")

    def expiry(self, store: Path | None) -> Expiry:
        """Return the bounds of a store. Raises OptionError."""
        from dumpfilter.master.expiry import Expiry

        age, size = self.store_expire, self.store_max_size
        if store is None and (age or size):
            option = "--store-max-size" if age is None else "--store-expire"
            raise OptionError(
                f"{option} goes with --store; the program that writes the binlog set removes its old files"
            )
        return Expiry(
            None if age is None else parse_time(age, option="--store-expire"),
            None if size is None else parse_size(size, option="--store-max-size", least=1),
        )


class LimitOptions(Settings, panel="Limits"):
    """The bounds on a master's memory and threads that an operator may want to change."""

    cache_size: int = setting(32, min=1)
    """Memory for the index of scanned binlogs, MiB."""
    max_transaction: int = setting(512, min=1)
    """Filter compressed transactions of up to this size, MiB before compression. Larger ones are sent whole, and
    counted as undecided."""
    max_dumps: int = setting(MAX_DUMPS, min=1)
    """The most slaves that can receive events at once. Each takes two threads of the master."""


class ReadingOptions(Settings):
    """The options for the checks with which a master reads its binlogs."""

    verify_checksum: bool = True
    """Verify the events' checksums on reading (source_verify_checksum)."""
