"""The command ``dumpfilter fetch``, which stores the binlog files of a running server."""

from __future__ import annotations

from pathlib import Path
from typing import Literal

from dumpfilter.base.options.settings import Settings, setting
from dumpfilter.commands import option_groups as shared


class FetchSettings(Settings):
    """The arguments and options that only ``dumpfilter fetch`` has, such as the server's address, the output directory,
    and the first and last file.
    """

    source: str = setting(metavar="URL", show_default=False, is_argument=True)
    """The server: mysql://USER@HOST:PORT/, with options such as '?tls=verify-ca&ca=FILE' (docs/receiving.md)."""
    output: Path = setting(show_default=False)
    """Directory for the files and their index. If it has files of this server, the fetch continues after them."""
    stop_never: bool = False
    """Wait for new events, until Ctrl-C or SIGTERM."""
    first: str = setting("", "--from", metavar="FILE", show_default="oldest")
    """The file at which a new directory begins, or oldest or newest."""
    last: str = setting("", "--to", metavar="FILE")
    """The last file to fetch. Without it all."""
    sync: Literal["transaction", "interval", "none"] = "interval"
    """When to wait until the data are on the disk: after each transaction, once a second, or never."""
    retry_count: int | None = setting(None, min=0, show_default=False)
    """Give up after so many failed attempts in a row; 0: never (the default with --stop-never, else 10)."""


def fetch_command(given: FetchSettings, logs: shared.LogOptions) -> None:
    r"""Store the binlog files of a running MySQL or MariaDB server, byte for byte, with their index.

    For the server, dumpfilter is a replica. The user needs REPLICATION SLAVE, and REPLICATION CLIENT (MySQL) or BINLOG
    MONITOR (MariaDB) to list the files. After a crash, the same command continues where the stored files end. The
    password is in the file of ?password-file=FILE, in DUMPFILTER_SOURCE_PASSWORD, or in ~/.my.cnf.

    Examples:

        dumpfilter fetch mysql://repl@db1:3306/ --output binlogs

        dumpfilter fetch mysql://repl@db1/ --output binlogs \
            --from binlog.000012 --to binlog.000014

        dumpfilter fetch \
            'mysql://repl@db1/?tls=verify-identity&ca=ca.pem&password-file=pw' \
            --output binlogs --stop-never --sync transaction
    """
    from rich.console import Console

    from dumpfilter.commands.reception import fetch
    from dumpfilter.receiver.reception import FollowOptions
    from dumpfilter.receiver.url import parse_source_url

    url = parse_source_url(given.source)
    in_address = [name for name in ("first", "last") if getattr(url, name)]
    given.refuse(in_address, "stands beside the same option of the address; give one of them")
    url = url.model_copy(update={"first": url.first or given.first, "last": url.last or given.last})
    retries = (0 if given.stop_never else 10) if given.retry_count is None else given.retry_count
    terminal = Console(stderr=True, highlight=False)
    options = FollowOptions(stop_never=given.stop_never, retries=retries, wait_for_first=given.stop_never)
    fetch(url, given.output, given.sync, terminal, options)
