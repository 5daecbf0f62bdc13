"""``dumpfilter master``: serves a binlog set to slaves, filtered for each."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def master_command(
    binlogs: Annotated[
        list[Path],
        typer.Argument(
            metavar="BINLOGS...",
            help="The binlog set: its index file, its directory, or the files one by one.",
        ),
    ],
    host: Annotated[str, typer.Option(help="Address to listen on.")] = "127.0.0.1",
    port: Annotated[
        int, typer.Option(help="Port to listen on; 0 takes a free one.", min=0, max=65535)
    ] = 3307,
    port_file: Annotated[
        Path | None, typer.Option(help="Write the port to this file once the master serves.")
    ] = None,
    verify_checksum: Annotated[
        bool, typer.Option(help="Verify the events' checksums on reading (source_verify_checksum).")
    ] = True,
    cache_size: Annotated[
        int, typer.Option(help="Memory for the index of scanned binlogs, MiB.", min=1)
    ] = 32,
) -> None:
    """Serve a binlog set to slaves over gRPC, filtered for each.

    The last file may still be growing: what a server writes to it is followed, and so is rotation.

    Example:

        dumpfilter master /var/lib/mysql/binlog.index --port 3307
    """
    from master.command import run_master

    run_master(
        binlogs[0] if len(binlogs) == 1 else list(binlogs),
        host=host,
        port=port,
        port_file=port_file,
        verify=verify_checksum,
        cache_bytes=cache_size << 20,
    )
