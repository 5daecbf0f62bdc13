"""The command ``dumpfilter manifest``, which lists the binlog sets and files that ``dumpfilter split`` wrote."""

from __future__ import annotations

from pathlib import Path
from typing import Annotated

import typer


def manifest_command(
    directory: Annotated[
        Path, typer.Argument(help="The directory that dumpfilter split wrote.", show_default=False)
    ],
    binlog: Annotated[
        str | None,
        typer.Option(help="Only this binlog, by its name or its schema's.", metavar="NAME"),
    ] = None,
    json: Annotated[bool, typer.Option("--json", help="Print JSON instead of tables.")] = False,
) -> None:
    """Show the files of each binlog of a split, the part of the source in each file, and the purged files.

    Example:

        dumpfilter manifest parts --binlog shop
    """
    from rich.console import Console

    from dumpfilter.report.terminal import print_json
    from dumpfilter.split_set.manifest import Manifest
    from dumpfilter.split_set.manifest_tables import render_manifest

    manifest = Manifest.load(directory)
    binlogs = manifest.binlogs if binlog is None else [manifest.binlog(binlog)]
    if json:
        found = manifest.model_dump(mode="json") | {
            "binlogs": [each.model_dump(mode="json") for each in binlogs]
        }
        print_json(found)
    else:
        render_manifest(manifest, binlogs, Console())
