"""The command ``dumpfilter fetch``, which stores the binlog files of a running server."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated, Literal

import typer

from dumpfilter.commands.option_groups.logs import LogOptions


def fetch_command(
    source: Annotated[
        str,
        typer.Argument(
            help=r"The server: mysql://USER@HOST:PORT/, with options such as '?tls=verify-ca&ca=FILE' "
            "(docs/receiving.md).",
            metavar="URL",
            show_default=False,
        ),
    ],
    logs: LogOptions,
    output: Annotated[
        Path,
        typer.Option(
            help="Directory for the files and their index. It goes on where it ends.", show_default=False
        ),
    ],
    stop_never: Annotated[
        bool, typer.Option("--stop-never", help="Wait for new events, until Ctrl-C or SIGTERM.")
    ] = False,
    from_: Annotated[
        str,
        typer.Option(
            "--from", help="The file at which a new directory begins, or oldest or newest.", metavar="FILE"
        ),
    ] = "oldest",
    to: Annotated[
        str, typer.Option("--to", help="The last file to fetch. Without it all.", metavar="FILE")
    ] = "",
    sync: Annotated[
        Literal["transaction", "interval", "none"],
        typer.Option(help="When to wait for the disk: before more is read, once a second, or never."),
    ] = "interval",
    retry_count: Annotated[
        int | None,
        typer.Option(
            help="Give up after so many failed attempts in a row; 0: never (the default with --stop-never, else 10).",
            min=0,
            show_default=False,
        ),
    ] = None,
) -> None:
    r"""Store the binlog files of a running MySQL or MariaDB server, byte for byte, with their index.

    The server sees a replica. The user needs REPLICATION SLAVE, and REPLICATION CLIENT (MySQL) or BINLOG MONITOR
    (MariaDB) to list the files. The same command goes on after a crash. The password is in the file of
    ?password-file=FILE, in DUMPFILTER_SOURCE_PASSWORD, or in ~/.my.cnf.

    Examples:

        dumpfilter fetch mysql://repl@db1:3306/ --output binlogs

        dumpfilter fetch mysql://repl@db1/ --output binlogs \
            --from binlog.000012 --to binlog.000014

        dumpfilter fetch \
            'mysql://repl@db1/?tls=verify-identity&ca=ca.pem&password-file=pw' \
            --output binlogs --stop-never --sync transaction
    """
    from rich.console import Console

    from dumpfilter.commands.fetching import fetch
    from dumpfilter.receiver.follow import FollowOptions
    from dumpfilter.receiver.store import Sync
    from dumpfilter.receiver.url import parse_source_url

    url = parse_source_url(source)
    url = url.model_copy(update={"first": url.first or from_, "last": url.last or to})
    if retry_count is None:
        retry_count = 0 if stop_never else 10
    terminal = Console(stderr=True, highlight=False)
    logs.begin(colors=terminal.is_terminal)
    options = FollowOptions(stop_never=stop_never, retries=retry_count, wait_for_first=stop_never)
    fetch(url, output, options, Sync(sync), terminal)
